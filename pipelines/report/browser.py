"""The samples as the page's own data, within a budget of bytes."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.problems.problem import Problem
from pipelines.records.journal import VERDICTS, Sample
from pipelines.report.groups import Group
from pipelines.report.texts import Shortened, embedded_json, fitted

TRUNCATED = "truncated"
BRIEF = 400
"""Characters of an answer or a reason that are kept."""
PROBLEM = 20_000
"""Characters of a problem's text that are kept."""


@dataclass(slots=True)
class Browser:
    """Collects what the browser of a page shows. `tags` are its filters, `noun` what it counts, `label` a sample's name."""

    tags: Sequence[str]
    noun: str
    label: str
    groups: list[str] = field(default_factory=list)
    _problems: list[list[Any]] = field(default_factory=list)
    _places: dict[tuple[int, str], int] = field(default_factory=dict)
    _items: list[list[Any]] = field(default_factory=list)
    _parts: list[list[Any]] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)

    def add(
        self,
        group: int,
        problem: Problem,
        label: int | str,
        tags: Iterable[str],
        parts: Sequence[tuple[str, Sample, str]],
    ) -> None:
        """One line of the list: `parts` are the samples to show, each with its title and facts."""
        key = (group, problem.id)
        if key not in self._places:
            self._places[key] = len(self._problems)
            known = [problem.id, problem.problem[:PROBLEM], brief(problem.answer), problem.subject, problem.level]
            self._problems.append(known)
        rows = [
            [
                title,
                sample.verdict,
                None if sample.answer is None else brief(sample.answer),
                brief(sample.reason),
                facts,
            ]
            for title, sample, facts in parts
        ]
        self._parts += rows
        self._texts += [sample.completion for _, sample, _ in parts]
        self._items.append([self._places[key], group, label, [self.tags.index(tag) for tag in tags], rows])

    def facets(self) -> dict[str, list[str]]:
        """The subjects and levels that there are."""
        found: dict[str, list[str]] = {}
        for name, place in (("subject", 3), ("level", 4)):
            found[name] = [
                str(value) for value in sorted({row[place] for row in self._problems if row[place] is not None})
            ]
        return found

    def embedded(self, budget: int) -> tuple[str, int]:
        """The data as JSON of about `budget` bytes, and how many completions had to be shortened for it."""
        frame = {
            "tags": list(self.tags),
            "noun": self.noun,
            "label": self.label,
            "groups": self.groups,
            "problems": self._problems,
            "items": self._items,
        }
        rest = len(embedded_json(frame).encode("utf-8", "replace")) + 16 * len(self._texts)
        short: list[Shortened] = fitted(self._texts, max(0, budget - rest))
        for row, text in zip(self._parts, short, strict=True):
            row[5:] = [text.text, text.cut, text.omitted]
        return embedded_json(frame), sum(text.omitted > 0 for text in short)


def sample_browser(groups: Sequence[Group]) -> Browser:
    """Every sample of the groups on a line of its own."""
    browser = Browser([*VERDICTS, TRUNCATED], "samples", "sample")
    for place, group in enumerate(groups):
        browser.groups.append(group.name if group.total == len(group.samples) else f"{group.name} (a part)")
        rewards = group.rewards or [None] * len(group.samples)
        for sample, reward in zip(group.samples, rewards, strict=True):
            tags = [sample.verdict, *([TRUNCATED] if sample.finish_reason == "length" else [])]
            facts = sample_facts(sample) + (f" · reward {reward:g}" if reward is not None else "")
            browser.add(
                place,
                problem_of(sample, group.problems.get),
                sample.sample_index,
                tags,
                [("completion", sample, facts)],
            )
    return browser


def problem_of(sample: Sample, known: Callable[[str], Problem | None]) -> Problem:
    """The problem, or what the sample tells of it."""
    return known(sample.problem_id) or Problem(sample.problem_id, "", sample.gold, sample.subject, sample.level)


def sample_facts(sample: Sample) -> str:
    """How the completion came about, on a line."""
    ends = {"eos": "ended by itself", "stop": "ended by a stop text", "length": "cut at the limit", "error": "failed"}
    facts = [f"{sample.num_tokens:,} tokens", ends.get(sample.finish_reason, sample.finish_reason)]
    facts += [f"{sample.seconds:.2f} s"] if sample.seconds else []
    facts += [f"mean log-probability {sample.mean_logprob:.3f}"] if sample.mean_logprob is not None else []
    facts += [sample.actor] if sample.actor else []
    facts += [f"attempt {sample.attempt}"] if sample.attempt > 1 else []
    return " · ".join(facts)


def brief(text: str) -> str:
    """The text, or its beginning."""
    return text if len(text) <= BRIEF else f"{text[:BRIEF]} …"
