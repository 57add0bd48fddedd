"""What the report of an evaluation says."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pipelines.records.journal import VERDICTS, Sample
from pipelines.records.runs import RunInfo
from pipelines.records.steps import read_steps
from pipelines.records.summary import summarise
from pipelines.report.charts import histogram, line_chart
from pipelines.report.markup import accuracy_panels, card, cards, grid, interval_text, panel, percent, verdict_bar
from pipelines.report.page import Section

COLOURS = {"correct": 2, "wrong": 4, "unparsed": 1, "timeout": 3, "error": 5}
"""Places in the charts' palette, like the colours of the verdicts elsewhere."""


def evaluation_sections(run: RunInfo, samples: Sequence[Sample]) -> list[Section]:
    """Everything but the samples themselves. `samples` are all that the journal holds."""
    found = summarise(samples, run.planned or len(samples))
    several = run.summary if run.finished and run.summary.get("pass_at") else {}
    return [
        Section("result", "Result", _headline(run, found, several)),
        Section("accuracy", "Where it is right", _accuracy(found)),
        Section("several", "Several samples per problem", _several(several)),
        Section("lengths", "Lengths and times", _lengths(run, samples)),
        Section("speed", "Speed", _speed(run)),
    ]


def _headline(run: RunInfo, found: Mapping[str, Any], several: Mapping[str, Any]) -> str:
    each = several.get("samples_per_problem", run.config.get("sampling", {}).get("n", 1))
    name = "accuracy" if each == 1 else f"pass@1, {each} samples per problem"
    note = f"{found['correct']:,} of {found['n']:,} correct; {interval_text(found['interval_95'])}"
    parts = [card(percent(found["accuracy"]), name, note, main=True)]
    if found["accuracy_judged"] is not None and found["accuracy_judged"] != found["accuracy"]:
        parts.append(card(percent(found["accuracy_judged"]), "without faults", "of the grader or the machine"))
    for title, key in (("pass", "pass_at"), ("maj", "maj_at")):
        for k, cell in list(several.get(key, {}).items())[-1:]:
            if cell["value"] is not None and k != "1":
                low, high = cell["interval_95"]
                parts.append(card(percent(cell["value"]), f"{title}@{k}", f"{low:.1%} to {high:.1%}"))
    tokens = found["tokens"]
    parts.append(card(percent(found["truncated_share"]), "cut at the token limit"))
    if tokens["mean"] is not None:
        note = f"median {tokens['p50']}, 90 % below {tokens['p90']}"
        parts.append(card(f"{tokens['mean']:,.0f}", "tokens in a completion", note))
    speed = _throughput(run)
    if speed.get("tokens_per_s"):
        note = f"{speed['limit_share']:.0%} of the machine's limit" if speed.get("limit_share") is not None else ""
        parts.append(card(f"{speed['tokens_per_s']:,.0f}", "tokens per second", note))
    return cards(parts) + panel(verdict_bar(found["verdicts"]), "Verdicts")


def _accuracy(found: Mapping[str, Any]) -> str:
    panels = accuracy_panels(found)
    note = '<p class="sub">Bars are shares of correct samples, the lines on them 95 % intervals.</p>'
    return grid(panels) + note if panels else ""


def _several(several: Mapping[str, Any]) -> str:
    if not several:
        return ""
    curves, bands = {}, {}
    for name, key in (("pass@k", "pass_at"), ("maj@k", "maj_at")):
        known = {int(k): cell for k, cell in several[key].items() if cell["value"] is not None}
        curves[name] = [(float(k), cell["value"]) for k, cell in known.items()]
        bands[name] = [(float(k), *cell["interval_95"]) for k, cell in known.items()]
    panels = [
        panel(
            line_chart(
                curves,
                bands=bands,
                title="pass@k and maj@k",
                x_label="k samples",
                y_label="share of problems",
                log_x=True,
            ),
            flush=True,
        )
    ]
    agreement = several.get("agreement")
    if agreement and agreement["bins"]:
        points = [(part["agreement"], part["correct"]) for part in agreement["bins"]]
        chart = line_chart(
            {"this run": points, "as often right as agreed": [(0.0, 0.0), (1.0, 1.0)]},
            title=f"Agreement against being right (calibration error {agreement['expected_calibration_error']:.1%})",
            x_label="share of samples that give the winning answer",
            y_label="share of right votes",
            from_zero=True,
        )
        panels.append(panel(chart, flush=True))
    return grid(panels)


def _lengths(run: RunInfo, samples: Sequence[Sample]) -> str:
    made = [sample for sample in samples if sample.finish_reason != "error"]
    if not made:
        return ""
    limit = run.config.get("sampling", {}).get("max_new_tokens")
    longest = max(sample.num_tokens for sample in made)
    mark = (float(limit), "limit") if limit and longest > 0.5 * limit else None
    by_verdict = {name: [each for each in made if each.verdict == name] for name in VERDICTS}
    there = {name: group for name, group in by_verdict.items() if group}
    panels = [
        histogram(
            {name: [value(each) for each in group] for name, group in there.items()},
            colours=[COLOURS[name] for name in there],
            title=title,
            x_label=label,
            y_label="samples",
            mark=line,
        )
        for title, label, value, line in (
            ("Length of completions", "tokens", lambda each: float(each.num_tokens), mark),
            ("Time of completions", "seconds", lambda each: each.seconds, None),
        )
    ]
    first = [each.first_token_s for each in made if each.first_token_s is not None]
    if first:
        panels.append(histogram({"": first}, title="Time to the first token", x_label="seconds", y_label="samples"))
    return grid(panel(chart, flush=True) for chart in panels)


def _speed(run: RunInfo) -> str:
    rows = [row for row in read_steps(run.path / "metrics.jsonl") if "progress/done" in row]
    if len(rows) < 2:
        return ""
    start = rows[0]["time"]
    panels = []
    for key, title, label in (
        ("gen/tokens_per_s", "Tokens per second", "tokens/s"),
        ("progress/done", "Samples that are done", "samples"),
        ("eval/accuracy", "Accuracy so far", "share correct"),
    ):
        points = [(row["time"] - start, _number(row.get(key))) for row in rows]
        panels.append(line_chart({"": points}, title=title, x_label="seconds", y_label=label, from_zero=True))
    return grid(panel(chart, flush=True) for chart in panels) + _use(_throughput(run))


def _use(speed: Mapping[str, Any]) -> str:
    told = {
        "of the places in a batch were taken": speed.get("occupancy"),
        "of the tokens that were computed stood for nothing (padding)": speed.get("padding_share"),
        "of the speed that memory bandwidth and matrix rate allow": speed.get("limit_share"),
    }
    parts = [f"{share:.0%} {name}" for name, share in told.items() if share is not None]
    if speed.get("ideal_gain") is not None:
        parts.append(f"{speed['ideal_gain']:.2f} times fewer steps than static batches, at best")
    return f'<p class="sub">{escape("; ".join(parts))}.</p>' if parts else ""


def _throughput(run: RunInfo) -> Mapping[str, Any]:
    return run.summary.get("throughput") or {}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
