"""Who runs in the next step, with how many tokens, and where their keys and values go. Integers only, no tensors.

A step takes the newest token of every row that decodes, and fills the rest of its token budget with pieces of
prompts. A row that lost its place is a prompt again, of all tokens that it has; so there is one way to run anything.
"""

import time
from collections.abc import Callable, Collection
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, field
from typing import Literal

from actors.engine.continuous.policy import Policy
from actors.engine.continuous.queue import HEADROOM, LengthEstimate, WaitingQueue
from actors.engine.continuous.runs import BLOCK, RunAllocator, blocks
from actors.engine.continuous.sequence import Prefix, Sequence

Admission = Literal["optimistic", "worst_case"]

SAFETY = 0.95
"""Optimistic admission fills this share of the pool with what rows are expected to need."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens `first` to `first + count` of a sequence run in this step; `samples`: its next token comes out of it."""

    sequence: Sequence
    first: int
    count: int
    samples: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """`tokens` of the pool to be copied from `source` to `target` on."""

    source: int
    target: int
    tokens: int


@dataclass(slots=True)
class Plan:
    """One step. Copies come before it; followers of a sampling piece start from its result after it."""

    pieces: list[Piece] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    too_large: list[Sequence] = field(default_factory=list)
    """Sequences that the whole pool cannot hold."""


class Scheduler:
    """Plans steps for at most `batch_size` rows over a pool of `tokens`.

    `share_prefixes`: samples of one prompt keep its whole blocks once; else each has its own copy of them.
    """

    def __init__(
        self,
        tokens: int,
        batch_size: int,
        token_budget: int,
        policy: Policy = Policy(),  # noqa: B008  (immutable)
        admission: Admission = "optimistic",
        share_prefixes: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runs = RunAllocator(tokens)
        self.batch_size = batch_size
        self.preemptions = 0
        self.tokens_shared = 0
        self._token_budget = token_budget
        self._policy = policy
        self._admission = admission
        self._share_prefixes = share_prefixes
        self._clock = clock
        self._estimate = LengthEstimate()
        self.waiting = WaitingQueue(self._estimate)
        self.live: list[Sequence] = []
        """In order of admission."""
        self._prefixes: dict[object, Prefix] = {}
        self._too_large: list[Sequence] = []

    def add(self, sequence: Sequence) -> None:
        sequence.arrived = self._clock()
        if blocks(sequence.most) > self.runs.tokens:
            self._too_large.append(sequence)
        else:
            self.waiting.add(sequence)

    @property
    def opens_in_s(self) -> float:
        """Seconds until waiting requests may start; 0 if anything runs or may start now."""
        if self.live or not len(self.waiting) or self._may_admit():
            return 0.0
        return max(0.0, self._policy.window_s - (self._clock() - self.waiting.oldest_arrival))

    def plan(self) -> Plan:
        """Return what to run now. The caller runs it and tells `computed`, then `sampled` for rows that drew a token."""
        plan = Plan(too_large=self._too_large)
        self._too_large = []
        before = self.preemptions
        for sequence in list(self.live):
            self._make_room(sequence, plan)
        plan.pieces = [Piece(each, each.computed, 1, samples=True) for each in self.live if _decodes(each)]
        left = max(BLOCK, self._token_budget - len(plan.pieces))
        left = self._prefill(plan, left, self.live)
        # What has just lost its place must not take it back at once.
        if self.preemptions == before and self._may_admit():
            self._admit(plan, left)
        return plan

    def computed(self, plan: Plan) -> None:
        """The step has been run: its tokens are in the pool."""
        for piece in plan.pieces:
            sequence = piece.sequence
            sequence.computed = piece.first + piece.count
            if sequence.prefix is not None and sequence.computed >= sequence.prefix.length:
                sequence.prefix.ready = True

    def followers_start(self, leader: Sequence) -> list[Copy]:
        """The leader's prompt is computed: its followers take over from there. Returns what they need copied."""
        copies = []
        for follower in leader.followers:
            follower.leader = None
            follower.computed = leader.computed
            first = follower.prefix_length
            if leader.computed > first:
                copies.append(Copy(leader.place(first), follower.place(first), leader.computed - first))
            self.tokens_shared += follower.computed
        leader.followers = []
        return copies

    def sampled(self, sequence: Sequence) -> None:
        sequence.length += 1

    def finish(self, sequences: Collection[Sequence]) -> None:
        """These are complete; their room is free, and what they tell about lengths is learnt."""
        for sequence in sequences:
            siblings = self.waiting.samples_of(sequence.prompt) > 0
            self._estimate.learn(sequence, siblings)
            self.waiting.rank(sequence.prompt)
            self.drop(sequence)
            if not siblings:
                self._estimate.forget(sequence.prompt)

    def drop(self, sequence: Sequence) -> None:
        """Forget a sequence, waiting or live."""
        if sequence in self.live:
            self._leave(sequence)
        elif sequence in self._too_large:
            self._too_large.remove(sequence)
        else:
            self.waiting.remove(sequence)
        self._release_unused_prefix(sequence.prompt)

    def forget_computed(self) -> None:
        """Nothing in the pool is worth anything any more: what is live starts again from its tokens."""
        for sequence in reversed(list(self.live)):
            self._send_back(sequence)
        for prompt in list(self._prefixes):
            self._release_prefix(prompt)

    def shrink(self) -> None:
        """Run half as many rows from now on. The step that failed may have got anywhere, so all start again."""
        self.batch_size = max(1, len(self.live) // 2)
        self.forget_computed()

    def check(self) -> None:
        """Raise AssertionError unless every token of the pool is free or held by whom it should be."""
        holds = [sequence.own for sequence in self.live if sequence.own is not None]
        holds += [sequence.prefix.run for sequence in self.live if sequence.prefix is not None]
        holds += [prefix.run for prefix in self._prefixes.values()]
        self.runs.check(holds)
        for sequence in self.live:
            assert sequence.own is not None
            assert sequence.computed <= sequence.prefix_length + sequence.own.size
        for sequence in self.waiting:
            assert sequence.own is None and sequence.prefix is None

    # Room for what runs.

    def _make_room(self, sequence: Sequence, plan: Plan) -> None:
        """Let the sequence hold one more token, at the expense of the newest others if need be."""
        needed = sequence.length - sequence.prefix_length
        if sequence.own is None or needed <= sequence.own.size:  # without a run: it lost its place to one before it
            return
        while not self._grow(sequence, needed, plan):
            if self._release_some_prefix():
                continue
            newest = self.live[-1]
            self._preempt(newest, plan)
            if newest is sequence:
                return

    def _grow(self, sequence: Sequence, needed: int, plan: Plan) -> bool:
        assert sequence.own is not None
        most = blocks(sequence.most - sequence.prefix_length)
        for wanted in (min(most, max(needed, 2 * sequence.own.size)), needed):
            if self.runs.extend(sequence.own, wanted):
                return True
            larger = self.runs.allocate(wanted)
            if larger is not None:
                held = sequence.computed - sequence.prefix_length
                plan.copies.append(Copy(sequence.own.start, larger.start, held))
                self.runs.release(sequence.own)
                sequence.own = larger
                return True
        return False

    def _preempt(self, sequence: Sequence, plan: Plan) -> None:
        if sequence.own is not None:
            plan.copies = [copy for copy in plan.copies if copy.target != sequence.own.start]
        self.preemptions += 1
        self._send_back(sequence)

    def _send_back(self, sequence: Sequence) -> None:
        self._leave(sequence)
        sequence.computed = 0
        self.waiting.give_back(sequence)

    def _leave(self, sequence: Sequence) -> None:
        self.live.remove(sequence)
        if sequence.leader is not None:
            sequence.leader.followers.remove(sequence)
            sequence.leader = None
        if sequence.followers:  # the first of them takes over the prefill
            heir, *rest = sequence.followers
            heir.leader, heir.computed, heir.followers = None, _ready(heir.prefix, heir), rest
            for follower in rest:
                follower.leader = heir
            sequence.followers = []
        if sequence.own is not None:
            self.runs.release(sequence.own)
        if sequence.prefix is not None:
            self.runs.release(sequence.prefix.run)
        sequence.own = sequence.prefix = None

    # Prompts.

    def _prefill(self, plan: Plan, left: int, sequences: Ordered[Sequence]) -> int:
        for sequence in sequences:
            if left <= 0:
                break
            if sequence.leader is not None or _decodes(sequence):
                continue
            count = min(left, sequence.length - sequence.computed)
            samples = sequence.computed + count == sequence.length
            plan.pieces.append(Piece(sequence, sequence.computed, count, samples))
            left -= count
        return left

    def _may_admit(self) -> bool:
        if not len(self.waiting):
            return False
        waited = self._clock() - self.waiting.oldest_arrival
        return self._policy.admits(len(self.live), len(self.waiting), waited)

    def _admit(self, plan: Plan, left: int) -> None:
        """Take in what fits: continuously as long as a step has tokens to spare, else a whole batch at once."""
        while len(self.live) < self.batch_size and (left > 0 or self._policy.name != "continuous"):
            joined = self._join(self.waiting.next(self.batch_size - len(self.live)))
            if not joined:
                return
            left = self._prefill(plan, left, joined)

    def _join(self, group: list[Sequence]) -> list[Sequence]:
        """Admit as many samples of one prompt as there is room for: the first leads, the others follow its prefill."""
        if not group:
            return []
        prefix = self._prefix_for(group)
        leader = self._leader_for(group[0], prefix)
        joined: list[Sequence] = []
        for sequence in group:
            if not self._fits(sequence) or not self._place(sequence, prefix):
                break
            self.waiting.remove(sequence)
            self.live.append(sequence)
            joined.append(sequence)
            if leader is not None and not sequence.generated:
                sequence.leader = leader
                leader.followers.append(sequence)
            elif prefix is None or not prefix.ready:
                leader = sequence
        self._release_unused_prefix(group[0].prompt)
        return joined

    def _leader_for(self, sequence: Sequence, prefix: Prefix | None) -> Sequence | None:
        """One in the middle of the very prompt, and prefix, that this one starts with."""
        if prefix is not None and prefix.ready:
            return None
        at_it = (each for each in self.live if each.prompt == sequence.prompt and not each.generated)
        return next((each for each in at_it if each.leader is None and each.prefix is prefix), None)

    def _fits(self, sequence: Sequence) -> bool:
        """Whether the pool is expected to hold this one beside those that run. The first always fits."""
        if self._admission == "worst_case" or not self.live:
            return True
        held = sum(other.prompt_length + self._estimate.of(other) for other in self.live)
        return held + sequence.prompt_length + self._estimate.of(sequence) <= SAFETY * self.runs.tokens

    def _place(self, sequence: Sequence, prefix: Prefix | None) -> bool:
        most = blocks(sequence.most - (prefix.length if prefix is not None else 0))
        wanted = most
        if self._admission == "optimistic":  # a run that is full doubles
            wanted = min(most, blocks(sequence.length - (prefix.length if prefix is not None else 0) + HEADROOM))
        own = self.runs.allocate(wanted)
        while own is None and self._release_some_prefix(kept=prefix):
            own = self.runs.allocate(wanted)
        if own is None:
            return False
        sequence.own = own
        if prefix is not None:
            self.runs.share(prefix.run)
            sequence.prefix = prefix
            sequence.computed = _ready(prefix, sequence)
            self.tokens_shared += sequence.computed
        return True

    # Prefixes.

    def _prefix_for(self, group: list[Sequence]) -> Prefix | None:
        prompt = group[0].prompt
        if prompt in self._prefixes:
            return self._prefixes[prompt]
        if not self._share_prefixes or not group[0].shareable or self.waiting.samples_of(prompt) < 2:
            return None
        run = self.runs.allocate(group[0].shareable)
        if run is None:
            return None
        self._prefixes[prompt] = Prefix(run, group[0].shareable)
        return self._prefixes[prompt]

    def _release_unused_prefix(self, prompt: object) -> None:
        """A prefix is kept as long as samples that could use it wait."""
        if prompt in self._prefixes and not self.waiting.samples_of(prompt):
            self._release_prefix(prompt)

    def _release_prefix(self, prompt: object) -> None:
        self.runs.release(self._prefixes.pop(prompt).run)

    def _release_some_prefix(self, kept: Prefix | None = None) -> bool:
        for prompt, prefix in self._prefixes.items():
            if prefix.run.holders == 1 and prefix is not kept:
                self._release_prefix(prompt)
                return True
        return False


def _decodes(sequence: Sequence) -> bool:
    return sequence.leader is None and sequence.computed == sequence.length - 1 and sequence.computed > 0


def _ready(prefix: Prefix | None, sequence: Sequence) -> int:
    """Tokens of the sequence that a prefix spares it. Its newest must run, to have something to sample from."""
    return min(prefix.length, sequence.length - 1) if prefix is not None and prefix.ready else 0
