"""The proof that the random runs can fail: every planted bug is found, by seeds that are clean without it."""

from __future__ import annotations

import pytest
from tests.simulation.minimise import from_json, minimise, to_json
from tests.simulation.planted import BUGS, planted
from tests.simulation.runner import Case, Result, run


def _first_failing(name: str) -> Result | None:
    bug = BUGS[name]
    with planted(name):
        results = (run(Case.of(seed, bug.profile)) for seed in range(bug.first, bug.first + bug.seeds))
        return next((each for each in results if each.violations), None)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    found = _first_failing(name)
    bug = BUGS[name]
    assert found is not None, f"none of {bug.seeds} seeds finds it"
    assert not run(found.case).violations, "it is clean without the bug"


@pytest.mark.parametrize("name", ["linger", "lost_answers"])
def test_a_failing_run_is_made_small_and_its_data_replays_it(name: str) -> None:
    whole = _first_failing(name)
    assert whole is not None
    with planted(name):
        small = minimise(whole)
        data = to_json(small)
        again = run(from_json(data))
    assert [each.to_json() for each in again.violations[:5]] == data["violations"]
    assert {each.rule for each in small.violations} & {each.rule for each in whole.violations}
    assert small.case.length() < whole.case.length()
    assert not run(from_json(data)).violations  # without the bug
