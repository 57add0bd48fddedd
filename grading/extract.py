"""Finds the answer in a completion.

Order of trust: the last box; an explicit phrase ("the answer is ..."); the `####` marker; and, if lenient, the last
mathematics or number of the final line. Only text after the last `</think>` counts. A completion that opens a box and
leaves it empty or unfinished has withdrawn its answer: nothing else in it is tried, so a truncated or retracted
solution is never paid for an earlier intermediate result.

Strict extraction (`lenient=False`) stops before the guesses. Reinforcement learning should use it, since a guess pays
a model for naming a number anywhere.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from grading.normalise import closing_brace

MAX_CHARACTERS = 1_000_000  # of a completion: the end counts
MAX_STATEMENT = 4_000  # characters read behind a phrase or a marker
REASONING_END = "</think>"
BOXED = "boxed"

BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
BARE_BOX = re.compile(r"[ ]*(-?\d[\d.,]*\d|-?\d|\\[A-Za-z]+|[A-Za-z](?![A-Za-z]))")
CODE = re.compile(r"^```[^\n]*\n.*?(?:^```|\Z)|`[^`\n]{1,300}`", re.S | re.M)
PHRASE = re.compile(r"\banswer[*_]{0,3}[ \t]{0,4}(?:\bis\b|:|=|to the problem is\b)[*_]{0,3}[ \t]{0,4}:?", re.I)
FILLER = re.compile(
    r"[\s*_]*(?:(?:therefore|thus|then|hence|simply|just|clearly|indeed|now|equal to|given by)\b[,:\s]*)*", re.I
)
MATHEMATICS = re.compile(r"\$\$(.+?)\$\$|(?<!\\)\$((?:[^$\\]|\\.)+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.S)
EXCLAMATION = r"(?:(?<=[A-Za-z]{2})|(?<=[^\w)}\]!]))!"  # behind a number, a letter or a bracket it is a factorial
SENTENCE_END = re.compile(rf"\n|(?:[.?]|{EXCLAMATION})(?:(?=\s|\Z)|(?=[A-Z][a-z]))|(?<=!)(?=\s+[A-Z][a-z])")
CLOSING = re.compile(rf"[.,;:*_`]|{EXCLAMATION}")
MARKER = "####"
NUMBER = re.compile(
    r"(?<![\w^{}\\/*+.,!()-])-?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?%?(?![\w^{}\\/*+!(]|[.,]\d)"
)


@dataclass(frozen=True, slots=True)
class Extraction:
    """An answer and the strategy that found it: `boxed`, `answer phrase`, `marker`, `last mathematics`, `last number`."""

    answer: str
    strategy: str


def extract_answer(completion: str) -> str | None:
    """The answer that a completion states, or None."""
    found = extract(completion)
    return found.answer if found else None


def extract(completion: str, *, lenient: bool = True) -> Extraction | None:
    """The answer with the strategy that found it, or None where the completion states none. Linear in its length."""
    text = completion[-MAX_CHARACTERS:]
    text = text[text.rfind(REASONING_END) + len(REASONING_END) if REASONING_END in text else 0 :]
    boxed, has_box = last_box(text)
    if has_box:
        return Extraction(boxed, BOXED) if boxed else None
    strategies = [("answer phrase", after_phrase), ("marker", after_marker)]
    if lenient:
        strategies += [("last mathematics", last_mathematics), ("last number", last_number)]
    for name, strategy in strategies:
        answer = strategy(text)
        if answer:
            return Extraction(answer, name)
    return None


def last_box(text: str) -> tuple[str | None, bool]:
    """The content of the last box, and whether there is a box at all.

    A box inside code (a comment, or an instruction repeated in backquotes) counts only where there is no other. The
    bare word `\\boxed` inside a sentence is no box; at the very end it is one that was cut off.
    """
    spans = code_spans(text) if "`" in text else []
    boxes = [match.end() for match in BOX.finditer(text)]
    inside = set(contained(boxes, spans))
    for candidates in ([end for end in boxes if end not in inside], [end for end in boxes if end in inside]):
        for end in reversed(candidates):
            content, is_box = box_content(text, end)
            if is_box:
                return content, True
    return None, False


def code_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in CODE.finditer(text)]


def contained(positions: list[int], spans: list[tuple[int, int]]) -> Iterator[int]:
    """The positions that lie inside one of the sorted, disjoint spans; both lists are walked once."""
    index = 0
    for position in positions:
        while index < len(spans) and spans[index][1] <= position:
            index += 1
        if index < len(spans) and spans[index][0] <= position:
            yield position


def box_content(text: str, end: int) -> tuple[str | None, bool]:
    start = end
    while start < len(text) and text[start] in " \t\n":
        start += 1
    if start == len(text):
        return None, True
    if text[start] == "{":
        close = closing_brace(text, start)
        return (text[start + 1 : close].strip() or None, True) if close >= 0 else (None, True)
    bare = BARE_BOX.match(text, end)
    return (bare.group(1), True) if bare else (None, False)


def after_phrase(text: str) -> str | None:
    """What the last "answer is" or "answer:" announces: the mathematics behind it, or the rest of its sentence."""
    last = None
    for match in PHRASE.finditer(text):
        last = match
    return statement(text[last.end() : last.end() + MAX_STATEMENT]) if last else None


def statement(text: str) -> str | None:
    text = text[skip.end() :] if (skip := FILLER.match(text)) else text
    mathematics = MATHEMATICS.match(text)
    if mathematics is None:
        end = SENTENCE_END.search(text)
        sentence = text[: end.start()] if end else text
        return tidy(MATHEMATICS.sub(inner, sentence))
    rest = text[mathematics.end() :]
    end = SENTENCE_END.search(rest)
    sentence = rest[: end.start()] if end else rest
    if re.match(r"\s*(?:,|and\b|or\b|,\s*and\b)", sentence) and MATHEMATICS.search(sentence):
        return tidy(inner(mathematics) + MATHEMATICS.sub(inner, sentence))
    return tidy(inner(mathematics))


def inner(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group is not None).strip()


def tidy(answer: str) -> str | None:
    """Without Markdown marks and closing punctuation; None if nothing is left."""
    answer = answer.strip().strip("*_`").strip()
    while answer and CLOSING.match(answer, len(answer) - 1) and not answer.endswith("\\!"):
        answer = answer[:-1].rstrip()
    return answer or None


def after_marker(text: str) -> str | None:
    """The line behind the last `####`, as GSM8K solutions end."""
    place = text.rfind(MARKER)
    if place < 0:
        return None
    line = text[place + len(MARKER) : place + MAX_STATEMENT].split("\n", 1)[0]
    return tidy(MATHEMATICS.sub(inner, line))


def final_line(text: str) -> str:
    return text[-MAX_STATEMENT:].rstrip().rpartition("\n")[2]


def last_mathematics(text: str) -> str | None:
    """The last delimited mathematics of the final line."""
    found = None
    for match in MATHEMATICS.finditer(final_line(text)):
        found = tidy(inner(match))
    return found


def last_number(text: str) -> str | None:
    """The last number that stands by itself in the final line; digits inside a formula are not an answer."""
    line = final_line(text)
    numbers = [] if r"\end{" in line else NUMBER.findall(line)  # an entry of a matrix is no answer
    return numbers[-1] if numbers else None
