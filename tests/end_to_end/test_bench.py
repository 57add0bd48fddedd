"""`mathlete bench` with a tiny model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.command import ROOT


def bench(
    *words: str, what: tuple[str, ...] = ("peers", "engine"), seconds: float = 240
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipelines", "bench", *what, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)


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


def test_the_table_goes_into_a_run_folder_with_what_the_machine_is(checkpoint: Path, tmp_path: Path) -> None:
    words = ("--model", str(checkpoint), "--data", "builtin:mini", "--row", "distillation", "--threads", "1")
    done = bench(*words, "--minutes", "0.01", "--dir", str(tmp_path / "run"), what=("table",))
    assert done.returncode == 0, done.stderr
    assert "distillation" in done.stdout and f"run folder: {tmp_path / 'run'}" in done.stdout
    kept = json.loads((tmp_path / "run" / "bench.json").read_text())
    assert (kept["bench"], kept["format"], kept["model"]) == ("table", 1, str(checkpoint))
    (row,) = kept["rows"]
    (finding,) = row["findings"]
    sides = finding["details"]["sides"]
    assert finding["low"] <= finding["ratio"] <= finding["high"]
    assert sides["batched"]["batch"] == 16 and sides["one by one"]["batch"] == 1
    for side in sides.values():
        assert side["peak_resident"] > 50 * 2**20 and side["peak_device"] is None and side["limit_share"] > 0
        assert side["seconds"]["low"] < side["seconds"]["value"] < side["seconds"]["high"]
    assert kept["machine"]["cores"] >= 1 and kept["machine"]["command"].startswith("mathlete bench table")


@pytest.mark.soak
def test_advised_settings_run_and_the_next_larger_fail(checkpoint: Path, tmp_path: Path) -> None:
    """Also with `mathlete eval` itself, the driver, Ray and all, which is not limited."""
    words = ("--model", str(checkpoint), "--dtype", "float32", "--limit-gib", "0.9", "--context", "512")
    done = bench(*words, "--dir", str(tmp_path / "run"), "--json", what=("memory",), seconds=1800)
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout)["rows"]:
        probes = row["runs"]["probes"]
        (finding,) = row["findings"]
        known = {probe["size"]: probe for probe in probes}
        assert known[finding["ours"]]["fits"], row["name"]
        assert known[finding["ours"]]["private"] <= 0.9 * 2**30
        if row["name"] != "context":
            assert not known[finding["peer"]]["fits"] and known[finding["peer"]]["reason"], row["name"]


@pytest.mark.soak
def test_continuous_batching_serves_more_at_equal_latency(tmp_path: Path) -> None:
    words = ("--model", "mathlete-tiny", "--data", "builtin:arithmetic", "--seconds", "20", "--json")
    done = bench(*words, "--dir", str(tmp_path / "run"), what=("batching",), seconds=1800)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    judged = [finding for finding in row["findings"] if finding["target"] is not None]
    assert [finding["target"] for finding in judged] == [1.5, 2.0]
    assert all(finding["ratio"] > 1 for finding in judged)
    assert "<svg" in (tmp_path / "run" / "latency-math.svg").read_text()


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
    done = bench("--model", "nowhere/there-is", "--data", "builtin:mini", "--json", what=("table",))
    assert done.returncode == json.loads(done.stdout)["exit_code"] != 0
    assert "nowhere" in done.stderr
    done = bench("--actors", "2", what=("scaling",))
    assert done.returncode == 2 and "--actors" in done.stderr
    assert "Traceback" not in done.stderr
