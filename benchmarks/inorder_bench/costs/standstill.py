"""The longest time that a stage stands still for a change while there are more and more topics: a second reader of
``#`` comes and goes, a topic is new, the topic order changes; and how long the first timestamps are then.

Processor time of the core alone, in one process, garbage collection apart. A stage does nothing else during a step, so
the longest step counts, of all that the change takes; but while the topic order changes stages are sealed, so all of
its steps count.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from statistics import mean
from typing import Final, NamedTuple

from inorder.protocol.names import exact
from inorder.protocol.stamp import PlainStamp, encode_stamp
from inorder.protocol.wire import NewEvent, SpaceFilter
from inorder_bench.costs.growth import ALL, FRAME
from inorder_bench.costs.stages import Sequencer
from inorder_bench.rows import Row, Say, paired, spread
from inorder_worker.sequencer.commands import (
    AnyCommand,
    ChangeSubscription,
    Configure,
    Create,
    CreateTopics,
    Effect,
    LeaveSession,
    OpenSession,
    Reorder,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.sessions import END_WORK
from inorder_worker.sequencer.stage import Stage

SIZES: Final = (10, 100, 1_000, 10_000)
FIRST: Final = 20
"""So many timestamps are the first ones after a change, each of another topic."""
DOMAIN: Final = 2**31
"""A long one, as most are."""
SETTINGS: Final = StageSettings(end_work=END_WORK)
"""As workers have them."""


SLACK_MS: Final = 1_000
"""For what a stage does bit by bit once it is due."""


class TimedStage(Stage):
    """A stage that notes in ``seconds`` the processor time of each step."""

    def __init__(self, index: int, count: int) -> None:
        super().__init__(index, count)
        self.seconds: list[float] = []

    def step(self, command: AnyCommand, now: int) -> list[Effect]:
        """See the base class."""
        began = time.process_time()
        effects = super().step(command, now)
        self.seconds.append(time.process_time() - began)
        return effects


class Stall(NamedTuple):
    """A change: for how long a stage stood still, s, and the bytes of the first timestamps after it."""

    seconds: float
    stamps: list[int]


class Topics:
    """Topics on one stage or on two, all of which one reader has by ``#``, or two; each has had an event."""

    def __init__(self, topics: int, *, stages: int = 1, readers: int = 2) -> None:
        self._stages: list[TimedStage] = []
        self.sequencer = Sequencer(stages, topics, [], make=self._make)
        self.ids, self.bottom = range(1, topics + 1), stages - 1
        for stage in range(stages):
            self.sequencer.step(stage, Configure(SETTINGS))
        for number in range(readers):
            self.open(f"all-{number}")
            self.subscribe(f"all-{number}", 1, ALL)
        self.rise()

    def _make(self, index: int, count: int) -> Stage:
        self._stages.append(TimedStage(index, count))
        return self._stages[-1]

    def open(self, client: str) -> None:
        """A client comes."""
        self.sequencer.step(self.bottom, OpenSession(client, 1))

    def subscribe(self, client: str, version: int, filters: list[SpaceFilter]) -> None:
        """A client changes its subscription."""
        self.sequencer.step(self.bottom, ChangeSubscription(client, 1, version, filters, bounded=False))

    def leave(self, client: str) -> None:
        """A client's connection ends."""
        self.sequencer.step(self.bottom, LeaveSession(client, 1))

    def let_pass(self, ms: int) -> None:
        """Time passes, with the ticks that are due."""
        stage = self._stages[-1]
        until = stage.now + ms + SLACK_MS
        while (due := stage.next_deadline()) is not None and due <= until:
            self.sequencer.wait_until(due)
            self.sequencer.step(self.bottom, Tick())
        self.sequencer.wait_until(until)

    def stall(self, change: Callable[[], object], *, is_sealed: bool = False) -> Stall:
        """Measure a change, and the first timestamps after it; all topics have risen since the first one's last event.
        ``is_sealed``: all of the change's steps count, not the longest one alone."""
        self.rise()
        for stage in self._stages:
            stage.seconds.clear()
        change()
        seconds = [each for stage in self._stages for each in stage.seconds]
        return Stall(sum(seconds) if is_sealed else max(seconds), self.first_stamps())

    def rise(self) -> None:
        """Publish to the first topic, then to all others, at random."""
        others = random.Random(1).sample(self.ids[1:], len(self.ids) - 1)
        for at in range(0, len(self.ids), FRAME):
            self.sequencer.publish([1, *others][at : at + FRAME])

    def first_stamps(self) -> list[int]:
        """Publish to some topics, those of the lower stage first; return the bytes of the timestamps."""
        some = self.ids[:: -(-len(self.ids) // FIRST)]
        self.sequencer.publish(sorted(some, key=self.sequencer.home.__getitem__, reverse=True))
        return self._lengths()

    def _lengths(self) -> list[int]:
        stamps = (PlainStamp(DOMAIN, each.topic, each.number, each.deps) for each in self.sequencer.timestamps)
        return [len(encode_stamp(each)) for each in stamps]

    def first_of(self, topic: int) -> list[int]:
        """Publish a topic's first event; return the bytes of its timestamp."""
        self.sequencer.timestamps.clear()
        self.sequencer.step(self.bottom, Create("newcomer", 1, topic, [NewEvent(topic, topic)]))
        return self._lengths()


Changes = dict[str, Stall]
Step = Callable[[], Changes]
"""Does changes, and says what each took, by name. It can be done again."""


def _of_readers(topics: int) -> Step:
    """Beside a reader of everything, a client that has one topic takes all, leaves the others, and that is forgotten;
    it takes all again, and is gone for good."""
    here, numbers = Topics(topics, readers=1), count()
    one = [SpaceFilter("s", exact("t1"))]

    def run() -> Changes:
        reader = f"reader-{next(numbers)}"
        here.open(reader)
        here.subscribe(reader, 1, one)
        here.first_stamps()
        found = {
            "a second reader of # joins": here.stall(lambda: here.subscribe(reader, 2, ALL)),
            "a second reader of # leaves": here.stall(lambda: here.subscribe(reader, 3, one)),
            "a second reader's linger ends": here.stall(lambda: here.let_pass(SETTINGS.linger_ms)),
        }
        here.subscribe(reader, 4, ALL)
        here.first_stamps()
        here.leave(reader)
        found["a second reader of # expires"] = here.stall(lambda: here.let_pass(SETTINGS.session_timeout_ms))
        here.let_pass(SETTINGS.linger_ms)
        return found

    return run


def _of_new_topics(topics: int) -> Step:
    """A topic is made; the first timestamp is its own."""
    here, ids = Topics(topics), count(topics + 1)
    here.open("newcomer")

    def run() -> Changes:
        topic = next(ids)
        made = here.stall(
            lambda: here.sequencer.step(here.bottom, CreateTopics("newcomer", 1, topic, [("s", f"t{topic}")]))
        )
        return {"a topic is made": Stall(made.seconds, made.stamps + here.first_of(topic))}

    return run


def _of_the_order(topics: int) -> Step:
    """Of two stages with half of the topics each, one topic of the lower one rises, and goes back; or all topics change
    their stages."""
    here, epochs = Topics(topics, stages=2), count(2)
    here.open("operator")
    upper, lower = here.ids[: topics // 2], here.ids[topics // 2 :]
    orders = [lower, upper], [upper, lower]

    def order(stages: Sequence[Sequence[int]]) -> Stall:
        epoch = next(epochs)
        command = Reorder("operator", 1, epoch, epoch, [list(each) for each in stages])
        return here.stall(lambda: here.sequencer.reorder(command), is_sealed=True)

    def run() -> Changes:
        one = order([lower[:1], []])
        order([[], lower[:1]])
        every = order(orders[0])
        order(orders[1])
        return {"one topic changes its stage": one, "all topics change their stages": every}

    return run


STEPS: Final[tuple[Callable[[int], Step], ...]] = (_of_readers, _of_new_topics, _of_the_order)


def measure(sizes: Sequence[int], repeats: int, say: Say) -> list[Row]:
    """Measure every change at every size, all sizes in turn."""
    return [row for make in STEPS for row in _measured(make, sizes, repeats, say)]


def _without_collections(step: Step) -> Changes:
    """Do a step without the garbage collector, which would stop now this change and now that one."""
    gc.collect()
    gc.disable()
    try:
        return step()
    finally:
        gc.enable()


def _measured(make: Callable[[int], Step], sizes: Sequence[int], repeats: int, say: Say) -> Iterator[Row]:
    steps = {size: make(size) for size in sizes}
    found: dict[str, dict[int, list[Stall]]] = {}
    for _ in range(repeats):
        for size, step in steps.items():
            for name, stall in _without_collections(step).items():
                found.setdefault(name, {}).setdefault(size, []).append(stall)
                say(f"growth: {name}: {size:,} topics: {stall.seconds * 1e3:.2f} ms, {max(stall.stamps):,} bytes")
    for name, by_size in found.items():
        times = {size: [each.seconds * 1e3 for each in stalls] for size, stalls in by_size.items()}
        for size, stalls in by_size.items():
            yield Row(
                workload=f"growth: standing still while {name}, by topics",
                name=f"{size:,}",
                unit="ms",
                value=spread(times[size]),
                ratio=paired(times[size], times[sizes[0]]),
                yardstick=f"of {sizes[0]:,}",
                more={
                    "longest stamp": float(max(max(each.stamps) for each in stalls)),
                    "mean stamp": mean(length for each in stalls for length in each.stamps),
                },
            )
