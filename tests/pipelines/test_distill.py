"""What a supervised run will learn, before anything starts."""

import io
import json
from pathlib import Path

import pytest

from pipelines import distill
from pipelines.cli import main
from pipelines.config import ConfigError, DistillConfig, load_config
from pipelines.problems import ProblemError, PromptError
from pipelines.terminal.console import Console
from tests.actors.engine.tiny import save_checkpoint

SCRATCH = ["model=mathlete-tiny", "model.init=random", "data.count=50", "distill.batch_size=8"]


def prepared(*words: str) -> tuple[distill.Distillation, str]:
    """The plan, and what the console showed."""
    shown = io.StringIO()
    plan = distill.prepare(load_config(DistillConfig, None, [*SCRATCH, *words]), Console(shown))
    return plan, shown.getvalue()


def test_an_epoch_takes_every_example_once_but_for_less_than_a_step() -> None:
    plan, _ = prepared("distill.epochs=2")
    assert (len(plan.examples), plan.steps) == (50, 12)
    first = [example for step in range(6) for example in plan.batch(step)]
    second = [example for step in range(6, 12) for example in plan.batch(step)]
    assert len(set(first)) == len(set(second)) == 48
    assert first != second
    assert plan.epoch(12) == 2


def test_the_examples_of_a_step_depend_on_the_seed_and_the_step_alone() -> None:
    one, other = prepared()[0], prepared("distill.seed=1")[0]
    again = prepared("distill.steps=3")[0]
    assert [again.batch(step) for step in (5, 0)] == [one.batch(step) for step in (5, 0)]
    assert one.batch(0) != other.batch(0)


def test_examples_that_are_set_apart_are_not_learnt() -> None:
    plan, _ = prepared("distill.held_out=7")
    assert (len(plan.held_out), len(plan.examples)) == (7, 43)
    assert not set(plan.held_out) & set(plan.examples)


def test_problems_that_are_evaluated_on_are_not_learnt() -> None:
    same = [f"evaluation.data.{key}" for key in ("source=builtin:arithmetic", "split=train", "count=5")]
    plan, shown = prepared("evaluation.every=1", "evaluation.sampling.max_new_tokens=9", *same)
    assert len(plan.examples) == 45
    assert "5 training problem(s) are among the held-out ones" in shown


@pytest.mark.parametrize(("overlong", "word"), [("drop", "left out"), ("truncate", "truncated")])
def test_what_is_too_long_is_counted_and_named(overlong: str, word: str) -> None:
    plan, shown = prepared("distill.max_seq_len=30", f"distill.overlong={overlong}", "distill.batch_size=4")
    lengths = [len(example.prompt_ids) + len(example.answer_ids) for example in plan.examples]
    assert max(lengths) <= 30
    assert (len(plan.examples) == 50) == (overlong == "truncate")
    assert f"example(s) of more than 30 tokens are {word}: arithmetic/train/" in shown


def test_dropped_rows_are_told(tmp_path: Path) -> None:
    good = {"problem": "1 + 1?", "solution": r"It is $\boxed{2}$"}
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in (good, {"problem": "2 + 2?", "solution": ""})))
    words = (f"data={path}", "data.columns.answer=''", "distill.batch_size=1")
    with pytest.raises(ProblemError, match="line 2: answer is missing"):
        prepared(*words)
    plan, shown = prepared(*words, "distill.bad_rows=drop")
    assert len(plan.examples) == 1
    assert "1 row(s) are left out: line 2: answer is missing" in shown


def test_fewer_examples_than_a_step_takes_are_refused() -> None:
    with pytest.raises(ProblemError, match=r"50 examples are left .* distill\.batch_size=64; lower it"):
        prepared("distill.batch_size=64")


def test_a_warm_up_longer_than_the_epochs_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"above warmup_steps 9, got 6 \(1 epoch\(s\) of 50 examples\)"):
        prepared("optimizer.decay=linear", "optimizer.warmup_steps=9")


def test_a_teacher_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    teacher = save_checkpoint(tmp_path / "teacher")
    with pytest.raises(PromptError, match=r"tokenizers of the teacher .* differ"):
        prepared(f"teacher={teacher}")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("distill.batch_size=64", "lower it, or give more examples"),
        ("optimizer.warmup_steps=9", "above warmup_steps 9"),
        ("data.from_run=nowhere", "data.from_run=nowhere:"),
        ("distill.overlong=cut", "distill.overlong: expected 'drop' or 'truncate'"),
    ],
)
def test_mistakes_end_the_command_with_code_2(word: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["distill", *SCRATCH, "optimizer.decay=linear", word, "--dry-run"]) == 2
    assert message in capsys.readouterr().err


def test_a_dry_run_shows_the_plan_and_the_first_example() -> None:
    text = distill.describe(load_config(DistillConfig, None, SCRATCH))
    assert "weights from seed 0" in text
    assert "6 of 8 examples, 1.00 epochs" in text
    assert text.endswith("<|end|>") and r"\boxed{}.We work it out" in text
