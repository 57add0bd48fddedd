"""The page in a real browser: no error, no request, filters, search, keys, hostile texts, wide and narrow.

Needs the extra `browser`, and a Chromium on the path or named by MATHLETE_CHROMIUM.
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from tests.pipelines.folders import evaluation_run, problem, sample
from tests.pipelines.report.test_report import HOSTILE

playwright = pytest.importorskip("playwright.sync_api")
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
CHROMIUM = os.environ.get("MATHLETE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path, nor in MATHLETE_CHROMIUM")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

LATEX = (
    r"Since $x^2 = \frac{9}{4}$, \[x = \sqrt{\frac{9}{4}} = \frac{3}{2}\] it costs $5 and $6 today; "
    r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} so \boxed{\dfrac{3}{2}}. And $\frac{1$ is broken."
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield found
        found.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """500 problems, among them one of LaTeX, one of hostile text, and ones of a megabyte."""
    problems = [problem(number) for number in range(500)]
    special = {
        1: LATEX,
        2: HOSTILE * 30,
        3: "word " * 200_000,
        4: "x" * 1_000_000,
        5: "$" + "{" * 5000,
        6: r"\sqrt{ \[ $$ \begin{matrix} " * 1900,
    }
    verdicts = ("correct", "wrong", "wrong", "unparsed", "timeout")
    rows = [
        sample(
            each,
            verdict=verdicts[place % 5],
            completion=special.get(place, f"Number {place}: " + "because " * 150),
            finish_reason="length" if place % 10 == 9 else "eos",
        )
        for place, each in enumerate(problems)
    ]
    folder = evaluation_run(tmp_path_factory.mktemp("report") / "run", problems, rows)
    assert main(["report", str(folder), "--quiet"]) == 0
    return folder / "report.html"


@pytest.fixture
def complaints() -> list[str]:
    return []


def opened(
    browser: Any, report: Path, complaints: list[str], *, width: int = 1280, scheme: str = "light", at: str = ""
) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
    address = report.as_uri()
    page.on("console", lambda message: complaints.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    page.on(
        "request", lambda request: request.url.split("#")[0] == address or complaints.append(f"request: {request.url}")
    )
    page.goto(address + at)
    return page


def test_it_opens_at_once_without_an_error_or_a_request(browser: Any, report: Path, complaints: list[str]) -> None:
    assert report.stat().st_size < 5e6
    page = opened(browser, report, complaints)
    assert int(page.get_attribute("html", "data-ready")) < 2000
    assert page.inner_text("#count") == "500 of 500 samples"
    assert complaints == []


def test_filters_and_search_show_what_they_say(browser: Any, report: Path, complaints: list[str]) -> None:
    page = opened(browser, report, complaints)
    counts = {}
    for tag in ("wrong", "timeout", "truncated"):
        page.click(f'#chips button[data-tag="{tag}"]')
        counts[tag] = page.inner_text("#count")
    assert counts == {name: f"{n} of 500 samples" for name, n in (("wrong", 200), ("timeout", 100), ("truncated", 50))}
    page.select_option('select[data-field="subject"]', "Geometry")
    page.select_option('select[data-field="level"]', "5")
    assert page.inner_text("#count") == "50 of 500 samples"
    page.click('#chips button[data-tag=""]')
    page.select_option('select[data-field="subject"]', "")
    page.select_option('select[data-field="level"]', "")
    page.keyboard.press("/")
    page.keyboard.type("NUMBER 123:")
    playwright.expect(page.locator("#count")).to_have_text("1 of 500 samples")
    page.keyboard.press("Enter")
    assert page.inner_text("#detail strong") == "p123"
    page.fill("#search", "no such text")
    playwright.expect(page.locator("#count")).to_have_text("0 of 500 samples")
    assert page.inner_text("#detail") == "Nothing fits these filters."
    assert complaints == []


def test_it_can_be_read_by_keyboard(browser: Any, report: Path, complaints: list[str]) -> None:
    page = opened(browser, report, complaints)
    for key, name in (("j", "p1"), ("j", "p2"), ("k", "p1")):
        page.keyboard.press(key)
        assert page.inner_text("#detail strong") == name
    formulas = page.locator("#detail math").count()
    page.keyboard.press("s")
    assert formulas > 0 and page.locator("#detail .said math").count() == 0
    for _ in range(160):
        page.keyboard.press("j")
    assert page.inner_text("#detail strong") == "p161"
    assert page.evaluate("document.querySelector('#list [aria-current]').dataset.index") == "161"
    assert opened(browser, report, complaints, at="#p123%2F0").inner_text("#detail strong") == "p123"
    assert complaints == []


def test_formulas_are_set_and_what_is_broken_shows_its_source(
    browser: Any, report: Path, complaints: list[str]
) -> None:
    page = opened(browser, report, complaints, at="#p1%2F0")
    part = page.locator(".part .said")
    assert part.locator("mfrac").count() == 4
    assert part.locator("mtable mtr").count() == 2
    assert part.locator(".boxed").text_content() == "32"
    assert "costs $5 and $6" in part.inner_text()
    assert part.locator("code.tex").all_inner_texts() == [r"\frac{1"]
    assert complaints == []


@pytest.mark.parametrize("number", range(2, 7))
def test_hostile_completions_do_not_break_the_page(
    browser: Any, report: Path, complaints: list[str], number: int
) -> None:
    page = opened(browser, report, complaints, at=f"#p{number}%2F0")
    assert page.inner_text("#detail strong") == f"p{number}"
    for button in page.locator("#detail button.gap").all():
        start = time.monotonic()
        button.click()
        assert page.locator(".part .said").inner_text()
        assert time.monotonic() - start < 5
    assert page.evaluate("window.hacked") is None
    assert page.locator("#detail img, #detail script, #detail style").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("j")
    assert page.inner_text("#detail strong") == f"p{number + 1}"
    assert complaints == []


def test_it_fits_a_phone_and_follows_dark_mode(browser: Any, report: Path, complaints: list[str]) -> None:
    page = opened(browser, report, complaints, width=390, scheme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert not page.is_visible("#detail")
    page.click("#list button >> nth=2")
    assert page.is_visible("#detail") and page.evaluate("document.activeElement.className") == "back"
    page.keyboard.press("Escape")
    assert not page.is_visible("#detail")
    assert page.evaluate("document.activeElement.dataset.index") == "2"
    light = opened(browser, report, complaints, width=390)
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) != light.evaluate(ground)
    assert complaints == []
