"""What a stage keeps, and how its effects leave.

:class:`StageState` is data and small look-ups; the departments (stamping, subscribing, settling) change it.
Everything in it is journaled input's consequence, so a snapshot holds all of it.
"""

from __future__ import annotations

import msgspec

from inorder.core.commands import AnyRide, Effect, Reply, Send, SessionKey, StageSettings
from inorder.core.sequencing import Overlaps, Subscription, members
from inorder.core.topic_manager import Session, TopicManager
from inorder.core.wire import Frame, StampedEvent, Timestamps, TopicInfo


class Linger(msgspec.Struct):
    """A dropped topic that still counts (R10), at the bottom stage: when its end goes up the belt."""

    due: int
    client_id: str
    topic: int
    incarnation: int
    version: int


class Snapshot(msgspec.Struct):
    """The whole state of a stage, for the store."""

    index: int
    count: int
    settings: StageSettings
    now: int
    tick: int
    topics: list[TopicManager]
    recent: list[int]
    sessions: list[Session]
    subscriptions: list[Subscription]
    stale: list[int]
    lingers: list[Linger]
    sent: dict[int, int]
    outbox: dict[int, list[tuple[int, AnyRide]]]
    received: dict[int, int]


class StageState:
    """The state of one stage.

    Attributes:
        index, count: which stage this is, and how many there are (0 is the top, ``count - 1`` the bottom).
        now: stage time, ms.
        tick: the stage's count of events (created here or passing), R2's atomic steps.
        topics: every topic of the cluster by id, with its home stage.
        recent: topics here and below by last rise of their number, least recent first.
        sessions, overlaps, lingers: see their classes.
        sent, outbox, received: the links' last numbers and what is not yet acknowledged.
    """

    def __init__(self, index: int, count: int) -> None:
        self.index, self.count = index, count
        self.settings = StageSettings()
        self.now = 0
        self.tick = 0
        self.topics: dict[int, TopicManager] = {}
        self.by_name: dict[tuple[str, str], int] = {}
        self.recent: dict[int, TopicManager] = {}
        self.sessions: dict[SessionKey, Session] = {}
        self.overlaps = Overlaps()
        self.lingers: list[Linger] = []
        self.sent: dict[int, int] = {}
        self.outbox: dict[int, list[tuple[int, AnyRide]]] = {}
        self.received: dict[int, int] = {}

    @property
    def is_bottom(self) -> bool:
        """New topics and subscription changes enter here."""
        return self.index == self.count - 1

    def add_topic(self, info: TopicInfo) -> TopicManager:
        """Take a topic into the registry (once)."""
        manager = TopicManager(info.id, info.space, info.name, info.stage, top=self.index)
        self.topics[info.id] = manager
        self.by_name[info.space, info.name] = info.id
        return manager

    def info(self, topic: int) -> TopicInfo:
        """Return a topic as clients know it."""
        manager = self.topics[topic]
        return TopicInfo(topic, manager.space, manager.name, manager.stage)

    def raise_number(self, manager: TopicManager, number: int) -> None:
        """A number of this topic was created here, passed, or was announced: it is the most recent now."""
        self.tick += 1
        manager.number = number
        manager.tick = self.tick
        self.recent.pop(manager.id, None)
        self.recent[manager.id] = manager

    def refresh(self, manager: TopicManager) -> None:
        """Compute the topic's sequencing group anew after its subscriptions changed."""
        topic, overlaps, topics = manager.id, self.overlaps, self.topics
        overlaps.stale &= ~(1 << topic)
        company, twice = overlaps.group(topic)
        group = set(members(twice))
        # a stage above the topic's home fills in only its own topics; the home also those below it (LLC)
        lowest = self.index if manager.stage > self.index else self.count
        fills = {other for other in group if self.index <= topics[other].stage <= lowest}
        manager.company = set(members(company))
        manager.above = {other for other in group if topics[other].stage < self.index}
        manager.top = min((topics[other].stage for other in manager.above), default=self.index)
        if not fills <= manager.group:
            manager.full = True
        manager.group = fills
        manager.bounded = overlaps.has_bounded(topic)
        manager.in_payload = overlaps.has_plain(topic)

    def take(self, origin: int, number: int) -> bool:
        """Tell whether a ride is new on its link, and remember it (exactly once, FIFO)."""
        last = self.received.get(origin, 0)
        if number <= last:
            return False
        if number != last + 1:
            raise ValueError(f"ride {number} from stage {origin} came after {last}: the link lost something")
        self.received[origin] = number
        return True

    def snapshot(self) -> Snapshot:
        """Return everything, for :meth:`restore`."""
        return Snapshot(
            index=self.index,
            count=self.count,
            settings=self.settings,
            now=self.now,
            tick=self.tick,
            topics=list(self.topics.values()),
            recent=list(self.recent),
            sessions=list(self.sessions.values()),
            subscriptions=list(self.overlaps),
            stale=list(members(self.overlaps.stale)),
            lingers=self.lingers,
            sent=self.sent,
            outbox=self.outbox,
            received=self.received,
        )

    @classmethod
    def restore(cls, snapshot: Snapshot) -> StageState:
        """Return the state that a snapshot was taken of."""
        state = cls(snapshot.index, snapshot.count)
        state.settings, state.now, state.tick = snapshot.settings, snapshot.now, snapshot.tick
        state.topics = {each.id: each for each in snapshot.topics}
        state.by_name = {(each.space, each.name): each.id for each in snapshot.topics}
        state.recent = {topic: state.topics[topic] for topic in snapshot.recent}
        state.sessions = {(each.client_id, each.incarnation): each for each in snapshot.sessions}
        for subscription in snapshot.subscriptions:
            state.overlaps.put(subscription)
        state.overlaps.stale = sum(1 << topic for topic in snapshot.stale)
        state.lingers = snapshot.lingers
        state.sent, state.outbox, state.received = snapshot.sent, snapshot.outbox, snapshot.received
        return state


class Outbox:
    """Collects the effects of one step. Timestamps for one session leave as one frame."""

    def __init__(self, state: StageState) -> None:
        self._state = state
        self._effects: list[Effect] = []
        self._timestamps: dict[SessionKey, Timestamps] = {}
        self.epoch = 0

    def reply(self, client_id: str, incarnation: int, frame: Frame) -> None:
        """Queue a frame for a client."""
        self._effects.append(Reply(client_id, incarnation, frame))

    def timestamps(self, key: SessionKey) -> Timestamps:
        """Return the session's frame of this step, to append to."""
        frame = self._timestamps.get(key)
        if frame is None:
            frame = self._timestamps[key] = Timestamps(self._state.index, self.epoch, [])
            self.reply(*key, frame)
        return frame

    def stamped(self, key: SessionKey, event: StampedEvent) -> None:
        """Answer one request with its complete timestamp."""
        self.timestamps(key).events.append(event)

    def send(self, stage: int, ride: AnyRide) -> None:
        """Queue a ride for another stage under the link's next number."""
        number = self._state.sent.get(stage, 0) + 1
        self._state.sent[stage] = number
        self._state.outbox.setdefault(stage, []).append((number, ride))
        self._effects.append(Send(stage, number, ride))

    def up(self, ride: AnyRide) -> None:
        """Send a ride one stage up the belt (R2)."""
        self.send(self._state.index - 1, ride)

    def drain(self) -> list[Effect]:
        """Return the effects in order and start anew."""
        effects, self._effects, self._timestamps = self._effects, [], {}
        return effects
