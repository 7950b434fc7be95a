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

from inorder_analytics.checks import History, SubscriberHistory, Violation, violations
from inorder_analytics.checks.total_order import sequence_of


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
        counts += Counter(late_for_nothing=late_for_nothing(history, subscriber))
    return counts


def late_for_nothing(history: History, subscriber: SubscriberHistory) -> int:
    """Return how many late events a subscriber might have had in order (R23): no other one has such an event, in order,
    before any of those that this one had in order before it."""
    others = [each for each in history.subscribers.values() if each is not subscriber]
    places = [{event: place for event, (place, _) in sequence_of(each).items()} for each in others]
    furthest, found = [-1] * len(others), 0
    for each in subscriber.notified:
        if each.event is None:
            continue
        if each.verdict == "in_order":
            furthest = [max(far, of.get(each.event, -1)) for far, of in zip(furthest, places, strict=True)]
        elif each.verdict == "late":
            found += all(of.get(each.event, far) >= far for far, of in zip(furthest, places, strict=True))
    return found


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
