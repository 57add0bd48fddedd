"""What `mathlete submit` refuses before anything is sent, and what it would send."""

from pathlib import Path

import pytest

from pipelines.cli import main
from pipelines.config import ConfigError
from pipelines.dispatch.package import LIMIT_BYTES, read_package
from pipelines.submit import job_environment

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder as a user would submit it, with a program, a configuration and things that git or Ray leave out."""
    for name, text in {
        "pipelines/__main__.py": "",
        "configs/eval.yaml": "data: problems.jsonl\nmodel: mathlete-tiny\nrun:\n  dir: /shared/runs/x\n",
        "problems.jsonl": "{}",
        "secret/problems.jsonl": "{}",
        ".gitignore": "/secret/\n",
        ".rayignore": "*.safetensors\n!kept.safetensors\n",
        "big.safetensors": "x" * 1000,
        "kept.safetensors": "x" * 10,
        ".git/HEAD": "ref",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def dry_run(folder: Path, *words: str, options: tuple[str, ...] = ()) -> int:
    job = words or ("eval", "--config", "configs/eval.yaml")
    return main(["submit", "--dry-run", "--working-dir", str(folder), *options, "--", *job])


def test_the_package_is_what_git_and_ray_do_not_leave_out(checkout: Path) -> None:
    package = read_package(checkout)
    expected = {"pipelines/__main__.py", "configs/eval.yaml", "problems.jsonl", "kept.safetensors"}
    assert set(package.files) == expected | {".gitignore", ".rayignore"}
    assert set(read_package(checkout, ["configs/"]).files) == set(package.files) - {"configs/eval.yaml"}
    assert package.holds("./configs")
    assert not package.holds("config")


def test_the_size_is_that_of_the_archive_that_ray_makes(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from ray._private.runtime_env.packaging import create_package

    archive = tmp_path_factory.mktemp("archive") / "package.zip"
    create_package(str(checkout), archive, include_gitignore=True, excludes=[".git"])
    assert 0 <= archive.stat().st_size - read_package(checkout).size < 200


def test_this_checkout_is_far_below_the_limit_and_holds_the_model_that_it_ships() -> None:
    package = read_package(ROOT)
    assert package.size < LIMIT_BYTES / 4
    assert package.holds("actors/models/tiny/model.safetensors")
    assert package.holds("configs/cluster/runtime_env.yaml")


def test_a_package_above_the_limit_is_refused_with_its_largest_files(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sparse(checkout / "weights.bin", 95 << 20)
    sparse(checkout / "data.bin", 12 << 20)
    assert dry_run(checkout) == 2
    err = capsys.readouterr().err
    assert err.index("95.0 MiB  weights.bin") < err.index("12.0 MiB  data.bin")
    assert ".rayignore" in err
    (checkout / ".rayignore").write_text("*.bin\n")
    assert dry_run(checkout) == 0


def test_what_would_be_sent_is_shown(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dry_run(checkout, "eval", "--config", "configs/eval.yaml", "--limit", "3", "prompt.system=a b") == 0
    err = capsys.readouterr().err
    assert "entrypoint   python -m pipelines eval --config configs/eval.yaml --limit 3 'prompt.system=a b'" in err
    assert "RAY_JOB_STOP_WAIT_TIME_S=30" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("eval", "--config", "configs/evil.yaml"), "no such configuration file; there is eval.yaml"),
        (("eval", "--config", "configs/eval.yaml", "sampling.temprature=1"), "did you mean 'temperature'?"),
        (("eval", "--config", "configs/eval.yaml", "--limt", "3"), "unknown option --limt"),
        (("grade", "x"), "cannot be submitted"),
        (("eval", "--config", "configs/eval.yaml", "run.dir=runs/x"), "run.dir: must be an absolute path"),
        (("eval", "--config", "configs/eval.yaml", "run.dir="), "run.dir: must be an absolute path"),
        (
            ("eval", "--config", "configs/eval.yaml", "data=secret/problems.jsonl"),
            "data.source: secret/problems.jsonl is",
        ),
        (("eval", "--config", "configs/eval.yaml", "data=../p.jsonl"), None),
    ],
)
def test_a_job_that_could_only_fail_is_not_sent(
    checkout: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str | None
) -> None:
    assert dry_run(checkout, *words) == (2 if told else 0)
    assert (told or "entrypoint") in capsys.readouterr().err


def test_a_folder_without_the_program_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dry_run(tmp_path, "eval", "run.dir=/shared/x") == 2
    assert "holds no pipelines/__main__.py" in capsys.readouterr().err
    assert dry_run(tmp_path / "none", "eval", "run.dir=/shared/x") == 2
    assert "no such folder" in capsys.readouterr().err


def test_the_environment_is_that_of_the_file_with_what_the_shell_and_the_command_line_say(tmp_path: Path) -> None:
    file = tmp_path / "env.yaml"
    file.write_text("env_vars:\n  RAY_JOB_STOP_WAIT_TIME_S: 60\n  A: file\n  WANDB_MODE: offline\npip: [x]\n")
    shell = {"WANDB_PROJECT": "maths", "WANDB_MODE": "online", "WANDB_API_KEY": "key", "HOME": "/home/me", "B": "shell"}
    found = job_environment(tmp_path, file, ["A=word", "B"], shell)
    assert found["pip"] == ["x"]
    assert found["env_vars"] == {
        "RAY_JOB_STOP_WAIT_TIME_S": "60",
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_PROJECT": "maths",
        "WANDB_MODE": "offline",
        "A": "word",
        "B": "shell",
    }


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "HUGGING_FACE_HUB_TOKEN"]
)
def test_a_secret_is_refused_wherever_it_stands_and_its_value_is_not_shown(tmp_path: Path, name: str) -> None:
    file = tmp_path / "env.yaml"
    file.write_text(f"env_vars:\n  {name}: hunter2\n")
    for given in ((file, []), (None, [f"{name}=hunter2"]), (None, [name])):
        with pytest.raises(ConfigError, match=f"{name}: looks like a secret") as caught:
            job_environment(tmp_path, *given, {name: "hunter2"})
        assert "hunter2" not in str(caught.value)


def test_where_a_secret_lies_may_be_said(tmp_path: Path) -> None:
    found = job_environment(tmp_path, None, ["HF_TOKEN_PATH=/s/hf", "NETRC=/s/netrc"], {})
    assert found["env_vars"]["HF_TOKEN_PATH"] == "/s/hf"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- a", "must hold Ray's runtime environment"),
        ("a: [", "not valid YAML"),
        ("working_dir: x", "--working-dir says"),
    ],
)
def test_a_broken_environment_file_is_explained(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "env.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=told):
        job_environment(tmp_path, file, [], {})


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--env NOWHERE: is not set in this shell"):
        job_environment(tmp_path, None, ["NOWHERE"], {})
