"""The run folder: one writer, one set of result settings."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.records.run_folder import OtherConfiguration, RunFolderError, open_run_folder, resolve_run_folder

IDENTITY = {"model.name": "m", "sampling.seed": 0, "data.levels": ()}


def test_the_same_settings_are_known_again(tmp_path: Path) -> None:
    with open_run_folder(tmp_path / "run") as folder:
        assert not folder.claim(IDENTITY, {})
        assert folder.claim(IDENTITY, {})


def test_other_settings_are_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    with open_run_folder(tmp_path) as folder:
        folder.claim(IDENTITY, {})
        with pytest.raises(OtherConfiguration) as caught:
            folder.claim({**IDENTITY, "sampling.seed": 1, "data.limit": "5"}, {})
    text = str(caught.value)
    assert "sampling.seed: 0 there, 1 now" in text
    assert "data.limit: None there, '5' now" in text
    assert "model.name" not in text
    assert "run.dir" in text


def test_a_growing_setting_may_become_larger_and_the_manifest_says_when(tmp_path: Path) -> None:
    with open_run_folder(tmp_path) as folder:
        for size in (2, 4, 4, 8):
            folder.claim({**IDENTITY, "sampling.n": size}, {"by": size}, ["sampling.n"])
        manifest = json.loads(folder.manifest_path.read_text())
        assert manifest["identity"]["sampling.n"] == manifest["by"] == 8
        assert [(step["from"], step["to"]) for step in manifest["grown"]] == [(2, 4), (4, 8)]
        with pytest.raises(
            OtherConfiguration, match=r"more than that.*\n  sampling.n: 8 there, 4 now\nPut back .* larger"
        ):
            folder.claim({**IDENTITY, "sampling.n": 4}, {}, ["sampling.n"])
        with pytest.raises(OtherConfiguration) as caught:
            folder.claim({**IDENTITY, "sampling.n": 16, "sampling.seed": 1}, {}, ["sampling.n"])
        assert "sampling.seed: 0 there, 1 now" in str(caught.value)
        assert "sampling.n" not in str(caught.value)
        with pytest.raises(OtherConfiguration, match=r"sampling.n: 8 there, 16 now"):
            folder.claim({**IDENTITY, "sampling.n": 16}, {})
        assert json.loads(folder.manifest_path.read_text()) == manifest


def test_a_manifest_that_does_not_know_a_growing_setting_takes_it(tmp_path: Path) -> None:
    with open_run_folder(tmp_path) as folder:
        folder.claim(IDENTITY, {})
        assert folder.claim({**IDENTITY, "sampling.n": 1}, {}, ["sampling.n"])
        assert folder.claim({**IDENTITY, "sampling.n": 1}, {})


def test_samples_without_a_manifest_are_refused(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").write_text("{}\n")
    with open_run_folder(tmp_path) as folder, pytest.raises(RunFolderError, match=r"no manifest\.json"):
        folder.claim(IDENTITY, {})


def test_a_second_writer_is_refused_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    with (
        open_run_folder(tmp_path),
        pytest.raises(RunFolderError, match=f"live run .pid {os.getpid()} on"),
        open_run_folder(tmp_path),
    ):
        pass
    with open_run_folder(tmp_path):
        pass


def test_the_lock_goes_with_a_killed_holder_even_while_its_child_lives(tmp_path: Path) -> None:
    code = f"""
import subprocess, sys, time
from pathlib import Path
from pipelines.records.run_folder import open_run_folder
with open_run_folder(Path({str(tmp_path)!r})):
    child = subprocess.Popen(["sleep", "60"])
    print(child.pid, flush=True)
    time.sleep(60)
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    )
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        with pytest.raises(RunFolderError, match="live run"), open_run_folder(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with open_run_folder(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_folder_that_ray_will_delete_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "runtime_resources" / "working_dir_files" / "_ray_pkg_0123"
    package.mkdir(parents=True)
    monkeypatch.chdir(package)
    with pytest.raises(RunFolderError, match="absolute path on storage that outlives the job"):
        resolve_run_folder("eval", None)
    assert resolve_run_folder("eval", str(tmp_path / "out")) == tmp_path / "out"


def test_a_folder_is_below_runs_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve_run_folder("eval-x", None) == tmp_path / "runs" / "eval-x"


def test_a_place_where_no_folder_can_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(RunFolderError, match=r"cannot be used as run folder"),
        open_run_folder(tmp_path / "file" / "run"),
    ):
        pass


def test_a_replaced_file_is_whole_and_leaves_no_draft(tmp_path: Path) -> None:
    with open_run_folder(tmp_path) as folder:
        folder.write_json(folder.summary_path, {"a": 1})
        folder.write_json(folder.summary_path, {"a": 2})
        assert folder.summary_path.read_text() == '{\n  "a": 2\n}\n'
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
