"""Records TRL's losses and gradients on a fixed batch, for test_against_trl.py.

    pip install trl==1.16.0 && python -m tests.actors.learning.record_trl > tests/actors/learning/data/trl.json

Weights and tokens follow from sines, so that no random generator has to agree across machines.
"""

import dataclasses
import json
import sys
import tempfile
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

from actors.learning.rollouts import Rollout, RolloutGroup
from actors.learning.settings import LossSettings
from tests.actors.engine.tiny import CONFIGS, EOS, VOCABULARY, tiny_tokenizer
from tests.actors.learning.cases import plain_logprobs

BUDGET = 8
TEMPERATURE = 0.7
PROMPTS = (4, 2, 7)
LENGTHS = ((3, 8, 1, 5), (2, 2, 6, 4), (8, 7, 1, 3))
REWARDS = ((1.0, 0.0, 0.0, 1.0), (0.5, -0.25, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0))

OURS = {
    "grpo": LossSettings(aggregation="sequence_mean", epsilon_high=0.2),
    "dapo": LossSettings(),
    "dr_grpo": LossSettings(aggregation="constant", max_completion_tokens=BUDGET),
    "gspo": LossSettings(objective="gspo", aggregation="sequence_mean", epsilon=0.1, epsilon_high=0.15),
    "cispo": LossSettings(objective="cispo", epsilon_high=0.3),
    "two_sided": LossSettings(dual_clip=1.5),
}
"""TRL's name of a case, and what we call the same. Our epsilon_high is an excess over 1 in CISPO too."""

THEIRS: dict[str, dict[str, Any]] = {
    "grpo": {"loss_type": "grpo", "epsilon_high": 0.2},
    "dapo": {"loss_type": "dapo", "epsilon_high": 0.28},
    "dr_grpo": {"loss_type": "dr_grpo", "epsilon_high": 0.28},
    "gspo": {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.1, "epsilon_high": 0.15},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.3},
    "two_sided": {"loss_type": "dapo", "epsilon_high": 0.28, "delta": 1.5},
}


def wave(count: int, phase: float) -> Tensor:
    """(count,) float64 between -1 and 1, without visible order."""
    return torch.sin(torch.arange(count, dtype=torch.float64) * 12.9898 + phase * 78.233)


def fixed_model() -> PreTrainedModel:
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS["llama"]())
    with torch.no_grad():
        for phase, weight in enumerate(model.parameters()):
            if weight.dim() > 1:
                weight.copy_(0.1 * wave(weight.numel(), phase).view_as(weight))
    return model.eval()


def fixed_groups(old_logprobs: list[list[list[float]]] | None = None) -> list[RolloutGroup]:
    """The batch, with these log-probabilities of the old policy, else zeros."""

    def ids(length: int, phase: float) -> tuple[int, ...]:
        return tuple(EOS + 1 + int((1 + value) / 2 * (VOCABULARY - EOS - 2)) for value in wave(length, phase).tolist())

    groups = []
    for number, (prompt, lengths, rewards) in enumerate(zip(PROMPTS, LENGTHS, REWARDS, strict=True)):
        rollouts = tuple(
            Rollout(
                ids(length, 10 * number + place + 0.5),
                tuple(old_logprobs[number][place]) if old_logprobs else (0.0,) * length,
                reward,
            )
            for place, (length, reward) in enumerate(zip(lengths, rewards, strict=True))
        )
        groups.append(RolloutGroup(str(number), ids(prompt, 100 + number), rollouts))
    return groups


def projections(gradients: dict[str, Tensor]) -> list[float]:
    """Two inner products a tensor, and the norm of all: what is compared instead of 40,000 numbers."""
    found = []
    for number, name in enumerate(sorted(gradients)):
        flat = gradients[name].double().flatten()
        for kind in (0, 1):
            direction = wave(len(flat), 1000 + 2 * number + kind)
            found.append((flat @ direction / direction.norm()).item())
    return [*found, sum(gradient.double().square().sum().item() for gradient in gradients.values()) ** 0.5]


def perturbed_logprobs(model: PreTrainedModel) -> list[list[list[float]]]:
    """An old policy whose ratios lie on both sides of every clip."""
    found = []
    for number, group in enumerate(fixed_groups()):
        rows = []
        for place, rollout in enumerate(group.rollouts):
            own = plain_logprobs(model, group.prompt_ids, rollout.completion_ids, TEMPERATURE).detach()
            rows.append((own.float() + 0.6 * wave(len(own), 200 + 10 * number + place).float()).tolist())
        found.append(rows)
    return found


def padded(rows: list[tuple[Any, ...]], left: bool, filler: float) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    values = torch.full((len(rows), width), filler)
    mask = torch.zeros(len(rows), width, dtype=torch.int64)
    for place, row in enumerate(rows):
        chosen = slice(width - len(row), width) if left else slice(0, len(row))
        values[place, chosen] = torch.tensor(row, dtype=torch.float32)
        mask[place, chosen] = 1
    return values, mask


def recorded(name: str, groups: list[RolloutGroup]) -> dict[str, Any]:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    model = fixed_model()
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=lambda completions, **_: [0.0] * len(completions),
            processing_class=tiny_tokenizer(),
            train_dataset=Dataset.from_list([{"prompt": "a"}] * 12),
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=12,
                num_generations=4,
                max_completion_length=BUDGET,
                temperature=TEMPERATURE,
                beta=0.0,
                bf16=False,
                use_cpu=True,
                report_to=[],
                gradient_checkpointing=False,
                **THEIRS[name],
            ),
        )
    rollouts = [(group, rollout) for group in groups for rollout in group.rollouts]
    prompts, prompt_mask = padded([group.prompt_ids for group, _ in rollouts], left=True, filler=EOS)
    completions, mask = padded([rollout.completion_ids for _, rollout in rollouts], left=False, filler=EOS)
    old, _ = padded([rollout.sampling_logprobs for _, rollout in rollouts], left=False, filler=0.0)
    rewards = torch.tensor(REWARDS)
    advantages = (rewards - rewards.mean(dim=1, keepdim=True)) / (rewards.std(dim=1, keepdim=True) + 1e-4)
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer._compute_loss(
        model,
        {
            "prompt_ids": prompts.long(),
            "prompt_mask": prompt_mask,
            "completion_ids": completions.long(),
            "completion_mask": mask,
            "advantages": advantages.flatten(),
            "old_per_token_logps": old,
            "num_items_in_batch": mask.sum(),
        },
    )
    loss.backward()
    gradients = {key: weight.grad for key, weight in model.named_parameters() if weight.grad is not None}
    return {"loss": loss.item(), "gradient": projections(gradients)}


def main() -> None:
    import trl

    old = perturbed_logprobs(fixed_model())
    groups = fixed_groups(old)
    record = {
        "made_by": f"trl {trl.__version__}, torch {torch.__version__}, transformers {transformers.__version__}",
        "old_logprobs": old,
        "cases": {name: recorded(name, groups) for name in OURS},
    }
    json.dump(record, sys.stdout, indent=1)


def settings_of(name: str) -> LossSettings:
    """Ours, with the ratio to the recorded log-probabilities and therefore without a correction."""
    return dataclasses.replace(OURS[name], ratio_to="generator")


if __name__ == "__main__":
    main()
