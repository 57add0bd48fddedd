from pathlib import Path

from actors.models import model_fingerprint
from tests.actors.engine.tiny import save_checkpoint


def test_a_folder_has_one_fingerprint_until_its_content_changes(tmp_path: Path) -> None:
    first = save_checkpoint(tmp_path / "a")
    copy = save_checkpoint(tmp_path / "b")
    known = model_fingerprint(str(first))
    assert known is not None
    assert model_fingerprint(str(copy)) == known
    (copy / "notes.txt").write_text("a file that is not part of the model")
    assert model_fingerprint(str(copy)) == known
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert model_fingerprint(str(copy)) != known


def test_another_architecture_has_another_fingerprint(tmp_path: Path) -> None:
    llama, qwen = save_checkpoint(tmp_path / "a"), save_checkpoint(tmp_path / "b", "qwen3")
    assert model_fingerprint(str(llama)) != model_fingerprint(str(qwen))
