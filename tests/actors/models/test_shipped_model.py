"""mathlete-tiny, the model that is part of the package."""

import re
import shutil
from pathlib import Path

import pytest

from actors.engine.continuous.decoder.lean import is_lean
from actors.models import ModelError, ModelSpec, load_model, load_tokenizer, needs_fetching, resolve_model

NAME = "mathlete-tiny"
CARD = Path(__file__).parents[3] / "docs" / "mathlete_tiny.md"


def test_it_is_in_the_package_and_small() -> None:
    assert not needs_fetching(NAME)
    folder = Path(resolve_model(NAME))
    assert sum(file.stat().st_size for file in folder.iterdir()) < 8_000_000
    with pytest.raises(ModelError, match="built-in model, which has no revisions"):
        resolve_model(NAME, "main")


def test_it_loads_with_its_facts() -> None:
    loaded = load_model(ModelSpec(NAME, dtype="float32"))
    assert (loaded.context_length, loaded.eos_token_ids) == (512, {1})
    assert loaded.num_parameters < 3_800_000
    assert is_lean(loaded.model)
    assert loaded.tokenizer.pad_token_id == 0
    assert loaded.tokenizer.chat_template is None
    assert loaded.model.config.vocab_size == len(loaded.tokenizer)


@pytest.mark.parametrize(
    "text", ["", "naïve 漢字 ∑ 🎲", "\x00\t\r\n", "<|end|> \\begin{align} 3.14 &= \\pi", "x" * 5000]
)
def test_any_text_comes_back_from_its_tokens(text: str) -> None:
    tokenizer = load_tokenizer(NAME)
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True).input_ids
    assert tokenizer.decode(ids) == text
    assert 1 not in ids


def test_each_digit_is_a_token_of_its_own() -> None:
    tokenizer = load_tokenizer(NAME)
    ids = tokenizer(r"Compute $1024 \div 16.$").input_ids
    assert [token for token in map(tokenizer.decode, ids) if re.search(r"\d", token)] == list("102416")


def test_the_tokenizer_is_what_the_model_card_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", CARD.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / NAME / file).read_bytes() == (Path(resolve_model(NAME)) / file).read_bytes()


def test_its_architecture_trains_without_its_weights(tmp_path: Path) -> None:
    folder = shutil.copytree(resolve_model(NAME), tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    drawn = load_model(ModelSpec(str(folder), init="random"))
    assert drawn.num_parameters == load_model(ModelSpec(NAME)).num_parameters
