"""Random two-layer models of many architectures, and real byte-level tokenizers, small enough to run in milliseconds."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

VOCABULARY = 400
EOS = 2
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "pad_token_id": EOS,
    "eos_token_id": EOS,
    "bos_token_id": 1,
    "attention_dropout": 0.0,
}
GROUPED = {**SIZES, "intermediate_size": 64, "num_key_value_heads": 2}

WIDE = {**SIZES, "hidden_size": 128, "intermediate_size": 160}
"""Large enough for kernels that want whole vectors."""


def _config(name: str, **fields: Any) -> Callable[[], Any]:
    return lambda: getattr(transformers, name)(**fields)


CONFIGS = {
    "llama": _config("LlamaConfig", **GROUPED),
    "qwen2": _config("Qwen2Config", **GROUPED),
    "qwen3": _config("Qwen3Config", **GROUPED, head_dim=8),
    "mistral_window_8": _config("MistralConfig", **GROUPED, sliding_window=8),
    "gemma2_window_8": _config("Gemma2Config", **GROUPED, head_dim=8, sliding_window=8),
    "gemma3_window_8": _config("Gemma3TextConfig", **GROUPED, head_dim=8, sliding_window=8, sliding_window_pattern=2),
    "gpt_oss_window_8": _config(
        "GptOssConfig", **GROUPED, head_dim=8, sliding_window=8, num_local_experts=4, num_experts_per_tok=2
    ),
    "llama_wide": _config("LlamaConfig", **WIDE, num_key_value_heads=2, tie_word_embeddings=True),
    "qwen3_wide": _config("Qwen3Config", **WIDE, num_key_value_heads=1, head_dim=64),
    "gpt2": _config("GPT2Config", **SIZES),
    "opt": _config("OPTConfig", **SIZES, ffn_dim=64, word_embed_proj_dim=32),
    "gpt_neox": _config("GPTNeoXConfig", **SIZES, intermediate_size=64),
    "falcon": _config("FalconConfig", **SIZES, alibi=False, new_decoder_architecture=False),
    "falcon_alibi": _config("FalconConfig", **SIZES, alibi=True, multi_query=False),
    "bloom": _config("BloomConfig", vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, pad_token_id=EOS),
}


@cache
def tiny_model(architecture: str, attention: str | None = None) -> PreTrainedModel:
    """A random fp32 model in eval mode. Weights are large enough that logits differ clearly and text varies."""
    torch.manual_seed(7)
    config = CONFIGS[architecture]()
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation=attention or ("eager" if architecture == "gemma2_window_8" else None)
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.2)
            elif name.endswith("bias"):
                parameter.normal_(0, 0.1)
    return model.eval()


@cache
def tiny_tokenizer(pad_token: str | None = "<eos>") -> PreTrainedTokenizerBase:
    """A byte-level BPE tokenizer: <unk> 0, <bos> 1, <eos> 2, then bytes and a few merges. Any UTF-8 text round-trips."""
    tokenizer = Tokenizer(BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<unk>", "<bos>", "<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    text = ["What is the sum of two and three? The answer is five. Question: solve for x, answer in boxed form."] * 3
    tokenizer.train_from_iterator(text, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", pad_token=pad_token
    )


def save_checkpoint(folder: Path, architecture: str = "llama") -> Path:
    tiny_model(architecture).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder
