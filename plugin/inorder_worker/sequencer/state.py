"""The state of a stage, and the outbox of its effects.

:class:`StageState` is data and small look-ups; the departments (stamping, subscribing, settling) change it.
Everything in it is journaled input's consequence, so a snapshot holds all of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from heapq import nsmallest
from typing import Final

import msgspec

from inorder.protocol.covering import FilterSet
from inorder.protocol.deadlines import Deadlines
from inorder.protocol.wire import Frame, LogRule, StampedEvent, Timestamps, TopicInfo
from inorder_worker.sequencer.commands import AnyCommand, Automatic, Effect, LogChange, Reply, Send, StageSettings
from inorder_worker.sequencer.lingers import Linger, Lingers
from inorder_worker.sequencer.log_rules import LogRules
from inorder_worker.sequencer.open_numbers import OpenNumbers
from inorder_worker.sequencer.partings import Partings, SavedParting
from inorder_worker.sequencer.reader_changes import ReaderChanges, SavedChange
from inorder_worker.sequencer.reader_classes import ABOVE, BELOW, HERE, Group, ReaderClass
from inorder_worker.sequencer.rides import AnyRide, SessionKey, SwitchRide
from inorder_worker.sequencer.sequencing import Overlaps, Subscription
from inorder_worker.sequencer.tally import Tally
from inorder_worker.sequencer.topic_manager import Session, TopicManager


class Base(msgspec.Struct):
    """The common base of topics that began together: the first event of each depends on these numbers, too (flat, R8).
    A topic leaves it with its first notification."""

    topics: set[int]
    numbers: list[int]


class DurableClock(msgspec.Struct):
    """The saved clock of a durable subscription has the last number that was done with, by topic (R18). ``bases``: of
    those of which nothing was. ``reached``: of a subscriber that takes events out of turn, the order epoch and the
    ticks of what was done with (R23)."""

    numbers: dict[int, int] = {}
    bases: list[Base] = []
    reached: list[int] = []

    def base_of(self, topic: int) -> list[int]:
        """Return what a topic's first event depends on beside its own dependencies."""
        return [part for each in self.bases if topic in each.topics for part in each.numbers]

    def has_begun(self, topic: int) -> None:
        """Forget a topic's base, because its first event was notified."""
        for each in self.bases:
            each.topics.discard(topic)
        self.bases = [each for each in self.bases if each.topics]


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
        made, made_bytes: how many topics were made for each owner of sessions, and the bytes of their names, at the
            bottom stage.
        last_topic: the highest id that a topic ever had.
        endings: topics that end, at the bottom stage, with the clients that have read all of each.
        begun: the tick at which a subscription passed last.
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
    made: dict[str, int] = field(default_factory=dict)
    made_bytes: dict[str, int] = field(default_factory=dict)
    last_topic: int = 0
    endings: dict[int, dict[str, None]] = field(default_factory=dict)
    begun: int = 0


@dataclass
class Snapshot(StageData):
    """The whole state of a stage, for the store.

    Behind its data stand its containers of the same names as plain lists, see :class:`StageState`; ``subscriptions``
    are its ``overlaps``. Each of these must have two forms:

    - ``topics``, ``sessions``, ``subscriptions``: live by their keys, which they hold themselves. A map in the store
      would hold all keys twice.
    - ``gone``, ``ended``: live by session, for any of them may go at any time, and the first must be found at once. In
      the store a key of two parts would have to become a text.
    - ``growths``, ``partings``: live as whole numbers, so one operation takes all topics; MessagePack's have 64 bits.
    - ``lingers``: live as a heap; saved in the order of their beginnings, which decides among equal ones, after a
      recovery as before it.
    """

    topics: list[TopicManager] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    gone: list[SessionKey] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    lingers: list[Linger] = field(default_factory=list)
    ended: list[tuple[str, int, int, int]] = field(default_factory=list)
    growths: list[SavedChange] = field(default_factory=list)
    partings: list[SavedParting] = field(default_factory=list)


class StageState(StageData):
    """The state of one stage: its data, and look-ups that are made from a snapshot here and nowhere else. A new stage
    has that of an empty one.

    Args:
        saved: all there is to know of it.

    Attributes:
        topics: every topic of the cluster by id, with its home stage.
        on_stage: the topics of each stage, as bit sets.
        sessions, overlaps, lingers: see their classes.
        latest: the incarnation with which each client came last, as long as that session is there.
        gone: sessions whose client is not connected, in the order in which they went.
        ended: sessions that were dropped, with the highest counter that each knew and when that was, oldest first.
        growths: what clients that had other topics began (R22).
        partings: what clients have lost that keep other topics (R10).
        deadlines: by when their open numbers are given up (R16); ``open_numbers``: how many each owner has.
        ages: which topic has the oldest number.
        kept: how many numbers of this stage's topics are known one by one.
        due: what a switch held back, to be done at the end of this step.
        tally: what was done since somebody began to count.
    """

    def __init__(self, saved: Snapshot) -> None:
        super().__init__(**{name: getattr(saved, name) for name in _DATA})
        self.topics = {each.id: each for each in saved.topics}
        self.last_topic = max(self.last_topic, *self.topics, 0)  # earlier releases did not save it
        self.by_name = {(each.space, each.name): each.id for each in saved.topics}
        self.on_stage = [0] * saved.count
        for manager in saved.topics:
            self.on_stage[manager.stage] |= 1 << manager.id
        self.sessions: dict[SessionKey, Session] = {(each.client_id, each.incarnation): each for each in saved.sessions}
        self.open_numbers = OpenNumbers.of(saved.sessions)
        self.gone = OrderedDict[SessionKey, None].fromkeys(saved.gone)
        self.latest = {key[0]: key[1] for key in self.gone if self.sessions[key].is_opened}
        self.latest |= {each.client_id: each.incarnation for each in saved.sessions if each.connected}
        self.ended = OrderedDict[SessionKey, tuple[int, int]](
            ((client_id, incarnation), (mark, at)) for client_id, incarnation, mark, at in saved.ended
        )
        self.growths, self.partings = ReaderChanges(saved.growths), Partings(saved.partings)
        self.overlaps = Overlaps()
        for manager in sorted(saved.topics, key=lambda each: each.tick):
            self.overlaps.classes.add(manager, self.side_of(manager.stage))
        for subscription in saved.subscriptions:
            self.overlaps.put(subscription)
        self.lingers = Lingers(saved.lingers)
        self.deadlines = Deadlines[SessionKey, int](self.given_up_at)
        self.deadlines.begin(self.sessions)
        self.kept = sum(len(each.records) for each in saved.topics)
        self.ages = Deadlines[int, int](self.oldest_at)
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
        self.overlaps.classes.add(manager, self.side_of(info.stage))
        self.by_name[info.space, info.name] = info.id
        return manager

    def topics_behind(self, after: int) -> tuple[list[TopicManager], int]:
        """Return some topics behind an id, by rising id, and the id behind which there are more; 0: there are none. So
        a page of all topics costs what it holds: a new topic gets the next id and keeps it, and nothing is sorted."""
        ids: Sequence[int] = range(max(after, 0) + 1, self.last_topic + 1)
        if len(ids) > len(self.topics) + TOPICS_LOOKED_AT:  # most of them have ended
            ids = nsmallest(TOPICS_LOOKED_AT, (each for each in self.topics if each > after)) or [self.last_topic]
        ids = ids[:TOPICS_LOOKED_AT]
        found = [self.topics[each] for each in ids if each in self.topics]
        return found, ids[-1] if ids and ids[-1] < self.last_topic else 0

    def is_forgotten(self, topic: int) -> bool:
        """Tell whether there was a topic that has ended."""
        return 0 < topic <= self.last_topic and topic not in self.topics

    def has_ended(self, topic: int) -> bool:
        """Tell whether a topic gets no number any more."""
        return topic in self.endings or self.is_forgotten(topic)

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
        self.log_rules = LogRules(rules)

    def is_logged(self, space: str, name: str) -> bool:
        """Tell whether a topic has an event log by the rules (R18)."""
        return self._logged.covers(space, name)

    def side_of(self, stage: int) -> int:
        """Return on which side of this stage another one is."""
        return HERE if stage == self.index else BELOW if stage > self.index else ABOVE

    def raise_number(self, manager: TopicManager, number: int, *, has_passed: bool = True) -> None:
        """A number of this topic was created here, passed, or was announced: it is the most recent now."""
        manager.number = number
        manager.has_passed = has_passed
        manager.idle_since, manager.is_retired = 0, False
        self.tick = manager.tick = self.tick + 1
        self.overlaps.classes.rose(manager)

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

    def group(self, its: ReaderClass) -> Group:
        """Return the sequencing group of a class's topics, computed anew if their subscriptions changed."""
        return its.group or self._regroup(its)

    def group_of(self, topic: int) -> Group:
        """Return the sequencing group of a topic."""
        return self.group(self.overlaps.classes.of(topic))

    def _regroup(self, its: ReaderClass) -> Group:
        overlaps, on_stage, here = self.overlaps, self.on_stage, self.index
        co_subscribed, twice = overlaps.shared_with(its)
        # a stage above the topic's home fills in only its own topics; the home also those below it (LLC)
        fills = twice & (sum(on_stage[here:]) if its.side == HERE else on_stage[here])
        above = twice & sum(on_stage[:here])
        top = next((stage for stage in range(here) if twice & on_stage[stage]), here)
        group = its.group = Group(fills, above, co_subscribed, top)
        group.has_ticks = bool(its.readers & overlaps.ticked)
        group.plain = overlaps.plain & its.topics
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
            sessions=list(self.sessions.values()),
            gone=list(self.gone),
            subscriptions=list(self.overlaps),
            lingers=list(self.lingers),
            ended=[(*key, *ended) for key, ended in self.ended.items()],
            growths=self.growths.saved(),
            partings=self.partings.saved(),
        )


TOPICS_LOOKED_AT: Final = 5_000
"""Topics that are looked at for one answer."""
_DATA: Final = [each.name for each in fields(StageData)]


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

    def refused(self, key: SessionKey, counter: int, owned: int) -> None:
        """Answer that a request gets no number. ``owned``: the bound of the session's owner that was reached, 0: the
        session's own one was."""
        frame = self.timestamps(key)
        frame.refused.append(counter)
        frame.owned = max(frame.owned, owned)

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
