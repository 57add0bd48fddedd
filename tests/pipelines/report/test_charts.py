"""Charts show the numbers that they are given, stand alone, and survive any data."""

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.report.axis import Axis, axis_over, number_text
from pipelines.report.charts import DRAWN, histogram, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def drawn_points(svg: str, line: int = 0) -> list[tuple[float, float]]:
    lines = list(ElementTree.fromstring(svg).iter(f"{SVG}polyline"))
    return [tuple(map(float, pair.split(","))) for pair in lines[line].get("points", "").split()]  # type: ignore[misc]


def test_a_line_goes_through_its_points_in_proportion() -> None:
    points = drawn_points(line_chart({"a": [(0, 0), (1, 10), (4, 5)]}, title="t", x_label="x", y_label="y"))
    (x0, y0), (x1, y1), (x2, y2) = points
    assert (x1 - x0) * 4 == pytest.approx(x2 - x0, abs=0.5)
    assert (y0 - y1) == pytest.approx(2 * (y0 - y2), abs=0.5)
    assert y1 < y2 < y0, "higher values stand higher"


def test_equal_factors_are_equal_distances_on_a_logarithmic_axis() -> None:
    points = drawn_points(
        line_chart({"a": [(-1, 3), (0, 2), (1, 1), (8, 2), (64, 3)]}, title="", x_label="", y_label="", log_x=True)
    )
    assert len(points) == 3, "what has no logarithm is left out"
    assert points[1][0] - points[0][0] == pytest.approx(points[2][0] - points[1][0], abs=0.2)


def test_the_interval_stands_around_its_line() -> None:
    svg = line_chart({"a": [(0, 2), (1, 3)]}, bands={"a": [(0, 1, 4), (1, 2, 5)]}, title="", x_label="", y_label="")
    polygon = next(ElementTree.fromstring(svg).iter(f"{SVG}polygon")).get("points", "").split()
    heights = [float(pair.split(",")[1]) for pair in polygon]
    line = [y for _, y in drawn_points(svg)]
    assert heights[0] < line[0] < heights[3] and heights[1] < line[1] < heights[2]


def test_a_long_line_keeps_its_extremes() -> None:
    values = [math.sin(number / 900) for number in range(100_000)]
    values[31_234], values[77_777] = 9.0, -9.0
    svg = line_chart({"a": list(enumerate(values))}, title="", x_label="", y_label="")
    heights = [y for _, y in drawn_points(svg)]
    assert len(heights) <= DRAWN
    assert heights.count(min(heights)) == heights.count(max(heights)) == 1


def test_every_value_of_a_histogram_is_in_one_bar() -> None:
    svg = histogram({"right": [1, 2, 2, 9], "wrong": [2, math.nan, 10]}, title="", x_label="", y_label="", bins=5)
    told = [title.text or "" for title in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    counts = [int(found[1]) for text in told if (found := re.search(r": (\d+) ", text))]
    assert sum(counts) == 6


def test_texts_are_escaped_and_nothing_is_fetched() -> None:
    evil = '<script>alert(1)</script> & "quotes"'
    for svg in (
        line_chart({evil: [(0, 1)], "b": [(0, 2)]}, title=evil, x_label=evil, y_label=evil),
        histogram({evil: [1.0], "b": [2.0]}, title=evil, x_label=evil, y_label=evil, mark=(1.5, evil)),
    ):
        root = ElementTree.fromstring(svg)
        assert not list(root.iter(f"{SVG}script"))
        assert any(each.text == evil for each in root.iter(f"{SVG}text"))
        assert "href" not in svg and "url(" not in svg


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["C"]), max_size=5),
        st.lists(st.tuples(numbers, numbers), max_size=20),
        max_size=3,
    ),
    st.booleans(),
)
def test_any_numbers_give_a_chart_that_can_be_read(series: dict[str, list[tuple[float, float]]], log: bool) -> None:
    svg = line_chart(series, title="t", x_label="x", y_label="y", log_x=log)
    ElementTree.fromstring(svg)
    assert "nan" not in svg and "inf" not in svg.replace("infinity", "")


@given(st.lists(numbers, max_size=30))
@example([5e-324])
def test_any_values_give_a_histogram(values: list[float]) -> None:
    ElementTree.fromstring(histogram({"a": values}, title="t", x_label="x", y_label="y"))


@pytest.mark.parametrize(
    "values",
    [[], [3.0], [0.0], [-2.0, -2.0], [0.1, 0.30000001], [1e-12, 2e-12], [-5, 1e6], [5e-324], [1.0, 1.0 + 1e-15]],
)
def test_marks_lie_within_the_axis(values: list[float]) -> None:
    axis = axis_over(values, 100.0).rounded()
    assert 2 <= len(axis.ticks(4)) <= 8
    assert all(-1e-6 <= axis.place(tick) <= 100 + 1e-6 for tick in axis.ticks(4))
    assert all(axis.low - 1e-9 <= value <= axis.high + abs(axis.high) * 1e-9 + 1e-9 for value in values)


def test_batch_sizes_are_marked_at_powers_of_two() -> None:
    assert Axis(1, 128, 100, log=True).ticks(8) == [1, 2, 4, 8, 16, 32, 64, 128]
    assert Axis(1e-6, 1, 100, log=True).ticks(6) == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1])


def test_numbers_are_short() -> None:
    values = [0, 0.25, 1500, 20000, 3_000_000, 1e-5, -0.5]
    assert [number_text(value) for value in values] == ["0", "0.25", "1,500", "20 k", "3 M", "1e-5", "-0.5"]
