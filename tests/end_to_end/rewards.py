"""Rewards that a random model can learn."""


def share_of_digits(completion: str, gold: str, problem: dict) -> float:
    """How much of the text is digits."""
    return sum(character.isdigit() for character in completion) / max(1, len(completion))
