"""The summary of a training run as a table for people."""

from collections.abc import Mapping
from typing import Any

from pipelines.records.incidents import incident_lines
from pipelines.terminal.status import duration

_BAR = 40
"""Characters of a full bar."""


def training_table(summary: Mapping[str, Any]) -> str:
    """The accuracy over the steps, and what the last step looked like, a line each."""
    head = f"{summary['model']} trained on {summary['data']}: {summary['done']} of {summary['steps']} steps"
    lines = [head, "=" * len(head)]
    for found in summary["evaluations"]:
        low, high = found["interval_95"]
        bar = "#" * round(found["accuracy"] * _BAR)
        lines.append(
            f"step {found['step']:>6}  {found['accuracy']:>6.1%}  95 % interval {low:>6.1%} to {high:>6.1%}  {bar}".rstrip()
        )
    first, last = summary["first"], summary["last"]
    if last is not None:
        lines += [
            f"{name:<24}{first[name]:>10.4g} at step {first['step']}, {last[name]:.4g} at step {last['step']}"
            for name in ("reward/mean", "loss/policy", "loss/supervised", "entropy", "completions/mean_length")
            if name in first and name in last
        ]
        times = summary["time"]
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times.items() if name != "step")
        lines.append(f"a step takes {times['step']:.1f} s: {parts}; in all {duration(times['step'] * summary['done'])}")
    lines += incident_lines(summary.get("incidents", {}))
    if summary["checkpoints"]:
        lines.append(f"checkpoints             {', '.join(summary['checkpoints'])}")
    return "\n".join(lines)
