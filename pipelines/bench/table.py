"""The result for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.bench.findings import Finding
from pipelines.bench.rounds import RowResult

HEADS = ("row", "what", "ours", "peer", "ratio", "range", "target", "")


def result_table(results: Sequence[RowResult], machine: Mapping[str, Any], packages: Sequence[str]) -> str:
    """A line a finding, and below it what is to be known of each row, and the versions of `packages`."""
    lines = [HEADS, *(line for result in results for line in _lines(result))]
    table = columns(lines)
    notes = [f"{result.trial.name}: {note}" for result in results for note in _notes(result)]
    return "\n".join([*table, "", *notes, *([""] if notes else []), machine_line(machine, packages)])


def columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines with their cells below each other."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def machine_line(machine: Mapping[str, Any], packages: Sequence[str]) -> str:
    """Processor, cores, threads, and the versions of `packages`."""
    versions = machine["versions"]
    took_part = ", ".join(f"{name} {versions[name]}" for name in packages if name in versions)
    return f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads; {took_part}"


def _lines(result: RowResult) -> list[tuple[str, ...]]:
    if not result.findings:
        return [(result.trial.name, *[""] * (len(HEADS) - 2), "failed" if result.failed else "not measured")]
    return [(result.trial.name, *_cells(finding), _verdict(finding, result)) for finding in result.findings]


def _cells(finding: Finding) -> tuple[str, ...]:
    target = "" if finding.target is None else f"{'<=' if finding.at_most else '>='} {finding.target:g}"
    return (
        finding.what,
        f"{finding.ours:.4g} {finding.unit}",
        f"{finding.peer:.4g} {finding.unit}",
        f"{finding.ratio:.2f}",
        f"{finding.low:.2f} to {finding.high:.2f}",
        target,
    )


def _verdict(finding: Finding, result: RowResult) -> str:
    if finding.held is None:
        return ""
    return ("held" if finding.held else "missed") + (" *" if result.trial.less else "")


def _notes(result: RowResult) -> list[str]:
    notes = [result.trial.compares]
    if result.trial.less:
        notes.append(f"* not the full row: {result.trial.less}")
    if result.trial.missing:
        notes.append(f"not measured: {result.trial.missing}")
    if result.failed:
        notes.append(f"failed: {result.failed.splitlines()[0]}")
    return notes + [note for finding in result.findings for note in finding.notes]
