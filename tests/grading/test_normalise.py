import pytest

from grading.normalise import MAX_CHARACTERS, clean, spelling, words
from grading.unreadable import Unreadable


@pytest.mark.parametrize(
    "wrapped",
    ["$42$", "$$42$$", r"\(42\)", r"\[42\]", "{42}", "`42`", "**42**", r"\boxed{42}", r"\textbf{42}", r"42\,", r"42 \quad",
     "42.", "42\\", r"\color{red}{42}", r"$\boxed{\mathbf{42}}$.", "the answer is 42", "４２", "𝟒𝟐", r"\displaystyle 42"],
)  # fmt: skip
def test_wrapping_does_not_change_an_answer(wrapped):
    assert clean(wrapped) == "42"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (r"10,\!080", "10080"),
        (r"11,\! 111,\! 100", "11111100"),
        ("1{,}204", "1204"),
        ("1 000", "1000"),
        (r"\left(1,2\right)", "(1,2)"),
        (r"\left\{1\right\}", r"\{1\}"),
        (r"\dfrac12", r"\frac12"),
        ("x²", "x^{2}"),
        ("3½", r"3\frac{1}{2}"),
    ],
)
def test_variants_of_one_spelling_become_one(text, cleaned):
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    "text", [r"\left\lfloor x\right\rfloor", r"\infty", r"(-\infty,5]", "0.333...", r"\{1\}, \{2\}"]
)
def test_letters_inside_macros_and_inner_delimiters_stay(text):
    assert spelling(clean(text)).replace(" ", "") == text.replace(r"\left", "").replace(r"\right", "").replace(" ", "")


def test_spelling_keeps_braces_and_number_boundaries_apart():
    assert spelling(r"\frac{1}{23}") != spelling(r"\frac{12}{3}")
    assert spelling("19 22") != spelling("1922")
    assert spelling("x + 1") == spelling("x+1")


def test_words_ignore_macros_case_articles_and_brackets():
    assert words(r"\text{An Ellipse}.") == words("ellipse")
    assert words(r"\text{(E)}") == words("E") == "e"


def test_overlong_text_is_refused_before_any_work():
    with pytest.raises(Unreadable):
        clean("1" + " " * MAX_CHARACTERS + "2")
