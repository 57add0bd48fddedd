"""`mathlete grade`: judge again what a run has generated, or show how one pair is judged."""

import argparse
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.exit_codes import ExitCode
from pipelines.records.journal import JournalError, Sample, read_samples
from pipelines.records.run_folder import find_file
from pipelines.terminal.console import Console, add_output_options

BATCH = 64


@dataclass(frozen=True, slots=True)
class Change:
    """A sample whose verdict is not what the journal says."""

    problem_id: str
    sample_index: int
    before: str
    after: str
    answer: str | None
    gold: str
    reason: str


def add_parser(commands: Any) -> None:
    """Add `grade` to the `mathlete` command's subparsers."""
    text = "judge a run's completions again and list the verdicts that changed, or explain one pair"
    parser = commands.add_parser("grade", help=text, description=text)
    parser.add_argument("run", nargs="?", metavar="RUN", help="run folder, or its name below runs/")
    parser.add_argument("--gold", metavar="TEXT", help="right answer of the pair")
    parser.add_argument("--answer", metavar="TEXT", help="answer, or whole completion, of the pair")
    parser.add_argument(
        "--extraction",
        choices=["lenient", "strict"],
        default="lenient",
        help="strict accepts boxed answers only; lenient also phrases and a final fallback (default)",
    )
    add_output_options(parser)
    parser.set_defaults(tool=run)


def run(options: argparse.Namespace, console: Console, command: str) -> int:
    """Do what `options` ask for; returns the exit code."""
    pair = options.gold is not None and options.answer is not None
    if pair == (options.run is not None) or (options.gold is None) != (options.answer is None):
        console.fail("give either a run folder, or both --gold and --answer")
        return ExitCode.BAD_CONFIGURATION
    lenient = options.extraction == "lenient"
    if pair:
        return _explain(options.gold, options.answer, lenient, options.json)
    journal = find_file(options.run, ["samples.jsonl"])
    if journal is None:
        console.fail(f"{options.run}: no run there, nor in runs/; a run folder holds samples.jsonl")
        return ExitCode.BAD_CONFIGURATION
    from grading import GraderBroken

    try:
        samples = list(read_samples(journal, Sample).values())
        verdicts, changes = regrade(samples, lenient)
    except (JournalError, GraderBroken) as error:
        console.fail(str(error))
        return ExitCode.ERROR
    _show(journal.parent, samples, verdicts, changes, options.json)
    return ExitCode.COMPLETE


def regrade(samples: list[Sample], lenient: bool) -> tuple[Counter[str], list[Change]]:
    """Return how often each verdict comes out now, and the samples whose verdict changed.

    Samples without a completion, because generating it failed, keep theirs. Raises GraderBroken.
    """
    from grading import GradingItem, GradingLimits, GradingProcess

    verdicts: Counter[str] = Counter()
    changes = []
    made = [sample for sample in samples if sample.finish_reason != "error"]
    verdicts.update(sample.verdict for sample in samples if sample.finish_reason == "error")
    with GradingProcess(GradingLimits(lenient=lenient)) as process:
        for first in range(0, len(made), BATCH):
            batch = made[first : first + BATCH]
            found = process.grade_batch([GradingItem(sample.completion, sample.gold) for sample in batch])
            for sample, verdict in zip(batch, found, strict=True):
                after = str(verdict.outcome)
                verdicts[after] += 1
                if after != sample.verdict:
                    key = (sample.problem_id, sample.sample_index, sample.verdict)
                    changes.append(Change(*key, after, verdict.answer, sample.gold, verdict.reason))
    return verdicts, changes


def _explain(gold: str, answer: str, lenient: bool, as_json: bool) -> int:
    from grading.explain import explain

    steps, verdict = explain(answer, gold, lenient=lenient)
    if as_json:
        print(json.dumps({"steps": [asdict(step) for step in steps], "verdict": str(verdict.outcome)}))
    else:
        width = max(len(step.name) for step in steps)
        print("\n".join(f"{step.name:<{width}}  {step.result}" for step in steps))
    return ExitCode.COMPLETE


def _show(path: Path, samples: list[Sample], now: Counter[str], changes: list[Change], as_json: bool) -> None:
    before = Counter(sample.verdict for sample in samples)
    if as_json:
        found = {"run_dir": str(path), "samples": len(samples), "before": before, "after": now}
        print(json.dumps({**found, "changes": [asdict(change) for change in changes]}))
        return
    print(f"{path}: {len(samples)} samples, {len(changes)} verdicts changed")
    for name in sorted(before | now):
        print(f"{name:<10}{before[name]:>6} -> {now[name]}")
    for change in changes:
        print(
            f"{change.problem_id} [{change.sample_index}]  {change.before} -> {change.after}: "
            f"{change.answer!r} for {change.gold!r} ({change.reason})"
        )
