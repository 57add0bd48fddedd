"""Telling whether a model is still the one that a run began with."""

import hashlib
from pathlib import Path

from actors.models.loading import read_config

_IDENTIFYING = (
    "config.json",
    "*.safetensors",
    "*.bin",
    "*.safetensors.index.json",
    "tokenizer.json",
    "tokenizer.model",
)
_HEAD_BYTES = 1 << 20


def model_fingerprint(path: str, revision: str | None = None, trust_remote_code: bool = False) -> str | None:
    """Return the commit of a hub model, or 16 hex digits of a digest of a folder; None where neither is known.

    The digest covers the names, sizes and first MiB of configuration, weights and tokenizer: reading gigabytes at each
    start would cost more than the last doubt is worth. A safetensors file names every tensor in that part.
    Raises ModelError.
    """
    folder = Path(path)
    if not folder.is_dir():
        return getattr(read_config(path, revision, trust_remote_code), "_commit_hash", None)
    digest = hashlib.sha256()
    for file in sorted({file for pattern in _IDENTIFYING for file in folder.glob(pattern)}):
        digest.update(f"{file.name}:{file.stat().st_size}:".encode())
        with file.open("rb") as content:
            digest.update(content.read(_HEAD_BYTES))
    return digest.hexdigest()[:16]
