"""The command itself, where no run is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.config import EvalConfig, load_config

ROOT = Path(__file__).parents[2]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines", *words], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_help_lists_every_setting() -> None:
    done = run("eval", "--help")
    assert done.returncode == 0
    assert "sampling.temperature=0.0" in done.stdout
    assert "cluster.stall_timeout_s=300.0" in done.stdout


def test_a_printed_configuration_is_the_resolved_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["eval", "model=x", "--limit", "10-20", "sampling.seed=3", "--subject", "Algebra", "--level", "5"]
    assert main([*words, "--print-config"]) == 0
    file = tmp_path / "resolved.yaml"
    file.write_text(capsys.readouterr().out)
    config = load_config(EvalConfig, str(file))
    assert (config.model.name, config.sampling.seed) == ("x", 3)
    assert (config.data.limit, config.data.subjects, config.data.levels) == ("10-20", ("Algebra",), (5,))


@pytest.mark.parametrize(
    ("words", "said"),
    [(["distill", "--from-run", "a"], "from_run: a"), (["grpo", "--rollouts-from", "a"], "rollouts_from: a")],
)
def test_a_run_to_learn_from_has_an_option(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main([*words, "--print-config"]) == 0
    assert said in capsys.readouterr().out


def test_overrides_may_stand_before_and_behind_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "model=x", "--limit", "5", "sampling.seed=3", "--print-config"]) == 0
    assert "seed: 3" in capsys.readouterr().out


def test_validate_tells_good_from_bad(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--config", str(ROOT / "configs" / "eval_math500.yaml")]) == 0
    assert main(["validate", "sampling.top_p=7"]) == 2
    assert "sampling.top_p" in capsys.readouterr().err


def test_a_reader_that_leaves_early_causes_no_traceback() -> None:
    done = subprocess.run(
        f"{sys.executable} -m pipelines eval --print-config | head -1",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "run:\n"
    assert "Traceback" not in done.stderr
