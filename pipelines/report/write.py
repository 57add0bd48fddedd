"""From a run folder to the HTML of its report."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pipelines.records.runs import RunInfo
from pipelines.records.steps import read_steps
from pipelines.report.browser import brief, sample_browser
from pipelines.report.evaluation import evaluation_sections
from pipelines.report.groups import evaluation_group, evaluation_samples, training_groups
from pipelines.report.markup import table
from pipelines.report.page import DEFAULT_MB, Section, page
from pipelines.report.training import training_sections

JOBS = {"eval": "Evaluation", "grpo": "Reinforcement learning (GRPO)", "distill": "Supervised training"}
MOST_EVENTS = 300


def report(run: RunInfo, max_mb: float = DEFAULT_MB) -> str:
    """Return the report of a run, finished or not, as one HTML file of about `max_mb` at most.

    Raises JournalError for a broken journal.
    """
    if run.job == "eval":
        samples = evaluation_samples(run)
        groups = [evaluation_group(run, samples)]
        sections = evaluation_sections(run, samples)
    else:
        groups = training_groups(run)
        sections = training_sections(run)
    groups = [group for group in groups if group.samples]
    appendix = [Section("events", "Events", _events(run)), Section("origin", "Settings", _origin(run))]
    browser = sample_browser(groups) if groups else None
    return page(f"{run.name} – mathlete", _head(run), sections, browser, appendix, max_mb)


def _head(run: RunInfo) -> str:
    kind = (
        "good" if run.status == "complete" else "odd" if run.status in ("running", "preempted", "unfinished") else "bad"
    )
    progress = ""
    if not run.finished:
        bar = f'<progress max="{run.planned}" value="{run.done}"></progress>' if run.planned else ""
        part = ", which are not a random part of all" if run.job == "eval" else ""
        progress = (
            f'{bar}<p class="note">This run is not finished: {escape(run.progress)} are there, and the numbers below are '
            f"of these{part}.</p>"
        )
    model, data = escape(run.model), escape(run.data)
    return (
        f'<div class="title"><h1>{escape(run.name)}</h1><span class="pill {kind}">{escape(run.status)}</span></div>'
        f'<p class="sub">{JOBS[run.job]} of <b>{model}</b> on <b>{data}</b>, {escape(run.progress)}, begun '
        f"{escape(run.created)}</p>{progress}"
    )


def _events(run: RunInfo) -> str:
    rows = read_steps(run.path / "events.jsonl")
    if not rows:
        return ""
    start = rows[0].get("time", 0.0)
    lines = [
        (
            f"{row.get('time', start) - start:+,.1f} s",
            brief(str(row.get("worker", ""))),
            brief(str(row.get("kind", ""))),
            brief(_event(row)),
        )
        for row in rows
    ]
    left_out = len(lines) - MOST_EVENTS
    note = (
        f'<p class="sub">{left_out:,} in the middle are left out; events.jsonl has them all.</p>'
        if left_out > 0
        else ""
    )
    shown = lines if left_out <= 0 else lines[: MOST_EVENTS // 2] + lines[-MOST_EVENTS // 2 :]
    return table(("time", "worker", "what", "text"), shown) + note


def _event(row: Mapping[str, Any]) -> str:
    report = row.get("report")
    if not isinstance(report, dict) or "engine" not in report:
        return str(row.get("text", ""))
    return f"{row.get('text', '')}: {report.get('device_name', '')}, {report.get('dtype', '')}, {report['engine']}"


def _origin(run: RunInfo) -> str:
    origin = run.manifest.get("provenance", {})
    facts = {
        "command": origin.get("command"),
        "started": origin.get("started"),
        "host": origin.get("host"),
        "platform": origin.get("platform"),
        "code": origin.get("git"),
        "versions": ", ".join(f"{name} {version}" for name, version in origin.get("versions", {}).items()),
    }
    settings = _flat(run.config)
    return (
        table(("", ""), [(name, str(value)) for name, value in facts.items() if value])
        + "<details><summary>All settings</summary>"
        + table(("setting", "value"), settings)
        + "</details>"
    )


def _flat(tree: Mapping[str, Any], above: str = "") -> Sequence[tuple[str, str]]:
    """Settings by dotted path."""
    rows: list[tuple[str, str]] = []
    for name, value in tree.items():
        path = f"{above}{name}"
        rows += _flat(value, f"{path}.") if isinstance(value, Mapping) else [(path, str(value))]
    return rows
