"""Settings from YAML and overrides."""

import re
from pathlib import Path

import pytest

from pipelines.cli import JOBS
from pipelines.config import (
    ConfigError,
    EvalConfig,
    JobConfig,
    describe_settings,
    dump_config,
    load_config,
    result_settings,
)

CONFIGS = sorted((Path(__file__).parents[3] / "configs").glob("*.yaml"))


def write(folder: Path, text: str) -> str:
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def messages(file: str | None = None, *overrides: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(EvalConfig, file, overrides)
    return caught.value.messages


def test_overrides_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    file = write(tmp_path, "sampling: {temperature: 0.6, top_p: 0.9}")
    sampling = load_config(EvalConfig, file, ["sampling.temperature=0.7", "sampling.temperature=0.8"]).sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_new_tokens) == (0.8, 0.9, 512)


def test_a_bare_value_sets_the_name_and_keeps_the_rest_of_the_block(tmp_path: Path) -> None:
    file = write(tmp_path, "model: {name: other, dtype: float32}\ndata: problems.jsonl")
    config = load_config(EvalConfig, file, ["model=smollm2-135m"])
    assert (config.model.name, config.model.dtype, config.data.source) == ("smollm2-135m", "float32", "problems.jsonl")


def test_numbers_in_scientific_notation_are_numbers() -> None:
    assert load_config(EvalConfig, None, ["sampling.temperature=1e-6"]).sampling.temperature == 1e-6


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("data.limit=60", "60"),
        ("data.limit=10-20", "10-20"),
    ],
)
def test_a_limit_may_be_a_number_or_a_range(override: str, expected: str) -> None:
    assert load_config(EvalConfig, None, [override]).data.limit == expected


def test_a_single_value_may_stand_for_a_list() -> None:
    config = load_config(EvalConfig, None, ["data.levels=5", "data.subjects=Algebra", "sampling.stop=END"])
    assert (config.data.levels, config.data.subjects, config.sampling.stop) == ((5,), ("Algebra",), ("END",))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_configuration_loads(path: Path) -> None:
    job = re.search(r"mathlete (\w+) --config", path.read_text())
    load_config(JOBS[job[1] if job else "eval"], str(path))


def test_a_printed_configuration_loads_as_itself(tmp_path: Path) -> None:
    config = load_config(
        EvalConfig, None, ["model=m", "data.levels=[1, 2]", "prompt.template='{problem}\n\\boxed{}: x'"]
    )
    assert load_config(EvalConfig, write(tmp_path, dump_config(config))) == config


def test_all_errors_are_reported_at_once_each_with_its_place(tmp_path: Path) -> None:
    file = write(tmp_path, "sampling:\n  temprature: 1\n  top_p: 2\nmodel:\n  dtype: bfloat17\n")
    found = messages(file, "generation.batch_size=many")
    assert len(found) == 4
    assert any(
        line.startswith(f"{file}:2: sampling.temprature: unknown key (did you mean 'temperature'?") for line in found
    )
    assert any(line.startswith(f"{file}:3: sampling.top_p: ") and "got 2" in line for line in found)
    assert any("model.dtype" in line and "did you mean 'bfloat16'?" in line for line in found)
    assert any(
        line.startswith("command line: generation.batch_size: expected an integer, got 'many'") for line in found
    )


def test_a_key_in_the_wrong_block_is_told_its_right_one() -> None:
    assert "did you mean 'generation.batch_size'?" in messages(None, "batch_size=4")[0]


def test_an_unknown_section_names_the_command_line_as_its_place() -> None:
    assert messages(None, "samplng.top_k=4")[0].startswith(
        "command line: samplng: unknown key (did you mean 'sampling'?"
    )


def test_a_key_that_stands_twice_is_an_error(tmp_path: Path) -> None:
    file = write(tmp_path, "model: a\ndata: b\nmodel: c\n")
    assert messages(file) == [f"{file}:3: model: stands twice (also on line 1)"]


def test_a_word_without_an_equals_sign_is_explained() -> None:
    assert "write section.key=value" in messages(None, "temperature")[0]


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("generators.gpus_per_actor=0.4", "a share 1/k"),
        ("generators.num_actors=0", "at least 1, or auto"),
        ("generators.num_actors=several", "or 'auto'"),
        ("generation.token_budget=0", "at least 1, or auto"),
        ("generation.kv_cache_tokens=much", "or 'auto'"),
        ("generation.policy=staic", "did you mean 'static'?"),
        ("prompt.template=hello", "must contain {problem}"),
        ("sampling.temperature=-1", "greater than or equal to 0"),
        ("sampling.temperature=.nan", "finite"),
        ("sampling.n=8", "needs a temperature above 0"),
        ("metrics.pass_at=[1, 0]", "at least 1"),
        ("metrics.pass_at=2", "sampling.n gives only 1 sample(s)"),
        ("cluster=4", "expected a block with address"),
        ("model.trust_remote_code=perhaps", "boolean"),
    ],
)
def test_wrong_values_are_named_with_what_is_expected(override: str, part: str) -> None:
    (message,) = messages(None, override)
    assert part in message


def test_each_k_is_kept_once_in_order_and_may_be_as_large_as_n() -> None:
    words = ["sampling.n=8", "sampling.temperature=1", "metrics.pass_at=[8, 1, 8]"]
    assert load_config(EvalConfig, None, words).metrics.pass_at == (1, 8)
    assert "metrics.pass_at asks for k = 8, but sampling.n gives only 7" in messages(None, *words, "sampling.n=7")[0]


def test_a_missing_file_is_named_with_its_neighbours(tmp_path: Path) -> None:
    write(tmp_path, "")
    (message,) = messages(str(tmp_path / "rn.yaml"))
    assert "no such configuration file; there is run.yaml" in message


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"a: [1", "not valid YAML"), (b"\xff\xfe\xff", "not UTF-8"), (b"- 1\n- 2\n", "section: {key: value}")],
)
def test_a_file_that_is_no_mapping_is_explained(tmp_path: Path, content: bytes, part: str) -> None:
    (tmp_path / "run.yaml").write_bytes(content)
    (message,) = messages(str(tmp_path / "run.yaml"))
    assert part in message


def test_an_empty_file_and_empty_blocks_mean_the_defaults(tmp_path: Path) -> None:
    assert load_config(EvalConfig, write(tmp_path, "sampling:\nmodel:\n")) == EvalConfig()


def test_settings_of_speed_and_place_do_not_belong_to_the_identity_of_a_run() -> None:
    known = result_settings(EvalConfig())
    changed = load_config(
        EvalConfig,
        None,
        [
            "generation.batch_size=3",
            "generation.engine=padded",
            "generation.kv_cache_tokens=4096",
            "generators.num_actors=2",
            "cluster.address=local",
            "grading.num_workers=3",
            "metrics.pass_at=1",
        ],
    )
    assert result_settings(changed) == known
    for override in ("sampling.seed=1", "model.dtype=float32", "grading.extraction=strict", "data.limit=5"):
        assert result_settings(load_config(EvalConfig, None, [override])) != known


def test_every_setting_has_a_help_text() -> None:
    lines = describe_settings(EvalConfig)
    assert any(line.strip().startswith("sampling.temperature=0.0") for line in lines)
    assert all(len(line.split("  ")) >= 4 and line.split("  ")[3] for line in lines)


def test_an_override_of_a_text_is_taken_as_it_stands() -> None:
    config = load_config(EvalConfig, None, ["prompt.template={problem}", "model=007"])
    assert (config.prompt.template, config.model.name) == ("{problem}", "007")


@pytest.mark.parametrize("schema", JOBS.values(), ids=JOBS)
def test_tracking_is_no_part_of_what_a_run_is(schema: type[JobConfig]) -> None:
    tracked = load_config(schema, None, ["tracking.wandb=true", "tracking.tags=one", "tracking.sample_rows=0"])
    assert tracked.tracking.tags == ("one",)
    assert result_settings(tracked) == result_settings(schema())
