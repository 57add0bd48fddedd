"""Who is compared, and how each is started."""

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from actors.models import ModelSpec
from pipelines.bench import children
from pipelines.bench.work import Work


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to generate: a child script and what it is told beside model and work."""

    name: str
    script: str
    """Module in `pipelines.bench.children`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    foreign: bool = False
    """Whether it runs in another interpreter, which has OpenVINO GenAI and need not have Mathlete."""


OURS = Contender("ours", "ours", {"policy": "continuous"})
OURS_STATIC = Contender("ours, static", "ours", {"policy": "static"})
OURS_DYNAMIC = Contender("ours, dynamic", "ours", {"policy": "dynamic"})
OURS_WITHOUT_KERNELS = Contender("ours, no native kernels", "ours", {"policy": "continuous", "kernels": False})
GENERATE = Contender("transformers generate", "transformers_generate", {"mode": "padded"})
GENERATE_BATCH = Contender("transformers generate_batch", "transformers_generate", {"mode": "continuous"})
OPENVINO = Contender("OpenVINO GenAI", "openvino_generate", foreign=True)


@dataclass(frozen=True, slots=True)
class Setup:
    """What all contenders get."""

    model: ModelSpec
    threads: int
    openvino_python: Path | None = None
    openvino: str | None = None
    """Version of OpenVINO GenAI in that interpreter."""
    gguf: Path | None = None

    def spec(self, contender: Contender, work: Work) -> dict[str, Any]:
        """What the child reads."""
        return {
            "model": asdict(self.model),
            "threads": self.threads,
            "gguf": None if self.gguf is None else str(self.gguf),
            "settings": dict(contender.settings),
            "work": asdict(work),
        }

    def command(self, contender: Contender, spec_file: Path) -> list[str]:
        """The child's command line."""
        if not contender.foreign:
            return [sys.executable, "-m", f"{children.__name__}.{contender.script}", str(spec_file)]
        assert self.openvino_python is not None
        script = Path(children.__path__[0]) / f"{contender.script}.py"
        return [str(self.openvino_python), str(script), str(spec_file)]

    def missing(self, contender: Contender) -> str | None:
        """What to install or to name before `contender` can run; None if it can."""
        if not contender.foreign or (self.openvino is not None and self.gguf is not None):
            return None
        if self.openvino_python is not None and self.openvino is None:
            return f"no OpenVINO GenAI there: `{self.openvino_python} -m pip install openvino-genai`"
        if self.openvino is not None:
            return "OpenVINO GenAI reads the model from a GGUF file: name it with --gguf FILE"
        return (
            "OpenVINO GenAI lives in an environment of its own: `python -m venv ov && ov/bin/pip install "
            "openvino-genai`, then --openvino-python ov/bin/python --gguf FILE"
        )
