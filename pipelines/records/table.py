"""The summary as a table for people."""

from collections.abc import Mapping
from typing import Any

from pipelines.records.incidents import incident_lines

_BAR = 20
"""Characters of a full bar."""


def result_table(summary: Mapping[str, Any]) -> str:
    """The findings of a run, a line each."""
    head = f"{summary['model']} on {summary['data']}"
    lines = [head, "=" * len(head), _row("all", summary)]
    for title, groups in (("subject", summary["by_subject"]), ("level", summary["by_level"])):
        if groups:
            lines += ["", f"by {title}"]
            lines += [_row(f"{title} {name}" if title == "level" else name, cell) for name, cell in groups.items()]
    if summary.get("pass_at"):
        lines += ["", *_several(summary)]
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in summary["verdicts"].items())
    lines += ["", f"verdicts     {verdicts}"]
    if summary["accuracy_judged"] is not None and summary["accuracy_judged"] != summary["accuracy"]:
        lines.append(f"without faults of the grader or the machine: {summary['accuracy_judged']:.1%}")
    tokens = summary["tokens"]
    if tokens["total"]:
        lines.append(
            f"completions  {summary['truncated_share']:.1%} truncated; tokens: mean {tokens['mean']:.0f}, "
            f"median {tokens['p50']}, p90 {tokens['p90']}, total {tokens['total']:,}"
        )
    speed = summary.get("throughput")
    if speed and speed["seconds"]:
        lines.append(
            f"throughput   {speed['tokens_per_s']:.0f} tokens/s, {speed['samples']} samples in {speed['seconds']:.0f} s"
        )
        lines += _use(speed)
    lines += incident_lines(summary.get("incidents", {}))
    if summary["n"] < summary["planned"]:
        lines.append(f"unfinished   {summary['n']} of {summary['planned']} samples are there")
    return "\n".join(lines)


def _row(name: str, cell: Mapping[str, Any]) -> str:
    if cell["accuracy"] is None:
        return f"{name:<24}     no samples"
    low, high = cell["interval_95"]
    bar = "#" * round(cell["accuracy"] * _BAR)
    return (
        f"{name:<24}{cell['accuracy']:>7.1%}  95 % interval {low:>6.1%} to {high:>6.1%}  "
        f"{cell['correct']:>4} of {cell['n']:<4} {bar}"
    ).rstrip()


def _several(summary: Mapping[str, Any]) -> list[str]:
    """What several samples of each problem say together."""
    title = f"{summary['samples_per_problem']} samples per problem"
    lines = [f"{title:<24}{'pass@k':>7}{'95 % interval':>20}{'maj@k':>11}{'95 % interval':>20}"]
    for k, cell in summary["pass_at"].items():
        lines.append(f"{f'k = {k}':<24}{_share(cell)}    {_share(summary['maj_at'][k])}".rstrip())
    if any(cell.get("exact") is False for cell in summary["maj_at"].values()):
        lines.append("maj@k is an estimate from subsets that were drawn")
    if agreement := summary["agreement"]:
        lines += _agreement(agreement)
    if votes := summary["votes"]:
        lines.append(
            f"votes        {votes['cast']:,} cast, {votes['without_answer']:,} without an answer, {votes['faults']:,} faults"
        )
        if votes["problems_by_text"]:
            lines.append(f"             {votes['problems_by_text']} problem(s) voted on by the text of the answers")
    return lines


def _share(cell: Mapping[str, Any]) -> str:
    if cell["value"] is None:
        return f"{'-':>7}{'':>20}"
    low, high = cell["interval_95"]
    interval = f"{low:.1%} to {high:.1%}"
    return f"{cell['value']:>7.1%}{interval:>20}"


def _agreement(found: Mapping[str, Any]) -> list[str]:
    if found["mean"] is None:
        return []
    error = found["expected_calibration_error"]
    return [
        f"agreement    mean {found['mean']:.1%}, expected calibration error {error:.1%}",
        *(
            f"  {part['from']:>4.0%} to {part['to']:>4.0%}  mean {part['agreement']:>6.1%}, {part['correct']:>6.1%} right, "
            f"{part['problems']} problem(s)"
            for part in found["bins"]
        ),
    ]


def _use(speed: Mapping[str, Any]) -> list[str]:
    """What the engines made of their time, where they told."""
    shares = {
        "places taken": speed.get("occupancy"),
        "padding": speed.get("padding_share"),
        "of the physical limit": speed.get("limit_share"),
    }
    parts = [f"{share:.0%} {name}" for name, share in shares.items() if share is not None]
    if parts and speed.get("ideal_gain") is not None:
        parts.append(f"{speed['ideal_gain']:.2f} x fewer steps than static batches, at best")
    return [f"engines      {', '.join(parts)}"] if parts else []
