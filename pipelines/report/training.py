"""What the report of a training run says."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.records.runs import RunInfo
from pipelines.records.steps import read_steps
from pipelines.report.charts import line_chart
from pipelines.report.markup import accuracy_panels, card, cards, grid, interval_text, panel, percent, table
from pipelines.report.page import Section
from pipelines.terminal.status import duration

CURVES: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("Reward", "reward", {"reward/mean": "mean", "reward/std": "std"}),
    ("Loss", "loss", {"loss/policy": "policy", "loss/supervised": "supervised", "eval/loss/supervised": "held out"}),
    (
        "Groups that teach nothing",
        "share of groups",
        {
            "reward/frac_zero_std_groups": "all alike",
            "reward/frac_all_correct": "all correct",
            "reward/frac_all_wrong": "all wrong",
        },
    ),
    (
        "Length of completions",
        "tokens",
        {
            "completions/mean_length": "mean",
            "completions/max_length": "longest",
            "completions/mean_terminated_length": "mean of those that end",
        },
    ),
    ("Cut at the limit", "share of rollouts", {"completions/clipped_ratio": "cut"}),
    ("Entropy", "nats per token", {"entropy": "entropy"}),
    ("Distance from the reference", "nats per token", {"kl": "KL"}),
    ("Gradient norm", "norm", {"grad_norm": "gradient norm"}),
    ("Learning rate", "rate", {"lr": "learning rate"}),
    (
        "Tokens that were clipped",
        "share of tokens",
        {"clip_ratio/low_mean": "low", "clip_ratio/high_mean": "high", "clip_ratio/region_mean": "either"},
    ),
    (
        "Generator against trainer",
        "difference of log-probability",
        {"sampling/logp_difference_mean": "mean", "sampling/logp_difference_max": "largest"},
    ),
    ("Age of the weights", "versions", {"staleness/mean": "mean", "staleness/max": "oldest"}),
    (
        "Rollouts without a verdict",
        "share of rollouts",
        {
            "grading/unparsed_frac": "unparsed",
            "grading/timeout_frac": "timeout",
            "grading/error_frac": "error",
            "reward/function_fault_frac": "reward function failed",
        },
    ),
    (
        "Where the time goes",
        "seconds a step",
        {"time/step": "step", "time/generate": "generate", "time/learn": "learn", "time/sync": "weights"},
    ),
    ("Speed", "tokens/s", {"tokens/sec": "generated"}),
)
"""Charts of the training: title, label of the y axis, and which metrics are in it under what name."""

NOT_DRAWN = ("step", "time", "eval/accuracy")


def training_sections(run: RunInfo) -> list[Section]:
    """Everything but the samples themselves."""
    rows = read_steps(run.path / "metrics.jsonl")
    evaluations = read_steps(run.path / "evaluations.jsonl")
    return [
        Section("result", "Result", _headline(rows, evaluations)),
        Section("curves", "Curves", _curves(rows, evaluations)),
        Section("accuracy", "Where it is right", _accuracy(evaluations)),
        Section("other", "Other metrics", _others(rows)),
    ]


def _headline(rows: Sequence[Mapping[str, Any]], evaluations: Sequence[Mapping[str, Any]]) -> str:
    parts = []
    if evaluations:
        first, last = evaluations[0], evaluations[-1]
        best = max(evaluations, key=lambda row: row["accuracy"])
        name = f"accuracy on held-out problems after {last['step']} steps"
        parts.append(card(percent(last["accuracy"]), name, interval_text(last["interval_95"]), main=True))
        if first is not last:
            gain = 100 * (last["accuracy"] - first["accuracy"])
            note = f"from {first['accuracy']:.1%} after {first['step']} steps"
            parts.append(card(f"{gain:+.1f}", "points since the first evaluation", note))
            parts.append(card(percent(best["accuracy"]), "best", f"after {best['step']} steps"))
    steps = [row for row in rows if "time/step" in row]
    for name, title in (
        ("reward/mean", "mean reward"),
        ("loss/supervised", "loss"),
        ("completions/mean_length", "tokens in a rollout"),
    ):
        known = [row[name] for row in steps if _is_number(row.get(name))]
        if known:
            parts.append(card(f"{known[-1]:.4g}", title, f"{known[0]:.4g} at the first step"))
    if steps:
        total = sum(row["time/step"] for row in steps)
        parts.append(card(f"{total / len(steps):.2f} s", "a step takes", f"{duration(total)} in all"))
    return cards(parts)


def _curves(rows: Sequence[Mapping[str, Any]], evaluations: Sequence[Mapping[str, Any]]) -> str:
    panels = []
    if evaluations:
        points = [(float(row["step"]), row["accuracy"]) for row in evaluations]
        band = [(float(row["step"]), *row["interval_95"]) for row in evaluations if row["interval_95"]]
        title = "Accuracy on held-out problems, with 95 % interval"
        panels.append(_chart({"accuracy": points}, title, "share correct", {"accuracy": band}))
    for title, label, names in CURVES:
        series = {text: _series(rows, name) for name, text in names.items()}
        if known := {text: points for text, points in series.items() if points}:
            panels.append(_chart(known, title, label))
    return grid(panels)


def _accuracy(evaluations: Sequence[Mapping[str, Any]]) -> str:
    if not evaluations:
        return ""
    last = evaluations[-1]
    lines = [
        (
            str(row["step"]),
            percent(row["accuracy"]),
            f"{row['n']:,}",
            " to ".join(map(percent, row["interval_95"] or [])),
        )
        for row in evaluations
    ]
    every = panel(table(("steps", "accuracy", "problems", "95 % interval"), lines), "All evaluations")
    note = f'<p class="sub">Subjects and levels are those of the evaluation after {last["step"]} steps.</p>'
    return grid([*accuracy_panels(last), every]) + note


def _others(rows: Sequence[Mapping[str, Any]]) -> str:
    drawn = {name for _, _, names in CURVES for name in names} | set(NOT_DRAWN)
    names = sorted({name for row in rows for name, value in row.items() if _is_number(value)} - drawn)
    panels = [_chart({name: points}, name, "value") for name in names if (points := _series(rows, name))]
    return f"<details><summary>{len(panels)} more curves</summary>{grid(panels)}</details>" if panels else ""


def _chart(
    series: Mapping[str, Sequence[tuple[float, float]]],
    title: str,
    label: str,
    bands: Mapping[str, Sequence[tuple[float, float, float]]] | None = None,
) -> str:
    return panel(line_chart(series, title=title, x_label="step", y_label=label, bands=bands), flush=True)


def _series(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[float, float]]:
    return [(float(row["step"]), float(row[name])) for row in rows if _is_number(row.get(name))]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
