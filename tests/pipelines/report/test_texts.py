"""Texts fit their budget, lose their middle only, and cannot leave the script element that holds them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pipelines.report.texts import common_limit, embedded_json, encoded_size, fitted

texts = st.lists(st.text(st.characters(), max_size=200), max_size=12)


@given(texts, st.integers(0, 2000))
def test_texts_fit_the_budget_and_keep_their_ends(given_texts: list[str], budget: int) -> None:
    short = fitted(given_texts, budget)
    quotes = 2 * len(short)
    assert sum(encoded_size(each.text) for each in short) <= max(budget, quotes)
    for text, each in zip(given_texts, short, strict=True):
        kept_after = len(each.text) - each.cut
        assert len(each.text) + each.omitted == len(text)
        assert text.startswith(each.text[: each.cut]) and text.endswith(each.text[each.cut :] if kept_after else "")


def test_nothing_is_cut_that_need_not_be() -> None:
    short = fitted(["a" * 10, "b" * 1000, "c" * 20], 200)
    assert [each.omitted > 0 for each in short] == [False, True, False]
    assert len(short[1].text) > 140
    assert [each.text for each in fitted(["a" * 10, "b" * 1000], 2000)] == ["a" * 10, "b" * 1000]


@given(st.lists(st.integers(0, 100)), st.integers(0, 3000))
def test_the_limit_is_the_largest_that_fits(sizes: list[int], budget: int) -> None:
    limit = common_limit(sizes, budget)
    assert sum(min(size, limit) for size in sizes) <= budget
    if limit < max(sizes, default=0):
        assert sum(min(size, limit + 1) for size in sizes) > budget


@given(st.text(st.characters()))
def test_what_is_embedded_is_read_back_and_cannot_end_a_script(text: str) -> None:
    written = embedded_json({"text": text})
    assert json.loads(written)["text"] == text
    assert not set("<>&\u2028\u2029") & set(written)
