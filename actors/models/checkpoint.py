"""What a checkpoint's configuration says of it. Works on transformers' config objects; imports neither torch nor them."""

from collections.abc import Iterator
from typing import Any

CONTEXT_FIELDS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length")


def context_length(config: Any) -> int | None:
    """Return how many tokens, prompt and completion together, the model was made for; None where it has no limit."""
    for holder in (config.get_text_config(), config):
        for name in CONTEXT_FIELDS:
            value = getattr(holder, name, None)
            if isinstance(value, int) and value > 0:
                return value
    return None


def approximate_parameters(config: Any) -> int:
    """Return about how many parameters a dense decoder of this configuration has: embedding, output layer, and in each
    layer four square matrices of attention and three of the MLP. Good enough to reserve memory by."""
    text = config.get_text_config()
    hidden, layers = getattr(text, "hidden_size", 0), getattr(text, "num_hidden_layers", 0)
    inner = getattr(text, "intermediate_size", None) or 4 * hidden
    embeddings = 1 if getattr(config, "tie_word_embeddings", False) else 2
    return embeddings * text.vocab_size * hidden + layers * (4 * hidden * hidden + 3 * hidden * inner)


def eos_token_ids(config: Any, generation_config: Any, tokenizer: Any) -> frozenset[int]:
    """Return every id that ends a completion.

    The union of all three sources, because each alone is wrong for some family: Llama 3 and Qwen list several ids in
    the generation config and one in the tokenizer, Gemma's chat turn ends with an id that the config lacks, and a
    checkpoint read from GGUF has no generation config. This is the only thing taken from a generation config.
    """
    found: set[int] = set()
    for source in (generation_config, config.get_text_config(), config, tokenizer):
        value = getattr(source, "eos_token_id", None)
        if isinstance(value, int):
            found.add(value)
        elif value is not None:
            found.update(value)
    return frozenset(found)


def known_tokens(tokenizer: Any) -> int:
    """Return one more than the largest id that the tokenizer can decode. Columns of the logits from there on are the
    padding of the vocabulary to a round size."""
    return max(tokenizer.get_vocab().values(), default=-1) + 1


def batch_dependent_rope(config: Any) -> str | None:
    """Return the rope type if it recomputes frequencies from the longest row of a batch, else None."""
    for kind in _rope_types(getattr(config.get_text_config(), "rope_parameters", None)):
        if "dynamic" in kind or kind == "longrope":
            return kind
    return None


def _rope_types(parameters: Any) -> Iterator[str]:
    """`parameters` is one description of a rope, or one for each type of layer."""
    if not isinstance(parameters, dict):
        return
    if isinstance(kind := parameters.get("rope_type"), str):
        yield kind
    for nested in parameters.values():
        yield from _rope_types(nested)
