"""What an evaluation is to do: problems, prompts, model, and the identity that a run folder is bound to."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.engine.requests import GenerationRequest, SamplingParams
from actors.models import (
    BUILTIN_MODELS,
    ModelSpec,
    approximate_parameters,
    context_length,
    load_tokenizer,
    model_fingerprint,
    read_config,
    resolve_model,
)
from pipelines.config import EvalConfig, JobConfig, result_settings
from pipelines.config.schema import DataConfig, SamplingConfig
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
    samples: int
    """Of each problem."""
    source: str
    context_length: int | None
    identity: dict[str, Any]

    @property
    def planned(self) -> int:
        """Samples in all."""
        return self.samples * len(self.prompts)

    def requests(self) -> list[GenerationRequest]:
        """All samples of all problems, those of a problem one after the other."""
        return [
            GenerationRequest(name, sample, ids)
            for name, ids in ((name, tuple(prompt.token_ids)) for name, prompt in self.prompts.items())
            for sample in range(self.samples)
        ]


def prepare(config: EvalConfig) -> Task:
    """Load problems and tokenizer and build the prompts. Raises ProblemError, PromptError and ModelError."""
    subject = Subject(config)
    problems = selected_problems(config.data)
    return Task(
        model=subject.model,
        problems={problem.id: problem for problem in problems},
        prompts={problem.id: subject.prompts.build(problem) for problem in problems},
        samples=config.sampling.n,
        source=describe_source(data_source(config.data)),
        context_length=subject.context_length,
        identity={
            **result_settings(config),
            **subject.fingerprints,
            "fingerprint.problems": dataset_fingerprint(problems),
        },
    )


class Subject:
    """The model that a job is about, with what a driver needs of it. Loads no weights. Raises PromptError, ModelError."""

    def __init__(self, config: JobConfig) -> None:
        settings = config.model
        self.path = resolve_model(settings.name, settings.revision, weights=settings.init == "checkpoint")
        self.tokenizer = load_tokenizer(self.path, settings.revision, settings.trust_remote_code)
        self.prompts = PromptBuilder(self.tokenizer, PromptSettings(**dict(config.prompt)))
        # A built-in model is resolved again on each node, into that node's cache.
        name = settings.name if settings.name in BUILTIN_MODELS else self.path
        self.model = ModelSpec(name, **settings.model_dump(exclude={"name"}))
        checkpoint = read_config(self.path, settings.revision, settings.trust_remote_code)
        self.context_length = context_length(checkpoint)
        self.approximate_parameters = approximate_parameters(checkpoint)
        self.fingerprints = {
            "fingerprint.model": model_fingerprint(self.path, settings.revision, settings.trust_remote_code),
            "fingerprint.chat_template": self.prompts.chat_template_hash,
        }


def data_source(data: DataConfig) -> DataSource:
    """The section, in the words of the problems' package."""
    return DataSource(
        data.source,
        data.split,
        data.revision,
        columns={field: column for field, column in data.columns if column is not None},
        seed=data.seed,
        count=data.count,
        levels=data.levels or (1, 2, 3, 4, 5),
        exhausted=data.exhausted,
    )


def selected_problems(data: DataConfig, left_out: list[str] | None = None) -> list[Problem]:
    """The problems that the section names, after its filters. Raises ProblemError; for `left_out` see `load_problems`."""
    problems = load_problems(data_source(data), left_out)
    return select(problems, Selection(data.limit, data.ids, data.subjects, data.levels))


def sampling_params(sampling: SamplingConfig) -> SamplingParams:
    """The section, in the words of the engine's package."""
    return SamplingParams(**{name: getattr(sampling, name) for name in SamplingConfig.model_fields})


def run_folder_path(config: JobConfig, job: str) -> Path:
    """`runs/<job>-<model>-<data>` unless the configuration names another."""
    model, data = Path(config.model.name).name, Path(config.data.source.removeprefix("builtin:")).name
    for suffix in SUFFIXES:
        data = data.removesuffix(suffix)
    return resolve_run_folder(config.run.name or f"{job}-{model}-{data}".lower(), config.run.dir)


def describe(config: EvalConfig) -> str:
    """What `evaluate` would do, for --dry-run: nothing is started and nothing written."""
    task = prepare(config)
    path = run_folder_path(config, "eval")
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
            f"sampling    {sampling_params(config.sampling)}",
            f"samples     {task.samples} of each problem, {task.planned} in all",
            f"batches     of {batches.batch_size} rows on each actor, policy {batches.policy}, engine {batches.engine}",
            f"run folder  {path} ({known})",
            f"first prompt, {len(first.token_ids)} tokens:",
            first.text,
        ]
    )
