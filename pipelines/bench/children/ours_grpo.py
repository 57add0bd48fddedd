"""GRPO steps with the real command on a private Ray: `python -m … SPEC.json`."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def measure(spec: dict[str, Any]) -> dict[str, Any]:
    """Train for `steps` steps and one more, which warms up and is left out; returns what each step reported."""
    with tempfile.TemporaryDirectory(prefix="mathlete-bench-") as folder:
        data = Path(folder) / "problems.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in spec["problems"]))
        settings = {
            "model": spec["model"],
            "data": data,
            "prompt.template": "{problem}",
            "sampling.max_new_tokens": spec["max_new_tokens"],
            "generation.batch_size": spec["batch_size"],
            "grpo.steps": spec["steps"] + 1,
            "grpo.problems_per_step": spec["problems_per_step"],
            "grpo.num_generations": spec["num_generations"],
            # The peer trains on every group, whether it teaches anything or not.
            "advantages.zero_variance_groups": "keep",
            "generators.cpus_per_actor": spec["threads"],
            "learner.cpus": spec["threads"],
            "checkpoints.every": spec["steps"] + 1,
            "run.dir": Path(folder) / "run",
        }
        words = [f"{name}={value}" for name, value in settings.items()]
        command = [sys.executable, "-m", "pipelines", "grpo", *words, "--quiet", "--json"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(done.returncode)
        rows = [json.loads(line) for line in (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()]
    return {
        "steps": [
            {
                "seconds": row["time/step"],
                "phases": {phase: row[f"time/{phase}"] for phase in ("generate", "learn", "sync")},
                "tokens": row["tokens/generated"],
            }
            for row in rows[1:]
        ]
    }


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
