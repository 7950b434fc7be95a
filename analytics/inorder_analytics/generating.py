"""Generated traces of any size, whose truth is known by construction.

A run is one total order of events, cut into blocks of four. At each subscriber a share of the blocks arrives shuffled
so that each of the four is displaced. What is drawn in a block changes nothing outside it, so inversions and
displacements of two subscribers are sums over blocks. Calm blocks arrive in order everywhere. Of them come what is
lost, and the planted violations, each of which swaps the two events in the middle of a block at one subscriber. A late
event is the first of a block that arrives last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from typing import Final

import numpy as np
import numpy.typing as npt

from inorder.errors import InvalidOption

Ints = npt.NDArray[np.int64]

BLOCK: Final = 4
SHUFFLES: Final = (
    (0, 1, 2, 3),
    (1, 2, 3, 0),
    *(
        each
        for each in permutations(range(4))
        if each != (1, 2, 3, 0) and all(at != place for at, place in enumerate(each))
    ),
)
"""Orders of a block: the given one, that with a late first event, then those that displace all four otherwise."""
LATE: Final = 1
SWAPPED: Final = (0, 2, 1, 3)
DELIVERED: Final = np.array([SHUFFLES[0], SHUFFLES[LATE], SWAPPED])
"""Orders in which a block may be delivered."""
PUBLISHERS: Final = 4
STAGES: Final = 3
GAP_US: Final = 200
"""Mean time between two events."""
BEGAN_US: Final = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z"""
MOST_PAIRS: Final = 5_000
"""Above so many pairs of subscribers, their figures are left out of the truth."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of generated traces.

    Attributes:
        events: of all runs together.
        disorder: share of the raw arrivals of each subscriber that are displaced.
        late: share of the notifications that are late; their blocks count among the displaced ones. Subscribers are
            then bounded, else strict.
        loss: share of the events that never arrive at a subscriber, and are reported as lost.
        violations: pairs of events that one subscriber is notified of in the wrong order, in all runs together.

    Raises:
        InvalidOption: a value is not allowed, or they do not go together.
    """

    events: int
    subscribers: int = 2
    topics: int = 2
    disorder: float = 0.2
    seed: int = 0
    runs: int = 1
    late: float = 0.0
    loss: float = 0.0
    violations: int = 0

    def __post_init__(self) -> None:
        """Check the values."""
        _check(self.runs <= self.events, "--runs", self.runs, "at most one run for each event")
        is_seen = self.violations == 0 or self.subscribers > 1
        _check(is_seen, "--violations", self.violations, "0 where there is one subscriber alone")
        for run in range(self.runs):
            events, late = self.events_of(run), self.late_of(run)
            shuffled = "--late" if late >= self.shuffled_of(run) and late else "--disorder"
            needs = {
                "--loss": (self.lost_of(run) + 1) // 2,
                "--violations": self.violations_of(run),
                shuffled: self.shuffled_of(run),
            }
            most = max(needs, key=lambda option: needs[option])
            allowed = f"less: what is displaced, late, lost or wrong takes {BLOCK} events each, and a run has {events}"
            is_room = self.calm_of(run) + self.shuffled_of(run) <= events // BLOCK
            _check(is_room, most, getattr(self, most.removeprefix("--")), allowed)

    def events_of(self, run: int) -> int:
        """Return how many events a run has."""
        return _part(self.events, self.runs, run)

    def violations_of(self, run: int) -> int:
        """Return how many violations are planted in a run."""
        return _part(self.violations, self.runs, run)

    def lost_of(self, run: int) -> int:
        """Return how many events each subscriber of a run loses."""
        return round(self.loss * self.events_of(run))

    def late_of(self, run: int) -> int:
        """Return how many notifications of a subscriber of a run are late."""
        return round(self.late * self.events_of(run))

    def calm_of(self, run: int) -> int:
        """Return the least number of a run's blocks that arrive in order everywhere."""
        return max((self.lost_of(run) + 1) // 2, self.violations_of(run))

    def shuffled_of(self, run: int) -> int:
        """Return how many blocks arrive shuffled at a subscriber of a run."""
        return max(int(self.disorder * self.events_of(run) / BLOCK), self.late_of(run))


def _part(total: int, parts: int, at: int) -> int:
    return total // parts + (at < total % parts)


def _check(is_allowed: bool, option: str, value: object, allowed: str) -> None:
    if not is_allowed:
        raise InvalidOption(option, value, allowed)


# -- one run -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Order:
    """The total order of a run, an item for each event.

    Attributes:
        topic: from 0, the most popular first.
        number: in its topic.
        counter: within its publisher.
        others: the topics and numbers of the two events before, as dependencies; topic -1 where it has none.
        published, stamped, accepted: in microseconds, by the worker's clock.
    """

    topic: Ints
    number: Ints
    publisher: Ints
    counter: Ints
    others: tuple[tuple[Ints, Ints], tuple[Ints, Ints]]
    published: Ints
    stamped: Ints
    accepted: Ints
    size: Ints

    @property
    def entries(self) -> Ints:
        """The entries of each timestamp, its own number included."""
        return 1 + (self.others[0][0] >= 0).astype(np.int64) + (self.others[1][0] >= 0)

    @property
    def stamp_bytes(self) -> Ints:
        """The bytes of each timestamp."""
        return 14 + 6 * self.entries


@dataclass(slots=True)
class Reception:
    """One subscriber's view of a run.

    Attributes:
        shuffles: by block, which of SHUFFLES it arrived in.
        delivered: by block, which of DELIVERED it was notified of in.
        lost: events that never arrive; late: events that are late. Both sorted.
    """

    shuffles: Ints
    delivered: Ints
    lost: Ints
    late: Ints

    def arrivals(self, events: int) -> Ints:
        """Return the arriving events in the order of arrival."""
        return _without(_sequence(events, np.array(SHUFFLES)[self.shuffles]), self.lost, events)

    def notifications(self, events: int) -> Ints:
        """Return the events in the order of notification, lost ones included."""
        return _sequence(events, DELIVERED[self.delivered])


def _sequence(events: int, blocks: Ints) -> Ints:
    order = np.arange(events, dtype=np.int64)
    whole = len(blocks) * BLOCK
    order[:whole] = (np.arange(0, whole, BLOCK)[:, None] + blocks).ravel()
    return order


def _without(order: Ints, gone: Ints, events: int) -> Ints:
    is_gone = np.zeros(events, bool)
    is_gone[gone] = True
    return order[~is_gone[order]]


@dataclass(slots=True)
class MadeRun:
    """A generated run.

    Attributes:
        violations: subscriber and first event of each planted violation.
    """

    plan: Plan
    at: int
    order: Order
    seen: list[Reception]
    violations: list[tuple[int, int]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The run's id."""
        return f"run-{self.at + 1}"

    @property
    def events(self) -> int:
        """The number of events."""
        return len(self.order.topic)


def made_runs(plan: Plan) -> Iterator[MadeRun]:
    """Generate the runs one after the other."""
    for at in range(plan.runs):
        chance = np.random.default_rng([plan.seed % 2**63, at])
        order = _order(plan, at, chance)
        blocks = plan.events_of(at) // BLOCK
        shuffled = chance.permutation(blocks)
        calm, other = shuffled[: plan.calm_of(at)], np.sort(shuffled[plan.calm_of(at) :])
        violations = [
            (int(chance.integers(plan.subscribers)), int(block) * BLOCK + 1)
            for block in np.sort(calm[: plan.violations_of(at)])
        ]
        seen = [_seen(plan, at, chance, blocks, calm, other) for _ in range(plan.subscribers)]
        for subscriber, event in violations:
            seen[subscriber].delivered[event // BLOCK] = 2
        yield MadeRun(plan, at, order, seen, violations)


def _order(plan: Plan, at: int, chance: np.random.Generator) -> Order:
    events = plan.events_of(at)
    weights = 1 / np.arange(1, plan.topics + 1)
    topic = chance.choice(plan.topics, events, p=weights / weights.sum()).astype(np.int64)
    publisher = topic % PUBLISHERS
    number = _counted(topic)
    one, two = _before(topic, number, 1), _before(topic, number, 2)
    one[0][one[0] == topic] = -1
    two[0][(two[0] == topic) | (two[0] == one[0])] = -1
    began = BEGAN_US + at * 86_400_000_000
    published = began + np.cumsum(chance.integers(1, 2 * GAP_US, events))
    stamped = published + chance.integers(800, 4_000, events)
    accepted = stamped + chance.integers(500, 3_000, events)
    size = chance.integers(20, 400, events)
    return Order(topic, number, publisher, _counted(publisher), (one, two), published, stamped, accepted, size)


def _counted(groups: Ints) -> Ints:
    """Return each item's index in its group, from 1."""
    by_group = np.argsort(groups, kind="stable")
    ordered = groups[by_group]
    starts = np.searchsorted(ordered, ordered)
    counted = np.empty(len(groups), np.int64)
    counted[by_group] = np.arange(len(groups)) - starts + 1
    return counted


def _before(topic: Ints, number: Ints, by: int) -> tuple[Ints, Ints]:
    """Return topic and number of the event so many places before."""
    topics, numbers = np.full(len(topic), -1, np.int64), np.zeros(len(topic), np.int64)
    topics[by:], numbers[by:] = topic[:-by], number[:-by]
    return topics, numbers


def _seen(plan: Plan, at: int, chance: np.random.Generator, blocks: int, calm: Ints, other: Ints) -> Reception:
    shuffles, delivered = np.zeros(blocks, np.int64), np.zeros(blocks, np.int64)
    drawn = chance.choice(other, plan.shuffled_of(at), replace=False) if len(other) else other
    shuffles[drawn] = chance.integers(1, len(SHUFFLES), len(drawn))
    late = drawn[: plan.late_of(at)]
    shuffles[late], delivered[late] = LATE, 1
    outer = np.concatenate([calm * BLOCK, calm * BLOCK + BLOCK - 1])
    lost = chance.choice(outer, plan.lost_of(at), replace=False) if len(outer) else outer
    return Reception(shuffles, delivered, np.sort(lost), np.sort(late * BLOCK))
