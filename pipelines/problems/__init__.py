"""Problems with right answers: where they come from, which are used, and how they become prompts."""

from pipelines.problems.arithmetic import arithmetic_problems
from pipelines.problems.error import ProblemError
from pipelines.problems.problem import Problem
from pipelines.problems.prompts import (
    ContextCheck,
    Prompt,
    PromptBuilder,
    PromptError,
    PromptSettings,
    check_context,
    prompt_hash,
)
from pipelines.problems.selection import Selection, parse_limit, select
from pipelines.problems.sources import DataSource, dataset_fingerprint, describe_source, load_problems

__all__ = [
    "ContextCheck",
    "DataSource",
    "Problem",
    "ProblemError",
    "Prompt",
    "PromptBuilder",
    "PromptError",
    "PromptSettings",
    "Selection",
    "arithmetic_problems",
    "check_context",
    "dataset_fingerprint",
    "describe_source",
    "load_problems",
    "parse_limit",
    "prompt_hash",
    "select",
]
