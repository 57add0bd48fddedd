"""From the name a user writes to what transformers can load: a folder, a hub id, or a built-in model."""

import difflib
from pathlib import Path

from actors.models.builtin import BUILTIN_MODELS, fetch_builtin
from actors.models.error import ModelError

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin", "pytorch_model.bin.index.json")
TOKENIZERS = (
    "tokenizer.json",
    "tokenizer.model",
    "*.tiktoken",
    "tekken.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
)


def resolve_model(name: str, revision: str | None = None, *, weights: bool = True) -> str:
    """Return the path of a complete local folder, or `name` itself where it is a hub id.

    A folder may lack its weights where `weights` says that they are not needed. A built-in model that is not there yet
    is fetched and converted. `revision` belongs to hub ids alone.
    Raises ModelError for a folder that is missing or incomplete, a name close to a built-in one, and a revision of
    something that has none.
    """
    if name in BUILTIN_MODELS:
        _refuse_revision(name, revision, "a built-in model")
        return str(fetch_builtin(name))
    folder = Path(name).expanduser()
    if folder.is_dir() or _looks_like_path(name):
        _refuse_revision(name, revision, "a local folder")
        _check_folder(folder, weights)
        return str(folder.resolve())
    close = difflib.get_close_matches(name.lower(), BUILTIN_MODELS, n=1, cutoff=0.8) if "/" not in name else []
    if close:
        raise ModelError(f"there is no model {name!r}: did you mean the built-in {close[0]!r}?")
    return name


def _looks_like_path(name: str) -> bool:
    return name.startswith(("/", ".", "~")) or name.count("/") > 1 or "\\" in name


def _refuse_revision(name: str, revision: str | None, kind: str) -> None:
    if revision is not None:
        raise ModelError(f"{name} is {kind}, which has no revisions: leave the revision ({revision!r}) out")


def _check_folder(folder: Path, weights: bool) -> None:
    if not folder.exists():
        raise ModelError(f"there is no folder {folder}")
    if not folder.is_dir():
        raise ModelError(f"{folder} is a file: name the folder that holds config.json, the weights and the tokenizer")
    missing = []
    if not (folder / "config.json").is_file():
        missing.append("config.json")
    if weights and not _any(folder, WEIGHTS):
        missing.append("weights (model.safetensors)")
    if not _any(folder, TOKENIZERS):
        missing.append("a tokenizer (tokenizer.json)")
    if missing:
        raise ModelError(f"the folder {folder} is no complete model: it lacks {', '.join(missing)}")


def _any(folder: Path, patterns: tuple[str, ...]) -> bool:
    return any(next(folder.glob(pattern), None) is not None for pattern in patterns)
