"""One spelling for one answer: characters, delimiters, spacing and wrappers that carry no mathematical meaning.

Everything here rewrites strings and is linear in their length; nothing is evaluated. Rules that need to know what a
symbol means (units, lists, intervals) live with the readers instead, because a substring rule damages its neighbours:
the unit "ft" stands inside `\\left`, and a comma may separate thousands or list items.
"""

import re
import unicodedata

from grading.unreadable import Unreadable

MAX_CHARACTERS = 2_000  # the longest MATH-500 answer has 53

SUPERSCRIPTS = {"⁰": "0", "¹": "1", "²": "2", "³": "3", "⁴": "4", "⁵": "5", "⁶": "6", "⁷": "7", "⁸": "8", "⁹": "9"}
SUPERSCRIPTS |= {"⁻": "-", "⁺": "+", "ⁿ": "n"}
SUBSCRIPTS = {"₀": "0", "₁": "1", "₂": "2", "₃": "3", "₄": "4", "₅": "5", "₆": "6", "₇": "7", "₈": "8", "₉": "9"}
VULGAR_FRACTIONS = {
    character: r"\frac{" + unicodedata.normalize("NFKC", character).replace("⁄", "}{") + "}"
    for character in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"
}
SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "×": r"\times ", "⋅": r"\cdot ", "·": r"\cdot ", "∙": r"\cdot ", "÷": r"\div ",
    "√": r"\sqrt ", "∛": r"\sqrt[3] ", "∞": r"\infty ", "°": r"^\circ ", "∘": r"\circ ", "±": r"\pm ", "∓": r"\mp ",
    "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ",
    "∈": r"\in ", "∪": r"\cup ", "∩": r"\cap ", "∖": r"\setminus ", "∅": r"\emptyset ", "ø": r"\emptyset ",
    "ℝ": r"\mathbb{R}", "⟨": r"\langle ", "⟩": r"\rangle ", "′": "'", "“": '"', "”": '"', "‘": "'", "’": "'",
    "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ", "…": r"\ldots ", "→": r"\to ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\epsilon ", "θ": r"\theta ",
    "λ": r"\lambda ", "μ": r"\mu ", "π": r"\pi ", "ρ": r"\rho ", "σ": r"\sigma ", "τ": r"\tau ", "φ": r"\phi ",
    "¢": r"\text{ cents}", "ω": r"\omega ", "Δ": r"\Delta ",
}  # fmt: skip
ZERO_WIDTH = {"\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": ""}
CHARACTERS = str.maketrans(VULGAR_FRACTIONS | SYMBOLS | ZERO_WIDTH)

RAISED = re.compile(f"[{''.join(SUPERSCRIPTS)}]+")
LOWERED = re.compile(f"[{''.join(SUBSCRIPTS)}]+")
SEPARATED_THOUSANDS = re.compile(r"(?<=\d)(?:,\s?\\[!,;: ]|\{,\}(?:\\!)?|\\[!,;: ]|\\thinspace\b)\s*(?=\d{3}(?!\d))")
SPACED_THOUSANDS = re.compile(r"-?[1-9]\d{0,2}(?: \d{3})+(?:\.\d+)?")
SIZING = re.compile(r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])\s*(?:\.(?!\d))?")
STYLE = re.compile(r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|hfill|mathstrut|strut)(?![A-Za-z])")
SPACING = re.compile(r"(?<!\\)\\[,;:> ]|\\(?:quad|qquad|enspace|thinspace|space)(?![A-Za-z])|~|[ \t\r\n\f\v]+")
PHANTOM = re.compile(r"\\[hv]?phantom\s*(?:\{[^{}]*\}|.)|\\hspace\*?\{[^{}]*\}|\\label\{[^{}]*\}|\\tag\{[^{}]*\}")
TYPED_DEGREE = re.compile(r"(?<=\d)\s*\^\s*(?:o|\{\s*o\s*\})(?![A-Za-z])")  # `60^o`
ROW_GAP = re.compile(r"\\\\\s*\[[^\[\]]{0,20}\]")  # `\\[4pt]` between the rows of a matrix
PLAIN_UNION = re.compile(r"(?<=[)\]])\s*U\s*(?=[(\[])")
COLOUR = re.compile(r"\\(?:text)?color\s*\{[^{}]*\}")
ANSWER_IS = r"(?:so|thus|hence|therefore|and)?,?\s*(?:the\s+)?(?:final\s+|correct\s+)?answer\s*(?:is|:|=)\s*:?\s*"
LEAD_IN = re.compile(rf"\\text\s*\{{\s*{ANSWER_IS}\}}\s*|{ANSWER_IS}", re.I)
FRACTION_STYLES = re.compile(r"\\[dtc]frac(?![A-Za-z])")
WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"), ('"', '"'), ("*", "*"))
WRAPPING_MACRO = re.compile(r"\\(?:boxed|fbox|ensuremath|mathbf|boldsymbol|bm|textbf|underline|mathit|bf|rm)\s*\{")
BRACE = re.compile(r"\\.|[{}]", re.S)
TEXT_MACRO = re.compile(r"\\(?:text(?:bf|it|rm|sf|tt|sc|up|md|normal)?|mbox|hbox|math(?:rm|bf|it|sf|tt|cal))\s*")


def clean(text: str) -> str:
    """The answer without delimiters, layout and typographic variants.

    Raises `Unreadable` for text beyond `MAX_CHARACTERS`: every later step is bounded by this one.
    """
    text = text.strip()
    if len(text) > MAX_CHARACTERS:
        raise Unreadable("too long")
    text = fold_characters(text)
    text = SEPARATED_THOUSANDS.sub("", text)
    text = ROW_GAP.sub(r"\\\\", PHANTOM.sub("", text))
    text = SIZING.sub("", STYLE.sub("", COLOUR.sub("", text)))
    text = SPACING.sub(" ", text.replace(r"\!", ""))
    text = TYPED_DEGREE.sub(r"^\\circ ", text)
    text = PLAIN_UNION.sub(r"\\cup ", text)
    text = FRACTION_STYLES.sub(r"\\frac", text)
    text = unwrap(text)
    if SPACED_THOUSANDS.fullmatch(text):  # `1 000`: the whole answer only, since `1 000` may also separate two values
        text = text.replace(" ", "")
    return text


def fold_characters(text: str) -> str:
    """Unicode mathematics as LaTeX, and compatibility forms (full-width or bold digits, ligatures) as plain letters."""
    text = RAISED.sub(lambda run: "^{" + "".join(SUPERSCRIPTS[c] for c in run.group()) + "}", text)
    text = LOWERED.sub(lambda run: "_{" + "".join(SUBSCRIPTS[c] for c in run.group()) + "}", text)
    return unicodedata.normalize("NFKC", text.translate(CHARACTERS))


def unwrap(text: str) -> str:
    """The text inside delimiters, boxes, bold marks and braces that hold all of it, without closing punctuation."""
    for _ in range(12):  # each turn removes one layer; deeper wrapping is not an answer anybody writes
        before = text
        text = strip_punctuation(text)
        for opening, closing in WRAPPERS:
            inner = text[len(opening) : -len(closing)]
            if len(text) > len(opening + closing) - 1 and text.startswith(opening) and text.endswith(closing):
                escaped = closing == "$" and inner.endswith("\\")
                if opening not in inner and closing not in inner and not escaped:
                    text = inner.strip()
                    break
        macro = WRAPPING_MACRO.match(text) or re.match(r"\{", text)
        if macro and closing_brace(text, macro.end() - 1) == len(text) - 1:
            text = text[macro.end() : -1].strip()
        lead_in = LEAD_IN.match(text)
        if lead_in:
            text = text[lead_in.end() :]
        if text == before:
            break
    return text


def strip_punctuation(text: str) -> str:
    """Without the full stop, comma or stray backslash that ends a sentence rather than an answer.

    An ellipsis stays: `0.333...` is another number than `0.333`.
    """
    text = text.strip()
    while text and text[-1] in ".,;\\" and not text.endswith(("..", r"\.", r"\;", r"\,")):
        text = text[:-1].rstrip()
    return text


def closing_brace(text: str, start: int) -> int:
    """Index of the brace that closes the one at `start`, or -1. Escaped braces (`\\{`) are characters of a set."""
    depth = 0
    for match in BRACE.finditer(text, start):
        if match.group() == "{":
            depth += 1
        elif match.group() == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return -1


def spelling(text: str) -> str:
    """A cleaned answer without blanks, except where a blank keeps two numbers or words apart. Same spelling, same
    answer: braces stay, because `\\frac{1}{23}` and `\\frac{12}{3}` differ in nothing else.
    """
    return re.sub(r" (?=\W)|(?<=[^\w\s]) ", "", text).strip()


def words(text: str) -> str:
    """A cleaned answer as plain words: no text macros, brackets round a choice letter, articles, or capitals."""
    plain = re.sub(r"[{}()\[\]$*\"]|\\ ", " ", TEXT_MACRO.sub("", text))
    plain = re.sub(r"\s+", " ", plain).strip(" .,:;").casefold()
    return re.sub(r"^(?:an?|the) (?=\w\w)(?!and\b|or\b)", "", plain)
