"""The state of a stage, and the outbox of its effects.

:class:`StageState` is data and small look-ups; the departments (stamping, subscribing, settling) change it.
Everything in it is journaled input's consequence, so a snapshot holds all of it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Final

import msgspec

from inorder.protocol.covering import FilterSet
from inorder.protocol.wire import Frame, LogRule, StampedEvent, Timestamps, TopicInfo
from inorder_worker.sequencer.commands import AnyCommand, Automatic, Effect, LogChange, Reply, Send, StageSettings
from inorder_worker.sequencer.deadlines import Deadlines
from inorder_worker.sequencer.lingers import Linger, Lingers
from inorder_worker.sequencer.rides import AnyRide, SessionKey, SwitchRide
from inorder_worker.sequencer.sequencing import Group, Overlaps, Subscription, bit_set, members
from inorder_worker.sequencer.tally import Tally
from inorder_worker.sequencer.topic_manager import Session, TopicManager


class DurableClock(msgspec.Struct):
    """The saved clock of a durable subscription has the last number that was done with, by topic (R18). ``bases``:
    where nothing of a topic was, what its first event depends on beside its own dependencies (R8). ``reached``: of a
    subscriber that takes events out of turn, the order epoch and the ticks of what was done with (R23)."""

    numbers: dict[int, int] = {}
    bases: dict[int, list[int]] = {}
    reached: list[int] = []


class Switch(msgspec.Struct):
    """A change of the topic order under way (R14; :mod:`inorder_worker.sequencer.reordering` tells the steps).

    Attributes:
        order_epoch: of the new order.
        stages: all topics of each stage in the new order.
        client_id, incarnation, request, by: who is to be answered, and asked for it, at the bottom stage.
        is_sealed: the flush was here.
        marked: stages from which nothing of the old order comes any more.
        is_sent: this stage was quiet and has handed over.
        parts, finished: what other stages handed over, and those that have done so.
        held: what is of the new order, or waits for it.
    """

    order_epoch: int
    stages: list[list[int]] = []
    client_id: str = ""
    incarnation: int = 0
    request: int = 0
    is_sealed: bool = False
    marked: set[int] = set()
    is_sent: bool = False
    parts: list[SwitchRide] = []
    finished: set[int] = set()
    held: list[AnyCommand] = []
    by: str = ""


@dataclass(slots=True)  # a default that stays in the class makes each look at its field dearer
class StageData:
    """The data of a stage that a snapshot holds unchanged.

    Attributes:
        index, count: which stage this is, and how many there are (0 is the top, ``count - 1`` the bottom).
        now: stage time, ms.
        tick: the stage's count of events (created here, passing or announced): R2's atomic steps, in their order (R23).
        sent, outbox, received: the links' last numbers and what is not yet acknowledged.
        order: all topics in the topic order, from the top.
        order_epoch: of that order; ``homes_epoch``: the last one in which a topic came to another stage (R14).
        switch: a change of the order under way.
        pins: topics that the operator keeps on their stage, known at the bottom stage (R15).
        window_began: when the window of popularity began, stage time.
        looked_at: when idle topics were looked for last, stage time.
        rules: which topics have an event log (R18).
        clocks: what durable subscribers have saved, at the bottom stage (R18).
        automatic: what an operator has said of topics that change places by themselves, known at the bottom stage
            (R15); ``None``: nothing yet, the settings say it.
        announced: the ticks at the stages below, the bottom one first, of the last subscription that passed (R23).
        ended_since: all sessions that were dropped since then are in ``ended``, 0: all there were.
        lingering: how many of the lingers were not over when that was looked at last.
        left_behind: what sessions that were dropped had used, oldest first, with the stage time until which it counts
            (``bases``).
        made, made_bytes: how many topics were made for each owner of sessions, and the bytes of their names, at the
            bottom stage.
    """

    index: int
    count: int
    settings: StageSettings = field(default_factory=StageSettings)
    now: int = 0
    tick: int = 0
    sent: dict[int, int] = field(default_factory=dict)
    outbox: dict[int, list[tuple[int, AnyRide]]] = field(default_factory=dict)
    received: dict[int, int] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)
    order_epoch: int = 1
    homes_epoch: int = 1
    switch: Switch | None = None
    pins: set[int] = field(default_factory=set)
    window_began: int = 0
    looked_at: int = 0
    rules: list[LogRule] = field(default_factory=list)
    clocks: dict[str, DurableClock] = field(default_factory=dict)
    automatic: Automatic | None = None
    announced: list[int] = field(default_factory=list)
    ended_since: int = 0
    lingering: int = 0
    left_behind: list[tuple[int, dict[int, tuple[int, int]]]] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)
    made_bytes: dict[str, int] = field(default_factory=dict)


@dataclass
class Snapshot(StageData):
    """The whole state of a stage, for the store.

    Behind its data stand its containers of the same names as plain lists, see :class:`StageState`; ``subscriptions``
    and ``stale`` are its ``overlaps``. Each of these must have two forms:

    - ``topics``, ``sessions``, ``subscriptions``: live by their keys, which they hold themselves. A map in the store
      would hold all keys twice.
    - ``gone``, ``ended``: live by session, for any of them may go at any time, and the first must be found at once. In
      the store a key of two parts would have to become a text.
    - ``recent``: live with the topics themselves, through which stamping goes for every event without a look-up.
    - ``groups``, ``stale``: live as whole numbers, so one operation takes all topics; MessagePack's have 64 bits.
    - ``lingers``: live as a heap; saved in the order of their beginnings, which decides among equal ones, after a
      recovery as before it.
    """

    topics: list[TopicManager] = field(default_factory=list)
    recent: list[int] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    gone: list[SessionKey] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    stale: list[int] = field(default_factory=list)
    groups: dict[int, tuple[bytes, bytes, bytes, int, bytes]] = field(default_factory=dict)
    lingers: list[Linger] = field(default_factory=list)
    ended: list[tuple[str, int, int, int]] = field(default_factory=list)


class StageState(StageData):
    """The state of one stage: its data, and look-ups that are made from a snapshot here and nowhere else. A new stage
    has that of an empty one.

    Args:
        saved: all there is to know of it.

    Attributes:
        topics: every topic of the cluster by id, with its home stage; ``last_topic``: the highest id.
        recent: topics here and below by last rise of their number, least recent first.
        groups: their sequencing groups, by id; made when a topic is first stamped.
        on_stage: the topics of each stage, as bit sets.
        sessions, overlaps, lingers: see their classes.
        connected: the incarnation of each client that is connected.
        gone: sessions whose client is not connected, in the order in which they went.
        ended: sessions that were dropped, with the highest counter that each knew and when that was, oldest first.
        deadlines: by when their open numbers are given up (R16).
        ages: which topic has the oldest number.
        kept: how many numbers of this stage's topics are known one by one.
        due: what a switch held back, to be done at the end of this step.
        tally: what was done since somebody began to count.
    """

    def __init__(self, saved: Snapshot) -> None:
        super().__init__(**{name: getattr(saved, name) for name in _DATA})
        self.topics = {each.id: each for each in saved.topics}
        self.last_topic = max(self.topics, default=0)
        self.by_name = {(each.space, each.name): each.id for each in saved.topics}
        self.recent = {topic: self.topics[topic] for topic in saved.recent}
        self.groups = {topic: _group(topic, *parts) for topic, parts in saved.groups.items()}
        self.on_stage = [0] * saved.count
        for manager in saved.topics:
            self.on_stage[manager.stage] |= 1 << manager.id
        self.sessions: dict[SessionKey, Session] = {(each.client_id, each.incarnation): each for each in saved.sessions}
        self.connected = {each.client_id: each.incarnation for each in saved.sessions if each.connected}
        self.gone = OrderedDict[SessionKey, None].fromkeys(saved.gone)
        self.ended = OrderedDict[SessionKey, tuple[int, int]](
            ((client_id, incarnation), (mark, at)) for client_id, incarnation, mark, at in saved.ended
        )
        self.overlaps = Overlaps()
        for subscription in saved.subscriptions:
            self.overlaps.put(subscription)
        self.overlaps.stale = bit_set(saved.stale)
        self.lingers = Lingers(saved.lingers)
        self.deadlines = Deadlines[SessionKey](self.given_up_at)
        self.deadlines.begin(self.sessions)
        self.kept = sum(len(each.records) for each in saved.topics)
        self.ages = Deadlines[int](self.oldest_at)
        self.ages.begin(self.topics)
        self.due: list[AnyCommand] = []
        self.tally = Tally()

    @property
    def popularity(self) -> Automatic:
        """The settings of the automatic change of topics' places (R15), at the bottom stage."""
        settings = self.settings
        return self.automatic or Automatic(
            settings.popularity_window_ms, settings.popularity_alpha, settings.popularity_beta
        )

    @property
    def is_bottom(self) -> bool:
        """New topics and subscription changes enter here."""
        return self.index == self.count - 1

    @property
    def is_sealed(self) -> bool:
        """The topic order changes, and nothing is admitted (R14)."""
        return self.switch is not None and self.switch.is_sealed

    def add_topic(self, info: TopicInfo) -> TopicManager:
        """Take a topic into the registry (once), last in the topic order."""
        manager = TopicManager(info.id, info.space, info.name, info.stage)
        manager.logged = self.is_logged(info.space, info.name)
        self.topics[info.id] = manager
        self.last_topic = max(self.last_topic, info.id)
        self.order.append(info.id)
        self.on_stage[info.stage] |= 1 << info.id
        self.overlaps.stale |= 1 << info.id
        self.by_name[info.space, info.name] = info.id
        return manager

    def topics_behind(self, after: int) -> tuple[list[TopicManager], int]:
        """Return some topics behind an id, by rising id, and the id behind which there are more; 0: there are none. So
        a page of all topics costs what it holds: a new topic gets the next id and keeps it, and nothing is sorted."""
        ids = range(max(after, 0) + 1, self.last_topic + 1)[:TOPICS_LOOKED_AT]
        found = [self.topics[each] for each in ids if each in self.topics]
        return found, ids[-1] if ids and ids[-1] < self.last_topic else 0

    def info(self, topic: int) -> TopicInfo:
        """Return a topic as clients know it."""
        manager = self.topics[topic]
        return TopicInfo(topic, manager.space, manager.name, manager.stage, manager.logged)

    @property
    def rules(self) -> list[LogRule]:
        """The rules of event logs; a new list takes the place of this one."""
        return self._rules

    @rules.setter
    def rules(self, rules: list[LogRule]) -> None:
        self._rules, self._logged = rules, FilterSet((each.space, each.filter) for each in rules)

    def is_logged(self, space: str, name: str) -> bool:
        """Tell whether a topic has an event log by the rules (R18)."""
        return self._logged.covers(space, name)

    def raise_number(self, manager: TopicManager, number: int) -> None:
        """A number of this topic was created here, passed, or was announced: it is the most recent now."""
        manager.number = number
        manager.idle_since, manager.is_retired = 0, False
        self.tick = manager.tick = self.tick + 1
        recent, topic = self.recent, manager.id
        recent.pop(topic, None)
        recent[topic] = manager

    def opened(self, session: Session) -> None:
        """A session that had no number open has got one of this time (R16)."""
        key = (session.client_id, session.incarnation)
        if not session.connected or key not in self.deadlines:  # else what is noted is of earlier numbers
            self.deadlines.note(key)

    def given_up_at(self, key: SessionKey) -> int | None:
        """Return the stage time at which the first open number of a session is given up (R16), if nothing else happens;
        ``None``: it has none."""
        session = self.sessions.get(key)
        place = None if session is None else next(iter(session.open), None)
        if session is None or place is None:
            return None
        topic, number = place
        when = self.topics[topic].records[number].created + self.settings.confirm_timeout_ms
        return when if session.connected else min(when, session.since + self.settings.publisher_grace_ms)

    def oldest_at(self, topic: int) -> int | None:
        """Return when the oldest number of a topic was given that is known one by one here; ``None``: there is none."""
        manager = self.topics[topic]
        record = manager.records.get(manager.expired + 1)
        return None if record is None else record.created

    def group(self, manager: TopicManager) -> Group:
        """Return the topic's sequencing group, computed anew if its subscriptions changed."""
        stale = self.overlaps.stale
        if stale and stale >> manager.id & 1:
            return self._refresh(manager)
        return self.groups[manager.id]

    def _refresh(self, manager: TopicManager) -> Group:
        topic, overlaps, on_stage, here = manager.id, self.overlaps, self.on_stage, self.index
        overlaps.stale &= ~(1 << topic)
        co_subscribed, twice = overlaps.group(topic)
        # a stage above the topic's home fills in only its own topics; the home also those below it (LLC)
        reach = on_stage[here:] if manager.stage == here else on_stage[here : here + 1]
        fills = twice & sum(reach)
        above = twice & sum(on_stage[:here])
        top = next((stage for stage in range(here) if twice & on_stage[stage]), here)
        known = self.groups.get(topic)
        before, gained = (known.fills, known.gained) if known is not None else (0, 0)
        group = self.groups[topic] = Group(topic, fills, above, co_subscribed, top, gained & fills | fills & ~before)
        manager.bounded = overlaps.has_bounded(topic)
        manager.in_payload = overlaps.has_plain(topic)
        return group

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
        """Return everything, as a state can be made of it."""
        return Snapshot(
            **{name: getattr(self, name) for name in _DATA},
            topics=list(self.topics.values()),
            recent=list(self.recent),
            sessions=list(self.sessions.values()),
            gone=list(self.gone),
            subscriptions=list(self.overlaps),
            stale=list(members(self.overlaps.stale)),
            groups={topic: _saved_group(each) for topic, each in self.groups.items()},
            lingers=list(self.lingers),
            ended=[(*key, *ended) for key, ended in self.ended.items()],
        )


TOPICS_LOOKED_AT: Final = 5_000
"""Topics that are looked at for one answer."""
_DATA: Final = [each.name for each in fields(StageData)]


def _saved_group(group: Group) -> tuple[bytes, bytes, bytes, int, bytes]:
    """A bit set may be longer than the integers of MessagePack."""
    fills, above, co_subscribed, gained = (
        bits.to_bytes((bits.bit_length() + 7) // 8, "big")
        for bits in (group.fills, group.above, group.co_subscribed, group.gained)
    )
    return fills, above, co_subscribed, group.top, gained


def _group(topic: int, fills: bytes, above: bytes, co_subscribed: bytes, top: int, gained: bytes) -> Group:
    as_bits = partial(int.from_bytes, byteorder="big")
    return Group(topic, as_bits(fills), as_bits(above), as_bits(co_subscribed), top, as_bits(gained))


MAX_ENTRIES = 100_000
"""Parts of flat lists in one frame to a client; what is beyond goes into the next one, so none is over the limit."""

FEW_ENTRIES = 1_000
"""A timestamp with more parts than this that is answered again gets a frame of its own."""


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
        return self.new_timestamps(key) if frame is None else frame

    def new_timestamps(self, key: SessionKey) -> Timestamps:
        """Begin another frame for the session; what comes in this step goes into it."""
        frame = self._timestamps[key] = Timestamps(self._state.index, self.epoch, [])
        self.reply(*key, frame)
        return frame

    def stamped(self, key: SessionKey, event: StampedEvent, ticks: tuple[int, ...] = ()) -> Timestamps:
        """Answer one request with its complete timestamp; return the frame that has it."""
        frame = self.timestamps(key)
        if len(event.deps) > FEW_ENTRIES and frame.events:
            frame = self.new_timestamps(key)
        frame.events.append(event)
        if ticks:
            frame.ticks.append((event.counter, *ticks))
        return frame

    def send(self, stage: int, ride: AnyRide) -> None:
        """Queue a ride for another stage under the link's next number."""
        number = self._state.sent.get(stage, 0) + 1
        self._state.sent[stage] = number
        self._state.outbox.setdefault(stage, []).append((number, ride))
        self._effects.append(Send(stage, number, ride))

    def log(self, change: LogChange) -> None:
        """Queue a change of an event log; it belongs to this commit (R18)."""
        self._effects.append(change)

    def up(self, ride: AnyRide) -> None:
        """Send a ride one stage up the belt (R2)."""
        self.send(self._state.index - 1, ride)

    def drain(self) -> list[Effect]:
        """Return the effects in order and start anew."""
        effects, self._effects, self._timestamps = self._effects, [], {}
        return effects
