"""What the table of the engine shows, row by row, and what each row is held against."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.bench import work
from pipelines.bench.contenders import (
    GENERATE,
    GENERATE_BATCH,
    OPENVINO,
    OURS,
    OURS_DYNAMIC,
    OURS_STATIC,
    OURS_WITHOUT_KERNELS,
    Contender,
)
from pipelines.bench.findings import (
    Finding,
    Runs,
    first_token,
    growth,
    memory_above,
    share_of_ideal,
    speed,
)
from pipelines.bench.work import Supply, Work

GAIN_SHARE = 0.85
MEMORY_SHARE = 0.20
GROWTH_EXCESS = 1.10
"""Room for noise: linear growth gives 1."""


@dataclass(frozen=True, slots=True)
class Side:
    """A contender with its work; `label` tells sides of one contender apart."""

    contender: Contender
    make: Callable[[Supply], Work]
    label: str

    @classmethod
    def of(cls, contender: Contender, make: Callable[[Supply], Work], label: str | None = None) -> "Side":
        return cls(contender, make, label or contender.name)


@dataclass(frozen=True, slots=True)
class Row:
    """Sides run in turn, ours first; `judge` takes their runs in that order."""

    name: str
    compares: str
    sides: tuple[Side, ...]
    judge: Callable[[Sequence[Runs]], list[Finding]]
    optional: bool = False
    """Whether it runs only when it is asked for by name."""


def _speed(target: float | None) -> Callable[[Sequence[Runs]], list[Finding]]:
    return lambda runs: [speed(runs[0], runs[1], target)]


def _against(
    name: str,
    compares: str,
    make: Callable[[Supply], Work],
    contender: Contender,
    target: float | None,
    *,
    optional: bool = False,
) -> Row:
    return Row(name, compares, (Side.of(OURS, make), Side.of(contender, make)), _speed(target), optional)


_UNIFORM = f"{work.BATCH_SIZE} rows x {work.UNIFORM_TOKENS} new tokens, end of sequence ignored"
_SAMPLED = (
    f"{work.GROUP_SIZE} samples of each of the first {work.SAMPLED_PROBLEMS} problems, at most {work.SAMPLED_TOKENS} new "
    f"tokens, {work.GROUP_SIZE} at once"
)
_PROBLEMS = f"first {work.PROBLEMS} problems, at most {work.MOST_NEW_TOKENS} new tokens, batch {work.BATCH_SIZE}"

ROWS: Mapping[str, Row] = {
    row.name: row
    for row in (
        _against("uniform-generate", f"{_UNIFORM}: ours against transformers generate", work.uniform, GENERATE, 1.6),
        _against(
            "uniform-openvino",
            f"{_UNIFORM}: ours against OpenVINO GenAI, from a GGUF file",
            work.uniform,
            OPENVINO,
            1.0,
        ),
        _against("problems-generate", f"{_PROBLEMS}: ours against transformers generate", work.problems, GENERATE, 4.0),
        _against(
            "problems-generate-batch",
            f"{_PROBLEMS}: ours against transformers' continuous batching",
            work.problems,
            GENERATE_BATCH,
            6.0,
        ),
        Row(
            "problems-static",
            f"{_PROBLEMS}: our continuous against our static policy",
            (Side.of(OURS, work.problems), Side.of(OURS_STATIC, work.problems)),
            lambda runs: [
                speed(runs[0], runs[1], 1.4),
                share_of_ideal(runs[0], runs[1], work.BATCH_SIZE, GAIN_SHARE),
            ],
        ),
        Row(
            "problems-one-by-one",
            f"{_PROBLEMS}: ours against ours with batch size 1 on some of them",
            (Side.of(OURS, work.problems), Side.of(OURS, work.problems_one_by_one, "ours, one by one")),
            _speed(15.0),
        ),
        _against(
            "single-generate",
            f"{work.SINGLE_PROBLEMS} problems x {work.SINGLE_TOKENS} new tokens, batch 1: ours against "
            "transformers generate",
            work.single,
            GENERATE,
            1.2,
        ),
        Row(
            "group",
            f"{work.GROUP_SIZE} samples of one prompt of {work.GROUP_PROMPT_TOKENS} tokens against as many prompts, "
            "time until all have their first token",
            (Side.of(OURS, work.group, "ours, one prompt"), Side.of(OURS, work.separate, "ours, separate prompts")),
            lambda runs: [first_token(runs[0], runs[1], 4.0)],
        ),
        Row(
            "self-consistency-one-by-one",
            f"{_SAMPLED}: ours against ours with one sample at a time, on some of the problems",
            (Side.of(OURS, work.sampled), Side.of(OURS, work.sampled_one_by_one, "ours, one by one")),
            _speed(6.0),
        ),
        _against(
            "self-consistency-generate",
            f"{_SAMPLED}: ours against transformers generate with num_return_sequences={work.GROUP_SIZE}",
            work.sampled,
            GENERATE,
            2.0,
        ),
        Row(
            "memory",
            f"{_PROBLEMS}: our peak memory above weights and pool, as a share of these",
            (Side.of(OURS, work.problems),),
            lambda runs: [memory_above(runs[0], MEMORY_SHARE)],
        ),
        Row(
            "growth",
            f"{work.GROWTH_ROWS} rows whose context grows from {work.GROWTH_FROM} to {work.GROWTH_TO} tokens: time a "
            "token at the end against a straight line through the first half",
            (Side.of(OURS, work.growth),),
            lambda runs: [growth(runs[0], work.GROWTH_ROWS, GROWTH_EXCESS)],
        ),
        _against(
            "problems-dynamic",
            f"{_PROBLEMS}: our continuous against our dynamic policy",
            work.problems,
            OURS_DYNAMIC,
            None,
            optional=True,
        ),
        _against(
            "uniform-kernels",
            f"{_UNIFORM}: ours with against without native kernels",
            work.uniform,
            OURS_WITHOUT_KERNELS,
            None,
            optional=True,
        ),
    )
}
