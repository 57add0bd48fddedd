"""`mathlete bench peers engine` with a tiny model."""

import json
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.command import ROOT


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines", "bench", "peers", "engine", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)


def test_the_command_measures_a_row_names_a_missing_peer_and_prints_only_json(checkpoint: Path) -> None:
    done = bench(
        "--model", str(checkpoint), "--dtype", "float32", "--threads", "1", "--data", "builtin:mini", "--problems", "3",
        "--rounds", "1", "--row", "uniform-generate", "--row", "uniform-openvino", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    measured, missing = document["rows"]
    assert (measured["name"], missing["name"]) == ("uniform-generate", "uniform-openvino")
    assert measured["less_than_the_row"] == "3 of 64 prompts"
    ours, peer = measured["runs"].values()
    assert ours[0]["lengths"] == peer[0]["lengths"] == [64, 64, 64]
    assert ours[0]["engine"]["steps"] >= 64
    (finding,) = measured["findings"]
    assert finding["ratio"] == ours[0]["tokens_per_s"] / peer[0]["tokens_per_s"]
    assert "openvino-genai" in missing["missing"]
    assert document["machine"]["cores"] >= 1
    assert {"torch", "transformers"} <= set(document["machine"]["versions"])


def test_mistakes_are_named_before_anything_runs(tmp_path: Path) -> None:
    done = bench("--gguf", str(tmp_path / "none.gguf"), "--json")
    assert done.returncode == json.loads(done.stdout)["exit_code"] == 2
    assert "none.gguf: no such file" in done.stderr
    done = bench("--row", "unheard-of")
    assert done.returncode == 2
    assert "uniform-generate" in done.stderr
    done = bench("extra.setting=1")
    assert done.returncode == 2
    assert "extra.setting=1" in done.stderr
    assert "Traceback" not in done.stderr
