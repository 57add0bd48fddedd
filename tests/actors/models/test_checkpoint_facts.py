from types import SimpleNamespace

import pytest
import transformers

from actors.models import checkpoint
from tests.actors.engine.tiny import CONFIGS, VOCABULARY, tiny_tokenizer


@pytest.mark.parametrize(
    ("architecture", "tokens"),
    [("llama", 512), ("gpt2", 512), ("opt", 512), ("gemma3_window_8", 512), ("falcon", 512), ("bloom", None)],
)
def test_context_length_is_found_under_each_familys_name(architecture: str, tokens: int | None) -> None:
    assert checkpoint.context_length(CONFIGS[architecture]()) == tokens


def test_context_length_of_a_nested_config_is_that_of_its_text_part() -> None:
    config = transformers.Gemma3Config(text_config={"max_position_embeddings": 77})
    assert checkpoint.context_length(config) == 77


def test_eos_ids_are_the_union_of_all_sources() -> None:
    config = CONFIGS["llama"]()
    config.eos_token_id = [7, 8]
    tokenizer = SimpleNamespace(eos_token_id=9)
    assert checkpoint.eos_token_ids(config, SimpleNamespace(eos_token_id=5), tokenizer) == {5, 7, 8, 9}
    assert checkpoint.eos_token_ids(config, None, SimpleNamespace(eos_token_id=None)) == {7, 8}


def test_known_tokens_counts_added_tokens_and_not_the_padded_vocabulary() -> None:
    tokenizer = tiny_tokenizer()
    assert checkpoint.known_tokens(tokenizer) == len(tokenizer) < VOCABULARY


@pytest.mark.parametrize("kind", ["default", "linear", "yarn", "llama3"])
def test_static_rope_types_are_fine(kind: str) -> None:
    rope = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 64}
    rope |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0} if kind == "llama3" else {}
    assert checkpoint.batch_dependent_rope(transformers.LlamaConfig(rope_parameters=rope)) is None


def test_a_rope_of_one_layer_type_counts() -> None:
    nested = {"full_attention": {"rope_type": "dynamic"}, "sliding_attention": {"rope_type": "default"}}
    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(rope_parameters=nested))
    assert checkpoint.batch_dependent_rope(config) == "dynamic"
    assert checkpoint.batch_dependent_rope(CONFIGS["gpt2"]()) is None
