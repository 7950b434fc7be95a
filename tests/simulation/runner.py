"""Runs seeds, and counts what they exercised."""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulation.clients import LIAR
from tests.simulation.profiles import PROFILES, Profile, of_seed
from tests.simulation.world import Bounds, World

from inorder_analytics.checks import Violation, violations


@dataclass(frozen=True, slots=True)
class Case:
    """All that a run follows from. ``actions`` is drawn from the seed where it is 0."""

    seed: int
    profile: Profile
    bounds: Bounds = field(default_factory=Bounds)
    actions: int = 0

    @classmethod
    def of(cls, seed: int, profile: str = "") -> Case:
        """Return the case of a seed, in a profile by name or in the one that seeds have in turn."""
        return cls(seed, PROFILES[profile] if profile else of_seed(seed))

    def length(self) -> int:
        """Return the number of actions before faults stop."""
        return self.actions or random.Random(self.seed).randint(*self.profile.actions)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run broke, and what it exercised."""

    case: Case
    violations: list[Violation]
    exercised: Counter[str]


def run(case: Case) -> Result:
    """Run a case. An exception of the core is a violation too."""
    world: World | None = None
    try:
        world = World(case.seed, case.profile, case.bounds)
        found = [each for each in violations(world.run(case.length())) if not _is_liars_own(each, case)]
    except Exception:
        found = [Violation("no error", (), (), traceback.format_exc())]
    return Result(case, found, Counter() if world is None else exercised(world))


def _is_liars_own(violation: Violation, case: Case) -> bool:
    """R19: who names numbers that do not exist is promised no order of its own events; everybody else is."""
    own = case.profile.lies > 0 and violation.rule == "R19"
    return own and all(each.event is not None and each.event[0] == LIAR for each in violation.witnesses)


def exercised(world: World) -> Counter[str]:
    """Return how often a run did what."""
    history = world.history
    states = Counter(history.states.values())
    counts = Counter(world.done)
    counts += Counter(events=len(history.stamped), voids=states["VOID"], abandoned=states["ABANDONED"])
    counts += Counter(released=states["RELEASED"])
    for subscriber in history.subscribers.values():
        verdicts = Counter(each.verdict for each in subscriber.notified)
        counts += Counter(
            deliveries=len(subscriber.notified),
            late=verdicts["late"],
            gaps=len(subscriber.gaps),
            expiries=subscriber.expiries,
        )
        counts += Counter(f"gaps_{each.reason}" for each in subscriber.gaps)
    return counts


def run_all(cases: Iterable[Case]) -> tuple[list[Result], Counter[str]]:
    """Run cases; return those that broke something, and what all of them exercised."""
    failed: list[Result] = []
    counts: Counter[str] = Counter()
    for case in cases:
        result = run(case)
        counts.update(result.exercised)
        if result.violations:
            failed.append(result)
    return failed, counts
