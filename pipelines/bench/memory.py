"""`mathlete bench memory`: how settings fill the memory, and the largest that fit, found by running them at their fullest."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from actors.host import host_memory
from pipelines.bench import children
from pipelines.bench.child import ChildError, run_child
from pipelines.bench.findings import Finding
from pipelines.bench.machine import usable_cores
from pipelines.bench.part import positive
from pipelines.bench.result import Result
from pipelines.bench.rounds import RowResult, Trial, spec_file
from pipelines.bench.table import columns
from pipelines.config import ConfigError, EvalConfig, GrpoConfig, load_config
from pipelines.terminal.console import Console

HELP = "how batch size, context and group size fill the memory, and the largest settings that fit"

SHARE = 0.8
"""Of the memory that is available now: the driver, Ray and the graders need the rest."""

GIB = 2**30

WORDS = ("allocate", "bad_alloc", "MemoryError", "start new thread", "SIGKILL", "SIGABRT", "SIGSEGV", "SIGBUS")
"""In the last words of a child that ran into its limit; a new thread needs memory too."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One run of a setting at its fullest. Bytes."""

    size: int
    fits: bool
    reason: str | None
    resident: int | None = None
    private: int | None = None
    device: int | None = None

    @property
    def taken(self) -> int | None:
        """What the limit is held against, at the end of the run; None where that was not reached."""
        return self.private if self.device is None else self.device

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Row:
    """One setting that grows. `spec` says what a child runs for a size, `settings` what a user writes."""

    name: str
    compares: str
    unit: str
    least: int
    spec: Callable[[int, "Frame"], dict[str, Any]]
    settings: Callable[[int, "Frame"], str]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """What stays as it is while one setting grows."""

    model: Mapping[str, Any]
    threads: int
    context: int
    prompt: int
    batch_size: int
    problems: int
    generations: int
    token_budget: int | None
    """Of the learner; None: what it chooses."""
    limit: int
    longest: int | None
    """Tokens that the model's context has."""

    def child(self, *, engine: Mapping[str, Any], learner: Mapping[str, Any] | None, context: int) -> dict[str, Any]:
        return {
            "model": dict(self.model),
            "threads": self.threads,
            "limit": self.limit,
            "context": context,
            "prompt": self.prompt,
            "engine": dict(engine),
            "fill": True,
            "learner": learner,
        }


def _pool(rows: int, context: int) -> dict[str, Any]:
    return {"batch_size": rows, "kv_cache_tokens": rows * -(-context // 16) * 16}


def _words(rows: int, context: int) -> str:
    pool = _pool(rows, context)
    return f"generation.batch_size={rows} generation.kv_cache_tokens={pool['kv_cache_tokens']}"


ROWS: Mapping[str, Row] = {
    row.name: row
    for row in (
        Row(
            "batch",
            "rows of --context tokens each that `mathlete eval` can run at once",
            "rows",
            1,
            lambda size, frame: frame.child(engine=_pool(size, frame.context), learner=None, context=frame.context),
            lambda size, frame: f"mathlete eval {_words(size, frame.context)}",
        ),
        Row(
            "context",
            "tokens, prompt and completion together, that each of --batch-size rows can have",
            "tokens",
            128,
            lambda size, frame: frame.child(engine=_pool(frame.batch_size, size), learner=None, context=size),
            lambda size, frame: f"mathlete eval {_words(frame.batch_size, size)}",
        ),
        Row(
            "group",
            "rollouts of a problem in `mathlete grpo`, all of a step at once beside the learner",
            "rollouts",
            2,
            lambda size, frame: frame.child(
                engine=_pool(frame.problems * size, frame.context),
                learner={"token_budget": frame.token_budget},
                context=frame.context,
            ),
            lambda size, frame: (
                f"mathlete grpo grpo.num_generations={size} learner.token_budget={frame.token_budget or 'auto'} "
                + _words(frame.problems * size, frame.context)
            ),
        ),
        Row(
            "token-budget",
            "tokens of a micro-batch of the learner, beside a generator with the rollouts of a step",
            "tokens",
            128,
            lambda size, frame: frame.child(
                engine=_pool(frame.problems * frame.generations, frame.context),
                learner={"token_budget": size},
                context=frame.context,
            ),
            lambda size, frame: (
                f"mathlete grpo learner.token_budget={size} "
                + _words(frame.problems * frame.generations, frame.context)
            ),
        ),
    )
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Model, the settings that stay, and the limit."""
    evaluation, training = EvalConfig(), GrpoConfig()
    parser.add_argument("--model", default=evaluation.model.name, help="folder, hub id or built-in model")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16 (default auto)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default auto)")
    parser.add_argument(
        "--limit-gib",
        type=float,
        metavar="G",
        help=f"memory of the process (default {SHARE:.0%}% of what is available)",
    )
    for name, default, text in (
        ("--context", 1024, "tokens of prompt and completion"),
        ("--batch-size", evaluation.generation.batch_size, "rows at once, for the row context"),
        ("--problems", training.grpo.problems_per_step, "problems of a training step"),
        ("--generations", training.grpo.num_generations, "rollouts of a problem, for the row token-budget"),
        ("--threads", usable_cores(), "threads"),
    ):
        parser.add_argument(name, type=positive, default=default, metavar="N", help=f"{text} (default {default})")
    parser.add_argument(
        "--token-budget", type=positive, metavar="N", help="of the learner, for the row group (default: its own choice)"
    )


def run(options: argparse.Namespace, names: Sequence[str], console: Console) -> Result:
    """Measure. Raises ConfigError and ModelError before anything runs."""
    frame = _frame(options)
    results = [_measured(ROWS[name], frame, options.timeout_s, console) for name in names]
    defaults = _defaults(frame, options.timeout_s, console)
    facts = {
        "model": options.model,
        "limit": frame.limit,
        "context": frame.context,
        "batch_size": frame.batch_size,
        "problems": frame.problems,
        "generations": frame.generations,
        "token_budget": frame.token_budget,
        "defaults": defaults,
    }
    return Result(facts, results, _text(results, frame, defaults), options.threads)


def _frame(options: argparse.Namespace) -> Frame:
    from pipelines.task import Subject

    words = {"model.name": options.model, "model.dtype": options.dtype, "model.device": options.device}
    subject = Subject(load_config(EvalConfig, None, [f"{key}={json.dumps(value)}" for key, value in words.items()]))
    longest = subject.context_length
    if options.limit_gib is not None and options.limit_gib <= 0:
        raise ConfigError(["--limit-gib must be above 0"])
    if longest is not None and options.context > longest:
        raise ConfigError([f"--context {options.context}: the model's context is {longest} tokens"])
    limit = SHARE * _available(options.device) if options.limit_gib is None else options.limit_gib * GIB
    return Frame(
        asdict(subject.model),
        options.threads,
        options.context,
        min(128, options.context // 2),
        options.batch_size,
        options.problems,
        options.generations,
        options.token_budget,
        int(limit),
        longest,
    )


def _available(device: str) -> int:
    """Bytes that are free: of the GPU if there is one, asked in a child so that this process stays without torch."""
    code = (
        "import json, torch; on = torch.cuda.is_available(); "
        "print(json.dumps({'free': torch.cuda.mem_get_info(0)[0] if on else None}))"
    )
    free = None if device == "cpu" else run_child([sys.executable, "-c", code], 120.0)["free"]
    return host_memory()[0] if free is None else free


def sizes(least: int, most: int | None) -> list[int]:
    """1, 1.5, 2, 3, 4, 6, … times `least`, up to `most`."""
    found, power = [least], 2
    while len(found) < 48:
        found += [size for size in (least * power * 3 // 4, least * power) if size > found[-1]]
        power *= 2
    return [size for size in found if most is None or size <= most] or [least]


def largest_that_fits(grid: Sequence[int], probe: Callable[[int], Probe], limit: int) -> list[Probe]:
    """Probe sizes of `grid` until the largest that fits and the next one are known; returns all probes in order of size.

    Memory is taken to grow in a straight line, which only decides where to look first.
    """
    known: dict[int, Probe] = {}

    def at(place: int) -> Probe:
        if place not in known:
            known[place] = probe(grid[place])
        return known[place]

    place = 0
    if at(0).fits and len(grid) > 1:
        place = min(4, len(grid) - 1)
        first, second = at(0), at(place)
        if second.fits and first.taken is not None and second.taken is not None:
            slope = max(1.0, (second.taken - first.taken) / (second.size - first.size))
            room = first.size + (limit - first.taken) / slope
            place = max((each for each, size in enumerate(grid) if size <= room), default=0)
        while at(place).fits and place + 1 < len(grid):
            place += 1
        while not at(place).fits and place:
            place -= 1
    return [known[each] for each in sorted(known)]


def _measured(row: Row, frame: Frame, timeout_s: float, console: Console) -> RowResult:
    result = RowResult(Trial(row.name, row.compares))
    grid = sizes(row.least, frame.longest if row.name == "context" else None)

    def probe(size: int) -> Probe:
        found = _probe(size, row.spec(size, frame), timeout_s)
        taken = "" if found.taken is None else f", {found.taken / GIB:.2f} GiB"
        console.say(f"{row.name}: {size} {row.unit}: {'fits' if found.fits else 'does not fit'}{taken}")
        return found

    try:
        probes = largest_that_fits(grid, probe, frame.limit)
    except ChildError as error:
        result.failed = str(error)
        console.fail(f"{row.name}: {error}")
        return result
    result.runs = {"probes": list(probes)}
    fitting = [each.size for each in probes if each.fits]
    if not fitting:
        result.failed = f"not even {grid[0]} {row.unit} fit into {frame.limit / GIB:.2f} GiB: {probes[0].reason}"
        return result
    largest = fitting[-1]
    larger = next((each.size for each in probes if each.size > largest), None)
    details = {"settings": row.settings(largest, frame), "limit": frame.limit}
    ratio = larger / largest if larger else 1.0
    what, next_one = "largest that fits, next that fails", larger or largest
    result.findings = [Finding(what, row.unit, largest, next_one, ratio, ratio, ratio, None, details=details)]
    return result


def _probe(size: int, spec: Mapping[str, Any], timeout_s: float) -> Probe:
    """Raises ChildError for a child that fails for another reason than memory."""
    try:
        with spec_file(spec) as file:
            found = run_child([sys.executable, "-m", f"{children.__name__}.ours_filling", str(file)], timeout_s)
    except ChildError as error:
        if not any(word in str(error) for word in WORDS):
            raise
        return Probe(size, False, str(error).splitlines()[0])
    return Probe(size, found["fits"], found["reason"], found["peak_resident"], found["private"], found["peak_device"])


def _defaults(frame: Frame, timeout_s: float, console: Console) -> dict[str, Any]:
    """What the commands choose where nothing is set, and whether that fits."""
    engine = {"batch_size": EvalConfig().generation.batch_size, "kv_cache_tokens": None}
    found = {}
    for name, learner in (("eval", None), ("grpo", {"token_budget": None})):
        spec = frame.child(engine=engine, learner=learner, context=frame.context) | {"fill": False}
        try:
            probe = _probe(engine["batch_size"] or 0, spec, timeout_s)
        except ChildError as error:
            console.warn(f"the defaults of mathlete {name} were not measured: {error}")
            continue
        found[name] = {**engine, **probe.as_json()}
    return found


def _text(results: Sequence[RowResult], frame: Frame, defaults: Mapping[str, Any]) -> str:
    lines: list[tuple[str, ...]] = [("row", "size", "", "resident", "private", "device", "")]
    for result in results:
        for probe in result.runs.get("probes", ()):
            lines.append(_line(result.trial.name, probe))
    said = []
    for result in results:
        if not result.findings:
            said.append(f"{result.trial.name}: {result.failed}")
            continue
        (finding,) = result.findings
        larger = "no larger one was tried" if finding.peer == finding.ours else f"{finding.peer:g} do not"
        said.append(
            f"{result.trial.name}: {finding.ours:g} {finding.unit} fit, {larger}: {finding.details['settings']}"
        )
    for name, found in defaults.items():
        fits = "fits" if found["fits"] else f"does not fit ({found['reason']})"
        taken = "" if found["private"] is None else f", {found['private'] / GIB:.2f} GiB with all of its pool"
        said.append(f"mathlete {name} by default: {found['batch_size']} rows{taken}: {fits}")
    head = f"limit {frame.limit / GIB:.2f} GiB, rows of {frame.context} tokens"
    return "\n".join([head, "", *columns(lines), "", *said])


def _line(name: str, probe: Any) -> tuple[str, ...]:
    sizes = (probe.resident, probe.private, probe.device)
    cells = ("" if size is None else f"{size / GIB:.2f} GiB" for size in sizes)
    return (name, str(probe.size), "fits" if probe.fits else "does not fit", *cells, (probe.reason or "")[:60])
