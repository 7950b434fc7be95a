"""Makes a failing run small: the same seed with fewer clients, topics and stages, and with fewer actions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.simulation.runner import Case, Result, run
from tests.simulation.world import Bounds

MAX_ATTEMPTS = 150
"""Runs that making a failing one small may take."""


class _Search:
    """Looks for smaller cases that still break one of the same rules."""

    def __init__(self, result: Result) -> None:
        self.best = result
        self._rules = {each.rule for each in result.violations}
        self._attempts = MAX_ATTEMPTS

    def accepts(self, case: Case) -> bool:
        """Run a case; if it fails alike, it is the best so far."""
        if self._attempts == 0:
            return False
        self._attempts -= 1
        tried = run(case)
        if self._rules.isdisjoint(each.rule for each in tried.violations):
            return False
        self.best = tried
        return True

    def bound(self) -> None:
        """Draw less: each limit on its own, from the smallest."""
        for what in ("clients", "topics", "stages"):
            for limit in range(1, 6):
                case = self.best.case
                if self.accepts(replace(case, bounds=replace(case.bounds, **{what: limit}))):
                    break

    def shorten(self) -> None:
        """Stop the faults earlier, by ever smaller steps."""
        step = self.best.case.length() // 2
        while step and self._attempts:
            length = self.best.case.length() - step
            if length > 0 and self.accepts(replace(self.best.case, actions=length)):
                step = min(step, length // 2)
            else:
                step //= 2


def minimise(result: Result) -> Result:
    """Return a smaller case that breaks one of the rules that ``result`` breaks, or ``result`` itself."""
    search = _Search(result)
    search.bound()
    search.shorten()
    return search.best


def to_json(result: Result) -> dict[str, Any]:
    """Return a failed run as data; :func:`from_json` gives the case back, which replays it exactly."""
    case = result.case
    return {
        "seed": case.seed,
        "profile": case.profile.name,
        "actions": case.length(),
        "bounds": {"stages": case.bounds.stages, "topics": case.bounds.topics, "clients": case.bounds.clients},
        "violations": [each.to_json() for each in result.violations[:5]],
    }


def from_json(data: dict[str, Any]) -> Case:
    """Return the case of :func:`to_json`."""
    return replace(Case.of(data["seed"], data["profile"]), bounds=Bounds(**data["bounds"]), actions=data["actions"])
