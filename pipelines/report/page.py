"""A page in one file: style, scripts and data within it, and a policy that lets nothing else in."""

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

from pipelines.records.provenance import timestamp
from pipelines.report.browser import Browser

DEFAULT_MB = 5.0
"""Size of a page, where texts have to be shortened for it."""

SPARE_BYTES = 20_000

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
script-src $hashes; base-uri 'none'; form-action 'none'">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<header><div>$head</div></header>
<nav aria-label="Parts of the report"><div>$menu</div></nav>
<main>
$body
<footer>Written by mathlete at $time.</footer>
</main>
$scripts
</body>
</html>
""")

BROWSER = Template("""$notes
<div class="tools"><input type="search" id="search" placeholder="Search problems, completions, answers" \
aria-label="Search problems, completions and answers">$selects</div>
<div class="tools"><div class="chips" id="chips" role="group" aria-label="Show only"></div></div>
<p class="count" id="count" role="status"></p>
<div class="browser"><div class="list" id="list" role="group" tabindex="-1" aria-label="List"></div>
<article class="detail" id="detail"></article></div>
<p class="keys"><kbd>/</kbd> search &nbsp; <kbd>j</kbd> <kbd>k</kbd> next, previous &nbsp; <kbd>s</kbd> formulas or \
source &nbsp; <kbd>Esc</kbd> leave</p>
<noscript><p class="note">The list needs JavaScript. The samples are also in the run folder, one JSON line each.</p>\
</noscript>""")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: its place in the menu, its title, its HTML. Without HTML it is left out."""

    name: str
    title: str
    body: str


def page(
    title: str,
    head: str,
    sections: Sequence[Section],
    browser: Browser | None,
    appendix: Sequence[Section],
    max_mb: float,
) -> str:
    """The whole HTML: what was found, what to read, and the small print. Texts are shortened where the page would be
    larger than `max_mb`."""
    style, *codes = (_asset(name) for name in ("report.css", "math.js", "text.js", "report.js"))
    scripts = [f"<script>{code}</script>" for code in codes]
    samples = []
    if browser is not None:
        parts = [style, *scripts, head, *(each.body for each in [*sections, *appendix])]
        rest = sum(len(part.encode("utf-8", "replace")) for part in parts) + SPARE_BYTES
        data, shortened = browser.embedded(int(max_mb * 1e6) - rest)
        samples = [Section("samples", browser.noun.capitalize(), _browser(browser, shortened, max_mb))]
        scripts.insert(0, f'<script type="application/json" id="data">{data}</script>')
    shown = [each for each in [*sections, *samples, *appendix] if each.body]
    text = PAGE.substitute(
        hashes=" ".join(_hash(code) for code in codes),
        title=escape(title),
        style=style,
        head=head,
        menu="".join(f'<a href="#{each.name}">{escape(each.title)}</a>' for each in shown),
        body="\n".join(_html(each) for each in shown),
        time=escape(timestamp()),
        scripts="\n".join(scripts),
    )
    return text.encode("utf-8", "replace").decode()


def _html(part: Section) -> str:
    return f'<section id="{part.name}"><h2>{escape(part.title)}</h2>{part.body}</section>'


def _browser(browser: Browser, shortened: int, max_mb: float) -> str:
    fields: Mapping[str, Sequence[tuple[str, str]]] = {
        "group": [(str(place), name) for place, name in enumerate(browser.groups)] if len(browser.groups) > 1 else [],
        **{name: [(value, value) for value in values] for name, values in browser.facets().items()},
    }
    selects = "".join(_select(name, options) for name, options in fields.items() if len(options) > 1)
    notes = (
        f'<p class="note">{shortened:,} long completions are shortened in this file, to keep it below {max_mb:g} MB. '
        "Each says how much is missing; <code>--max-mb</code> allows more, and the run folder has everything.</p>"
        if shortened
        else ""
    )
    return BROWSER.substitute(notes=notes, selects=selects)


def _select(name: str, options: Sequence[tuple[str, str]]) -> str:
    every = {"group": "all parts", "subject": "all subjects", "level": "all levels"}[name]
    choices = "".join(
        f'<option value="{escape(value)}">{"level " if name == "level" else ""}{escape(text)}</option>'
        for value, text in options
    )
    return f'<select data-field="{name}" aria-label="{name}"><option value="">{every}</option>{choices}</select>'


def _asset(name: str) -> str:
    return files("pipelines.report").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(code: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
