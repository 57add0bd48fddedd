"""Costs by known models' published sizes, bounds by hand."""

import os
import time
from pathlib import Path

import pytest
import torch
import transformers
from transformers import PreTrainedModel

from actors.engine import machine as machine_module
from actors.engine.continuous.attention.layer import AttentionLayer
from actors.engine.continuous.build import ContinuousOptions, _costs
from actors.engine.limits import Costs, Limits, Work
from actors.engine.machine import KEPT_S, Machine, known_machine, measure_machine
from actors.engine.requests import SamplingParams
from tests.actors.engine.cases import prompts
from tests.actors.engine.continuous.engines import continuous
from tests.actors.engine.tiny import tiny_model


def on_paper(config: transformers.PreTrainedConfig) -> PreTrainedModel:
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


SMOLLM2 = transformers.LlamaConfig(
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_hidden_layers=30,
    num_attention_heads=9,
    num_key_value_heads=3,
    tie_word_embeddings=True,
)
QWEN3 = transformers.Qwen3Config(
    vocab_size=151936,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    tie_word_embeddings=True,
)


@pytest.mark.parametrize(
    ("config", "heads", "weights_gb", "linear_millions", "head_millions", "kv_bytes", "context_flop"),
    [
        (SMOLLM2, (9, 3, 64), 0.269, 106.2, 28.3, 23_040, 69_120),
        (QWEN3, (16, 8, 128), 1.192, 440.4, 155.6, 114_688, 229_376),
    ],
    ids=["smollm2-135m", "qwen3-0.6b"],
)
def test_costs_of_known_models(
    config: transformers.PreTrainedConfig,
    heads: tuple[int, int, int],
    weights_gb: float,
    linear_millions: float,
    head_millions: float,
    kv_bytes: int,
    context_flop: int,
) -> None:
    layer = AttentionLayer(heads[0], heads[1], heads[2], heads[2], 1.0)
    costs = _costs(on_paper(config), [layer] * config.num_hidden_layers)
    assert costs.weight_bytes / 1e9 == pytest.approx(weights_gb, abs=5e-4)
    assert costs.token_flop / 2e6 == pytest.approx(linear_millions, rel=2e-3)
    assert costs.logit_flop / 2e6 == pytest.approx(head_millions, rel=2e-3)
    assert (costs.kv_bytes, costs.context_flop) == (kv_bytes, context_flop)


def test_a_head_of_its_own_is_read_and_the_embedding_is_not() -> None:
    tied, untied = (
        on_paper(transformers.LlamaConfig(**{**SMOLLM2.to_dict(), "tie_word_embeddings": tie})) for tie in (True, False)
    )
    layers = [AttentionLayer(9, 3, 64, 64, 1.0)] * 30
    assert _costs(tied, layers) == _costs(untied, layers)


def test_the_bound_is_the_slower_of_moving_and_multiplying() -> None:
    costs = Costs(weight_bytes=1000, kv_bytes=10, token_flop=100, logit_flop=50, context_flop=2)
    work = Work(tokens=4, logit_rows=3, kv_tokens=70, attention_pairs=80)
    assert Limits(Machine(1.0, 1e9), costs).seconds(work) == 1000 + 700
    assert Limits(Machine(1e9, 1.0), costs).seconds(work) == 400 + 150 + 160


def test_an_engine_counts_its_work_by_the_definition() -> None:
    """Three prompts of one token budget, then decoding: sums over steps, worked out from lengths alone."""
    machine = Machine(1.0, 1e30)
    engine = continuous(tiny_model("llama"), token_budget=1000, machine=machine, eos_token_ids=[])
    lengths, made = [5, 9, 20], 6
    engine.generate(prompts(lengths), SamplingParams(max_new_tokens=made))
    costs = engine._limits.costs  # type: ignore[union-attr]
    contexts = sum(length + step for length in lengths for step in range(made))
    assert engine.progress.least_s == pytest.approx(made * costs.weight_bytes + contexts * costs.kv_bytes)
    assert engine.progress.steps == made
    assert engine.progress.row_steps == 3 * made
    assert engine.progress.place_steps == 7 * made
    assert engine.progress.busy_s > 0


def test_a_machine_is_measured_in_sensible_units() -> None:
    machine = measure_machine(torch.device("cpu"), torch.float32)
    assert 1e8 < machine.bytes_per_s < 1e13
    assert 1e8 < machine.flop_per_s < 1e15


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Machine]:
    """An empty cache folder, and what was measured since."""
    made: list[Machine] = []

    def measure(device: torch.device, dtype: torch.dtype) -> Machine:
        made.append(Machine(1e9 + len(made), 1e12))
        return made[-1]

    monkeypatch.setenv("MATHLETE_CACHE", str(tmp_path))
    monkeypatch.setattr(machine_module, "measure_machine", measure)
    return made


CPU = torch.device("cpu")


def test_a_machine_is_measured_once_for_each_type_and_number_of_threads(measured: list[Machine]) -> None:
    first = known_machine(CPU, torch.float32)
    assert known_machine(CPU, torch.float32) == first
    known_machine(CPU, torch.bfloat16)
    assert len(measured) == 2
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    known_machine(CPU, torch.float32)
    torch.set_num_threads(threads)
    assert len(measured) == 3


def test_a_measurement_that_is_old_or_damaged_is_made_again(measured: list[Machine], tmp_path: Path) -> None:
    known_machine(CPU, torch.float32)
    (path,) = (tmp_path / "machine").iterdir()
    long_ago = time.time() - KEPT_S - 1
    os.utime(path, (long_ago, long_ago))
    assert known_machine(CPU, torch.float32) == measured[1]
    for damaged in ("", "[1]", '{"bytes_per_s": 1}'):
        path.write_text(damaged)
        assert known_machine(CPU, torch.float32) == measured[-1]
    assert len(measured) == 5


def test_a_machine_without_a_cache_folder_is_measured_each_time(
    measured: list[Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MATHLETE_CACHE", str(tmp_path / "file"))
    assert [known_machine(CPU, torch.float32) for _ in range(2)] == measured


def test_options_out_of_range_are_refused() -> None:
    for wrong in ({"batch_size": 0}, {"batch_size": 1, "token_budget": 0}, {"batch_size": 1, "kv_cache_tokens": 16}):
        with pytest.raises(ValueError, match="must be at least"):
            ContinuousOptions(**wrong)
