"""Whether an answer is equivalent to the gold answer.

Value decides, and so do the things that notation fixes: open or closed ends, order inside brackets, the base of a
numeral, names and case of variables. Order in lists and sets, left-out units and left-out names of variables do not.
Every rule accepts only what it recognises on both sides; anything else is wrong.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from grading.constants import same_family
from grading.equality import equal
from grading.kinds import (
    Answer,
    Collection,
    Colon,
    Congruence,
    Group,
    Labelled,
    MatrixAnswer,
    Numeral,
    Quantity,
    Relation,
    SetOperation,
    Text,
)
from grading.normalise import MAX_CHARACTERS, TEXT_MACRO, clean, spelling, words
from grading.quantities import (
    match_base_ten,
    match_numerals,
    match_omitted_base,
    match_quantities,
)
from grading.read import read_answer
from grading.realset import real_set, same_set
from grading.relations import equation, match_equations, match_relations
from grading.unreadable import Unreadable
from grading.verdict import Outcome, Verdict

# `(B) 12`: a choice letter with the text of its option, which names no second choice.
OPTION = re.compile(r"(?:\\text[a-z]*\{)?\(([A-Za-z])\)\}?(?!.*(?:\b(?:and|or)\b|\([A-Za-z]\)|[,;]))\s")
PROSE = re.compile(r"[\w {}.,:;'()-]*[^\W\d_]{3}[\w {}.,:;'()-]*")
ENUMERATION = re.compile(r",? and |, ?")
CHOICE_WORD = re.compile(r"(?:\b(?:option|choice)\s+)(?=\(?[A-Za-z]\)?\W*$)", re.I)


def is_equivalent(answer: str, gold: str) -> Verdict:
    """The verdict on `answer` against `gold`: correct, wrong, or unparsed where either cannot be read and their
    spellings differ.

    Identical spelling passes whether it can be read or not. Bounded in time and memory by the limits on what is read,
    but it runs in a child process (`GradingProcess`) where a stranger wrote the answer. Verdicts are remembered.
    """
    if not answer.strip():
        return Verdict(Outcome.UNPARSED, "empty answer", answer)
    if max(len(answer), len(gold)) > MAX_CHARACTERS:  # and too long to be remembered
        same = answer.strip() == gold.strip()
        return Verdict(Outcome.CORRECT if same else Outcome.UNPARSED, "same text" if same else "too long", answer)
    return verdict_on(answer, gold)


@lru_cache(maxsize=4096)
def verdict_on(answer: str, gold: str) -> Verdict:
    """The verdict on an answer of bounded length."""
    if spelling(clean(answer)) == spelling(clean(gold)):
        return Verdict(Outcome.CORRECT, "same text", answer)
    try:
        gold_value = read_answer(gold)
    except Unreadable:
        same = is_prose(gold) and is_prose(answer) and words(clean(answer)) == words(clean(gold))
        outcome = Outcome.CORRECT if same else Outcome.UNPARSED
        return Verdict(outcome, "same words" if same else "gold answer cannot be read", answer)
    if is_same_text(answer, gold, gold_value):
        return Verdict(Outcome.CORRECT, "same words", answer)
    try:
        value = read_answer(answer)
    except Unreadable as fault:
        return Verdict(Outcome.UNPARSED, str(fault), answer)
    reason = match(value, gold_value)
    return Verdict(Outcome.CORRECT if reason else Outcome.WRONG, reason or f"not the same {kind(gold_value)}", answer)


def kind(answer: Answer) -> str:
    return {
        Quantity: "value", Numeral: "numeral", Group: "tuple or interval", Collection: "set of values",
        SetOperation: "set", Relation: "relation", Labelled: "value", Congruence: "congruence", MatrixAnswer: "matrix",
        Colon: "ratio or time", Text: "words",
    }[type(answer)]  # fmt: skip


def is_same_text(answer: str, gold: str, gold_value: Answer) -> bool:
    """Words are compared as words, without case or article. A choice letter may carry its option behind it, and a
    bare letter in the gold answer keeps its case: `A` names a choice or a variable, and `a` another one.
    """
    plain_gold, plain = words(clean(gold)), words(clean(answer))
    if isinstance(gold_value, Text):
        if plain == plain_gold:
            return True
        if CHOICE_WORD.sub("", plain) == CHOICE_WORD.sub("", plain_gold):
            return True
        option = OPTION.match(clean(answer))
        return option is not None and option.group(1).casefold() == plain_gold
    bare = gold.strip(" ()$.")
    if len(bare) == 1 and bare.isalpha():
        return CHOICE_WORD.sub("", plain) == plain_gold and bare in CHOICE_WORD.sub("", clean(answer))
    return False


def is_prose(text: str) -> bool:
    """Whether a text is words and numbers without mathematics, such as `\\text{June 5}`."""
    return PROSE.fullmatch(TEXT_MACRO.sub("", clean(text))) is not None


def match(answer: Answer, gold: Answer) -> str:
    """The rule under which the two are equivalent, as a short phrase; empty where none applies."""
    names, gold_names = named_values(answer), named_values(gold)
    if names and gold_names:
        same = names.keys() == gold_names.keys() and all(match(names[name], gold_names[name]) for name in names)
        return "equal values by name" if same else ""
    if isinstance(answer, Labelled) or isinstance(gold, Labelled):
        return match_labelled(answer, gold)
    rule = RULES.get((type(answer), type(gold)))
    if rule is not None and (reason := rule(answer, gold)):
        return reason
    return match_sets(answer, gold)


def named_values(answer: Answer) -> dict[str, Answer]:
    """What each name stands for in `x = 1, y = 2` and `(x, y) = (1, 2)`; empty for anything else, and where a name
    has two values."""
    if isinstance(answer, Labelled) and isinstance(answer.value, Group) and answer.value.brackets == "()":
        names = answer.label.strip("()").split(",")
        return dict(zip(names, answer.value.items, strict=True)) if len(names) == len(answer.value.items) > 1 else {}
    if isinstance(answer, Collection) and len(answer.items) > 1:
        named = {item.label: item.value for item in answer.items if isinstance(item, Labelled)}
        return named if len(named) == len(answer.items) else {}
    return {}


def match_labelled(answer: Answer, gold: Answer) -> str:
    """A name in front may be left out, but two different names are two different answers, unless both are the same
    equation (`y = -2x`, `x = -y/2`)."""
    if isinstance(answer, Labelled) and isinstance(gold, Labelled):
        same_label = answer.label == gold.label
        if same_label and (reason := match(answer.value, gold.value)):
            return reason
        values = answer.value, gold.value
        if same_label and all(isinstance(value, Quantity) for value in values):
            first, second = (value.value for value in values if isinstance(value, Quantity))
            if same_family(first, second, gold.label):
                return "equal up to the names of constants"
        return match_equations(equation(answer), equation(gold))
    if isinstance(answer, Relation) or isinstance(gold, Relation):
        return match_equations(equation(answer), equation(gold)) or match_sets(answer, gold)
    plain = answer.value if isinstance(answer, Labelled) else answer
    return match(plain, gold.value if isinstance(gold, Labelled) else gold)


def match_groups(answer: Group, gold: Group) -> str:
    if answer.brackets != gold.brackets or len(answer.items) != len(gold.items):
        return ""
    return "equal components" if all(map(match, answer.items, gold.items)) else ""


def match_unbracketed(answer: Collection, gold: Group) -> str:
    """A point's brackets may be left out, and its coordinates named: `x = 15, y = -29`."""
    if answer.braces or gold.brackets != "()" or len(answer.items) != len(gold.items):
        return ""
    names = [item.label for item in answer.items if isinstance(item, Labelled)]
    if names and (len(set(names)) != len(answer.items) or names != sorted(names)):
        return ""
    return "equal components" if all(map(match, answer.items, gold.items)) else ""


def match_collections(answer: Collection, gold: Collection) -> str:
    """The same values in any order, each as often. Named values keep their order where only one side names them."""
    if len(answer.items) != len(gold.items):
        return ""
    if names_differ(answer, gold):
        if answer.braces or gold.braces:  # a set has no order to tell which name takes which value
            return ""
        return "equal values in order" if all(map(match, answer.items, gold.items)) else ""
    rest = list(gold.items)
    for item in answer.items:
        found = next((index for index, other in enumerate(rest) if match(item, other)), None)
        if found is None:
            return ""
        del rest[found]
    return "same set of values"


def names_differ(answer: Collection, gold: Collection) -> bool:
    """Whether one side gives its values several names and the other none."""
    labels = [{item.label for item in side.items if isinstance(item, Labelled)} for side in (answer, gold)]
    return max(map(len, labels)) > 1 and min(map(len, labels)) == 0


def match_singleton(answer: Answer, gold: Answer) -> str:
    """A set with one element, where the other side states the element."""
    for collection in (answer, gold):
        if isinstance(collection, Collection) and collection.braces and len(collection.items) == 1:
            (element,) = collection.items
            same = match(element, gold) if collection is answer else match(answer, element)
            return "single element" if same else ""
    return ""


def match_matrices(answer: MatrixAnswer, gold: MatrixAnswer) -> str:
    if answer.matrix.shape != gold.matrix.shape:
        return ""
    return "equal entries" if all(map(equal, answer.matrix, gold.matrix)) else ""


def match_vector(answer: Answer, gold: Answer) -> str:
    """A column vector and the point with the same coordinates: MATH writes vectors both ways. A row is no vector here,
    so that a row and a column stay two answers."""
    for vector, point in ((answer, gold), (gold, answer)):
        if isinstance(vector, MatrixAnswer) and isinstance(point, Group):
            if point.brackets != "()" or vector.matrix.shape != (len(point.items), 1):
                return ""
            same = all(
                isinstance(item, Quantity) and item.unit is None and not item.percent and equal(item.value, entry)
                for item, entry in zip(point.items, vector.matrix, strict=True)
            )
            return "same vector" if same else ""
    return ""


def match_congruences(answer: Congruence, gold: Congruence) -> str:
    """The same residues of the same modulus, in any order; a name may be left out."""
    if answer.name and gold.name and answer.name != gold.name:
        return ""
    same = answer.modulus == gold.modulus and set(answer.residues) == set(gold.residues)
    return "same congruence" if same else ""


def match_colons(answer: Colon, gold: Colon) -> str:
    """Times of day agree part by part. A ratio may be scaled, but only where it cannot be a time."""
    if len(answer.parts) != len(gold.parts):
        return ""
    if answer.half_of_day and gold.half_of_day and answer.half_of_day != gold.half_of_day:
        return ""
    if all(map(equal, answer.parts, gold.parts)):
        return "same ratio or time"
    may_be_times = (answer.clock or gold.clock) and not (answer.ratio or gold.ratio)
    if (
        may_be_times
        or bool(answer.half_of_day or gold.half_of_day)
        or any(part.is_zero for part in (*answer.parts, *gold.parts))
    ):
        return ""
    first, gold_first = answer.parts[0], gold.parts[0]
    scaled = all(equal(a * gold_first, b * first) for a, b in zip(answer.parts, gold.parts, strict=True))
    return "same ratio" if scaled else ""


def match_ratio(answer: Quantity, gold: Colon) -> str:
    """The fraction for a ratio of two numbers that cannot be a time of day."""
    if gold.clock or len(gold.parts) != 2 or gold.parts[1].is_zero or answer.unit is not None:
        return ""
    return "ratio as a fraction" if equal(answer.value, gold.parts[0] / gold.parts[1]) else ""


def match_texts(answer: Text, gold: Text) -> str:
    """The same words; several names between commas or `and` in any order."""
    if answer.words == gold.words:
        return "same words"
    names, gold_names = (sorted(ENUMERATION.split(side.words)) for side in (answer, gold))
    return "same names" if len(names) > 1 and names == gold_names else ""


def match_letters(answer: Answer, gold: Answer) -> str:
    """A choice letter, upright on one side and a capital variable on the other, as in `A, C` and `\\text{A, C}`."""
    text, other = (answer, gold) if isinstance(answer, Text) else (gold, answer)
    if not isinstance(text, Text) or not isinstance(other, Quantity) or not other.value.is_Symbol:
        return ""
    name = str(other.value)
    return "same letter" if name.isupper() and name.casefold() == text.words else ""


def match_operations(answer: SetOperation, gold: SetOperation) -> str:
    """Unions of sets without numeric ends, piece by piece in any order."""
    if set(answer.operators) != {"cup"} or set(gold.operators) != {"cup"}:
        same = answer.operators == gold.operators and all(map(match, answer.parts, gold.parts))
        return "same set" if same else ""
    return match_collections(Collection(answer.parts), Collection(gold.parts))


def match_sets(answer: Answer, gold: Answer) -> str:
    """The same set of reals written as an interval, a union, a difference or an inequality.

    Two brackets, or two lists, never get here with success: their own rules compare them as they stand.
    """
    if not any(isinstance(side, Relation | SetOperation) or joins_relations(side) for side in (answer, gold)):
        return match_singleton(answer, gold) if type(answer) is not type(gold) else ""
    left, right = real_set(answer), real_set(gold)
    return "same set" if left is not None and right is not None and same_set(left, right) else ""


def joins_relations(answer: Answer) -> bool:
    return isinstance(answer, Collection) and any(isinstance(item, Relation) for item in answer.items)


RULES: dict[tuple[type, type], Callable[..., str]] = {
    (Quantity, Quantity): match_quantities,
    (Numeral, Numeral): match_numerals,
    (Quantity, Numeral): match_omitted_base,
    (Numeral, Quantity): match_base_ten,
    (Group, Group): match_groups,
    (Collection, Group): match_unbracketed,
    (Collection, Collection): match_collections,
    (Relation, Relation): match_relations,
    (MatrixAnswer, MatrixAnswer): match_matrices,
    (MatrixAnswer, Group): match_vector,
    (Group, MatrixAnswer): match_vector,
    (Congruence, Congruence): match_congruences,
    (Colon, Colon): match_colons,
    (Quantity, Colon): match_ratio,
    (Text, Text): match_texts,
    (Quantity, Text): match_letters,
    (Text, Quantity): match_letters,
    (SetOperation, SetOperation): match_operations,
}
