"""How costs grow with what there is: an event's with topics, subscribers, group members, waiting events and stages; and
those of a new topic, a new subscriber, a worker's start and the heads of each second.

Processor time of the core alone, in one process, without I/O. Each figure is compared with the smallest of its kind;
``entries`` is what an event's timestamp carries, since nothing can cost less than what has to be said.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator
from itertools import count, cycle, islice
from typing import NamedTuple

from inorder.protocol.names import Filter, FilterKind, exact
from inorder.protocol.pairs import joined
from inorder.protocol.wire import NewEvent, SpaceFilter, Timestamps
from inorder_bench.costs.stages import Sequencer
from inorder_bench.ordering import ordering_module
from inorder_bench.rows import Row, Say, paired, spread
from inorder_worker.sequencer.commands import (
    ChangeSubscription,
    Create,
    CreateTopics,
    OpenSession,
    Reply,
    SettleNumbers,
)
from inorder_worker.sequencer.stage import Stage

FRAME = 64
FEW = 20
"""New topics or subscribers in one run: few enough not to be more than there were."""
ALL = [SpaceFilter("s", Filter("#", FilterKind.MQTT, "#"))]


class Done(NamedTuple):
    """What a run took: processor time, how many events (or other things) it was for, and a timestamp's entries."""

    seconds: float
    things: int
    entries: float | None = None


Step = Callable[[int], Done]
"""Does so many events."""


def _timed(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def _frames(sequencer: Sequencer, topics: Iterator[int]) -> Step:
    def run(events: int) -> Done:
        entries = 0
        began = time.process_time()
        for _ in range(0, events, FRAME):
            sequencer.publish(list(islice(topics, FRAME)))
            entries += sum(len(event.deps) // 2 for event in sequencer.timestamps)
        return Done(time.process_time() - began, events, entries / events)

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

    def run(events: int) -> Done:
        began = time.process_time()
        for at in range(events):
            mine, other = at % 2, 1 - at % 2
            numbers[mine] += 1
            deps = [4 - mine, numbers[other]] if numbers[other] else []
            assert len(module.receive(3 + mine, numbers[mine], deps, None, 100, 0.0)) == 1
        return Done(time.process_time() - began, events, 1.0)

    return run


def _stage(topics: int, subscribers: int) -> Stage:
    """Return a stage with topics that have an event each, and subscribers that have all of them by a wildcard."""
    stage = Stage(0, 1)
    for client in ("publisher", *(f"all-{each}" for each in range(subscribers))):
        stage.step(OpenSession(client, 1), 0)
    for each in range(subscribers):
        stage.step(ChangeSubscription(f"all-{each}", 1, 1, ALL, bounded=False), 0)
    stage.step(CreateTopics("publisher", 1, 1, [("s", f"t{each}") for each in range(1, topics + 1)]), 0)
    stage.step(Create("publisher", 1, 1, [NewEvent(each, each) for each in range(1, topics + 1)]), 0)
    return stage


def _new_topic(topics: int) -> Step:
    """Two clients have all topics by a wildcard, each topic has had an event: one more topic, and its first event."""
    stage, ids = _stage(topics, 2), count(topics + 1)

    def run(_: int) -> Done:
        seconds, entries = 0.0, 0
        for topic in islice(ids, FEW):
            began = time.process_time()
            stage.step(CreateTopics("publisher", 1, topic, [("s", f"t{topic}")]), 0)
            (effect,) = stage.step(Create("publisher", 1, topic, [NewEvent(topic, topic)]), 0)
            seconds += time.process_time() - began
            assert isinstance(effect, Reply)
            assert isinstance(effect.frame, Timestamps)
            entries += len(effect.frame.events[0].deps) // 2
        return Done(seconds, FEW, entries / FEW)

    return run


def _new_subscriber(subscribers: int) -> Step:
    """As many clients have four of 16 topics each; one more connects and subscribes."""
    stage, numbers = _stage(16, 0), count()

    def join() -> None:
        number = next(numbers)
        mine = [SpaceFilter("s", exact(f"t{(7 * number + 3 * each) % 16 + 1}")) for each in range(4)]
        stage.step(OpenSession(f"subscriber-{number}", 1), 0)
        stage.step(ChangeSubscription(f"subscriber-{number}", 1, 1, mine, bounded=False), 0)

    for _ in range(subscribers):
        join()

    def join_few() -> None:
        for _ in range(FEW):
            join()

    return lambda _: Done(_timed(join_few), FEW)


def _start(topics: int) -> Step:
    """A worker reads a stage's snapshot: as many topics, a client for ten of them that has them and ten others."""
    stage = _stage(topics, 0)
    for client in range(max(1, topics // 10)):
        mine = {(10 * client + each) % topics + 1 for each in range(20)}
        stage.step(OpenSession(f"subscriber-{client}", 1), 0)
        filters = [SpaceFilter("s", exact(f"t{each}")) for each in sorted(mine)]
        stage.step(ChangeSubscription(f"subscriber-{client}", 1, 1, filters, bounded=False), 0)
    snapshot = stage.snapshot()
    return lambda _: Done(_timed(lambda: Stage.restore(snapshot)), topics)


def _heads(topics: int) -> Step:
    """The heads of a second in which all topics had an event, for one client that has all of them (R17). Each ten
    topics have a publisher of their own."""
    stage = Stage(0, 1)
    stage.step(OpenSession("all", 1), 0)
    stage.step(ChangeSubscription("all", 1, 1, ALL, bounded=False), 0)
    stage.step(CreateTopics("all", 1, 1, [("s", f"t{each}") for each in range(1, topics + 1)]), 0)
    publishers = {f"publisher-{first}": range(first, min(first + 10, topics + 1)) for first in range(1, topics + 1, 10)}
    for publisher in publishers:
        stage.step(OpenSession(publisher, 1), 0)
    numbers = count(1)

    def run(_: int) -> Done:
        number = next(numbers)
        for publisher, its in publishers.items():
            events = [NewEvent(10 * number + at, topic) for at, topic in enumerate(its)]
            stage.step(Create(publisher, 1, 10 * number, events), 0)
            confirmed = joined((topic, number, number) for topic in its)
            stage.step(SettleNumbers(publisher, 1, number, confirmed, []), 0)
        began = time.process_time()
        told = stage.heads("all", stage.changed_heads())
        seconds = time.process_time() - began
        assert len(told) == 2 * topics
        return Done(seconds, topics)

    return run


class Kind(NamedTuple):
    """One kind of growth: what makes its step for a size, its sizes, what one figure is for, and the things that are
    done at a size before it is measured."""

    make: Callable[[int], Step]
    sizes: tuple[int, ...]
    unit: str = "us/event"
    warm: Callable[[int], int] = lambda size: 2 * size


KINDS: dict[str, Kind] = {
    "topics": Kind(_by_topics, (1, 10, 100, 1_000, 10_000)),
    "topics of one publisher": Kind(_by_topics_of_one, (1, 10, 100, 1_000, 10_000)),
    "subscribers": Kind(_by_subscribers, (1, 10, 100, 1_000)),
    "members of a sequencing group": Kind(_by_group, (1, 10, 50, 100, 200, 400)),
    "events waiting": Kind(_by_waiting, (0, 1_000, 100_000, 1_000_000), warm=lambda _: 0),
    "stages": Kind(_by_stages, (1, 2, 4, 8)),
    "a new topic and its event, of topics under two wildcards": Kind(_new_topic, (100, 1_000, 5_000), "us/topic"),
    "a new subscriber, of subscribers": Kind(_new_subscriber, (10, 100, 1_000, 10_000), "us/subscriber"),
    "a stage's start, by topics": Kind(_start, (100, 1_000, 10_000), "us/topic"),
    "heads of a second, by topics of a subscriber": Kind(_heads, (100, 1_000, 10_000), "us/topic"),
}


def measure(events: int, repeats: int, say: Say) -> list[Row]:
    """Measure every kind at every size, all sizes of a kind in turn."""
    return [row for name in KINDS for row in _measure(name, events, repeats, say)]


def _measure(name: str, events: int, repeats: int, say: Say) -> list[Row]:
    kind = KINDS[name]
    steps = {size: kind.make(size) for size in kind.sizes}
    costs: dict[int, list[float]] = {size: [] for size in kind.sizes}
    entries: dict[int, float | None] = {}
    for size, step in steps.items():
        step(max(events // 10, kind.warm(size)))  # every topic has been used
    for _ in range(repeats):
        for size, step in steps.items():
            gc.collect()
            done = step(events)
            entries[size] = done.entries
            costs[size].append(done.seconds / done.things * 1e6)
        say(f"growth: {name}: " + ", ".join(f"{size:,}: {costs[size][-1]:.2f} us" for size in kind.sizes))
    first = kind.sizes[0]
    return [
        Row(
            workload=f"growth: {name}",
            name=f"{size:,}",
            unit=kind.unit,
            value=spread(costs[size]),
            ratio=paired(costs[size], costs[first]),
            yardstick=f"of {first:,}",
            more={} if (carried := entries[size]) is None else {"entries": carried},
        )
        for size in kind.sizes
    ]
