"""Rows as they are run: the same ids for all sides, in turn, and whoever is not there or fails is named."""

import io
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from actors.models import ModelSpec
from pipelines.bench import command, work
from pipelines.bench.contenders import OPENVINO, OURS, Contender, Setup
from pipelines.bench.engine import trial
from pipelines.bench.machine import machine_facts, version_in
from pipelines.bench.rounds import RowResult, measure
from pipelines.bench.rows import ROWS, Row
from pipelines.bench.table import result_table
from pipelines.bench.work import Supply, rotations, spread
from pipelines.terminal.console import Console

SUPPLY = Supply(
    tuple(tuple(3 + (place + step) % 97 for step in range(20 + place)) for place in range(150)), 8192, one_by_one=16
)
SCRIPT = """
import json, pathlib, sys
log, spec, seconds = pathlib.Path(sys.argv[1]), json.loads(pathlib.Path(sys.argv[2]).read_text()), sys.argv[3:]
with log.open("a") as file:
    print(json.dumps(spec), file=file)
calls = sum(json.loads(line)["settings"] == spec["settings"] for line in log.read_text().splitlines())
took = seconds[calls - 1]
if took == "crash":
    sys.exit("it broke")
work = spec["work"]
print(json.dumps({"lengths": [10] * len(work["prompts"]), "seconds": float(took), "peak_resident": 1}))
"""


@dataclass(frozen=True)
class ScriptedSetup(Setup):
    """Children that note what they are told and say that it took the next of `seconds`, by contender."""

    log: Path = Path()
    seconds: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def command(self, contender: Contender, spec_file: Path) -> list[str]:
        return [sys.executable, "-c", SCRIPT, str(self.log), str(spec_file), *dict(self.seconds)[contender.name]]

    def told(self) -> list[dict]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def scripted(tmp_path: Path, **seconds: str) -> ScriptedSetup:
    by_name = tuple((name.replace("_", " "), tuple(times.split())) for name, times in seconds.items())
    return ScriptedSetup(ModelSpec("nowhere"), 1, log=tmp_path / "log", seconds=by_name)


def measured(name: str, setup: Setup, rounds: int = 3, supply: Supply = SUPPLY) -> tuple[RowResult, str]:
    stream = io.StringIO()
    return measure(trial(ROWS[name], supply, setup), rounds, 30.0, Console(stream)), stream.getvalue()


def table(result: RowResult) -> str:
    return result_table([result], machine_facts("mathlete", 1, {}), ["torch"])


def test_all_sides_of_a_row_are_told_the_same_ids_and_run_in_turn(tmp_path: Path) -> None:
    setup = scripted(tmp_path, ours="1 1 1", transformers_generate="2 2 2")
    measured("problems-generate", setup)
    told = setup.told()
    assert all(spec["work"] == told[0]["work"] and spec["model"] == told[0]["model"] for spec in told)
    assert told[0]["work"]["prompts"] == [list(prompt) for prompt in SUPPLY.prompts[:128]]
    who = "".join("P" if "mode" in spec["settings"] else "o" for spec in told)
    assert who == "oPPooP"


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_all_sides_of_a_row_have_the_same_work_but_for_what_is_compared(row: Row) -> None:
    first, *others = (side.make(SUPPLY) for side in row.sides)
    for other in others:
        if row.name.endswith("-one-by-one"):
            assert set(other.prompts) <= set(first.prompts) and len(other.prompts) == 16
            assert replace(other, prompts=first.prompts, batch_size=first.batch_size, less="") == first
        elif row.name == "group":
            assert first.prompts == other.prompts[:1] and first.samples == len(set(other.prompts)) == 8
            assert {len(prompt) for prompt in other.prompts} == {len(first.prompts[0])}
            assert replace(other, prompts=first.prompts, samples=first.samples) == first
        else:
            assert other == first


def test_the_ratio_is_of_medians_over_the_rounds(tmp_path: Path) -> None:
    setup = scripted(tmp_path, ours="1 4 2", transformers_generate="8 6 10")
    result, _ = measured("uniform-generate", setup)
    (found,) = result.findings
    assert found.ratio == pytest.approx(8 / 2)
    assert (found.low, found.high) == (pytest.approx(6 / 4), pytest.approx(8 / 1))
    assert found.held and not result.trial.less
    assert [run["seconds"] for run in result.as_json()["runs"]["ours"]] == [1, 4, 2]


def test_a_peer_that_is_not_there_is_named_with_what_to_install(tmp_path: Path) -> None:
    setup = scripted(tmp_path, ours="1 1 1")
    result, said = measured("uniform-openvino", setup)
    assert not setup.log.exists(), "half of a row says nothing"
    for text in (said, table(result), result.as_json()["missing"]):
        assert "pip install openvino-genai" in text and "--openvino-python" in text


def test_an_interpreter_without_openvino_is_named() -> None:
    here = Path(sys.executable)
    assert version_in(here, "openvino_genai", "openvino-genai") is None
    assert version_in(here, "json", "pytest") == pytest.__version__
    setup = Setup(ModelSpec("x"), 1, openvino_python=here, openvino=None, gguf=Path("x.gguf"))
    assert str(here) in (setup.missing(OPENVINO) or "")
    assert "--gguf" in (replace(setup, openvino="1", gguf=None).missing(OPENVINO) or "")
    assert replace(setup, openvino="1").missing(OPENVINO) is None


def test_a_child_that_fails_ends_its_row_and_is_named_with_its_last_words(tmp_path: Path) -> None:
    result, said = measured("uniform-generate", scripted(tmp_path, ours="1 1 1", transformers_generate="1 crash 1"))
    assert result.failed is not None and not result.findings
    for text in (said, result.failed):
        assert "transformers generate, round 2: ended with exit code 1" in text and "it broke" in text
    assert "failed: transformers generate, round 2" in table(result)


def test_less_than_the_full_row_is_marked(tmp_path: Path) -> None:
    supply = replace(SUPPLY, prompts=SUPPLY.prompts[:3])
    result, _ = measured("uniform-generate", scripted(tmp_path, ours="1", transformers_generate="2"), 1, supply)
    assert "held *" in table(result) and "3 of 64 prompts" in table(result)


def test_a_context_that_is_too_short_leaves_the_other_rows_alone(tmp_path: Path) -> None:
    result, said = measured("growth", scripted(tmp_path, ours="1"), 1, replace(SUPPLY, context_length=200))
    assert result.trial.missing is not None and "context of 200 tokens" in said


def test_problems_one_by_one_are_evenly_spread() -> None:
    prompts = tuple((number,) for number in range(128))
    assert [ids[0] for ids in spread(prompts, 16)] == list(range(0, 128, 8))
    assert spread(prompts[:3], 16) == prompts[:3]


def test_rotations_are_different_and_of_one_length() -> None:
    made = rotations(((1, 2, 3), (4, 5, 6, 7, 8)), 8, 20)
    assert len(set(made)) == 8 and {len(prompt) for prompt in made} == {20}


def test_new_tokens_end_with_the_models_context() -> None:
    supply = replace(SUPPLY, context_length=300)
    made = work.problems(supply)
    assert made.max_new_tokens == 300 - max(map(len, made.prompts))
    assert f"{made.max_new_tokens} of 512 new tokens" in made.less


def test_foreign_children_run_by_path_and_import_nothing_of_the_project() -> None:
    setup = Setup(ModelSpec("x"), 1, openvino_python=Path("ov/bin/python"))
    python, script, spec = setup.command(OPENVINO, Path("spec.json"))
    assert (python, spec) == ("ov/bin/python", "spec.json")
    assert not {"pipelines", "actors"} & {word.split(".")[0] for word in Path(script).read_text().split()}
    assert setup.command(OURS, Path("spec.json"))[1:3] == ["-m", "pipelines.bench.children.ours"]


def test_the_list_names_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    command.list_rows(ROWS)
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()] == list(ROWS)
