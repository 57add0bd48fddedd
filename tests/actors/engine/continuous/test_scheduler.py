"""The scheduler alone: what runs when, and that every token finds its context whatever happens around it."""

import random

import pytest

from actors.engine.continuous.policy import Policy
from actors.engine.continuous.scheduler import Admission, Scheduler
from actors.engine.continuous.sequence import Sequence
from tests.actors.engine.continuous.symbolic import SymbolicPool, ends_at_random


def sequence(ticket: int, prompt_length: int = 40, budget: int = 30, prompt: int | None = None) -> Sequence:
    return Sequence(ticket, ticket if prompt is None else prompt, prompt_length, budget)


def never(_: Sequence) -> bool:
    return False


def run(scheduler: Scheduler, sequences: list[Sequence], seed: int = 0, share: float = 0.0) -> SymbolicPool:
    pool = SymbolicPool(scheduler)
    for each in sequences:
        scheduler.add(each)
    ends = ends_at_random(seed, share)
    while scheduler.live or len(scheduler.waiting):
        pool.step(ends)
        assert len(pool.rows) < 20_000
    return pool


@pytest.mark.parametrize("seed", range(30))
def test_every_token_finds_its_context_through_random_arrivals_finishes_aborts_and_preemptions(seed: int) -> None:
    chance = random.Random(seed)
    admission: Admission = chance.choice(["optimistic", "worst_case"])
    scheduler = Scheduler(
        chance.choice([512, 1024, 4096]),
        batch_size=chance.choice([1, 3, 8, 20]),
        token_budget=chance.choice([8, 50, 200]),
        policy=Policy(chance.choice(["continuous", "static", "dynamic"]), window_s=0.0),
        admission=admission,
        share_prefixes=chance.random() < 0.7,
    )
    pool = SymbolicPool(scheduler)
    lengths = {prompt: chance.randint(1, 120) for prompt in range(12)}
    waiting = [
        Sequence(ticket, prompt, lengths[prompt], chance.randint(1, 150))
        for ticket, prompt in enumerate(sorted(chance.choice(range(12)) for _ in range(60)))
    ]
    aborted: set[int] = set()
    ends = ends_at_random(seed, 0.02)
    while waiting or scheduler.live or len(scheduler.waiting):
        while waiting and chance.random() < 0.5:
            scheduler.add(waiting.pop(0))
        if chance.random() < 0.03 and scheduler.live:
            unwanted = chance.choice([*scheduler.live, *scheduler.waiting])
            scheduler.drop(unwanted)
            aborted.add(unwanted.ticket)
        if chance.random() < 0.02:
            scheduler.forget_computed()
        pool.step(ends)
        assert len(scheduler.live) <= scheduler.batch_size
        assert len(pool.rows) < 20_000
    assert set(pool.finished) | aborted == set(range(60))
    assert scheduler.runs.free == scheduler.runs.tokens
    assert not pool.too_large


def test_a_small_pool_forces_preemption_and_everything_still_finishes() -> None:
    scheduler = Scheduler(320, 8, 64)
    run(scheduler, [sequence(n, 20, 2) for n in range(8)])  # short ones, which make it hope for more of them
    pool = run(scheduler, [sequence(n, 20, 120) for n in range(8)])
    assert scheduler.preemptions > 0
    assert len(pool.finished) == 8


def test_worst_case_admission_never_preempts() -> None:
    pool = run(Scheduler(700, 8, 64, admission="worst_case"), [sequence(n, 20, 200) for n in range(20)])
    assert pool.scheduler.preemptions == 0
    assert max(pool.rows) == 3


def test_a_sequence_larger_than_the_pool_is_named_and_the_others_run() -> None:
    pool = run(Scheduler(128, 4, 64), [sequence(0, 100, 60), sequence(1, 20, 20)])
    assert (pool.too_large, set(pool.finished)) == ([0], {1})


def test_a_group_runs_its_prompt_once() -> None:
    alone = run(Scheduler(4096, 8, 256), [sequence(n, 100, 2) for n in range(8)]).tokens_run
    for share in (True, False):
        together = run(Scheduler(4096, 8, 256, share_prefixes=share), [sequence(n, 100, 2, prompt=0) for n in range(8)])
        assert together.tokens_run == 100 + 8
        assert alone == 800 + 8


def test_a_shared_prefix_takes_its_room_once() -> None:
    def most_used(share: bool) -> int:
        scheduler = Scheduler(4096, 8, 256, share_prefixes=share)
        pool = SymbolicPool(scheduler)
        for n in range(8):
            scheduler.add(sequence(n, 160, 10, prompt=0))
        used = 0
        while scheduler.live or len(scheduler.waiting):
            pool.step(never)
            used = max(used, scheduler.runs.tokens - scheduler.runs.free)
        return used

    assert most_used(share=True) == 160 + 8 * 16
    assert most_used(share=False) == 8 * 176


def test_late_samples_of_a_prompt_use_what_is_there() -> None:
    scheduler = Scheduler(4096, 3, 256)
    pool = run(scheduler, [sequence(n, 100, 10, prompt=0) for n in range(7)])
    assert pool.tokens_run < 100 + 7 * 10 + 4 * 5
    assert scheduler.runs.free == 4096


def test_a_group_whose_places_come_free_one_by_one_runs_its_prompt_once() -> None:
    """The first sample alone finds a place; the others wait, and what it computes is kept for them."""
    pool = run(Scheduler(4096, 1, 256), [sequence(n, 160, 10, prompt=0) for n in range(6)])
    assert pool.tokens_run == 160 + 6 * 9 + 5


def test_the_token_budget_bounds_a_step_and_decoding_goes_on_beside_a_long_prompt() -> None:
    scheduler = Scheduler(4096, 4, 32)
    pool = SymbolicPool(scheduler)
    scheduler.add(sequence(0, 5, 50))
    pool.step(never)
    scheduler.add(sequence(1, 300, 5))
    for _ in range(9):
        plan = pool.step(never)
        assert sum(piece.count for piece in plan.pieces) <= 32
        assert plan.pieces[0].sequence.ticket == 0


def test_static_batching_admits_only_when_all_rows_are_done() -> None:
    scheduler = Scheduler(4096, 4, 256, policy=Policy("static"))
    pool = run(scheduler, [sequence(n, 10, 5 + 10 * (n % 4)) for n in range(8)])
    assert pool.rows[0] == 4
    assert pool.rows.count(4) == 2 * 5
    assert len(pool.rows) == 2 * 35


def test_continuous_batching_refills_a_place_at_once() -> None:
    pool = run(Scheduler(4096, 4, 256), [sequence(n, 10, 20) for n in range(8)] + [sequence(8, 10, 5)])
    busy = pool.rows[: len(pool.rows) // 2]
    assert set(busy) == {4}


def test_dynamic_batching_waits_for_its_window_or_its_number_of_requests() -> None:
    now = 0.0
    scheduler = Scheduler(4096, 8, 256, policy=Policy("dynamic", window_s=0.01, requests=3), clock=lambda: now)
    pool = SymbolicPool(scheduler)
    scheduler.add(sequence(0))
    assert not pool.step(never).pieces
    assert scheduler.opens_in_s == pytest.approx(0.01)
    now = 0.011
    assert len(pool.step(never).pieces) == 1
    for n in (1, 2, 3):
        scheduler.add(sequence(n))
    assert len(pool.step(never).pieces) == 1, "nobody joins a batch that runs"
    while scheduler.live:
        pool.step(never)
    scheduler.add(sequence(4))
    assert len(pool.step(never).pieces) == 4


def test_the_prompt_with_the_longest_finished_samples_comes_first() -> None:
    scheduler = Scheduler(8192, 1, 256)
    pool = SymbolicPool(scheduler)
    lengths = {"long": 50, "short": 5, "middle": 40}
    for ticket, prompt in enumerate(["long", "short", "short", "short", "middle", "middle", "middle"]):
        scheduler.add(Sequence(ticket, prompt, 10, 100))
    while scheduler.live or len(scheduler.waiting):
        pool.step(lambda each: each.generated >= lengths[str(each.prompt)])
    assert list(pool.finished) == [0, 1, 4, 5, 6, 2, 3]


def test_what_lost_its_place_comes_back_first() -> None:
    scheduler = Scheduler(256, 4, 64)
    run(scheduler, [sequence(n, 20, 2) for n in range(8)])
    pool = SymbolicPool(scheduler)
    for n in range(6):
        scheduler.add(sequence(n, 16, 100))
    while not scheduler.preemptions:
        pool.step(never)
    lost = next(iter(scheduler.waiting))
    assert lost.generated > 0
    while lost not in scheduler.live:
        before = set(scheduler.live)
        pool.step(never)
        assert set(scheduler.live) <= before | {lost}
