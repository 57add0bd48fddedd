import time

import pytest

from actors.engine.stopping import Stopping
from tests.actors.engine.tiny import EOS, tiny_tokenizer

TOKENIZER = tiny_tokenizer()


def encode(text: str) -> list[int]:
    return TOKENIZER(text, add_special_tokens=False).input_ids


def by_bytes(text: str) -> list[int]:
    """One token a byte, so that characters and stop strings are cut anywhere."""
    alphabet = TOKENIZER.get_vocab()
    mapped = TOKENIZER.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)
    return [alphabet[letter] for piece, _ in mapped for letter in piece]


def run(stopping: Stopping, ids: list[int]) -> tuple[int, str | None, str]:
    """Feed one token after the other; return how many were kept, why it ended, and the text."""
    for count in range(1, len(ids) + 1):
        if reason := stopping.reason(ids[:count]):
            return count, reason, stopping.text(ids[:count])
    return len(ids), None, stopping.text(ids)


@pytest.mark.parametrize("eos", [2, 17, 301])
def test_each_of_several_eos_ids_ends_a_completion_and_leaves_no_text(eos: int) -> None:
    stopping = Stopping(TOKENIZER, [2, 17, 301])
    ids = encode("the answer")
    assert run(stopping, [*ids, eos, *ids]) == (len(ids) + 1, "eos", "the answer")


def test_without_stop_strings_nothing_but_eos_ends_a_completion() -> None:
    ids = encode("the answer is five") * 20
    assert run(Stopping(TOKENIZER, [EOS]), ids)[:2] == (len(ids), None)


@pytest.mark.parametrize("stop", ["\n\n", "Question:", "?Ω", "é", "日本", "🙂", "is é"])
def test_stop_string_cut_over_tokens_and_inside_characters_is_found_at_its_last_token(stop: str) -> None:
    before, after = "Tō be 🙃 prēcise. x is ", " and so on"
    ids = by_bytes(before + stop + after)
    kept, reason, text = run(Stopping(TOKENIZER, [EOS], [stop]), ids)
    assert (reason, text) == ("stop", before + stop.replace(stop, ""))
    assert kept == len(by_bytes(before + stop))


def test_text_is_cut_before_a_stop_string_that_begins_inside_a_token() -> None:
    ids = encode("the answer is five")
    kept, reason, text = run(Stopping(TOKENIZER, [EOS], ["nswe"]), ids)
    assert (reason, text) == ("stop", "the a")
    assert "nswe" in TOKENIZER.decode(ids[:kept])
    assert "nswe" not in TOKENIZER.decode(ids[: kept - 1])


def test_the_first_stop_string_in_the_text_counts_not_the_first_in_the_list() -> None:
    ids = encode("one two three")
    assert run(Stopping(TOKENIZER, [EOS], ["three", "two"]), ids)[1:] == ("stop", "one ")


def test_a_stop_string_only_in_part_does_not_stop() -> None:
    ids = by_bytes("Quest Question Questio n:")
    assert run(Stopping(TOKENIZER, [EOS], ["Question:"]), ids)[1] is None


def test_special_tokens_inside_a_stop_string_do_not_hide_it() -> None:
    ids = [*by_bytes("x Ques"), *[1] * 40, *by_bytes("tion: y")]
    assert run(Stopping(TOKENIZER, [EOS], ["Question:"]), ids)[1:] == ("stop", "x ")


def test_a_stop_string_right_at_the_start_leaves_an_empty_text() -> None:
    assert run(Stopping(TOKENIZER, [EOS], ["Question:"]), encode("Question: 1"))[1:] == ("stop", "")


def test_eos_wins_over_a_stop_string_completed_by_the_same_token() -> None:
    last = encode("five")[-1]
    assert run(Stopping(TOKENIZER, [last], ["five"]), encode("five"))[1] == "eos"


def test_cost_of_a_check_does_not_grow_with_the_completion() -> None:
    stopping = Stopping(TOKENIZER, [EOS], ["never to be found"])

    def seconds(ids: list[int]) -> float:
        start = time.perf_counter()
        for _ in range(50):
            stopping.reason(ids)
        return time.perf_counter() - start

    short, long = encode("the sum ") * 20, encode("the sum ") * 20_000
    assert min(seconds(long) for _ in range(5)) < 20 * min(seconds(short) for _ in range(5))
