"""From a graded completion to its line in the journal."""

from grading import Outcome, Verdict
from pipelines.dispatch.generated import Generated
from pipelines.problems import Prompt, prompt_hash
from pipelines.records.journal import Sample


def make_sample(item: Generated, verdict: Verdict | None, prompt: Prompt) -> Sample:
    """The journal line of a completion; without a verdict it is an error of the generation."""
    made, problem, timing = item.completion, item.problem, item.completion.timing
    verdict = verdict or Verdict(Outcome.ERROR, made.error or "no completion")
    return Sample(
        problem_id=problem.id,
        sample_index=made.sample_index,
        prompt_hash=prompt_hash(prompt.token_ids),
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
        first_token_s=round(timing.first_token, 3) if timing else None,
        seconds=round(timing.last_token if timing else item.seconds, 3),
        policy_version=made.policy_version,
    )
