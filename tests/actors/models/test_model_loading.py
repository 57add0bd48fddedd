import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from actors.models import (
    ModelError,
    ModelSpec,
    context_length,
    load_model,
    load_tokenizer,
    read_config,
    resolve_model,
)
from actors.models.loading import choose_dtype
from tests.actors.engine.tiny import CONFIGS, save_checkpoint, tiny_model

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_checkpoint(tmp_path / "model")


def change_config(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def change_weights(folder: Path, **tensors: torch.Tensor | None) -> None:
    path = folder / "model.safetensors"
    weights = {**load_file(path), **tensors}
    save_file({name: tensor for name, tensor in weights.items() if tensor is not None}, path, {"format": "pt"})


def run_python(code: str, **environment: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


# Import


@pytest.mark.parametrize("module", ["actors.models", "actors.engine"])
def test_importing_loads_neither_torch_nor_transformers_nor_ray(module: str) -> None:
    code = f"import sys, {module}; print([name for name in ('torch', 'transformers', 'ray') if name in sys.modules])"
    assert run_python(code) == "[]"


# What loads


def test_loaded_model_is_the_saved_one_with_its_facts(folder: Path) -> None:
    loaded = load_model(ModelSpec(str(folder), dtype="float32", device="cpu"))
    original = tiny_model("llama")
    assert all(torch.equal(a, b) for a, b in zip(loaded.model.parameters(), original.parameters(), strict=True))
    assert not loaded.model.training
    assert (loaded.device, loaded.dtype, loaded.attention) == (CPU, torch.float32, "sdpa")
    assert (loaded.context_length, loaded.eos_token_ids, loaded.revision) == (512, {2}, None)
    assert loaded.num_parameters == sum(parameter.numel() for parameter in original.parameters())
    assert loaded.tokenizer.decode(loaded.tokenizer("é 1+1").input_ids) == "é 1+1"


@pytest.mark.parametrize("architecture", ["gpt2", "qwen3", "gemma3_window_8", "bloom"])
def test_other_architectures_load(architecture: str, tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "model", architecture)
    loaded = load_model(ModelSpec(str(folder), dtype="float32", device="cpu"))
    assert loaded.model.config.model_type == CONFIGS[architecture]().model_type


@pytest.mark.parametrize(("name", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_dtype_is_what_was_asked_for(folder: Path, name: str, dtype: torch.dtype) -> None:
    loaded = load_model(ModelSpec(str(folder), dtype=name, device="cpu"))
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {dtype}


def test_auto_dtype_is_bfloat16_only_where_the_processor_computes_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    assert choose_dtype("auto", CPU) == torch.bfloat16
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": False})
    assert choose_dtype("auto", CPU) == torch.float32


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_attention_is_what_was_asked_for(folder: Path, attention: str) -> None:
    assert load_model(ModelSpec(str(folder), device="cpu", attention=attention)).attention == attention


def test_auto_attention_is_one_that_knows_the_models_soft_cap(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path / "model", "gemma2_window_8")
    loaded = load_model(ModelSpec(str(folder), device="cpu", dtype="float32"))
    assert loaded.attention == "eager"
    assert loaded.model(torch.tensor([[1, 5, 6]])).logits.isfinite().all()


def test_a_path_may_be_relative(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    for name in ("model", "./model", str(folder)):
        assert resolve_model(name) == str(folder)


def test_context_length_is_read_without_loading_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")
    assert context_length(read_config(str(folder))) == 512


def test_hub_ids_pass_through() -> None:
    assert resolve_model("some-org/some-model", "main") == "some-org/some-model"
    assert resolve_model("gpt2") == "gpt2"


# What does not load, and why


@pytest.mark.parametrize(
    ("file", "text"),
    [("config.json", "it lacks config.json"), ("tokenizer.json", r"it lacks a tokenizer \(tokenizer.json\)")],
)
def test_a_folder_without_a_part_is_refused_by_the_parts_name(folder: Path, file: str, text: str) -> None:
    (folder / file).unlink()
    for attempt in (load_tokenizer, read_config, lambda path: load_model(ModelSpec(path))):
        with pytest.raises(ModelError, match=text):
            attempt(str(folder))


def test_weights_may_be_missing_only_where_they_are_not_read(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert load_tokenizer(str(folder)) is not None
    assert read_config(str(folder)).max_position_embeddings == 512
    for attempt in (resolve_model, lambda path: load_model(ModelSpec(path))):
        with pytest.raises(ModelError, match=r"it lacks weights \(model.safetensors\)"):
            attempt(str(folder))


def test_random_weights_are_those_of_their_seed_and_leave_torch_as_it_was(folder: Path) -> None:
    (folder / "model.safetensors").unlink()

    def weights(seed: int) -> dict[str, torch.Tensor]:
        return load_model(ModelSpec(str(folder), dtype="float32", init="random", init_seed=seed)).model.state_dict()

    before = torch.get_rng_state()
    first, again, other = weights(1), weights(1), weights(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(again[name], weight) for name, weight in first.items())
    name = "model.layers.0.mlp.up_proj.weight"
    assert not torch.equal(other[name], first[name]) and first[name].std() > 0


def test_random_weights_are_drawn_even_where_there_are_others(folder: Path) -> None:
    kept = load_model(ModelSpec(str(folder), dtype="float32")).model.state_dict()
    drawn = load_model(ModelSpec(str(folder), dtype="float32", init="random")).model.state_dict()
    name = "model.layers.0.mlp.up_proj.weight"
    assert not torch.equal(kept[name], drawn[name])


def test_an_empty_folder_lacks_everything(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks config.json, weights .*, a tokenizer"):
        resolve_model(str(tmp_path))


@pytest.mark.parametrize("name", ["./nowhere", "/no/where", "~/no_such_model", "a/b/c"])
def test_a_missing_folder_is_named(name: str) -> None:
    with pytest.raises(ModelError, match="there is no folder"):
        resolve_model(name)


def test_a_file_instead_of_a_folder_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="is a file"):
        resolve_model(str(folder / "model.safetensors"))


def test_a_revision_of_a_folder_is_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="has no revisions"):
        resolve_model(str(folder), "v1")


def test_unknown_architecture_is_named(folder: Path) -> None:
    change_config(folder, model_type="xyz", architectures=["XyzForCausalLM"])
    with pytest.raises(ModelError, match=r"does not know its architecture(.|\n)*xyz"):
        load_model(ModelSpec(str(folder)))


def test_a_model_that_is_no_language_model_is_refused(folder: Path) -> None:
    change_config(folder, model_type="vit", architectures=["ViTModel"])
    with pytest.raises(ModelError, match="not a causal language model"):
        load_model(ModelSpec(str(folder), device="cpu"))


def test_broken_config_and_weights_are_refused(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:5000])
    with pytest.raises(ModelError, match="its weights cannot be read"):
        load_model(ModelSpec(str(folder), device="cpu"))
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="not a valid JSON"):
        read_config(str(folder))


def test_broken_tokenizer_is_refused(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(ModelError, match="its tokenizer cannot be read"):
        load_tokenizer(str(folder))


NAME = "model.layers.0.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ({NAME: None}, f"missing from the files: {NAME}"),
        ({"extra.weight": torch.ones(2)}, "unknown to the architecture: extra.weight"),
        ({"model.norm.weight": torch.ones(3)}, r"of another shape: model.norm.weight \(file \(3,\), model \(32,\)\)"),
    ],
    ids=["missing", "unexpected", "mismatched"],
)
def test_weights_that_do_not_fit_are_an_error_not_a_warning(
    folder: Path, tensors: dict[str, torch.Tensor | None], text: str
) -> None:
    change_weights(folder, **tensors)
    with pytest.raises(ModelError, match=f"do not fit its config.json.*{text}"):
        load_model(ModelSpec(str(folder), device="cpu"))


def test_many_missing_tensors_are_counted_not_listed(folder: Path) -> None:
    change_config(folder, num_hidden_layers=4)
    with pytest.raises(ModelError, match="and 13 more"):
        load_model(ModelSpec(str(folder), device="cpu"))


def test_cuda_is_refused_where_there_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelError, match="torch finds no CUDA device here"):
        load_model(ModelSpec(str(folder), device="cuda"))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"device": "gpu0"}, "'gpu0' is no device"),
        ({"dtype": "int4"}, "'int4' is no dtype"),
        ({"attention": "nonsense"}, "attention 'nonsense' cannot be used"),
    ],
)
def test_unknown_choices_are_named(folder: Path, fields: dict[str, str], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        load_model(ModelSpec(str(folder), **{"device": "cpu", **fields}))


def test_attention_whose_package_is_missing_is_refused(folder: Path) -> None:
    if importlib.util.find_spec("flash_attn"):
        pytest.skip("the package is installed here")
    with pytest.raises(ModelError, match=r"attention 'flash_attention_2' cannot be used.*FlashAttention2"):
        load_model(ModelSpec(str(folder), device="cpu", attention="flash_attention_2"))


def test_an_unreachable_hub_is_said_to_be_so(tmp_path: Path) -> None:
    code = (
        "from actors.models import *\n"
        "try: load_tokenizer('some-org/none-such')\n"
        "except ModelError as error: print(error)"
    )
    said = run_python(code, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path))
    assert "some-org/none-such did not load: the model hub cannot be reached" in said
