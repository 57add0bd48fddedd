"""Evaluation: every problem to a completion, every completion to a verdict, every verdict into the journal."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actors.engine.requests import Completion, GenerationRequest, SamplingParams
from actors.models import (
    BUILTIN_MODELS,
    ModelSpec,
    load_tokenizer,
    model_fingerprint,
    read_context_length,
    resolve_model,
)
from actors.resources import shared_gpus
from grading import GradingItem, Outcome, Verdict
from pipelines.config import EvalConfig, dump_config, result_settings
from pipelines.dispatch.connect import connected
from pipelines.dispatch.fleet import wait
from pipelines.dispatch.launch import generator_pool, grading_pool
from pipelines.dispatch.loop import events
from pipelines.dispatch.nodes import read_nodes, request_nodes
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.preflight import Plan, plan_fleet, wait_for_plan
from pipelines.dispatch.signals import PREEMPTED, StopFlag
from pipelines.dispatch.work import FatalError, Finished, GivenUp, Incident, Tick, Unit
from pipelines.problems import (
    DataSource,
    Problem,
    Prompt,
    PromptBuilder,
    PromptSettings,
    Selection,
    dataset_fingerprint,
    load_problems,
    prompt_hash,
    select,
)
from pipelines.records.console import Console
from pipelines.records.journal import Journal, Sample
from pipelines.records.progress import ProgressLine
from pipelines.records.provenance import provenance
from pipelines.records.run_folder import RunFolder, open_run_folder, resolve_run_folder
from pipelines.records.summary import summarise

ABOVE_ERROR_THRESHOLD = 4
GRADING_UNIT = 16
"""Completions that go to a grader at once; they are journalled together."""


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done: each problem with its prompt, and the model to do it."""

    model: ModelSpec
    problems: dict[str, Problem]
    prompts: dict[str, Prompt]
    context_length: int | None
    identity: dict[str, Any]

    def requests(self) -> list[GenerationRequest]:
        return [GenerationRequest(name, 0, tuple(prompt.token_ids)) for name, prompt in self.prompts.items()]


@dataclass(frozen=True, slots=True)
class Generated:
    """A completion on its way to a grader, with what the journal will want to know."""

    completion: Completion
    gold: str
    unit: Unit
    worker: str
    seconds: float

    @property
    def grading_item(self) -> GradingItem:
        return GradingItem(self.completion.text, self.gold)


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
    name = config.run.name or "-".join(
        ["eval", *(Path(part).stem.lower().replace("builtin:", "") for part in (config.model.name, config.data.source))]
    )
    return resolve_run_folder(name, config.run.dir)


def describe(config: EvalConfig) -> str:
    """What `evaluate` would do, for --dry-run: nothing is started and nothing written."""
    task = prepare(config)
    path = run_folder_path(config)
    lengths = sorted(len(prompt.token_ids) for prompt in task.prompts.values())
    first = next(iter(task.prompts.values()))
    samples = path / "samples.jsonl"
    known = f"holds {sum(1 for _ in samples.open('rb'))} samples" if samples.exists() else "is new"
    return "\n".join(
        [
            f"model       {config.model.name} ({task.model.path}), context {task.context_length} tokens",
            f"problems    {len(task.problems)} from {config.data.source}",
            f"prompts     {lengths[0]} to {lengths[-1]} tokens, median {lengths[len(lengths) // 2]}",
            f"sampling    {SamplingParams(**dict(config.sampling))}",
            f"units       {len(make_units(task.requests(), config.generation.batch_size, 1))} or more of at most "
            f"{config.generation.batch_size} completions",
            f"run folder  {path} ({known})",
            f"first prompt, {len(first.token_ids)} tokens:",
            first.text,
        ]
    )


def evaluate(config: EvalConfig, console: Console, stop: StopFlag, command: str) -> tuple[dict[str, Any], int]:
    """Run, or resume, the evaluation that `config` describes; returns its summary and the exit code.

    Raises the errors of its parts; whatever they are, what is in the journal stays and counts at the next start.
    """
    with open_run_folder(run_folder_path(config)) as folder:
        task = prepare(config)
        origin = provenance(command)
        folder.claim(task.identity, {"provenance": origin, "config": config.model_dump(mode="json")})
        folder.write_text(folder.config_path, dump_config(config))
        journal = folder.journal()
        _tell_what_is_there(journal, len(task.prompts), console)
        throughput = None
        if missing := [request for request in task.requests() if request.key not in journal.samples]:
            run = Evaluation(config, task, folder, journal, console, stop)
            throughput = run.do(missing)
        return _conclude(config, task, folder, journal, origin, throughput, stop)


class Evaluation:
    """One session of work on a run folder."""

    def __init__(
        self, config: EvalConfig, task: Task, folder: RunFolder, journal: Journal, console: Console, stop: StopFlag
    ) -> None:
        self._config = config
        self._task = task
        self._journal = journal
        self._console = console
        self._stop = stop
        self._events = folder.events()
        self._metrics = folder.metrics()
        self._progress = ProgressLine(len(task.prompts), journal.samples.values())

    def do(self, requests: Sequence[GenerationRequest]) -> dict[str, Any]:
        """Generate and grade until everything is there or a stop is requested; returns the throughput."""
        requests = self._set_aside_too_long(requests)
        if not requests:
            return self._progress.throughput()
        config = self._config
        with connected(config.cluster, config.grading, self._stop) as cluster:
            plan = self._preflight(cluster)
            sampling = SamplingParams(**dict(config.sampling))
            generators = generator_pool(config, plan, self._task.model, sampling)
            graders = grading_pool(config, plan)
            for unit in make_units(requests, config.generation.batch_size, plan.generators):
                generators.add(unit)
            try:
                self._work(generators, graders, plan)
            finally:
                generators.close()
                graders.close()
        return self._progress.throughput()

    def _work(self, generators: WorkPool, graders: WorkPool, plan: Plan) -> None:
        backlog = 4 * GRADING_UNIT * plan.graders
        for event in events([generators, graders], wait, self._stop, max_backlog=backlog):
            match event:
                case Finished(pool="generator"):
                    self._progress.generated(event.result)
                    for unit in self._to_grade(event):
                        graders.add(unit)
                case Finished(pool="grader"):
                    self._record(zip(event.unit.items, event.result, strict=True))
                case GivenUp(pool="generator"):
                    failed = [Completion.failed(request, event.reason) for request in event.unit.items]
                    self._record((self._generated(item, event.unit, "", 0.0), None) for item in failed)
                case GivenUp(pool="grader"):
                    verdict = Verdict(Outcome.ERROR, event.reason)
                    self._record((item, verdict) for item in event.unit.items)
                case Incident():
                    self._tell(event, generators, plan)
                case Tick():
                    self._console.progress(self._progress.line(generators, graders))

    def _preflight(self, cluster: str) -> Plan:
        config = self._config
        plan = wait_for_plan(
            lambda: plan_fleet(config.generators, config.grading, config.model.device, read_nodes()),
            config.cluster.wait_for_nodes_s,
            self._console.say,
            request_nodes,
            self._stop,
        )
        self._console.say(f"{cluster}: {plan}")
        return plan

    def _set_aside_too_long(self, requests: Sequence[GenerationRequest]) -> list[GenerationRequest]:
        """A prompt that fills the context fails on every actor: it is recorded as an error and not sent out."""
        limit = self._task.context_length
        if limit is None:
            return list(requests)
        too_long = [request for request in requests if len(request.prompt_ids) >= limit]
        if too_long:
            names = ", ".join(request.problem_id for request in too_long[:5])
            self._console.warn(
                f"{len(too_long)} prompt(s) fill the model's context of {limit} tokens and are recorded as errors: {names}"
            )
            reason = f"the prompt leaves no room in the model's context of {limit} tokens"
            failed = [Completion.failed(request, reason) for request in too_long]
            self._record((self._generated(item, Unit("too-long", ()), "", 0.0), None) for item in failed)
        gone = {request.key for request in too_long}
        return [request for request in requests if request.key not in gone]

    def _to_grade(self, event: Finished) -> Iterable[Unit]:
        """Units for the graders; completions that failed have nothing to grade and are recorded at once."""
        made = [self._generated(item, event.unit, event.worker, event.seconds) for item in event.result]
        failed = [item for item in made if item.completion.finish_reason == "error"]
        if failed:
            self._record((item, None) for item in failed)
        good = [item for item in made if item.completion.finish_reason != "error"]
        for first in range(0, len(good), GRADING_UNIT):
            yield Unit(f"{event.unit.id}/{first}", tuple(good[first : first + GRADING_UNIT]))

    def _generated(self, completion: Completion, unit: Unit, worker: str, seconds: float) -> Generated:
        return Generated(completion, self._task.problems[completion.problem_id].answer, unit, worker, seconds)

    def _record(self, graded: Iterable[tuple[Generated, Verdict | None]]) -> None:
        samples = [
            make_sample(item, verdict, self._task.problems[item.completion.problem_id], self._task.prompts)
            for item, verdict in graded
        ]
        fresh = self._journal.append(samples)
        self._progress.recorded(fresh)
        self._metrics.append([{"time": time.time(), **self._progress.metrics()}])

    def _tell(self, incident: Incident, generators: WorkPool, plan: Plan) -> None:
        details = {
            key: asdict(value) if hasattr(value, "__dataclass_fields__") else value
            for key, value in incident.details.items()
        }
        self._events.append(
            [{"time": time.time(), "kind": incident.kind, "worker": incident.worker, "text": incident.text, **details}]
        )
        if incident.kind != "ready":
            self._console.warn(f"{incident.worker} {incident.kind}: {incident.text}")
        elif incident.pool == "generator":
            report = incident.details["report"]
            self._console.say(f"{incident.worker}: {report}")
            reports = generators.reports.values()
            if shared := shared_gpus((known.placement for known in reports), plan.gpus_per_generator):
                raise FatalError(f"two actors share a GPU that each should have alone: {', '.join(shared)}")
            self._progress.start()


def make_units(requests: Sequence[GenerationRequest], batch_size: int, workers: int) -> list[Unit]:
    """Units of at most `batch_size`, the longest prompts first and alike in length, at least one for each worker."""
    ordered = sorted(requests, key=lambda request: -len(request.prompt_ids))
    size = min(batch_size, math.ceil(len(ordered) / workers))
    return [
        Unit(f"unit-{number}", tuple(ordered[first : first + size]))
        for number, first in enumerate(range(0, len(ordered), size))
    ]


def make_sample(item: Generated, verdict: Verdict | None, problem: Problem, prompts: dict[str, Prompt]) -> Sample:
    """The journal line of a completion; without a verdict it is an error of the generation."""
    made = item.completion
    verdict = verdict or Verdict(Outcome.ERROR, made.error or "no completion")
    return Sample(
        problem_id=made.problem_id,
        sample_index=made.sample_index,
        prompt_hash=prompt_hash(prompts[made.problem_id].token_ids),
        completion=made.text,
        num_tokens=len(made.token_ids),
        finish_reason=made.finish_reason,
        answer=verdict.answer,
        gold=problem.answer,
        verdict=str(verdict.outcome),
        reason=verdict.reason,
        subject=problem.subject,
        level=problem.level,
        mean_logprob=sum(made.logprobs) / len(made.logprobs) if made.logprobs else None,
        unit=item.unit.id,
        attempt=item.unit.attempt,
        actor=item.worker,
        seconds=round(item.seconds, 3),
    )


def _tell_what_is_there(journal: Journal, planned: int, console: Console) -> None:
    if journal.torn_bytes:
        console.warn(f"dropped a line of {journal.torn_bytes} bytes that was cut off in the middle")
    if journal.duplicates:
        console.warn(f"the journal holds {journal.duplicates} sample(s) twice; the first of each counts")
    if journal.samples:
        console.say(f"{len(journal.samples)} of {planned} samples are there already")


def _conclude(
    config: EvalConfig,
    task: Task,
    folder: RunFolder,
    journal: Journal,
    origin: dict[str, Any],
    throughput: dict[str, Any] | None,
    stop: StopFlag,
) -> tuple[dict[str, Any], int]:
    """Write summary.json from the whole journal; returns it with the exit code."""
    found = summarise(journal.samples.values(), len(task.prompts))
    complete = found["n"] == found["planned"]
    above = found["fault_share"] > config.run.max_error_share
    if complete:
        code, status = (ABOVE_ERROR_THRESHOLD, "above the error threshold") if above else (0, "complete")
    else:
        code, status = PREEMPTED, "preempted" if stop() else "unfinished"
    summary = {
        "status": status,
        "model": config.model.name,
        "data": config.data.source,
        **found,
        "duplicates": journal.duplicates,
        "throughput": throughput,
        "run_dir": str(folder.path),
        "identity": task.identity,
        "provenance": origin,
    }
    folder.write_json(folder.summary_path, summary)
    return summary, code
