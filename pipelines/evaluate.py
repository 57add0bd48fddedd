"""Evaluation: every problem to a completion, every completion to a verdict, every verdict into the journal."""

import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any

from actors.engine.requests import Completion, GenerationRequest, Key
from actors.models import cache_folder, needs_fetching
from actors.resources import shared_gpus
from grading import Outcome, Verdict
from pipelines.config import EvalConfig, dump_config
from pipelines.dispatch.connect import connected
from pipelines.dispatch.fleet import Inbox
from pipelines.dispatch.generated import GRADING_UNIT, Generated, generated, grading_units
from pipelines.dispatch.launch import generator_pool, grading_limits, grading_pool
from pipelines.dispatch.loop import events
from pipelines.dispatch.nodes import read_nodes, request_nodes
from pipelines.dispatch.pool import WorkPool
from pipelines.dispatch.preflight import Plan, plan_fleet, wait_for_plan
from pipelines.dispatch.reservation import reserved
from pipelines.dispatch.signals import StopFlag
from pipelines.dispatch.units import make_units, plan_units
from pipelines.dispatch.watch import NodeWatch, is_elastic
from pipelines.dispatch.work import FatalError, Finished, GivenUp, Incident, Tick, Unit
from pipelines.exit_codes import ExitCode
from pipelines.metrics.pass_at_k import usual_ks
from pipelines.problems import check_context
from pipelines.records.engine_use import engine_use
from pipelines.records.incidents import incident_counts
from pipelines.records.journal import Journal, Sample
from pipelines.records.problems import write_problems
from pipelines.records.progress import EvaluationProgress
from pipelines.records.provenance import provenance
from pipelines.records.run_folder import RunFolder, open_run_folder
from pipelines.records.samples import make_sample
from pipelines.records.self_consistency import self_consistency
from pipelines.records.summary import summarise
from pipelines.records.votes import ballots
from pipelines.task import Task, prepare, run_folder_path, sampling_params
from pipelines.terminal.console import Console
from pipelines.tracking.tracker import tracked
from pipelines.vote import take_votes

METRICS_INTERVAL_S = 0.2
"""Between two lines of metrics.jsonl: each waits for the disk, as the journal does, and says little by itself."""


def evaluate(config: EvalConfig, console: Console, stop: StopFlag, command: str) -> tuple[dict[str, Any], ExitCode]:
    """Run, or resume, the evaluation that `config` describes; returns its summary and the exit code.

    Raises the errors of its parts; whatever they are, what is in the journal stays and counts at the next start.
    """
    with open_run_folder(run_folder_path(config, "eval")) as folder:
        if needs_fetching(config.model.name):
            console.say(f"fetching the built-in model {config.model.name}, about 93 MB; it is kept in {cache_folder()}")
        task = prepare(config)
        origin = provenance(command)
        details = {"provenance": origin, "config": config.model_dump(mode="json")}
        folder.claim(task.identity, details, config.growing)
        folder.write_text(folder.config_path, dump_config(config))
        write_problems(folder.problems_path, task.problems.values())
        journal = folder.journal()
        _tell_what_is_there(journal, task.planned, console)
        missing = [request for request in task.requests() if request.key not in journal.samples]
        throughput = folder.last_summary().get("throughput")
        with tracked(config.tracking, "eval", folder, console) as tracker:
            if missing:
                throughput = Evaluation(config, task, folder, journal, console, stop).do(missing)
            found, complete = _findings(config, task, folder, journal, console, stop)
            found |= {"throughput": throughput, "provenance": origin}
            summary, code = _conclude(config, task, folder, found, complete, stop)
            tracker.conclude(code, journal.samples.values, task.problems)
        return summary, code


class Evaluation:
    """One session of work on a run folder."""

    def __init__(
        self,
        config: EvalConfig,
        task: Task,
        folder: RunFolder,
        journal: Journal[Sample],
        console: Console,
        stop: StopFlag,
    ) -> None:
        self._config = config
        self._task = task
        self._journal = journal
        self._console = console
        self._stop = stop
        self._incidents = folder.incidents(console)
        self._metrics = folder.metrics()
        self._metrics_due = float("-inf")
        self._lengths: dict[Key, int] = {}
        self._progress = EvaluationProgress(_title(config), task.planned, journal.samples.values())

    def do(self, requests: Sequence[GenerationRequest]) -> dict[str, Any]:
        """Generate and grade until everything is there or a stop is requested; returns the throughput."""
        requests = self._set_aside_too_long(requests)
        if not requests:
            return self._progress.throughput()
        config = self._config
        with connected(config.cluster, config.grading.cpus, self._stop) as cluster:
            plan = self._preflight(cluster)
            sampling = sampling_params(config.sampling)
            each = f", {self._task.samples} samples per problem" if self._task.samples > 1 else ""
            self._console.say(f"sampling: {sampling}{each}")
            units = plan_units(config.generation.batch_size, len(requests), plan.generators, self._task.samples)
            handed_out = make_units(requests, units.size, sampling)
            with reserved(plan, wanted=config.cluster.reserve) as place:
                inbox = Inbox()
                generators = generator_pool(config, plan, units, self._task.model, inbox, place)
                graders = grading_pool(config, plan, inbox)
                for unit in handed_out:
                    generators.add(unit)
                try:
                    self._work(generators, graders, plan, inbox)
                finally:
                    generators.close()
                    graders.close()
        in_order = [item for unit in handed_out for item in unit.items]
        lengths = [self._lengths[item.key] for item in in_order if item.key in self._lengths]
        use = engine_use(generators.progress.values(), lengths, config.generation.batch_size)
        return {**self._progress.throughput(), **use}

    def _work(self, generators: WorkPool, graders: WorkPool, plan: Plan, inbox: Inbox) -> None:
        backlog = 4 * GRADING_UNIT * plan.graders
        watch = NodeWatch(read_nodes, plan, generators, graders, elastic=is_elastic(self._config))
        for event in events([generators, graders], inbox.wait, self._stop, max_backlog=backlog):
            match event:
                case Finished(pool="generator"):
                    self._progress.generated(event.result)
                    self._lengths |= {made.key: len(made.token_ids) for made in event.result}
                    for unit in self._to_grade(event):
                        graders.add(unit)
                case Finished(pool="grader"):
                    self._record(zip(event.unit.items, event.result, strict=True))
                case GivenUp(pool="generator"):
                    self._record_failed(event.unit, event.reason)
                case GivenUp(pool="grader"):
                    verdict = Verdict(Outcome.ERROR, event.reason)
                    self._record((item, verdict) for item in event.unit.items)
                case Incident():
                    self._tell(event, generators, plan)
                case Tick():
                    self._console.show(lambda: self._progress.status(generators, graders))
                    for incident in watch.look():
                        self._tell(incident, generators, plan)

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
        limit, wanted = self._task.context_length, self._config.sampling.max_new_tokens
        if limit is None:
            return list(requests)
        names = list(dict.fromkeys(request.problem_id for request in requests))
        found = check_context([self._task.prompts[name] for name in names], limit, wanted)
        if found.cut_short:
            self._console.warn(
                f"{len(found.cut_short)} prompt(s) leave less than {wanted} tokens of the model's context of {limit}: "
                "their completions may be cut short"
            )
        aside = [names[index] for index in found.no_room]
        if aside:
            self._console.warn(
                f"{len(aside)} prompt(s) fill the model's context of {limit} tokens and are recorded as errors: "
                f"{', '.join(aside[:5])}"
            )
            reason = f"the prompt leaves no room in the model's context of {limit} tokens"
            hopeless = tuple(request for request in requests if request.problem_id in aside)
            self._record_failed(Unit("too-long", hopeless), reason)
        return [request for request in requests if request.problem_id not in aside]

    def _to_grade(self, event: Finished) -> Iterable[Unit]:
        """Units for the graders; completions that failed have nothing to grade and are recorded at once."""
        made = generated(event, self._task.problems)
        failed = [item for item in made if item.failed]
        if failed:
            self._record((item, None) for item in failed)
        yield from grading_units(event.unit.id, made)

    def _record_failed(self, unit: Unit, reason: str) -> None:
        """Every request of `unit` ends without a completion."""
        failed = [Completion.failed(request, reason) for request in unit.items]
        self._record((Generated(item, self._task.problems[item.problem_id], unit), None) for item in failed)

    def _record(self, graded: Iterable[tuple[Generated, Verdict | None]]) -> None:
        samples = [make_sample(item, verdict, self._task.prompts[item.problem.id]) for item, verdict in graded]
        fresh = self._journal.append(samples)
        self._progress.recorded(fresh)
        metrics = self._progress.metrics()
        last = metrics["progress/done"] == metrics["progress/total"]
        if last or time.monotonic() >= self._metrics_due:
            self._metrics_due = time.monotonic() + METRICS_INTERVAL_S
            self._metrics.append([{"time": time.time(), **metrics}])

    def _tell(self, incident: Incident, generators: WorkPool, plan: Plan) -> None:
        self._incidents.record(incident.kind, incident.worker, incident.text, incident.details)
        if incident.kind == "ready" and incident.pool == "generator":
            report = incident.details["report"]
            self._console.say(f"{incident.worker}: {report}")
            places = [known.placement for known in generators.reports.values()]
            if shared := shared_gpus(places, plan.gpus_per_generator):
                raise FatalError(f"two actors share a GPU that each should have alone: {', '.join(shared)}")
            self._progress.start()


def _title(config: EvalConfig) -> str:
    return f"{config.model.name} on {config.data.source}"


def _tell_what_is_there(journal: Journal[Sample], planned: int, console: Console) -> None:
    if journal.torn_bytes:
        console.warn(f"dropped a line of {journal.torn_bytes} bytes that was cut off in the middle")
    if journal.duplicates:
        console.warn(f"the journal holds {journal.duplicates} sample(s) twice; the first of each counts")
    if journal.samples:
        console.say(f"{len(journal.samples)} of {planned} samples are there already")


def _findings(
    config: EvalConfig, task: Task, folder: RunFolder, journal: Journal, console: Console, stop: StopFlag
) -> tuple[dict[str, Any], bool]:
    """What the whole journal says, and whether nothing is missing: neither samples nor, with several a problem, votes."""
    samples = journal.samples.values()
    found = {**summarise(samples, task.planned), "duplicates": journal.duplicates, "samples_per_problem": task.samples}
    found["incidents"] = incident_counts(folder.events_path)
    complete = len(samples) == task.planned
    if task.samples == 1:
        return found, complete
    votes = None
    if complete:
        stop.install(immediate=False)
        limits = grading_limits(config.grading)
        with closing(folder.votes()) as known:
            votes = take_votes(ballots(samples), known, limits, stop, console)
    ks = config.metrics.pass_at or usual_ks(task.samples)
    return {**found, **self_consistency(samples, task.problems, ks, votes)}, votes is not None


def _conclude(
    config: EvalConfig, task: Task, folder: RunFolder, found: dict[str, Any], complete: bool, stop: StopFlag
) -> tuple[dict[str, Any], ExitCode]:
    """Write summary.json; returns it with the exit code."""
    above = found["fault_share"] > config.run.max_error_share
    if complete:
        code, status = (
            (ExitCode.ABOVE_ERROR_THRESHOLD, "above the error threshold") if above else (ExitCode.COMPLETE, "complete")
        )
    else:
        code, status = ExitCode.PREEMPTED, "preempted" if stop() else "unfinished"
    summary = {
        "status": status,
        "model": config.model.name,
        "data": config.data.source,
        **found,
        "run_dir": str(folder.path),
        "identity": task.identity,
    }
    folder.write_json(folder.summary_path, summary)
    return summary, code
