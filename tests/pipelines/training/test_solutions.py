"""What is learnt: every kind of source, and what becomes of rows and completions that are of no use."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.config import DistillConfig, load_config
from pipelines.config.distill import SolutionsConfig
from pipelines.problems import ProblemError, arithmetic_problems
from pipelines.records.journal import Journal, Sample
from pipelines.training.solutions import load_solutions

PROBLEMS = arithmetic_problems(4, split="test")


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "unique_id": name,
        "problem": f"problem {name}",
        "answer": "2",
        "solution": f"{name} is $\\boxed{{2}}$",
    } | changes


def sample(place: int, index: int, completion: str, **changes: Any) -> Sample:
    problem = PROBLEMS[place]
    fields = {
        "problem_id": problem.id,
        "sample_index": index,
        "prompt_hash": "",
        "completion": completion,
        "num_tokens": 3,
        "finish_reason": "eos",
        "answer": problem.answer,
        "gold": problem.answer,
        "verdict": "correct",
        "reason": "",
    }
    return Sample(**(fields | changes))


def run_of(folder: Path, *samples: Sample) -> Path:
    folder.mkdir()
    (folder / "config.yaml").write_text("data: {source: 'builtin:arithmetic', count: 4, split: test}\n")
    journal = Journal(folder / "samples.jsonl", Sample)
    journal.append(samples)
    journal.close()
    return folder


def of_run(folder: Path, **settings: Any) -> list[tuple[str, str | None]]:
    found = load_solutions(SolutionsConfig(from_run=str(folder), **settings), drop_bad_rows=False)
    return [(problem.id, problem.solution) for problem in found.problems]


def test_solutions_of_a_source_are_its_own() -> None:
    found = load_solutions(SolutionsConfig(count=6), drop_bad_rows=False)
    assert found.problems == arithmetic_problems(6, split="train")
    assert all(problem.solution for problem in found.problems) and not found.faults


def test_a_row_without_a_solution_is_refused_by_its_id(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", row("a"), row("b", solution=" "), row("c", solution=None))
    with pytest.raises(ProblemError, match=r"data\.columns\.solution(.|\n)*b: no solution\n.*c: no solution"):
        load_solutions(SolutionsConfig(source=str(path)), drop_bad_rows=False)


def test_dropped_rows_are_named_every_one(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", row("a"), row("b", solution=""), row("c", answer=""), row("d"))
    path.write_text(path.read_text() + "{broken\n")
    found = load_solutions(SolutionsConfig(source=str(path)), drop_bad_rows=True)
    assert [problem.id for problem in found.problems] == ["a", "d"]
    assert [fault.split(":")[0] for fault in found.faults] == ["p.jsonl", "line 3", "b"]


def test_a_table_without_any_solution_is_refused_even_if_bad_rows_are_dropped(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", row("a", solution=""))
    with pytest.raises(ProblemError, match="without a solution"):
        load_solutions(SolutionsConfig(source=str(path)), drop_bad_rows=True)


def test_of_a_run_only_whole_correct_and_different_completions_are_learnt(tmp_path: Path) -> None:
    folder = run_of(
        tmp_path / "run",
        sample(0, 0, "one way"),
        sample(0, 1, " one way\n"),
        sample(0, 2, "another way"),
        sample(0, 3, "a third way"),
        sample(1, 0, "wrong", verdict="wrong"),
        sample(1, 1, "not judged", verdict="timeout"),
        sample(2, 0, "cut", finish_reason="length"),
        sample(3, 0, "one way"),
    )
    first, last = PROBLEMS[0].id, PROBLEMS[3].id
    expected = [(first, "one way"), (first, "another way"), (first, "a third way"), (last, "one way")]
    assert sorted(of_run(folder)) == sorted(expected)
    assert sorted(of_run(folder, max_per_problem=1)) == sorted([expected[0], expected[3]])
    assert of_run(folder, ids=(last,)) == [expected[3]]
    (note,) = load_solutions(SolutionsConfig(from_run=str(folder), max_per_problem=2), drop_bad_rows=False).notes
    assert note.startswith("3 of 8 completions are learnt")
    for count in ("2 not correct", "1 cut off", "1 the same again", "1 above data.max_per_problem"):
        assert count in note


def test_a_run_whose_problems_have_changed_is_refused(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", sample(0, 0, "one way", gold="-1"))
    with pytest.raises(ProblemError, match="have changed since the run"):
        of_run(folder)


def test_a_run_that_holds_nothing_to_learn_says_why(tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", sample(0, 0, "no", verdict="wrong"))
    with pytest.raises(ProblemError, match="1 completions: 1 not correct"):
        of_run(folder)
    with pytest.raises(ProblemError, match="no run there"):
        of_run(tmp_path / "nowhere")


def test_what_is_learnt_has_a_fingerprint_that_solutions_change(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", row("a"))
    same = write(tmp_path / "same.jsonl", row("a"))
    other = write(tmp_path / "other.jsonl", row("a", solution="$\\boxed{2}$"))
    first, second, third = (
        load_solutions(SolutionsConfig(source=str(path)), drop_bad_rows=False).fingerprint()
        for path in (one, same, other)
    )
    assert first == second != third


def test_epochs_become_steps_only_when_the_examples_are_counted() -> None:
    config = load_config(DistillConfig, None, ["optimizer.decay=cosine", "optimizer.warmup_steps=10"])
    assert config.with_steps(50).learner_settings().optimizer.total_steps == 50
    with pytest.raises(ValueError, match="above warmup_steps 10"):
        config.with_steps(10)
