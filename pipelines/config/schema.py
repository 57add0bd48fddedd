"""The settings that all jobs share: defaults, ranges and help texts.

The models are frozen and refuse unknown keys. Nothing here imports torch, ray or transformers.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Auto = Literal["auto"]


def positive_or_auto(value: int | Auto) -> int | Auto:
    if value != "auto" and value < 1:
        raise ValueError("must be at least 1, or auto")
    return value


class Section(BaseModel):
    """One block of a configuration file. `shorthand` is the key that a bare value stands for (`model: NAME`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    shorthand: ClassVar[str | None] = None


class RunConfig(Section):
    """Where the run lives and when it counts as failed."""

    name: str | None = Field(
        None, description="name of the run folder; derived from the job, model and data when unset"
    )
    dir: str | None = Field(None, description="run folder; runs/<name> when unset")
    max_error_share: float = Field(
        0.05, ge=0, le=1, description="exit code 4 when more than this share of samples ends as `error` or `timeout`"
    )


class ModelConfig(Section):
    """The model under test. `model: NAME` is short for `model.name: NAME`."""

    shorthand = "name"

    name: str = Field(
        "smollm2-135m", min_length=1, description="local folder, hub id, or built-in: `smollm2-135m`, `mathlete-tiny`"
    )
    revision: str | None = Field(None, description="branch, tag or commit of a hub model")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="auto: bfloat16 where the processor is made for it, else float32"
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU that Ray assigned, else the CPU")
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2", "flash_attention_3"] = Field(
        "auto", description="attention implementation of transformers"
    )
    trust_remote_code: bool = Field(False, description="run Python code that comes with the model")
    init: Literal["checkpoint", "random"] = Field(
        "checkpoint", description="random: weights drawn anew, of the model's architecture; to train from scratch"
    )
    init_seed: int = Field(0, description="seed of random weights")


class ColumnsConfig(Section):
    """Names of the columns in a file or hub data set; unset: the usual names are tried; '': there is none."""

    problem: str | None = Field(None, description="problem statement")
    answer: str | None = Field(None, description="right answer; '': the one that the solution boxes")
    id: str | None = Field(None, description="identity of a problem")
    subject: str | None = Field(None, description="subject")
    level: str | None = Field(None, description="difficulty, 1 to 5")
    solution: str | None = Field(None, description="worked solution")


class DataConfig(Section):
    """The problems. `data: SOURCE` is short for `data.source: SOURCE`."""

    shorthand = "source"

    source: str = Field(
        "HuggingFaceH4/MATH-500",
        min_length=1,
        description="hub id, JSONL or parquet file, `builtin:mini` or `builtin:arithmetic`",
    )
    split: str = Field("test", min_length=1, description="split of a hub data set or of builtin:arithmetic")
    revision: str | None = Field(None, description="branch, tag or commit of a hub data set")
    columns: ColumnsConfig = ColumnsConfig()
    count: int = Field(200, ge=1, description="builtin:arithmetic: how many problems to generate")
    seed: int = Field(0, description="builtin:arithmetic: seed of the generator")
    exhausted: Literal["refuse", "skip"] = Field(
        "refuse", description="builtin:arithmetic: what becomes of a level with too few different problems"
    )
    limit: str | None = Field(None, description="`N`: the first N problems; `A-B`: problems A to B, counted from 1")
    ids: tuple[str, ...] = Field((), description="only these problem ids")
    subjects: tuple[str, ...] = Field((), description="only these subjects")
    levels: tuple[int, ...] = Field((), description="only these levels")

    @field_validator("limit", mode="before")
    @classmethod
    def _limit_may_be_a_number(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("ids", "subjects", "levels", mode="before")
    @classmethod
    def _one_value_is_a_list_of_one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, (str, int)) else value


class PromptConfig(Section):
    """How a problem becomes a prompt."""

    template: str = Field(
        "{problem}\n\nReason step by step, and put your final answer within \\boxed{}.",
        description="user message; {problem} is replaced by the problem",
    )
    system: str | None = Field(None, description="system message, for chat templates")
    chat: Literal["auto", "always", "never"] = Field(
        "auto", description="auto: the tokenizer's chat template when there is one"
    )
    enable_thinking: bool | None = Field(None, description="passed to chat templates that know it")

    @field_validator("template")
    @classmethod
    def _template_holds_the_problem(cls, value: str) -> str:
        if "{problem}" not in value:
            raise ValueError("must contain {problem}, which is replaced by the problem")
        return value


class SamplingConfig(Section):
    """How tokens are chosen. The checkpoint's generation_config.json has no say."""

    temperature: float = Field(0.0, ge=0, allow_inf_nan=False, description="0 is greedy decoding")
    top_p: float = Field(1.0, ge=0, le=1, description="nucleus sampling; 1 is off")
    top_k: int = Field(0, ge=0, description="keep the k most probable tokens; 0 is off")
    min_p: float = Field(0.0, ge=0, le=1, description="drop tokens below min_p times the most probable; 0 is off")
    max_new_tokens: int = Field(512, ge=1, description="tokens a completion may have, bounded by the model's context")
    stop: tuple[str, ...] = Field((), description="strings that end a completion")
    seed: int = Field(0, description="the same seed gives the same samples, whatever the batch, actor or order")

    @field_validator("stop", mode="before")
    @classmethod
    def _one_stop_string_is_a_list_of_one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class GenerationConfig(Section):
    """How completions are batched. Nothing here changes what a run finds, but for rounding."""

    engine: Literal["auto", "continuous", "padded"] = Field(
        "auto", description="auto: continuous where it supports the model, else padded, which takes any"
    )
    policy: Literal["continuous", "static", "dynamic"] = Field(
        "continuous",
        description="when waiting requests start: continuous: as soon as a place is free; static: when the whole batch "
        "is done; dynamic: as static, and not before enough of them wait or the first has waited long enough",
    )
    batch_size: int = Field(32, ge=1, description="rows that an actor runs at once, under every policy")
    token_budget: int | Auto = Field(
        "auto", description="tokens that one step runs through the model, pieces of prompts beside the rows' newest"
    )
    kv_cache_tokens: int | Auto = Field(
        "auto", description="tokens whose keys and values are kept; auto: as free memory allows"
    )
    kv_admission: Literal["optimistic", "worst_case"] = Field(
        "optimistic",
        description="optimistic: rows start by their expected length, and the newest are run again where it was wrong; "
        "worst_case: by their longest",
    )
    dynamic_window_ms: float = Field(
        10.0, ge=0, description="policy dynamic: the first request waits at most so long for company"
    )
    dynamic_requests: int = Field(16, ge=1, description="policy dynamic: so many start without waiting longer")

    @field_validator("token_budget", "kv_cache_tokens")
    @classmethod
    def _at_least_one(cls, value: int | Auto) -> int | Auto:
        return positive_or_auto(value)


class GeneratorsConfig(Section):
    """The Ray actors that hold the model."""

    num_actors: int | Auto = Field(
        "auto", description="auto: one for each GPU (or share of one), one for each node without GPUs"
    )
    gpus_per_actor: float | Auto = Field(
        "auto", description="1, a share 1/k, or 0 for CPU actors; auto: 1 if there are GPUs"
    )
    cpus_per_actor: int | Auto = Field(
        "auto", description="cores of an actor; auto: all that are free on CPU, 1 beside a GPU"
    )
    min_actors: int = Field(1, ge=1, description="the run goes on while at least this many can be kept alive")

    @field_validator("num_actors", "cpus_per_actor")
    @classmethod
    def _at_least_one(cls, value: int | Auto) -> int | Auto:
        return positive_or_auto(value)

    @field_validator("gpus_per_actor")
    @classmethod
    def _whole_gpu_or_one_kth(cls, value: float | Auto) -> float | Auto:
        if value == "auto" or value in (0, 1):
            return value
        if 0 < value < 1 and abs(1 / value - round(1 / value)) < 1e-3:
            return 1 / round(1 / value)
        raise ValueError("must be 0, 1 or a share 1/k such as 0.5 or 0.25 (other shares do not add up to a GPU)")


class GradingConfig(Section):
    """The pool that checks answers, each worker with a killable child process."""

    num_workers: int = Field(1, ge=1, description="grading actors")
    cpus_per_worker: float = Field(1.0, ge=0, description="CPUs that Ray reserves for a grading actor")
    extraction: Literal["lenient", "strict"] = Field(
        "lenient", description="strict accepts boxed answers only; lenient also phrases and a final fallback"
    )
    deadline_s: float = Field(5.0, gt=0, description="seconds that one answer may take before its process is killed")
    memory_mb: int = Field(1024, ge=256, description="memory limit of the grading process, in MiB")
    recycle_after: int = Field(10_000, ge=1, description="answers after which the grading process is replaced")

    @property
    def cpus(self) -> float:
        """Of all grading actors together."""
        return self.num_workers * self.cpus_per_worker


class ClusterConfig(Section):
    """Where Ray is and how long to be patient with it."""

    address: str = Field(
        "auto",
        description="auto: RAY_ADDRESS when set (as in a submitted job), else a private Ray on this machine; local; host:port",
    )
    local_cpus: int | None = Field(None, ge=1, description="CPUs that a private Ray offers; all cores when unset")
    local_gpus: int | None = Field(
        None, ge=0, description="GPUs that a private Ray offers; all visible ones when unset"
    )
    object_store_mb: int | Auto = Field(
        "auto",
        description="object store of a private Ray, in MiB, at least 75; auto: 200, and more for weights in training",
    )
    temp_dir: str | None = Field(None, description="folder for a private Ray's sessions; /tmp/ray when unset")
    wait_for_nodes_s: float = Field(
        0.0, ge=-1, description="wait this long for missing resources; 0 fails at once, -1 waits for ever"
    )
    reserve: bool = Field(
        False,
        description="take the room of all generators, and of the learner, at once by a placement group, so that no other "
        "job comes between; no generators are added later then",
    )
    start_timeout_s: float = Field(1800.0, gt=0, description="seconds until an actor must have loaded its model")
    stall_timeout_s: float = Field(
        300.0, gt=0, description="an actor without progress for so long is killed and replaced"
    )
    max_attempts: int = Field(
        5, ge=1, description="times that a piece of work may be lost with its actor before it counts as an error"
    )
    max_restarts: int = Field(
        5, ge=0, description="deaths in a row, without finished work, after which an actor is given up"
    )

    @field_validator("object_store_mb")
    @classmethod
    def _room_for_ray(cls, value: int | Auto) -> int | Auto:
        if value != "auto" and value < 75:
            raise ValueError("must be at least 75, the least that Ray takes, or auto")
        return value


class TrackingConfig(Section):
    """Who else gets curves, samples and results. Nothing here changes what a run finds, nor how it ends."""

    wandb: bool = Field(
        False,
        description="Weights & Biases: online where it finds an API key or a login, else offline in the run folder",
    )
    tensorboard: bool = Field(
        False, description="TensorBoard files in the run folder; needs `pip install 'mathlete[tensorboard]'`"
    )
    project: str = Field("mathlete", min_length=1, description="W&B project")
    entity: str | None = Field(None, description="W&B user or team; your default one when unset")
    name: str | None = Field(None, description="name of the W&B run; that of the run folder when unset")
    tags: tuple[str, ...] = Field((), description="tags of the W&B run")
    sample_rows: int = Field(64, ge=0, le=1000, description="rows of the table of samples; 0: no table")
    log_checkpoints: bool = Field(False, description="upload the model of each checkpoint as a W&B artifact")
    timeout_s: float = Field(
        60.0,
        gt=0,
        description="seconds that a tracker may take to begin, and to finish; then the run goes on without it",
    )

    @field_validator("tags", mode="before")
    @classmethod
    def _one_tag_is_a_list_of_one(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value


class JobConfig(Section):
    """What every job has. `indifferent` names the sections and keys that never change what a run finds."""

    run: RunConfig = RunConfig()
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    prompt: PromptConfig = PromptConfig()
    generation: GenerationConfig = GenerationConfig()
    generators: GeneratorsConfig = GeneratorsConfig()
    grading: GradingConfig = GradingConfig()
    cluster: ClusterConfig = ClusterConfig()
    tracking: TrackingConfig = TrackingConfig()

    indifferent: ClassVar[frozenset[str]] = frozenset(
        {
            "run",
            "generation",
            "generators",
            "cluster",
            "tracking",
            "grading.num_workers",
            "grading.cpus_per_worker",
            "grading.recycle_after",
        }
    )


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` becomes `{"a.b": 1}`."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{path}.")
        else:
            flat[path] = value
    return flat


def result_settings(config: JobConfig) -> dict[str, Any]:
    """The settings that decide what a run finds, by dotted path: a run folder belongs to one set of them."""
    flat = flatten(config.model_dump(mode="json"))
    return {
        path: value
        for path, value in flat.items()
        if path not in config.indifferent and path.split(".")[0] not in config.indifferent
    }
