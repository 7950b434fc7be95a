"""Which topics there are, who publishes to them and who subscribes to them: the same in every process of a run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

SEED = 1
"""Everything that is drawn is drawn from this: two runs have the same events."""
POWER = 1.0
"""The ``n``-th topic is as popular as ``n ** -POWER``, with publishers and subscribers alike."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One event: its number in the run, its publisher and its topic, by index."""

    number: int
    publisher: int
    topic: int


@dataclass(frozen=True, slots=True)
class Shape:
    """A workload's topics and clients.

    Attributes:
        topics: by name; everything else names them by index.
        publishers: the topics of each.
        subscribers: the topics of each.
        weights: how often a topic is published to; ``None``: all in turn.
        wildcard: what subscribers subscribe to that have all topics by one filter; empty: to each topic by its name.
    """

    topics: Sequence[str]
    publishers: Sequence[Sequence[int]]
    subscribers: Sequence[Sequence[int]]
    weights: Sequence[float] | None = None
    wildcard: str = ""

    def turns(self, count: int) -> Iterator[Turn]:
        """Yield the events of a run in the order in which they are due; each topic's first one comes first of all.
        Publishers of the same topics take turns, each with one event for every topic."""
        owners: dict[int, list[int]] = {}
        for publisher, its in enumerate(self.publishers):
            for topic in its:
                owners.setdefault(topic, []).append(publisher)
        topics = [at % len(self.topics) for at in range(count)]
        if self.weights is not None and count > len(self.topics):
            sums = list(accumulate(self.weights))
            drawn = count - len(self.topics)
            topics[len(self.topics) :] = random.Random(SEED).choices(range(len(self.topics)), cum_weights=sums, k=drawn)
        size = len(self.topics)
        return (
            Turn(number, owners[topic][number // size % len(owners[topic])], topic)
            for number, topic in enumerate(topics)
        )

    def names(self, subscriber: int) -> list[str]:
        """Return what a subscriber subscribes to."""
        return [self.wildcard] if self.wildcard else [self.topics[topic] for topic in self.subscribers[subscriber]]


def _named(count: int) -> list[str]:
    return [f"bench/{at:03}" for at in range(count)]


def _in_turn(topics: int, publishers: int = 2, subscribers: int = 2) -> Shape:
    """Return a shape whose subscribers have all topics."""
    shares = [range(first, topics, publishers) for first in range(publishers)]
    return Shape(_named(topics), shares, [range(topics)] * subscribers)


def _power_law(topics: int, publishers: int, subscribers: int, each: int) -> Shape:
    """Return a shape whose subscribers have ``each`` topics, popular ones more often."""
    chance = random.Random(SEED)
    weights = [(at + 1) ** -POWER for at in range(topics)]
    shares = [range(first, topics, publishers) for first in range(publishers)]
    return Shape(_named(topics), shares, [_drawn(chance, weights, each) for _ in range(subscribers)], weights)


def _drawn(chance: random.Random, weights: Sequence[float], count: int) -> list[int]:
    """Return different topics, by weight."""
    drawn: set[int] = set()
    while len(drawn) < count:
        drawn.update(chance.choices(range(len(weights)), weights, k=count - len(drawn)))
    return sorted(drawn)


def _on_stages(topics: int, publishers: Sequence[Sequence[int]], subscribers: int = 2) -> Shape:
    """Return a shape for stages that share the topics, whose subscribers have all of them."""
    return Shape(_named(topics), publishers, [range(topics)] * subscribers)


def _under_wildcard(topics: int, readers: int, *, at_random: bool) -> Shape:
    """Return a shape of one publisher, whose subscribers have all topics by ``#``."""
    weights = [1.0] * topics if at_random else None
    return Shape(_named(topics), [range(topics)], [range(topics)] * readers, weights, "#")


def under_wildcard(topics: int, readers: int, way: str) -> str:
    """Return the name of the shape in which so many subscribers of ``#`` have so many topics; ``way``: one of
    ``WAYS``."""
    return f"{topics} topics under {readers} wildcards, {way}"


ROUND_ROBIN, AT_RANDOM = WAYS = "round robin", "at random"
"""Ways to publish to topics that are all as popular."""
GROWING = (10, 100, 1_000, 10_000)
"""Topics, where their number is what a workload is about."""

SHAPES = {
    "pair": _in_turn(2),
    "overlap": _in_turn(16),
    "stages": _in_turn(6),
    "stages-apart": _on_stages(6, [range(first, first + 2) for first in range(0, 6, 2)]),
    "stages-16": _on_stages(6, [range(6)] * 16),
    "power-law": _power_law(1_000, 10, 100, 10),
    **{
        under_wildcard(topics, readers, way): _under_wildcard(topics, readers, at_random=way == AT_RANDOM)
        for topics in GROWING
        for readers in (1, 2)
        for way in WAYS
    },
}
"""By name: a job names its own."""
