"""Charts as SVG text that needs nothing else: no script, no font, no network.

They stand on their own as files and inside a page, follow the reader's light or dark mode, and have a title for readers
of the screen. Colours keep apart for colour-blind eyes, and lines also differ by their dashes.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise

from pipelines.report.axis import TINY, Axis, axis_over, is_shown, number_text

Points = Sequence[tuple[float, float]]

COLOURS = 6
"""Series that differ by colour; with more, the dashes go on."""
DASHES = ("", "6 3", "2 3", "8 3 2 3")
MARKED = 40
"""A line of so many points or fewer shows each of them."""
DRAWN = 400
"""Points of a line that are drawn at most: the lowest and the highest of each stretch."""

LEFT, RIGHT, BOTTOM, LINE = 62, 14, 46, 18
CHARACTER = 7.1
"""Mean width of a character in pixels."""

STYLE = (
    ".chart{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;max-width:100%;height:auto;"
    "--ink:#1f2937;--soft:#667085;--grid:#e4e7ec;"
    "--c0:#2563eb;--c1:#c2410c;--c2:#0f766e;--c3:#7c3aed;--c4:#be123c;--c5:#57606a}"
    "@media(prefers-color-scheme:dark){.chart{--ink:#e6e9ee;--soft:#9aa4b2;--grid:#2c333d;"
    "--c0:#6ea8fe;--c1:#fb923c;--c2:#2dd4bf;--c3:#c4a5ff;--c4:#fb7185;--c5:#a3adba}}"
    ".chart text{fill:var(--soft)}.chart .title{fill:var(--ink);font-weight:600;font-size:14px}"
    ".chart .grid{stroke:var(--grid)}.chart .line{fill:none;stroke-width:1.8;stroke-linejoin:round}"
    ".chart .band{opacity:.16;stroke:none}.chart .mark{stroke:var(--ink);stroke-dasharray:4 3}"
    + "".join(f".chart .s{place}{{stroke:var(--c{place});fill:var(--c{place})}}" for place in range(COLOURS))
    + ".chart .line{fill:none}.chart .bar{stroke:none}"
)


def line_chart(
    series: Mapping[str, Points],
    *,
    title: str,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    bands: Mapping[str, Sequence[tuple[float, float, float]]] | None = None,
    from_zero: bool = False,
    width: int = 440,
    height: int = 265,
) -> str:
    """Return an SVG of one line for each of `series`, a name to (x, y) points in the order of x.

    Points that are not finite, and with `log_x` those whose x is not positive, are left out. `bands` has (x, low, high)
    around the line of the same name, as of a confidence interval. `from_zero` makes the y axis hold 0. Sizes are pixels.
    """
    drawn = {name: _thinned(_known(points, log_x)) for name, points in series.items()}
    around = {name: [row for row in rows if all(map(is_shown, row))] for name, rows in (bands or {}).items()}
    xs = [x for points in drawn.values() for x, _ in points]
    ys = [y for points in drawn.values() for _, y in points]
    ys += [edge for rows in around.values() for _, low, high in rows for edge in (low, high)]
    legend, top = _legend(list(series) if len(series) > 1 else [], width, _line_key)
    across = axis_over(xs, width - LEFT - RIGHT, log=log_x)
    up = axis_over(ys, height - top - BOTTOM, from_zero=from_zero).rounded()
    frame = _Frame(across, up, top, height)
    body = [frame.grid(x_label, y_label)]
    for place, name in enumerate(series):
        if rows := around.get(name):
            edge = [(x, high) for x, _, high in rows] + [(x, low) for x, low, _ in reversed(rows)]
            body.append(f'<polygon class="band {_colour(place)}" points="{frame.points(edge)}"/>')
    for place, (name, points) in enumerate(drawn.items()):
        body.append(_line(frame, place, name, points))
    if not xs:
        body.append(frame.nothing())
    return _svg(title, [*body, legend], width, height)


def histogram(
    groups: Mapping[str, Sequence[float]],
    *,
    title: str,
    x_label: str,
    y_label: str,
    colours: Sequence[int] = (),
    bins: int = 24,
    mark: tuple[float, str] | None = None,
    width: int = 440,
    height: int = 265,
) -> str:
    """Return an SVG of how often values occur: bars over equal ranges, those of the `groups` on top of each other.

    Values that are not finite are left out. `colours` are places in the palette, one a group. `mark` is a value to draw a line at, with what to call it.
    """
    known = {name: [value for value in values if is_shown(value)] for name, values in groups.items()}
    every = [value for values in known.values() for value in values]
    palette = list(colours) or list(range(len(groups)))
    legend, top = _legend(
        list(groups) if len(groups) > 1 else [], width, lambda place, left, y: _bar_key(palette[place], left, y)
    )
    across = axis_over([*every, *([mark[0]] if mark else [])], width - LEFT - RIGHT, from_zero=True)
    size = (across.high - across.low) / bins
    counts = {name: _counted(values, across.low, size, bins) for name, values in known.items()}
    most = max((sum(column) for column in zip(*counts.values(), strict=True)), default=0)
    frame = _Frame(across, Axis(0.0, float(most or 1), height - top - BOTTOM).rounded(), top, height)
    body = [frame.grid(x_label, y_label)]
    base = [0] * bins
    for place, (name, column) in enumerate(counts.items()):
        for bin_, count in enumerate(column):
            if count:
                low = across.low + bin_ * size
                body.append(frame.bar(palette[place], low, low + size, base[bin_], count, name))
                base[bin_] += count
    if mark:
        body.append(frame.mark(*mark))
    if not every:
        body.append(frame.nothing())
    return _svg(title, [*body, legend], width, height)


class _Frame:
    """Where values of two axes come to lie in the picture."""

    def __init__(self, across: Axis, up: Axis, top: float, height: float) -> None:
        self._across, self._up = across, up
        self._top, self._floor = top, height - BOTTOM

    def x(self, value: float) -> float:
        return round(LEFT + self._across.place(value), 1)

    def y(self, value: float) -> float:
        return round(self._floor - self._up.place(value), 1)

    def points(self, points: Points) -> str:
        return " ".join(f"{self.x(x):g},{self.y(y):g}" for x, y in points)

    def grid(self, x_label: str, y_label: str) -> str:
        right = LEFT + self._across.length
        parts = []
        for tick in self._up.ticks(4):
            at = self.y(tick)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{right:g}" y1="{at:g}" y2="{at:g}"/>')
            parts.append(f'<text x="{LEFT - 7}" y="{at + 4:g}" text-anchor="end">{number_text(tick)}</text>')
        for tick in self._across.ticks():
            at = self.x(tick)
            parts.append(f'<line class="grid" x1="{at:g}" x2="{at:g}" y1="{self._floor:g}" y2="{self._floor + 4:g}"/>')
            parts.append(f'<text x="{at:g}" y="{self._floor + 17:g}" text-anchor="middle">{number_text(tick)}</text>')
        middle = (LEFT + right) / 2
        parts.append(f'<text x="{middle:g}" y="{self._floor + 36:g}" text-anchor="middle">{escape(x_label)}</text>')
        down = (self._top + self._floor) / 2
        parts.append(
            f'<text transform="translate(13 {down:g}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
        )
        return "".join(parts)

    def bar(self, place: int, low: float, high: float, base: float, count: float, name: str) -> str:
        left, right, bottom, top = self.x(low), self.x(high), self.y(base), self.y(base + count)
        span = f"{number_text(low)} to {number_text(high)}"
        return (
            f'<rect class="bar {_colour(place)}" x="{left + 0.5:g}" y="{top:g}" width="{max(0.5, right - left - 1):.1f}" '
            f'height="{bottom - top:.1f}"><title>{escape(f"{span}: {number_text(count)} {name}".strip())}</title></rect>'
        )

    def nothing(self) -> str:
        return (
            f'<text x="{LEFT + self._across.length / 2:g}" y="{self._top + 40:g}" text-anchor="middle">no data</text>'
        )

    def mark(self, value: float, name: str) -> str:
        at = self.x(value)
        side, shift = ("end", -4) if at > LEFT + self._across.length / 2 else ("start", 4)
        return (
            f'<line class="mark" x1="{at:g}" x2="{at:g}" y1="{self._top:g}" y2="{self._floor:g}"/>'
            f'<text x="{at + shift:g}" y="{self._top + 10:g}" text-anchor="{side}">{escape(name)}</text>'
        )


def _line(frame: _Frame, place: int, name: str, points: Points) -> str:
    colour = _colour(place)
    marks = ""
    if len(points) <= MARKED:
        marks = "".join(
            f'<circle class="{colour}" cx="{frame.x(x):g}" cy="{frame.y(y):g}" r="2.6">'
            f"<title>{escape(f'{name}: {number_text(y)} at {number_text(x)}')}</title></circle>"
            for x, y in points
        )
    return f'<polyline class="line {colour}"{_dash(place)} points="{frame.points(points)}"/>{marks}'


def _line_key(place: int, left: float, y: float) -> str:
    return f'<line class="line {_colour(place)}"{_dash(place)} x1="{left:g}" x2="{left + 18:g}" y1="{y:g}" y2="{y:g}"/>'


def _bar_key(place: int, left: float, y: float) -> str:
    return f'<rect class="bar {_colour(place)}" x="{left + 4:g}" y="{y - 5:g}" width="11" height="11"/>'


def _legend(names: Sequence[str], width: int, key: Callable[[int, float, float], str]) -> tuple[str, float]:
    """The names, each with its key, in as many rows as they need, and where the picture below them begins."""
    parts, left, row = [], 12.0, 0
    for place, name in enumerate(names):
        wide = 30 + CHARACTER * len(name)
        if left > 12 and left + wide > width:
            left, row = 12.0, row + 1
        y = 38.0 + row * LINE
        parts.append(f'{key(place, left, y)}<text x="{left + 23:g}" y="{y + 4:g}">{escape(name)}</text>')
        left += wide + 8
    return "".join(parts), 40.0 + (row + 1) * LINE if names else 36.0


def _svg(title: str, body: Sequence[str], width: int, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{escape(title)}</title><style>{STYLE}</style>'
        f'<text class="title" x="12" y="19">{escape(title)}</text>{"".join(body)}</svg>'
    )


def _colour(place: int) -> str:
    return f"s{place % COLOURS}"


def _dash(place: int) -> str:
    dash = DASHES[place % len(DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _known(points: Points, log_x: bool) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if is_shown(x) and is_shown(y) and (x > TINY or not log_x)]


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most DRAWN points, among them the extremes of each stretch, the first and the last."""
    if len(points) <= DRAWN:
        return points
    stretches = (DRAWN - 2) // 2
    edges = [1 + round(part * (len(points) - 2) / stretches) for part in range(stretches + 1)]
    kept = {0, len(points) - 1}
    for first, end in pairwise(edges):
        inside = range(first, end)
        kept |= {min(inside, key=lambda place: points[place][1]), max(inside, key=lambda place: points[place][1])}
    return [points[place] for place in sorted(kept)]


def _counted(values: Sequence[float], low: float, size: float, bins: int) -> list[int]:
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / size))] += 1
    return counts
