"""Every mistake gets a message in the user's words, its exit code, and no traceback."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.actors.engine.tiny import save_checkpoint
from tests.end_to_end.command import Result, mathlete, read_samples

ROW = {"unique_id": "a", "problem": "What is 1 + 1?", "answer": "2"}


def refused(done: Result, code: int, *parts: str) -> None:
    assert done.code == code, done.err
    assert "Traceback" not in done.err + done.out
    for part in parts:
        assert part in done.err


def rows(path: Path, *lines: str | dict) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_an_unknown_key_and_a_wrong_type_are_reported_together(tmp_path: Path) -> None:
    done = mathlete("sampling.temprature=1", "generation.batch_size=many")
    refused(done, 2, "did you mean 'temperature'?", "generation.batch_size: expected an integer, got 'many'")


def test_an_unknown_option_is_named() -> None:
    refused(mathlete("--temperature", "1"), 2, "--temperature")


def test_a_missing_configuration_file_is_named(tmp_path: Path) -> None:
    refused(mathlete("--config", str(tmp_path / "x.yaml")), 2, "x.yaml: no such configuration file")


def test_a_missing_problem_file_is_named(checkpoint: Path, tmp_path: Path) -> None:
    done = mathlete(f"model={checkpoint}", f"data={tmp_path}/none.jsonl", f"run.dir={tmp_path}/run")
    refused(done, 2, f"{tmp_path}/none.jsonl")


def test_a_broken_line_is_named_with_its_number(checkpoint: Path, tmp_path: Path) -> None:
    file = rows(tmp_path / "p.jsonl", ROW, '{"problem": "x", ')
    done = mathlete(f"model={checkpoint}", f"data={file}", f"run.dir={tmp_path}/run")
    refused(done, 2, "p.jsonl", "2")


def test_a_duplicate_id_is_named_with_both_places(checkpoint: Path, tmp_path: Path) -> None:
    file = rows(tmp_path / "p.jsonl", ROW, {**ROW, "problem": "What is 2 + 2?"})
    done = mathlete(f"model={checkpoint}", f"data={file}", f"run.dir={tmp_path}/run")
    refused(done, 2, "'a'", "1", "2")


def test_a_model_folder_without_weights_says_what_it_lacks(checkpoint: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoint, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    done = mathlete(f"model={tmp_path}/model", "data=builtin:mini", f"run.dir={tmp_path}/run")
    refused(done, 1, "no complete model", "weights")


def test_a_tokenizer_without_a_chat_template_is_refused_where_one_is_demanded(checkpoint: Path, tmp_path: Path) -> None:
    done = mathlete(f"model={checkpoint}", "data=builtin:mini", "prompt.chat=always", f"run.dir={tmp_path}/run")
    refused(done, 2, "has no chat template")


@pytest.mark.ray
def test_a_model_that_does_not_load_ends_the_run_with_its_reason(checkpoint: Path, tmp_path: Path) -> None:
    """The folder looks complete; only the actor finds that its weights are not."""
    shutil.copytree(checkpoint, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"not weights")
    done = mathlete(f"model={tmp_path}/model", "data=builtin:mini", f"run.dir={tmp_path}/run")
    refused(done, 1, f"{tmp_path}/model")


@pytest.mark.ray
def test_more_gpus_than_there_are_give_a_table_and_code_3(checkpoint: Path, tmp_path: Path) -> None:
    done = mathlete(
        f"model={checkpoint}", "data=builtin:mini", f"run.dir={tmp_path}/run", "generators.num_actors=3",
        "generators.gpus_per_actor=1", "cluster.local_gpus=1", "cluster.local_cpus=8", "cluster.object_store_mb=80",
    )  # fmt: skip
    refused(done, 3, "needed", "missing", "plan: 3 generator(s) with 1 GPU and 1 CPU each")


@pytest.mark.ray
def test_prompts_longer_than_the_context_are_errors_and_the_others_go_on(tmp_path: Path) -> None:
    model = save_checkpoint(tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 80}))
    file = rows(tmp_path / "p.jsonl", ROW, {**ROW, "unique_id": "long", "problem": "What is " + "1 + " * 200 + "1?"})
    words = [f"model={model}", f"data={file}", "prompt.template='{problem}'", f"run.dir={tmp_path}/run"]
    done = mathlete(*words, "sampling.max_new_tokens=8", "cluster.object_store_mb=80")
    refused(done, 4, "1 prompt(s) fill the model's context of 80 tokens", "long")
    by_id = {row["problem_id"]: row for row in read_samples(tmp_path / "run")}
    assert by_id["long"]["verdict"] == "error"
    assert by_id["a"]["verdict"] != "error"
    assert "1 error" in done.out


@pytest.mark.ray
def test_a_full_disk_stops_the_run_with_advice_and_freed_space_lets_it_go_on(
    settings: list[str], tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("a small disk can only be mounted as root")
    try:
        done = mathlete(*settings, f"run.dir={disk}/run")
        refused(done, 1, "No space left on device", "everything recorded before is safe", "same command")
        kept = len(read_samples(disk / "run"))
        assert 0 < kept < 40
        subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
        again = mathlete(*settings, f"run.dir={disk}/run", "--json")
        assert (again.code, again.json["n"]) == (0, 40), again.err
        assert f"{kept} of 40" in again.err
    finally:
        subprocess.run(["umount", str(disk)], check=True)
