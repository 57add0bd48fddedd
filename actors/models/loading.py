"""Loading a model and its tokenizer, with every failure explained.

Importing this module loads neither torch nor transformers: the driver needs only tokenizers and configurations.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.models import checkpoint
from actors.models.error import ModelError
from actors.models.sources import resolve_model

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """Which model to load and how. `auto` leaves the choice to the machine."""

    path: str
    """A folder, a hub id, or the name of a built-in model."""
    revision: str | None = None
    """Branch, tag or commit of a hub id."""
    dtype: str = "auto"
    """auto, float32, bfloat16 or float16. auto is bfloat16 where the device computes in it, else float32."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, ... auto is cuda where there is one."""
    attention: str = "auto"
    """auto, sdpa, eager, flash_attention_2, ..."""
    trust_remote_code: bool = False
    init: str = "checkpoint"
    """checkpoint, or random: the architecture and tokenizer of `path`, with weights drawn from `init_seed`."""
    init_seed: int = 0


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in eval mode on its device, and what an engine or a learner needs to know of it."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    path: str
    device: "torch.device"
    dtype: "torch.dtype"
    attention: str
    context_length: int | None
    num_parameters: int
    """Tied weights count once."""
    eos_token_ids: frozenset[int]
    revision: str | None
    """The hub's commit hash; None for a folder."""


def load_tokenizer(
    path: str, revision: str | None = None, trust_remote_code: bool = False
) -> "PreTrainedTokenizerBase":
    """Return the tokenizer of a folder, hub id or built-in model. Raises ModelError."""
    from transformers import AutoTokenizer

    source = resolve_model(path, revision, weights=False)
    with _explained(path, "its tokenizer"):
        return AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)


def read_config(path: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Return transformers' configuration of a folder, hub id or built-in model. Raises ModelError."""
    from transformers import AutoConfig

    source = resolve_model(path, revision, weights=False)
    with _explained(path, "its configuration"):
        return AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)


def load_model(spec: ModelSpec) -> LoadedModel:
    """Load what `spec` names. Raises ModelError, whatever the reason, and when weights and architecture do not match
    to the last tensor: a model must not start with random layers unless all of it was asked to."""
    device = choose_device(spec.device)
    dtype = choose_dtype(spec.dtype, device)
    tokenizer = load_tokenizer(spec.path, spec.revision, spec.trust_remote_code)
    config = read_config(spec.path, spec.revision, spec.trust_remote_code)
    make = _random_model if spec.init == "random" else _read_model
    with _explained(spec.path, "its weights", spec.attention):
        model = make(spec, config, device, dtype)
    return LoadedModel(
        model=model.eval(),
        tokenizer=tokenizer,
        path=spec.path,
        device=device,
        dtype=dtype,
        attention=model.config._attn_implementation,
        context_length=checkpoint.context_length(model.config),
        num_parameters=sum(parameter.numel() for parameter in model.parameters()),
        eos_token_ids=checkpoint.eos_token_ids(model.config, model.generation_config, tokenizer),
        revision=getattr(model.config, "_commit_hash", None),
    )


def _read_model(spec: ModelSpec, config: Any, device: "torch.device", dtype: "torch.dtype") -> "PreTrainedModel":
    from transformers import AutoModelForCausalLM

    loaded: Any = AutoModelForCausalLM.from_pretrained(
        resolve_model(spec.path, spec.revision),
        revision=spec.revision,
        config=config,
        dtype=dtype,
        device_map={"": device} if device.type != "cpu" else None,
        attn_implementation=_attention(spec.attention, config),
        trust_remote_code=spec.trust_remote_code,
        # Collected below with all other differences, instead of raised one at a time.
        ignore_mismatched_sizes=True,
        output_loading_info=True,
    )
    model, found = loaded
    _check_complete(spec.path, found)
    return model


def _random_model(spec: ModelSpec, config: Any, device: "torch.device", dtype: "torch.dtype") -> "PreTrainedModel":
    """Weights as the architecture draws them, in float32 on the CPU: the same on every machine."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.init_seed)
        model = AutoModelForCausalLM.from_config(
            config,
            dtype=torch.float32,
            attn_implementation=_attention(spec.attention, config),
            trust_remote_code=spec.trust_remote_code,
        )
    return model.to(device=device, dtype=dtype)


def choose_device(name: str) -> "torch.device":
    """Return the device that `name` means on this machine. Raises ModelError when there is none such."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelError(f"{name!r} is no device: use auto, cpu, cuda or cuda:N") from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ModelError("cuda was asked for, but torch finds no CUDA device here: use device auto or cpu")
        if device.index is not None and device.index >= torch.cuda.device_count():
            raise ModelError(f"{name} was asked for, but there are only {torch.cuda.device_count()} CUDA devices")
    return device


def choose_dtype(name: str, device: "torch.device") -> "torch.dtype":
    """Return the torch type that `name` means on `device`. Raises ModelError for an unknown name."""
    import torch

    types = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name in types:
        return types[name]
    if name != "auto":
        raise ModelError(f"{name!r} is no dtype: use auto, {', '.join(types)}")
    if device.type == "cuda":
        native = torch.cuda.get_device_capability(device) >= (8, 0)
    else:
        processor = torch.cpu.get_capabilities()
        native = any(processor.get(feature, False) for feature in ("avx512_bf16", "amx_bf16", "bf16"))
    return torch.bfloat16 if native else torch.float32


def _attention(name: str, config: Any) -> str | None:
    if name != "auto":
        return name
    # scaled_dot_product_attention has no soft cap; transformers notices only at the first forward pass.
    capped = getattr(config.get_text_config(), "attn_logit_softcapping", None) is not None
    return "eager" if capped else None


def _check_complete(path: str, found: dict[str, Any]) -> None:
    mismatched = {
        f"{name} (file {tuple(file)}, model {tuple(model)})" for name, file, model in found["mismatched_keys"]
    }
    differences = [
        f"{text}: {_some(sorted(names))}"
        for text, names in (
            ("missing from the files", found["missing_keys"]),
            ("unknown to the architecture", found["unexpected_keys"]),
            ("of another shape", mismatched),
            ("not read", found["error_msgs"]),
        )
        if names
    ]
    if differences:
        raise ModelError(
            f"{path} did not load: its weights do not fit its config.json. Tensors {'; '.join(differences)}"
        )


def _some(names: list[str]) -> str:
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


@contextmanager
def _explained(path: str, part: str, attention: str = "auto") -> Iterator[None]:
    """Turn what transformers raises while loading `part` of the model at `path` into a ModelError."""
    import transformers
    from safetensors import SafetensorError

    try:
        yield
    except ModelError:
        raise
    except (OSError, ValueError, RuntimeError, ImportError, KeyError, TypeError, SafetensorError) as error:
        text = str(error)
        first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
        if "does not recognize this architecture" in text:
            reason = f"transformers {transformers.__version__} does not know its architecture. {first}"
        elif "Unrecognized configuration class" in text:
            reason = "it is not a causal language model"
        elif "attn_implementation" in text or "Attention" in text:
            reason = f"attention {attention!r} cannot be used. {first}"
        elif "trust_remote_code" in text:
            reason = "it brings its own Python code. Set trust_remote_code to true if you trust it"
        elif "couldn't connect" in text or "offline mode" in text:
            reason = "the model hub cannot be reached and the model is not in its local cache. Name a folder instead"
        else:
            reason = f"{part} cannot be read. {first}"
        raise ModelError(f"{path} did not load: {reason}") from error
