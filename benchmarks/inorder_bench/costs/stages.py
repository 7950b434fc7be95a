"""A sequencer of one or more stages in one process: commands go in, rides go from stage to stage, nothing is stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from inorder.protocol.names import exact
from inorder.protocol.wire import NewEvent, SpaceFilter, StampedEvent, Timestamps, TopicInfo
from inorder_worker.sequencer.commands import (
    AnyCommand,
    ChangeSubscription,
    Create,
    Deliver,
    OpenSession,
    Place,
    Reorder,
    Reply,
    Send,
    SettleNumbers,
)
from inorder_worker.sequencer.stage import Stage


class Sequencer:
    """Stages with a fixed topic order, subscribers and publishers.

    Args:
        stages: how many; topics are spread over them, the first ones on the highest.
        topics: ids are 1 to this.
        subscriptions: the topics of each subscriber.
        publishers: how many; topics are spread over them, too.
        make: makes a stage of its index and their number.

    Attributes:
        timestamps: of the last frame.
        home: the stage of each topic.
    """

    def __init__(
        self,
        stages: int,
        topics: int,
        subscriptions: Sequence[Sequence[int]],
        *,
        publishers: int = 1,
        make: Callable[[int, int], Stage] = Stage,
    ) -> None:
        self._stages = [make(index, stages) for index in range(stages)]
        self._now = 0
        self._request = 0
        self._order_epoch = 1
        self._counters = dict.fromkeys((f"publisher-{number}" for number in range(publishers)), 0)
        self._publisher = {topic: f"publisher-{(topic - 1) * publishers // topics}" for topic in range(1, topics + 1)}
        self.timestamps: list[StampedEvent] = []
        self.home = {topic: (topic - 1) * stages // topics for topic in range(1, topics + 1)}
        placed = [TopicInfo(topic, "s", f"t{topic}", self.home[topic]) for topic in self.home]
        for index in range(stages):
            self.step(index, Place(placed))
            for publisher in self._counters:
                self.step(index, OpenSession(publisher, 1))
        for number, mine in enumerate(subscriptions):
            client = f"subscriber-{number}"
            filters = [SpaceFilter("s", exact(f"t{topic}")) for topic in mine]
            self.step(stages - 1, OpenSession(client, 1))
            self.step(stages - 1, ChangeSubscription(client, 1, 1, filters, bounded=False))

    def publish(self, topics: Sequence[int]) -> None:
        """One frame of events for each publisher and stage concerned, and their confirmation."""
        frames: dict[tuple[str, int], list[NewEvent]] = {}
        for topic in topics:
            publisher = self._publisher[topic]
            counter = self._counters[publisher] = self._counters[publisher] + 1
            frames.setdefault((publisher, self.home[topic]), []).append(NewEvent(counter, topic))
        self.timestamps.clear()
        for (publisher, stage), events in frames.items():
            self.step(stage, Create(publisher, 1, events[0].counter, events, self._order_epoch))
        assert len(self.timestamps) == len(topics)
        confirmed: dict[tuple[str, int], list[int]] = {}
        for event in self.timestamps:
            key = self._publisher[event.topic], self.home[event.topic]
            confirmed.setdefault(key, []).extend((event.topic, event.number, event.number))
        for (publisher, stage), triples in confirmed.items():
            self._request += 1
            self.step(stage, SettleNumbers(publisher, 1, self._request, triples, []))

    def reorder(self, command: Reorder) -> None:
        """Change the topic order, which nothing may be in the way of."""
        self.step(len(self._stages) - 1, command)
        assert {each.order_epoch for each in self._stages} == {command.order_epoch}
        self._order_epoch = command.order_epoch
        for stage, topics in enumerate(command.stages):
            self.home.update(dict.fromkeys(topics, stage))

    def wait_until(self, now: int) -> None:
        """Let no command come before this time, ms."""
        self._now = max(self._now, now)

    def step(self, stage: int, command: AnyCommand) -> None:
        """One command, and all rides that follow from it."""
        work: deque[tuple[int, AnyCommand]] = deque([(stage, command)])
        while work:
            at, command = work.popleft()
            self._now += 1
            for effect in self._stages[at].step(command, self._now):
                if isinstance(effect, Send):
                    work.append((effect.stage, Deliver(at, effect.number, effect.ride)))
                elif isinstance(effect, Reply) and isinstance(effect.frame, Timestamps):
                    self.timestamps += effect.frame.events
            if isinstance(command, Deliver):
                self._stages[command.origin].acknowledge(at, command.number)
