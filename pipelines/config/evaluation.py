"""The settings of an evaluation that other jobs do not have."""

from typing import Any, ClassVar, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pipelines.config.schema import JobConfig, SamplingConfig, Section


class EvalSamplingConfig(SamplingConfig):
    """How tokens are chosen, and how many samples each problem gets."""

    n: int = Field(
        1,
        ge=1,
        description="samples per problem, for pass@k and majority votes; needs a temperature above 0 from 2 on. A run can "
        "grow: the same command with a larger n adds what is missing",
    )

    @field_validator("n")
    @classmethod
    def _samples_can_differ(cls, value: int, known: ValidationInfo) -> int:
        if value > 1 and known.data.get("temperature") == 0:
            raise ValueError(
                "more than one sample needs a temperature above 0, for greedy decoding makes the same completion each "
                "time; set sampling.temperature, to 0.6 for example"
            )
        return value


class MetricsConfig(Section):
    """What is computed from several samples of a problem; may change at any time."""

    pass_at: tuple[int, ...] = Field(
        (), description="each k of pass@k and maj@k, at most sampling.n; unset: 1, 2, 4, … and sampling.n"
    )

    @field_validator("pass_at", mode="before")
    @classmethod
    def _one_value_is_a_list_of_one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, int) else value

    @field_validator("pass_at")
    @classmethod
    def _in_order_and_once(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(k < 1 for k in value):
            raise ValueError("each k must be at least 1")
        return tuple(sorted(set(value)))


class EvalConfig(JobConfig):
    """Evaluate a model on math problems."""

    sampling: EvalSamplingConfig = EvalSamplingConfig()
    metrics: MetricsConfig = MetricsConfig()

    indifferent: ClassVar[frozenset[str]] = JobConfig.indifferent | {"metrics"}
    growing: ClassVar[frozenset[str]] = frozenset({"sampling.n"})
    """Settings that may become larger in the life of a run folder: what is there stays as it is, and more comes to it."""

    @model_validator(mode="after")
    def _there_are_k_samples(self) -> Self:
        if any(k > self.sampling.n for k in self.metrics.pass_at):
            raise ValueError(
                f"metrics.pass_at asks for k = {max(self.metrics.pass_at)}, but sampling.n gives only {self.sampling.n} "
                "sample(s) of a problem, and fewer than k samples say nothing of pass@k: raise sampling.n or lower k"
            )
        return self
