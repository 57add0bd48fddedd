# Everything runs in .venv, which `setup` makes once and renews when the pinned versions change.
PYTHON ?= python3
BIN := .venv/bin

export RAY_USAGE_STATS_ENABLED ?= 0

.PHONY: setup demo test check clean

setup: .venv/.complete

.venv/.complete: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Mathlete needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/mathlete eval --config configs/demo.yaml

# Two files at a time. Threads that wait for each other sleep, since there may be fewer cores than they believe.
test: setup
	RAY_AUTH_MODE=disabled OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n 2 --dist loadfile -m "not soak and not alone"
	RAY_AUTH_MODE=disabled $(BIN)/python -m pytest -m "alone and not soak"

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
