"""The subscriber's side of subscription changes: one at a time, versioned, always whole (R7, R8, R11). No I/O."""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec.structs import replace

from inorder.protocol.covering import filter_set
from inorder.protocol.names import FilterKind
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import Moved, SharedBase, SpaceFilter, Subscribe, Subscribed, TopicInfo, TopicStart


class SubscriptionChange:
    """One change on its way.

    Attributes:
        version: rises with each change of the session.
        filters: the whole new subscription; ``covered``: what they cover.
        anew: topics that the client has already begin anew with it (R12, R17).
        starts: what has been answered of it; by topic, because after a reconnection it is answered again.
        left: up to which number the topics that it leaves are to be read, so far as that is answered (R22).
        reached: what a durable client was done with (R23), once that is answered.
    """

    __slots__ = ("anew", "bases", "covered", "filters", "left", "reached", "starts", "version")

    def __init__(self, version: int, filters: list[SpaceFilter], anew: bool) -> None:
        self.version, self.filters, self.anew = version, filters, anew
        self.covered = filter_set(filters)
        self.starts: dict[int, TopicStart] = {}
        self.left: dict[int, TopicStart] = {}
        self.reached: list[int] = []
        self.bases: list[SharedBase] = []


class Subscriber:
    """A client's subscription with total order, as the topic managers know it.

    Args:
        bounded: this client may take events out of turn (R6), so its timestamps need ticks (R23).
        durable: the subscription stays, however long the client is away (R12).

    Attributes:
        bases: what topics that the last complete change has begun together depend on (R8).
        ends: up to which numbers the topics are to be read that the last complete change has left (R22).
        created: those of them that were created before the change passed, and never named to this client.
        reached: the order epoch and the ticks with which the last complete change goes on, if it is durable (R23).
    """

    def __init__(self, *, bounded: bool, durable: bool = False) -> None:
        self._bounded, self._durable = bounded, durable
        self._is_expired = False
        self._version = 0
        self._filters: list[SpaceFilter] = []
        self._covered = filter_set(())
        self._change: SubscriptionChange | None = None
        self._topics: dict[int, TopicInfo] = {}
        self._left: dict[int, TopicInfo] = {}  # R22: topics that are only read on
        self.bases: list[SharedBase] = []
        self.ends: dict[int, int] = {}
        self.created: list[int] = []
        self.reached: list[int] = []
        self._order_epoch = 0

    @property
    def is_durable(self) -> bool:
        """The subscription stays while the client is away (R12, R18)."""
        return self._durable

    @property
    def topics(self) -> dict[int, TopicInfo]:
        """Topics of the subscription by id, as far as workers named them. Do not change it."""
        return self._topics

    @property
    def homes(self) -> set[int]:
        """The stages of all topics that are read."""
        return {each.stage for topics in (self._topics, self._left) for each in topics.values()}

    def known(self, topic: int) -> TopicInfo | None:
        """Return what workers told of a topic that is read."""
        return self._topics.get(topic) or self._left.get(topic)

    def space_of(self, topic: int) -> str:
        """Return the space of a topic that is read."""
        return (self._topics if topic in self._topics else self._left)[topic].space

    @property
    def filters(self) -> list[SpaceFilter]:
        """The filters of the subscription, with a change on its way."""
        return self._filters if self._change is None else self._change.filters

    @property
    def has_wildcards(self) -> bool:
        """Topics created later may belong to the subscription (R13)."""
        return any(each.filter.kind is not FilterKind.EXACT for each in self.filters)

    @property
    def change(self) -> SubscriptionChange | None:
        """The change on its way, if there is one (R11: at most one)."""
        return self._change

    def begin(self, filters: list[SpaceFilter], *, anew: bool = False) -> SubscriptionChange:
        """Start a change to these filters. Raises RuntimeError while another one is on its way (R11)."""
        if self._change is not None:
            raise RuntimeError("a subscription change is on its way already (R11)")
        self._version += 1
        self._change = SubscriptionChange(self._version, filters, anew)
        return self._change

    def is_lost(self, version: int) -> bool:
        """Tell whether the subscription has expired (R12), by the bottom stage's word on its ``version`` (0: none).

        A change that is on its way may have come and expired already, and its answer may still come, with a clock from
        before. So it counts as lost unless the stage has it.
        """
        return not version and (bool(self._filters) or self._change is not None)

    def expired(self) -> None:
        """The topic managers have dropped the subscription: nothing of it tells any more where a topic begins."""
        self._is_expired = True

    def other_domain(self) -> None:
        """The workers serve another domain: its topics have other ids, and begin elsewhere."""
        self._topics, self._left, self._order_epoch, self._is_expired = {}, {}, 0, True

    def begin_anew(self) -> None:
        """Topics begin anew (R12, R17): with the change on its way, under a new version, because what is still answered
        to the old one may be from before; or with a change of its own."""
        filters, self._change = self.filters, None
        self.begin(filters, anew=True)

    def request(self) -> Subscribe | None:
        """Return the frame that asks for the change on its way; the same one after each reconnection."""
        if self._change is None:
            return None
        change = self._change
        return Subscribe(change.version, change.filters, self._bounded, self._durable, change.anew, lets_go=True)

    def completed(self, frame: Subscribed) -> list[TopicStart] | None:
        """The change is complete. Return the start of every topic, or ``None`` for an answer to an older change and
        for one that is not whole yet.

        A topic that was created after the previous change passed the bottom stage, under one of its wildcards,
        belongs to the subscription from its first number on, whatever the answer says (R13). Where all topics begin
        anew it goes on with them, and what is before its start is reported.
        """
        change = self._change
        if change is None or frame.version != change.version:
            return None
        change.starts.update((each.topic.id, each) for each in frame.topics)
        change.left.update((each.topic.id, each) for each in frame.left)
        change.reached = frame.reached or change.reached
        change.bases += frame.bases
        if frame.more:
            return None
        wild = [each for each in self._filters if each.filter.kind is not FilterKind.EXACT and not self._is_expired]
        earlier = filter_set(wild)
        created = {
            topic
            for topic, each in change.starts.items()
            if topic not in self._topics and earlier.covers(each.topic.space, each.topic.name)
        }
        starts = [_created(each, change) if topic in created else each for topic, each in change.starts.items()]
        at_zero = set() if change.anew else created
        self.bases = [
            SharedBase([topic for topic in each.topics if topic not in at_zero], each.numbers) for each in change.bases
        ]
        self._filters, self._covered, self._change, self._is_expired = change.filters, change.covered, None, False
        self.reached = change.reached
        self.created = [
            info.id
            for each in change.left.values()
            if self.known((info := each.topic).id) is None and earlier.covers(info.space, info.name)
        ]
        self._left.update((topic, change.left[topic].topic) for topic in self.created)
        self.ends = {topic: change.left[topic].start for topic in self._left if topic in change.left}
        self._topics = {each.topic.id: each.topic for each in starts}
        return starts

    def covers(self, info: TopicInfo) -> bool:
        """Tell whether a topic belongs to the subscription."""
        covered = self._covered if self._change is None else self._change.covered
        return covered.covers(info.space, info.name)

    def named(self, topics: Iterable[TopicInfo]) -> tuple[list[int], list[int]]:
        """Workers named topics; return (ids of this subscription, the others). A topic that only the change on its
        way covers is neither yet: where it begins comes with the answer to the change (R7)."""
        mine, foreign = [], []
        for info in topics:
            if not self.covers(info):
                foreign.append(info.id)
            elif self._covered.covers(info.space, info.name):
                self._topics[info.id] = info
                mine.append(info.id)
        return mine, foreign

    def moved(self, frame: Moved) -> None:
        """Topics are on other stages now (R14): what is missing of them is asked for there."""
        if frame.order_epoch < self._order_epoch:
            return
        self._order_epoch = frame.order_epoch
        for topic, stage in pairs(frame.homes):
            for topics in (self._topics, self._left):
                if topic in topics:
                    topics[topic] = replace(topics[topic], stage=stage)

    def ended(self, topics: Iterable[int]) -> None:
        """Forget topics that have ended."""
        for topic in topics:
            self._topics.pop(topic, None)

    # -- topics that were left (R22) ---------------------------------------------------------------------------

    def leave(self, topics: Iterable[int]) -> list[TopicInfo]:
        """Only read these topics on, from now on (R22); return their names and homes."""
        return self.read_on([self._topics.pop(topic) for topic in topics])

    def read_on(self, topics: list[TopicInfo]) -> list[TopicInfo]:
        """Take note of topics that are only read on; return them."""
        self._left.update((each.id, each) for each in topics)
        return topics

    def leaves(self, topics: Iterable[TopicInfo], wanted: list[SpaceFilter]) -> list[TopicInfo]:
        """Return those of the topics that a change to ``wanted`` leaves."""
        kept = filter_set(wanted)
        return [
            each
            for each in topics
            if self._covered.covers(each.space, each.name) and not kept.covers(each.space, each.name)
        ]

    def let_go(self, topic: int) -> None:
        """A topic that was left is not read any more."""
        self._left.pop(topic, None)

    def keep_left(self, topics: Container[int]) -> None:
        """Forget all topics that were left but these."""
        self._left = {topic: info for topic, info in self._left.items() if topic in topics}

    def dropped(self, filters: list[SpaceFilter]) -> list[int]:
        """Return the topics that a subscription of just these filters would no longer have."""
        kept = filter_set(filters)
        return [topic for topic, info in self._topics.items() if not kept.covers(info.space, info.name)]


def _created(start: TopicStart, change: SubscriptionChange) -> TopicStart:
    """Return where a topic begins that was created under a wildcard."""
    return replace(start, saved=max(start.saved, 0)) if change.anew else TopicStart(start.topic, 0, [])
