"""A comparison for people in a terminal, and for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipelines.compare.findings import Comparison, Difference, Pair

TEXT = 40
"""Characters of an answer in the list of flips."""


def comparison_table(found: Comparison, flips: int) -> str:
    """What differs, a line each, with at most so many `flips` in each direction."""
    names = [f"{letter}  {side_text(found, place)}" for place, letter in enumerate("AB")]
    lines = [
        *names,
        "=" * max(map(len, names)),
        f"{'':<24}{'A':>8}{'B':>8}{'B - A':>10}    95 % interval        gained  lost",
    ]
    lines.append(_row("all", found.all))
    for title, groups in (("subject", found.by_subject), ("level", found.by_level)):
        if groups:
            lines += ["", f"by {title}"]
            lines += [_row(f"level {name}" if title == "level" else name, cell) for name, cell in groups.items()]
    lines += ["", f"{found.test}: {p_text(found.p_value)}; {found.verdict}"]
    lines += notes(found)
    settings = [row for row in settings_rows(found.settings) if not row[0].startswith("fingerprint.")]
    if settings:
        lines += ["", "settings that differ", *(f"  {key}: {first} -> {second}" for key, first, second in settings)]
    for change, title in (("lost", "A is better"), ("gained", "B is better")):
        pairs = [pair for pair in found.flips if pair.change == change]
        if pairs and flips:
            lines += ["", f"{title} on {len(pairs)} problems{_shown(len(pairs), flips)}"]
            lines += [_flip(pair) for pair in pairs[:flips]]
    return "\n".join(lines)


def as_json(found: Comparison) -> dict[str, Any]:
    """What `--json` tells."""
    return {
        "runs": [
            {
                "name": side.name,
                "run_dir": str(side.run.path),
                "step": side.step,
                "status": side.run.status,
                "left_out": left_out,
                "faults": faults,
            }
            for side, left_out, faults in zip(found.sides, found.left_out, found.faults, strict=True)
        ],
        **asdict(found.all),
        "test": found.test,
        "p_value": found.p_value,
        "verdict": found.verdict,
        "by_subject": {name: asdict(cell) for name, cell in found.by_subject.items()},
        "by_level": {name: asdict(cell) for name, cell in found.by_level.items()},
        "settings": {key: [first, second] for key, first, second in found.settings},
        "flips": [
            {
                "problem_id": pair.problem.id,
                "change": pair.change,
                "first": pair.first,
                "second": pair.second,
                "gold": pair.problem.answer,
                "answers": [[sample.answer for sample in row] for row in pair.samples],
            }
            for pair in found.flips
        ],
    }


def side_text(found: Comparison, place: int) -> str:
    """`math500-a: smollm2-135m on MATH-500, 1 sample of each of 500 problems`."""
    side = found.sides[place]
    counts = {len(pair.samples[place]) for pair in found.pairs}
    each = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    word = "sample" if each == "1" else "samples"
    return f"{side.name}: {side.run.model} on {side.run.data}, {each} {word} of each of {len(found.pairs)} problems"


def notes(found: Comparison) -> list[str]:
    """What a reader must know to trust the numbers."""
    lines = []
    for side, left_out, faults in zip(found.sides, found.left_out, found.faults, strict=True):
        if not side.complete:
            lines.append(f"{side.name} is not finished: {side.run.progress}")
        if left_out:
            lines.append(f"{left_out} problem(s) of {side.name} are left out, the other has no sample of them")
        if faults:
            lines.append(
                f"{faults} sample(s) of {side.name} count as not correct for a fault of the grader or the machine"
            )
    return lines


def settings_rows(settings: Sequence[tuple[str, Any, Any]]) -> list[tuple[str, str, str]]:
    """Settings that differ, as texts."""
    return [(key, str(first), str(second)) for key, first, second in settings]


def p_text(value: float) -> str:
    """`p = 0.032`, `p < 0.0001`."""
    return f"p = {value:.2g}" if value >= 1e-4 else "p < 0.0001"


def points(value: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * value:+.1f}"


def _row(name: str, cell: Difference) -> str:
    low, high = cell.interval_95
    interval = f"{points(low)} to {points(high)}"
    return (
        f"{name:<24}{cell.first:>8.1%}{cell.second:>8.1%}{points(cell.difference):>10}    {interval:<20}"
        f"{cell.gained:>7}{cell.lost:>6}  of {cell.problems}"
    )


def _shown(count: int, flips: int) -> str:
    return f", the first {flips}:" if count > flips else ":"


def _flip(pair: Pair) -> str:
    first, second = (_answer(row) for row in pair.samples)
    share = f" ({pair.first:.0%} to {pair.second:.0%})" if len(pair.samples[0]) + len(pair.samples[1]) > 2 else ""
    return f"  {pair.problem.id}: {first} -> {second}, right is {_short(pair.problem.answer)}{share}"


def _answer(row: Sequence[Any]) -> str:
    answers: Mapping[str, int] = {}
    for sample in row:
        text = "no answer" if sample.answer is None else sample.answer
        answers = {**answers, text: answers.get(text, 0) + 1}
    return _short(max(answers, key=lambda text: answers[text]))


def _short(text: str) -> str:
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= TEXT else f"{line[: TEXT - 2]} …"
