"""The driver with simulated generators: nothing lost, nothing twice, and no unit dearer because there are more of them."""

import cProfile
import json
import pstats

import pytest

from pipelines.bench.dispatch import Cost, middle, simulate
from pipelines.cli import main


def calls_a_unit(actors: int, units: int) -> float:
    """Function calls of the driver, which unlike its time are the same on every machine."""
    profile = cProfile.Profile()
    cost = profile.runcall(simulate, actors, units, 0)
    assert cost.wrong == 0
    return pstats.Stats(profile).total_calls / units  # type: ignore[attr-defined]  # stubs lack it


def test_a_unit_costs_as_much_with_few_generators_as_with_very_many() -> None:
    assert calls_a_unit(200, 4000) < 1.5 * calls_a_unit(10, 4000)


def test_deaths_lose_nothing_and_double_nothing() -> None:
    cost = simulate(20, 10_000, 1)
    assert cost.deaths >= 2
    assert cost.wrong == 0


def test_the_command_prints_a_row_for_each_number_of_actors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "dispatch", "--actors", "5", "2", "--units", "200", "--rounds", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(row["actors"], row["units"]) for row in found["rows"]] == [(2, 200), (5, 200)]
    assert found["lost_or_twice"] == 0
    assert main(["bench", "dispatch", "--actors", "2", "--units", "200", "--rounds", "2", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "exactly once  yes" in out
    assert "target at least 2,000" in out


def test_the_middle_run_is_shown() -> None:
    costs = [Cost(1, 10, 0, 0, seconds) for seconds in (3.0, 1.0, 2.0)]
    assert middle(costs).cpu_s == 2.0
