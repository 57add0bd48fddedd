"""What an evaluation is to do: problems, prompts, model, and the identity that a run folder is bound to."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.engine.requests import GenerationRequest, SamplingParams
from actors.models import (
    BUILTIN_MODELS,
    ModelSpec,
    load_tokenizer,
    model_fingerprint,
    read_context_length,
    resolve_model,
)
from pipelines.config import EvalConfig, result_settings
from pipelines.problems import (
    DataSource,
    Problem,
    Prompt,
    PromptBuilder,
    PromptSettings,
    Selection,
    dataset_fingerprint,
    describe_source,
    load_problems,
    select,
)
from pipelines.problems.files import SUFFIXES
from pipelines.records.run_folder import resolve_run_folder


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done: each problem with its prompt, and the model to do it."""

    model: ModelSpec
    problems: dict[str, Problem]
    prompts: dict[str, Prompt]
    source: str
    context_length: int | None
    identity: dict[str, Any]

    def requests(self) -> list[GenerationRequest]:
        """One a problem."""
        return [GenerationRequest(name, 0, tuple(prompt.token_ids)) for name, prompt in self.prompts.items()]


def prepare(config: EvalConfig) -> Task:
    """Load problems and tokenizer and build the prompts. Raises ProblemError, PromptError and ModelError."""
    path = resolve_model(config.model.name, config.model.revision)
    data = config.data
    source = DataSource(
        data.source,
        data.split,
        data.revision,
        columns={field: column for field, column in data.columns if column is not None},
        seed=data.seed,
        count=data.count,
        levels=data.levels or (1, 2, 3, 4, 5),
    )
    problems = select(load_problems(source), Selection(data.limit, data.ids, data.subjects, data.levels))
    tokenizer = load_tokenizer(path, config.model.revision, config.model.trust_remote_code)
    builder = PromptBuilder(tokenizer, PromptSettings(**dict(config.prompt)))
    # A built-in model is resolved again on each node, into that node's cache.
    name = config.model.name if config.model.name in BUILTIN_MODELS else path
    model = ModelSpec(name, **config.model.model_dump(exclude={"name"}))
    return Task(
        model=model,
        problems={problem.id: problem for problem in problems},
        prompts={problem.id: builder.build(problem) for problem in problems},
        source=describe_source(source),
        context_length=read_context_length(path, config.model.revision, config.model.trust_remote_code),
        identity={
            **result_settings(config),
            "fingerprint.model": model_fingerprint(path, config.model.revision, config.model.trust_remote_code),
            "fingerprint.problems": dataset_fingerprint(problems),
            "fingerprint.chat_template": builder.chat_template_hash,
        },
    )


def run_folder_path(config: EvalConfig) -> Path:
    """`runs/eval-<model>-<data>` unless the configuration names another."""
    model, data = Path(config.model.name).name, Path(config.data.source.removeprefix("builtin:")).name
    for suffix in SUFFIXES:
        data = data.removesuffix(suffix)
    return resolve_run_folder(config.run.name or f"eval-{model}-{data}".lower(), config.run.dir)


def describe(config: EvalConfig) -> str:
    """What `evaluate` would do, for --dry-run: nothing is started and nothing written."""
    task = prepare(config)
    path = run_folder_path(config)
    batches = config.generation
    lengths = sorted(len(prompt.token_ids) for prompt in task.prompts.values())
    first = next(iter(task.prompts.values()))
    samples = path / "samples.jsonl"
    known = f"holds {sum(1 for _ in samples.open('rb'))} samples" if samples.exists() else "is new"
    return "\n".join(
        [
            f"model       {config.model.name} ({task.model.path}), context {task.context_length} tokens",
            f"problems    {len(task.problems)} from {task.source}",
            f"prompts     {lengths[0]} to {lengths[-1]} tokens, median {lengths[len(lengths) // 2]}",
            f"sampling    {SamplingParams(**dict(config.sampling))}",
            f"batches     of {batches.batch_size} rows on each actor, policy {batches.policy}, engine {batches.engine}",
            f"run folder  {path} ({known})",
            f"first prompt, {len(first.token_ids)} tokens:",
            first.text,
        ]
    )
