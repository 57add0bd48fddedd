"""The report of a run: complete, escaped, within its size, at any moment of the run."""

import hashlib
import json
import os
import subprocess
import sys
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from tests.pipelines.folders import evaluation_run, problem, sample, training_run

HOSTILE = (
    '</script><script>window.hacked = 1</script><img src="https://example.org/x.png" onerror="window.hacked = 2">'
    r"<!--<style>*{display:none}</style> $\frac{1}{2 \left( \begin{matrix} \boxed{ "
    "\u202eעברית \u2066 עוד\u2028\u2029\x00\x1b[31m \ud800 "
)


class Page(HTMLParser):
    """The tags of a page, its texts, and what stands in its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.scripts: dict[str, str] = {}
        self.policy = ""
        self.text = ""
        self._script: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]
        if known.get("http-equiv") == "Content-Security-Policy":
            self.policy = known["content"] or ""
        if tag == "script":
            self._script = known.get("id") or f"script {len(self.scripts)}"

    def handle_endtag(self, tag: str) -> None:
        self._script = None if tag == "script" else self._script

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data
        else:
            self.text += data

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.scripts["data"])


def report_of(folder: Path, *words: str) -> Page:
    assert main(["report", str(folder), *words]) == 0
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_an_evaluation_is_told_in_full(tmp_path: Path) -> None:
    problems = [problem(number) for number in range(6)]
    verdicts = ["correct", "wrong", "unparsed", "timeout", "error", "correct"]
    rows = [sample(each, verdict=verdict) for each, verdict in zip(problems, verdicts, strict=True)]
    rows[1] = sample(problems[1], verdict="wrong", finish_reason="length")
    page = report_of(evaluation_run(tmp_path / "run", problems, rows))
    assert "33.3%" in page.text and "2 of 6 correct" in page.text
    for part in (
        "Algebra",
        "Geometry",
        "level 3",
        "unparsed 1",
        "Length of completions",
        "generator-0",
        "mathlete eval",
    ):
        assert part in page.text, part
    items = page.data["items"]
    tags = [[page.data["tags"][tag] for tag in item[3]] for item in items]
    assert tags == [["correct"], ["wrong", "truncated"], ["unparsed"], ["timeout"], ["error"], ["correct"]]
    assert page.data["problems"][2] == ["p2", "What is $2 + 2$?", "4", "Algebra", 3]
    assert [item[4][0][5] for item in items] == [row.completion for row in rows]


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    bad = problem(1, id=HOSTILE, problem=HOSTILE, answer=HOSTILE, subject=HOSTILE)
    rows = [sample(bad, completion=HOSTILE, answer=HOSTILE, reason=HOSTILE, actor=HOSTILE, verdict="wrong")]
    folder = evaluation_run(tmp_path / "run", [bad], rows)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["model"]["name"] = manifest["config"]["data"]["source"] = HOSTILE
    manifest["provenance"]["command"] = manifest["created"] = HOSTILE
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "events.jsonl").write_text(json.dumps({"time": 1.0, "worker": HOSTILE, "kind": HOSTILE, "text": HOSTILE}))
    page = report_of(folder)
    assert list(page.scripts) == ["data", "script 1", "script 2", "script 3"]
    assert not {"img", "iframe", "object", "base", "form"} & set(page.tags)
    assert page.tags.count("style") == 1 + page.tags.count("svg")
    assert all(address.startswith(("#", "data:,")) for address in page.addresses)
    assert page.data["items"][0][4][0][5] == HOSTILE.replace("\ud800", "?")


def test_only_the_pages_own_scripts_may_run_and_nothing_may_be_fetched(tmp_path: Path) -> None:
    page = report_of(evaluation_run(tmp_path / "run", [problem(1)], [sample(problem(1))]))
    codes = [code for name, code in page.scripts.items() if name != "data"]
    for code in codes:
        assert f"'sha256-{b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" in page.policy
    assert "default-src 'none'" in page.policy and "unsafe-inline" not in page.policy.split("script-src")[1]


def test_a_run_in_progress_says_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems = [problem(number) for number in range(8)]
    folder = evaluation_run(tmp_path / "run", problems, [sample(each) for each in problems[:3]], status=None)
    with (folder / "samples.jsonl").open("a") as journal:
        journal.write('{"problem_id": "still being wri')
    page = report_of(folder)
    assert "3 of 8 samples" in page.text and "interrupted" in page.text
    assert len(page.data["items"]) == 3
    assert "3 of 8 samples" in capsys.readouterr().err


def test_long_completions_are_shortened_to_the_size_that_is_asked_for(tmp_path: Path) -> None:
    problems = [problem(number) for number in range(40)]
    rows = [sample(each, completion=f"begin {'ab<' * 50_000} end") for each in problems]
    folder = evaluation_run(tmp_path / "run", problems, rows)
    page = report_of(folder, "--max-mb", "1")
    assert 900_000 < (folder / "report.html").stat().st_size <= 1_000_000
    assert "40 long completions are shortened" in page.text
    _, _, _, _, _, text, cut, omitted = page.data["items"][0][4][0]
    assert text.startswith("begin ") and text.endswith(" end") and 0 < cut < len(text)
    assert len(text) + omitted == len(rows[0].completion)
    assert "shortened" not in report_of(folder, "--max-mb", "40").text


def test_a_training_run_has_curves_evaluations_and_rollouts(tmp_path: Path) -> None:
    page = report_of(training_run(tmp_path / "run"))
    for part in ("Reward", "Accuracy on held-out problems", "+66.7", "something/else"):
        assert part in page.text, part
    assert "Distance from the reference" not in page.text, "a metric that is never a number has no chart"
    groups = page.data["groups"]
    assert groups == [
        "evaluation after 4 steps",
        "evaluation after 0 steps",
        *(f"rollouts of step {n}" for n in (1, 2, 3, 4)),
    ]
    assert sum(item[1] == 2 for item in page.data["items"]) == 4
    assert "reward 1" in page.data["items"][-1][4][0][4]


def test_a_supervised_run_has_its_evaluations(tmp_path: Path) -> None:
    folder = training_run(tmp_path / "run")
    for name in ("rollouts.jsonl", "problems.jsonl"):
        (folder / name).unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["distill"] = manifest["config"].pop("grpo")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    page = report_of(folder)
    assert "Supervised training" in page.text
    assert page.data["groups"] == ["evaluation after 4 steps", "evaluation after 0 steps"]


def test_a_run_without_anything_yet_has_a_report(tmp_path: Path) -> None:
    assert "data" not in report_of(evaluation_run(tmp_path / "eval", [problem(1)], [], status=None)).scripts
    assert "data" not in report_of(training_run(tmp_path / "grpo", done=-1, status=None)).scripts


def test_where_it_is_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = evaluation_run(tmp_path / "run", [problem(1)], [sample(problem(1))])
    assert main(["report", str(folder), "--json", "--output", str(tmp_path / "here.html")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (
        told["report"] == str(tmp_path / "here.html") and told["size_bytes"] == (tmp_path / "here.html").stat().st_size
    )
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nowhere"], 2, "no run there"),
        (["{run}", "--max-mb", "0"], 2, "--max-mb"),
        (["{run}", "--output", "{run}/missing/report.html"], 1, "cannot write"),
    ],
)
def test_mistakes_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
) -> None:
    folder = evaluation_run(tmp_path / "run", [problem(1)], [sample(problem(1))])
    assert main(["report", *(word.format(run=folder) for word in words)]) == code
    assert message in capsys.readouterr().err


def test_a_broken_journal_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = evaluation_run(tmp_path / "run", [problem(1)], [sample(problem(1))])
    (folder / "samples.jsonl").write_text("{}\n")
    assert main(["report", str(folder)]) == 1
    assert "samples.jsonl:1" in capsys.readouterr().err
    assert not (folder / "report.html").exists()


def test_500_problems_of_8_samples_take_seconds_and_little_memory(tmp_path: Path) -> None:
    problems = [problem(number) for number in range(500)]
    text = "Let us think step by step. " * 80
    for name, shift in (("a", 0), ("b", 1)):
        rows = [
            sample(each, index, "correct" if (place + index + shift) % 3 else "wrong", completion=text)
            for place, each in enumerate(problems)
            for index in range(8)
        ]
        evaluation_run(tmp_path / name, problems, rows, n=8)
    code = (
        "import re, sys, time; from pathlib import Path; from pipelines.cli import main; code = main(sys.argv[1:]);"
        "peak = re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text());"  # rusage has the parent's as well
        "print(code, time.process_time(), int(peak[1]) / 1024, 'torch' in sys.modules, 'ray' in sys.modules, file=sys.stderr)"
    )
    for words in (
        ["report", tmp_path / "a"],
        ["compare", tmp_path / "a", tmp_path / "b", "--html", tmp_path / "c.html"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, words), "--quiet"],
            capture_output=True,
            text=True,
            env=os.environ,
            check=True,
        )
        exit_code, seconds, peak_mb, *heavy = done.stderr.split()
        assert exit_code == "0"
        assert float(seconds) < 10 and float(peak_mb) < 500
        assert heavy == ["False", "False"], "reading a run needs neither torch nor Ray"
    assert (tmp_path / "a" / "report.html").stat().st_size < 5e6
