"""The few kinds of HTML that pages are made of. Every text that comes in is escaped here."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from pipelines.records.journal import VERDICTS


def card(value: str, name: str, note: str = "", *, main: bool = False) -> str:
    """A number with its name."""
    extra = f"<span>{escape(note)}</span>" if note else ""
    return f'<div class="card{" main" if main else ""}"><span>{escape(name)}</span><b>{escape(value)}</b>{extra}</div>'


def cards(parts: Iterable[str]) -> str:
    return f'<div class="cards">{"".join(parts)}</div>'


def panel(body: str, title: str = "", *, flush: bool = False) -> str:
    """A frame around one thing."""
    head = f"<h3>{escape(title)}</h3>" if title else ""
    return f'<div class="panel{" flush" if flush else ""}">{head}{body}</div>'


def grid(panels: Iterable[str]) -> str:
    return f'<div class="grid">{"".join(panels)}</div>'


def accuracy_panels(found: Mapping[str, Any]) -> list[str]:
    """The accuracies by subject and by level of a summary, where it has them."""
    levels = {f"level {name}": cell for name, cell in found["by_level"].items()}
    groups = ((found["by_subject"], "By subject"), (levels, "By level"))
    return [panel(share_bars(cells), title) for cells, title in groups if cells]


def share_bars(groups: Mapping[str, Mapping[str, Any]]) -> str:
    """A bar for each group's accuracy, with its interval and count: the entries of a summary's `by_subject`."""
    rows = []
    for name, cell in groups.items():
        if cell["accuracy"] is None:
            continue
        low, high = (100 * edge for edge in cell["interval_95"])
        interval = f"{low:.1f} % to {high:.1f} %"
        rows.append(
            f'<span>{escape(name)}</span><div class="track" title="95 % interval {interval}">'
            f'<i style="width:{100 * cell["accuracy"]:.1f}%"></i>'
            f'<u style="left:{low:.1f}%;width:{max(0.3, high - low):.1f}%"></u></div>'
            f"<span><b>{cell['accuracy']:.1%}</b> of {cell['n']:,}</span>"
        )
    return f'<div class="bars">{"".join(rows)}</div>'


def verdict_bar(counts: Mapping[str, int]) -> str:
    """How often each verdict was given, as parts of one bar, with the numbers below."""
    total = sum(counts.values()) or 1
    known = [(name, counts.get(name, 0)) for name in VERDICTS]
    parts = "".join(f'<i class="v-{name}" style="flex:{count}"></i>' for name, count in known if count)
    keys = "".join(
        f'<li><i class="v-{name}"></i>{name} <b>{count:,}</b> ({count / total:.1%})</li>' for name, count in known
    )
    return f'<div class="stack" aria-hidden="true">{parts}</div><ul class="key">{keys}</ul>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of texts; the last column may be long."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = (
        "<tr>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[:-1])
        + f'<td class="wide">{escape(row[-1])}</td></tr>'
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def interval_text(interval: Sequence[float] | None) -> str:
    """`95 % interval 38.1 % to 46.7 %`, empty without one."""
    return f"95 % interval {interval[0]:.1%} to {interval[1]:.1%}" if interval else ""
