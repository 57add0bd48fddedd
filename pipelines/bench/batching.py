"""`mathlete bench batching`: static, dynamic and continuous batching under requests that arrive over time."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from pipelines.bench import children
from pipelines.bench.child import ChildError, run_child
from pipelines.bench.data import default_source
from pipelines.bench.findings import Finding
from pipelines.bench.machine import usable_cores
from pipelines.bench.part import PlainRow, positive
from pipelines.bench.result import Result
from pipelines.bench.rounds import Entrant, RowResult, Trial, measure, spec_file
from pipelines.bench.serving import Served, ServingRun, pooled, throughput_within
from pipelines.bench.table import columns
from pipelines.bench.traffic import Traffic, at_once, lognormal, poisson
from pipelines.bench.work import Ids, room
from pipelines.config import ConfigError, EvalConfig, load_config
from pipelines.report.charts import line_chart
from pipelines.terminal.console import Console

HELP = "requests that arrive over time: latency and throughput of static, dynamic and continuous batching"

POLICIES = ("continuous", "dynamic", "static")
TARGETS = {"dynamic": 1.5, "static": 2.0}
LOADS = (0.1, 0.25, 0.4, 0.6, 0.8, 1.0)
"""Rates, as shares of what continuous batching can serve."""

LATENCIES = (1.5, 2.0, 3.0, 5.0)
"""Bounds of the p95 latency, as multiples of continuous batching's at the lowest rate."""

JUDGED = 2.0
"""The bound that targets are for."""

WORTH = 1.1
"""Below this advantage in p95 latency, continuous batching is called not worth it at a rate."""

FULL_BATCHES = 3
SAMPLES = 2000


ROWS: Mapping[str, PlainRow] = {
    row.name: row
    for row in (
        PlainRow("math", "completions as long as the data's solutions, or else as MATH's"),
        PlainRow("uniform", "completions of one length, the mean of the others", optional=True),
    )
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Model, data, traffic."""
    parser.add_argument("--model", default="smollm2-135m", help="folder, hub id or built-in model")
    parser.add_argument(
        "--data",
        help="prompts, and lengths where it has solutions (default MATH-500 where there is a local copy, else "
        "builtin:arithmetic, whose own solutions are no measure)",
    )
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="rows at once (default 32)")
    parser.add_argument("--rate", type=float, action="append", metavar="R", help="requests a second; may be repeated")
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="S", help="that requests arrive at each rate (default 60)"
    )
    parser.add_argument("--rounds", type=positive, default=1, metavar="N", help="times that each policy runs")
    parser.add_argument(
        "--max-new-tokens", type=positive, default=512, metavar="N", help="longer completions are cut (default 512)"
    )
    parser.add_argument("--threads", type=positive, default=usable_cores(), metavar="N", help="default: all cores")


def run(options: argparse.Namespace, names: Sequence[str], console: Console) -> Result:
    """Measure. Raises ConfigError, ProblemError, PromptError and ModelError before anything runs."""
    if any(rate <= 0 for rate in options.rate or ()) or options.seconds <= 0:
        raise ConfigError(["--rate and --seconds must be above 0"])
    supply = _supply(options)
    results, files = [], {}
    for name in names:
        lengths = supply.lengths if name == "math" else [round(mean(supply.lengths))]
        result = _measured(ROWS[name], supply, lengths, options, console)
        results.append(result)
        if result.findings:
            files[f"latency-{name}.svg"] = _chart(result, supply.name)
    facts = {
        "model": options.model,
        "data": supply.source,
        "lengths": supply.lengths_from,
        "batch_size": options.batch_size,
        "seconds": options.seconds,
        "rounds": options.rounds,
    }
    return Result(facts, results, "\n\n".join(map(_text, results)), options.threads, files)


@dataclass(frozen=True, slots=True)
class Supply:
    """What traffic is made of."""

    name: str
    source: str
    spec: Mapping[str, Any]
    prompts: Sequence[Ids]
    lengths: Sequence[int]
    lengths_from: str


def _supply(options: argparse.Namespace) -> Supply:
    from pipelines import task
    from pipelines.problems.sources import ARITHMETIC
    from pipelines.training.examples import examples_of

    source = options.data or default_source()
    words = {"model.name": options.model, "data.source": source}
    config = load_config(EvalConfig, None, [f"{key}={json.dumps(value)}" for key, value in words.items()])
    subject = task.Subject(config)
    problems = task.selected_problems(config.data)
    built = {problem.id: subject.prompts.build(problem) for problem in problems}
    prompts = [tuple(prompt.token_ids) for prompt in built.values()]
    most = room(subject.context_length, prompts, options.max_new_tokens)
    solved = [problem for problem in problems if problem.solution]
    origin = "log-normal, as MATH's solutions"
    lengths = lognormal(SAMPLES, most)
    if solved and source != ARITHMETIC:
        origin = f"{len(solved)} solutions of the data"
        found = examples_of(solved, built, subject.tokenizer, None, "drop").examples
        lengths = [min(most, len(example.answer_ids)) for example in found]
    spec = {
        "model": asdict(subject.model),
        "threads": options.threads,
        "batch_size": options.batch_size,
    }
    return Supply(options.model, source, spec, prompts, lengths, f"{origin}, at most {most} tokens")


def _measured(
    row: PlainRow, supply: Supply, lengths: Sequence[int], options: argparse.Namespace, console: Console
) -> RowResult:
    count = FULL_BATCHES * options.batch_size
    all_there = at_once(count, supply.prompts, lengths, seed=0)
    rates = options.rate
    if not rates:
        try:
            rates = _rates(supply, all_there, options.timeout_s)
        except ChildError as error:
            console.fail(f"{row.name}: {error}")
            return RowResult(Trial(row.name, row.compares), failed=str(error))
        console.say("rates: " + ", ".join(f"{rate:.3g}" for rate in rates) + " requests a second")

    def vary(number: int) -> dict[str, Any]:
        traffic = [
            poisson(rate, options.seconds, supply.prompts, lengths, seed=1000 * number + place)
            for place, rate in enumerate(sorted(rates))
        ]
        return {"traffic": [asdict(each) for each in (*traffic, all_there)]}

    entrants = [
        Entrant(policy, {**supply.spec, "policy": policy}, _command, ServingRun.read, vary) for policy in POLICIES
    ]
    trial = Trial(row.name, row.compares, entrants, _judge)
    return measure(trial, options.rounds, options.timeout_s, console)


def _command(file: Any) -> list[str]:
    return [sys.executable, "-m", f"{children.__name__}.ours_serving", str(file)]


def _rates(supply: Supply, all_there: Traffic, timeout_s: float) -> list[float]:
    """Requests a second, from what continuous batching does when all are there at the start."""
    with spec_file({**supply.spec, "policy": "continuous", "traffic": [asdict(all_there)]}) as file:
        (served,) = ServingRun.read(run_child(_command(file), timeout_s)).served
    return [load * served.tokens_per_s / all_there.mean_length for load in LOADS]


def _judge(runs: Sequence[Sequence[ServingRun]]) -> list[Finding]:
    """Throughput at the same p95 latency, for some bounds of it: continuous batching's against each other policy's."""
    served = {policy: pooled(each) for policy, each in zip(POLICIES, runs, strict=True)}
    base = min((each for each in served["continuous"] if each.rate), key=lambda each: each.rate).end_to_end[95]
    details = {policy: [asdict(each) for each in found] for policy, found in served.items()}
    findings: list[Finding] = []
    for other in POLICIES[1:]:
        for multiple in LATENCIES:
            bound = multiple * base
            ours, peer = throughput_within(served["continuous"], bound), throughput_within(served[other], bound)
            note = ""
            if not peer:
                # It did not hold the bound even at the lowest rate: its throughput is below what that rate gave.
                peer = min(each.tokens_per_s for each in served[other] if each.rate)
                note = f"{other} does not hold {bound:.2f} s at the lowest rate; the ratio is at least this"
            findings.append(
                Finding(
                    f"to {other}, p95 within {bound:.2f} s",
                    "tok/s",
                    ours,
                    peer,
                    ours / peer,
                    ours / peer,
                    ours / peer,
                    TARGETS[other] if multiple == JUDGED else None,
                    details=details if not findings else {},
                    notes=(note,) if note else (),
                )
            )
    return findings


def _text(result: RowResult) -> str:
    if not result.findings:
        return f"{result.trial.name}: {'failed: ' + result.failed.splitlines()[0] if result.failed else 'not measured'}"
    served = _served(result)
    heads = (
        "rate", "policy", "tok/s", "first token p50", "p95", "p99", "per token p50", "p95", "p99", "end to end p50", "p95",
        "p99", "blocked p95", "places", "padding",
    )  # fmt: skip
    lines: list[tuple[str, ...]] = [heads]
    for place in range(len(served["continuous"])):
        for policy in POLICIES:
            lines.append(_line(policy, served[policy][place]))
    equal = [("throughput at equal latency", "continuous", "other", "ratio", "target", "")]
    for finding in result.findings:
        target = "" if finding.target is None else f">= {finding.target:g}"
        held = {True: "held", False: "missed", None: ""}[finding.held]
        cells = (f"{finding.ours:.0f} tok/s", f"{finding.peer:.0f} tok/s", f"{finding.ratio:.2f} x", target, held)
        equal.append((finding.what, *cells))
    notes = [note for finding in result.findings for note in finding.notes]
    head = f"{result.trial.name}: {result.trial.compares}; seconds, per token in milliseconds"
    return "\n".join([head, *columns(lines), "", *columns(equal), *notes, "", *_not_worth(served)])


def _served(result: RowResult) -> dict[str, list[Served]]:
    """By policy, of the rounds that were run."""
    runs: Any = result.runs
    return {policy: pooled(runs[policy]) for policy in POLICIES}


def _line(policy: str, served: Served) -> tuple[str, ...]:
    def three(values: Mapping[int, float], scale: float = 1.0) -> list[str]:
        return [f"{scale * value:.3g}" for value in values.values()]

    return (
        f"{served.rate:.3g}/s" if served.rate else "all at once",
        policy,
        f"{served.tokens_per_s:.0f}",
        *three(served.first_token),
        *three(served.per_token, 1000),
        *three(served.end_to_end),
        f"{served.blocked[95]:.3g}",
        f"{served.occupancy:.0%}",
        f"{served.padding_share:.1%}",
    )


def _not_worth(served: Mapping[str, Sequence[Served]]) -> list[str]:
    """Where another policy is as good."""
    said = []
    for place, ours in enumerate(served["continuous"]):
        name, other = min(
            ((policy, served[policy][place]) for policy in POLICIES[1:]), key=lambda each: each[1].end_to_end[95]
        )
        gain = other.end_to_end[95] / ours.end_to_end[95]
        if not ours.rate:
            gain = max(each.tokens_per_s for each in (served[policy][place] for policy in POLICIES[1:]))
            gain = ours.tokens_per_s / gain
            if gain < WORTH:
                said.append(f"all requests there at once: {gain:.2f} x the throughput of the better of the others")
        elif gain < WORTH:
            said.append(f"{ours.rate:.3g} requests/s: {name}'s p95 latency is {gain:.2f} x continuous batching's")
    if not said:
        return [f"continuous batching is worth it at every rate measured (p95 latency at least {WORTH} x better)"]
    return ["continuous batching is not worth it at:", *(f"  {text}" for text in said)]


def _chart(result: RowResult, model: str) -> str:
    """p95 latency over throughput, a line a policy."""
    series = {
        policy: [(each.tokens_per_s, each.end_to_end[95]) for each in found if each.rate]
        for policy, found in _served(result).items()
    }
    return line_chart(
        series, title=f"{model}: latency against throughput", x_label="tokens/s", y_label="p95 latency, seconds"
    )
