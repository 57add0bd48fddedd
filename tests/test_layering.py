"""The layering rule: who may import whom, and where Ray and torch may appear."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {"grading": {"actors", "pipelines"}, "actors": {"pipelines", "grading"}, "pipelines": set()}
RAY_ALLOWED = {
    "actors/generator.py",
    "actors/learner.py",
    "actors/resources.py",
    "actors/weights.py",
    "grading/pool.py",
}
MODULES = sorted(path for package in FORBIDDEN for path in (ROOT / package).rglob("*.py"))


def imported_packages(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_imports_only_the_packages_below_it(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert not imported_packages(path) & FORBIDDEN[package]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_ray_appears_only_where_the_layout_allows_it(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    if "ray" in imported_packages(path):
        assert name in RAY_ALLOWED or name.startswith("pipelines/dispatch/")


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("pipelines.cli", {"torch", "ray", "transformers"}),
        ("pipelines.problems", {"torch", "ray", "transformers", "datasets"}),
        ("pipelines.evaluate", {"torch"}),
        ("actors.models", {"torch"}),
        ("actors.engine.padded", {"ray"}),
        ("grading", {"ray", "torch"}),
    ],
)
def test_importing_a_module_does_not_load_what_it_must_not_need(module: str, absent: set[str]) -> None:
    code = f"import {module}, sys; print(*sorted({absent!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []
