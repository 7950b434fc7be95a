"""How the cost of an event grows with what there is: topics, subscribers, group members, waiting events, stages.

Processor time of the core alone, in one process, without I/O. Each figure is compared with the smallest of its kind;
``entries`` is what an event's timestamp carries, since nothing can cost less than what has to be said.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice

from benchmarks.stages import Sequencer
from inorder_bench.ordering import ordering_module
from inorder_bench.rows import Row, Say, paired, spread

FRAME = 64

Step = Callable[[int], float]
"""Does so many events; returns the entries of an event's timestamp."""


def _frames(sequencer: Sequencer, topics: Iterator[int]) -> Step:
    def run(events: int) -> float:
        entries = 0
        for _ in range(0, events, FRAME):
            sequencer.publish(list(islice(topics, FRAME)))
            entries += sum(len(event.deps) // 2 for event in sequencer.timestamps)
        return entries / events

    return run


def _triples(topics: int) -> list[range]:
    """Return the topics cut into threes, each twice: what two subscribers have."""
    return [range(first, min(first + 3, topics + 1)) for first in range(1, topics + 1, 3) for _ in (0, 1)]


def _by_topics(topics: int) -> Step:
    """As many topics, each in a sequencing group of three; a publisher for every ten of them, and events of
    all in turn."""
    sequencer = Sequencer(1, topics, _triples(topics), publishers=max(1, topics // 10))
    return _frames(sequencer, cycle(range(1, topics + 1)))


def _by_topics_of_one(topics: int) -> Step:
    """The same with one publisher for all: each event follows the latest ones of all its topics (R19)."""
    return _frames(Sequencer(1, topics, _triples(topics)), cycle(range(1, topics + 1)))


def _by_subscribers(subscribers: int) -> Step:
    """Sixteen topics; as many clients, each with four of them."""
    chance = random.Random(1)
    sequencer = Sequencer(1, 16, [chance.sample(range(1, 17), 4) for _ in range(subscribers)])
    return _frames(sequencer, cycle(range(1, 17)))


def _by_group(members: int) -> Step:
    """As many topics, all in the subscription of two clients: each is in the sequencing group of all others. Published
    to at random, so that between two events of one topic there is one in most of the others."""
    chance = random.Random(1)
    sequencer = Sequencer(1, members, [range(1, members + 1)] * 2)
    return _frames(sequencer, iter(lambda: chance.randint(1, members), 0))


def _by_stages(stages: int) -> Step:
    """Sixteen topics, all in the subscription of two clients, on as many stages."""
    sequencer = Sequencer(stages, 16, [range(1, 17)] * 2)
    return _frames(sequencer, cycle(range(1, 17)))


def _by_waiting(waiting: int) -> Step:
    """As many events wait for one that does not come, while those of two other topics go through."""
    module = ordering_module(4)
    for number in range(1, waiting + 1):
        module.receive(2, number, [1, 1], None, 100, 0.0)
    numbers = [0, 0]

    def run(events: int) -> float:
        for at in range(events):
            mine, other = at % 2, 1 - at % 2
            numbers[mine] += 1
            deps = [4 - mine, numbers[other]] if numbers[other] else []
            assert len(module.receive(3 + mine, numbers[mine], deps, None, 100, 0.0)) == 1
        return 1.0

    return run


KINDS: dict[str, tuple[Callable[[int], Step], tuple[int, ...]]] = {
    "topics": (_by_topics, (1, 10, 100, 1_000, 10_000)),
    "topics of one publisher": (_by_topics_of_one, (1, 10, 100, 1_000, 10_000)),
    "subscribers": (_by_subscribers, (1, 10, 100, 1_000)),
    "members of a sequencing group": (_by_group, (1, 10, 50, 200)),
    "events waiting": (_by_waiting, (0, 1_000, 100_000, 1_000_000)),
    "stages": (_by_stages, (1, 2, 4, 8)),
}


def measure(events: int, repeats: int, say: Say) -> list[Row]:
    """Measure every kind at every size, all sizes of a kind in turn."""
    rows: list[Row] = []
    for kind, (make, sizes) in KINDS.items():
        steps = {size: make(size) for size in sizes}
        costs: dict[int, list[float]] = {size: [] for size in sizes}
        entries: dict[int, float] = {}
        for size, step in steps.items():
            step(max(events // 10, 2 * size if make is not _by_waiting else 0))  # every topic has been used
        for _ in range(repeats):
            for size, step in steps.items():
                gc.collect()
                began = time.process_time()
                entries[size] = step(events)
                costs[size].append((time.process_time() - began) / events * 1e6)
            say(f"growth: {kind}: " + ", ".join(f"{size:,}: {costs[size][-1]:.2f} us" for size in sizes))
        rows += [
            Row(
                workload=f"growth: {kind}",
                name=f"{size:,}",
                unit="us/event",
                value=spread(costs[size]),
                ratio=paired(costs[size], costs[sizes[0]]),
                yardstick=f"of {sizes[0]:,}",
                more={"entries": entries[size]},
            )
            for size in sizes
        ]
    return rows
