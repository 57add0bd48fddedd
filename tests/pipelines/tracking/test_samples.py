"""The table of samples, and that no secret leaves."""

from dataclasses import replace

from pipelines.problems import Problem
from pipelines.records.rollouts import RolloutRecord
from pipelines.tracking.order import COLUMNS
from pipelines.tracking.samples import TEXT_LIMIT, sample_rows
from pipelines.tracking.secrets import secret_values, without_secrets
from tests.pipelines.records.test_journal import SAMPLE


def rollout(step: int) -> RolloutRecord:
    return RolloutRecord(
        step, "p", 0, "hash", "so 2", [5], [-0.1], "eos", "2", "2", "correct", "equal", 1.0, policy_version=step
    )


def test_rows_are_spread_evenly_over_the_run_and_long_texts_keep_both_ends() -> None:
    rows = sample_rows([rollout(step) for step in range(100)], {"p": Problem("p", "What is 1 + 1?", "2")}, 4)
    assert [row[0] for row in rows] == [1, 26, 51, 76]
    assert dict(zip(COLUMNS, rows[0], strict=True)) == {
        "step": 1,
        "problem_id": "p",
        "sample": 0,
        "problem": "What is 1 + 1?",
        "completion": "so 2",
        "answer": "2",
        "gold": "2",
        "verdict": "correct",
        "reward": 1.0,
    }
    (row,) = sample_rows([replace(SAMPLE, completion="a" * 10**6 + "end")], {}, 64)
    completion = row[COLUMNS.index("completion")]
    assert TEXT_LIMIT < len(completion) < TEXT_LIMIT + 60
    assert completion.startswith("aaa")
    assert completion.endswith("aend")
    assert row[COLUMNS.index("reward")] is None


def test_values_of_secret_variables_are_hidden_wherever_they_stand() -> None:
    secrets = secret_values(
        {"HF_TOKEN": "hf_abcdefgh", "WANDB_API_KEY": "hf_abcdefgh-long", "SHORT_KEY": "abc", "HOME": "/home/person"}
    )
    tree = {
        "command": "eval data=https://u:hf_abcdefgh@host",
        "list": ["hf_abcdefgh-long", 3, None],
        "home": "/home/person",
    }
    assert without_secrets(tree, secrets) == {
        "command": "eval data=https://u:***@host",
        "list": ["***", 3, None],
        "home": "/home/person",
    }
