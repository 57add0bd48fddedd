"""A comparison as one HTML file."""

from collections.abc import Mapping, Sequence
from html import escape

from pipelines.compare.findings import Comparison, Difference, Pair
from pipelines.compare.table import notes, p_text, points, settings_rows, side_text
from pipelines.records.journal import Sample
from pipelines.report.browser import Browser, sample_facts
from pipelines.report.markup import card, cards, panel, table
from pipelines.report.page import DEFAULT_MB, Section, page

CHANGES = ("lost", "gained", "same")


def comparison_page(found: Comparison, max_mb: float = DEFAULT_MB) -> str:
    """Return the HTML: the difference with its interval and test, by subject and level, and the answers of both runs to
    every problem, those that differ first."""
    first, second = (escape(side.name) for side in found.sides)
    head = (
        f'<div class="title"><h1>{first} against {second}</h1></div>'
        f'<p class="sub"><b>A</b> {escape(side_text(found, 0))}</p><p class="sub"><b>B</b> {escape(side_text(found, 1))}</p>'
        + "".join(f'<p class="note">{escape(note)}</p>' for note in notes(found))
    )
    groups = {
        **found.by_subject,
        **{f"level {name}": cell for name, cell in found.by_level.items()},
    }
    settings = settings_rows(found.settings)
    sections = [
        Section("result", "Result", _headline(found)),
        Section("groups", "By subject and level", panel(_groups(groups)) if groups else ""),
    ]
    appendix = [Section("settings", "Settings that differ", table(("setting", "A", "B"), settings) if settings else "")]
    names = " against ".join(side.name for side in found.sides)
    return page(f"{names} – mathlete", head, sections, _browser(found), appendix, max_mb)


def _headline(found: Comparison) -> str:
    every = found.all
    low, high = every.interval_95
    parts = [
        card(
            f"{points(every.difference)} points",
            "B less A",
            f"95 % interval {points(low)} to {points(high)}; {found.verdict}",
            main=True,
        ),
        card(f"{every.first:.1%}", "A correct"),
        card(f"{every.second:.1%}", "B correct"),
        card(f"{every.gained}", "problems gained", "B is better on them"),
        card(f"{every.lost}", "problems lost", "A is better on them"),
        card(p_text(found.p_value), found.test, f"over {every.problems} problems"),
    ]
    return cards(parts)


def _groups(groups: Mapping[str, Difference]) -> str:
    rows = [
        (
            name,
            str(cell.problems),
            f"{cell.first:.1%}",
            f"{cell.second:.1%}",
            points(cell.difference),
            str(cell.gained),
            str(cell.lost),
            f"{points(cell.interval_95[0])} to {points(cell.interval_95[1])}",
        )
        for name, cell in groups.items()
    ]
    return table(("", "problems", "A", "B", "B - A", "gained", "lost", "95 % interval"), rows)


def _browser(found: Comparison) -> Browser:
    browser = Browser(CHANGES, "problems", "sample")
    browser.groups.append("problems")
    unchanged = [pair for pair in found.pairs if not pair.difference]
    for pair in [*found.flips, *unchanged]:
        browser.add(0, pair.problem, "", [pair.change], _parts(found, pair))
    return browser


def _parts(found: Comparison, pair: Pair) -> list[tuple[str, Sample, str]]:
    """Of each side the sample that shows the change: a wrong one of the worse side, a correct one of the better."""
    parts = []
    wanted = {"gained": (False, True), "lost": (True, False)}.get(pair.change, (None, None))
    for letter, side, row, right in zip("AB", found.sides, pair.samples, wanted, strict=True):
        chosen = _first(row, right)
        share = f": {sum(each.verdict == 'correct' for each in row)} of {len(row)} correct" if len(row) > 1 else ""
        parts.append((f"{letter}, {side.name}{share}", chosen, sample_facts(chosen)))
    return parts


def _first(row: Sequence[Sample], right: bool | None) -> Sample:
    return next((each for each in row if right is None or (each.verdict == "correct") == right), row[0])
