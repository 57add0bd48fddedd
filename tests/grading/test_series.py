import pytest

from grading import is_equivalent


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("55", r"\sum_{k=1}^{10} k"),
        ("120", r"\prod_{j=1}^{5} j"),
        (r"\sum_{j=1}^{n} j^2", r"\sum_{k=1}^{n} k^2"),
        (r"\int_0^1 t^2\,dt", r"\int_{0}^{1} x^2 dx"),
        (r"1+\sum_{k=1}^{3} 2^k", r"\sum_{k=0}^{3} 2^k"),
        (r"\int x\,dx", r"\int x \mathrm{d}x"),
    ],
)
def test_a_series_is_its_value_or_the_same_series_with_another_variable(answer, gold):
    assert is_equivalent(answer, gold).correct


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (r"\sum_{k=1}^{10} k", "55"),
        (r"\int_0^1 x^2\,dx", r"\frac13"),
        (r"\int_0^1 x^2\,dx", r"\int_0^2 x^2\,dx"),
        (r"\int x\,dx", r"\int y\,dy"),
        (r"\sum_{k=1}^{n} k", r"\sum_{k=1}^{m} k"),
        (r"\sum_{k=1}^{3} k + 1", r"\sum_{k=1}^{3} (k + 1)"),
    ],
)
def test_a_series_never_answers_for_its_value_or_for_another_series(answer, gold):
    assert not is_equivalent(answer, gold).correct
