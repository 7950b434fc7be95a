"""Topics end: a stage forgets all of a topic that got no number for long, also under wildcards.

A worker that has topics for jobs, orders or sessions gets new ones for ever. So a topic whose home is the bottom stage,
where all begin, ends there once it got no number for ``topic_ttl_ms``:

1. *It gets no number any more.* Its name is free: who uses that again makes a topic with another id, of which readers
   learn as of any new one (R13). A publisher that still knows the old one is refused, and asks anew.
2. *Its readers are told its last number.* Each says when it has read, or reported, all up to there; one that is away is
   told when it is back.
3. *When all have said so it is over.* They are told, and a ride takes the news up the belt: each stage forgets it.

Nobody needs it then. An entry of a later event that names it is met by whoever had it, for all of them have passed its
last number, and with it all that the entry may stand for (R22); who begins later never had it. Its group shrinks behind
that point, so nothing is carried once more (R10). *Without 2*, A={a,b}, B={a,b}: x on a reaches A; a is forgotten; y on
b names nothing; B gets y, then x. What was published under its name again follows its last number as long as somebody
may lack that (``follows``).

A topic does not end that a subscription names, or lets linger (R10), that a durable subscriber may come back for or
that has an event log (R18), that is pinned, or that somebody has whose release of the client does not know all this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from inorder.protocol.pairs import joined, pairs
from inorder.protocol.wire import Heads, Moved, NewEvent
from inorder_worker.sequencer.bits import bit_set
from inorder_worker.sequencer.commands import Create, SaveNumbers
from inorder_worker.sequencer.quotas import topic_ended
from inorder_worker.sequencer.rides import SessionKey, TopicsEndRide
from inorder_worker.sequencer.state import Outbox, StageState
from inorder_worker.sequencer.topic_manager import Session, TopicManager

WORK = 20_000
"""What one step may do to end topics, in topics of each subscription and session: some milliseconds."""


class Ending:
    """The department of a stage that ends topics."""

    def __init__(self, state: StageState, outbox: Outbox) -> None:
        self._state, self._outbox = state, outbox

    @property
    def at_once(self) -> int:
        """The number of topics that may end in one step."""
        state = self._state
        return max(16, WORK // (1 + len(state.sessions) + len(state.overlaps)))

    # -- 1. no number any more ---------------------------------------------------------------------------------

    def may_end(self, idle: Iterable[TopicManager]) -> Iterator[TopicManager]:
        """Yield the topics that may end, at the bottom stage, of some that got no number for long."""
        state = self._state
        if not state.is_bottom:
            return
        of_older_releases = {topic for each in state.sessions.values() if each.refusals < 0 for topic in each.used}
        for manager in idle:
            if (
                manager.stage == state.index
                and manager.id not in state.endings
                and manager.id not in state.pins
                and manager.id not in of_older_releases
                and not 0 < manager.log_first <= manager.number
                and state.overlaps.lets_go(manager)
            ):
                yield manager

    def begin(self, managers: Iterable[TopicManager]) -> None:
        """Give no more numbers to these topics."""
        state, topics = self._state, list[int]()
        for manager in managers:
            topics.append(manager.id)
            state.endings[manager.id] = {}
        for subscription in list(state.overlaps):
            tell_ends(state, self._outbox, subscription.client_id, topics)
        self.end(topics)

    @staticmethod
    def has_heard(session: Session, command: Create) -> bool:
        """Tell whether a client had heard of all refusals before these requests. One that does not know them gets none.
        Where there are no requests, there is nothing to refuse."""
        if 0 <= command.refusals < session.refusals:
            return not command.events
        session.refusals = max(session.refusals, command.refusals)  # it is new where the session was dropped
        return True

    def refuse(self, session: Session, command: Create, requests: Iterator[NewEvent]) -> None:
        """Refuse requests of a client: the first one of a topic that has ended, and all behind. These must not be
        numbered before it (R19); their client is told which of the topics have ended, and plans all of them anew."""
        state, refused = self._state, list(requests)
        session.refusals += command.refusals == session.refusals  # else it was told before
        ended = [each for each in dict.fromkeys(event.topic for event in refused) if state.has_ended(each)]
        told = Moved(state.index, self._outbox.epoch, state.order_epoch, state.order_epoch, [], ended)
        told.refusals, told.first = session.refusals, min(event.counter for event in refused)
        self._outbox.reply(session.client_id, session.incarnation, told)

    # -- 2. its readers read to its end ------------------------------------------------------------------------

    def opened(self, key: SessionKey) -> None:
        """A client is connected (again): tell it which of its topics end."""
        known = self._state.overlaps.get(key[0])
        if known is not None and known.incarnation == key[1]:
            tell_ends(self._state, self._outbox, key[0], self._state.endings)

    def read(self, command: SaveNumbers) -> None:
        """A client has read topics up to these numbers. Of those that have ended meanwhile it is told so."""
        state, over, read = self._state, list[int](), list[int]()
        known = state.overlaps.get(command.client_id)
        if known is None or known.incarnation != command.incarnation:
            return
        for topic, number in pairs(command.numbers):
            manager = state.topics.get(topic)
            if manager is None:
                over.append(topic)
            elif topic in state.endings and topic in known.active and number >= manager.number:
                told = state.endings[topic]
                told[command.client_id] = None
                if state.overlaps.is_read_by(topic, told):
                    read.append(topic)
        if over:
            self._outbox.reply(command.client_id, command.incarnation, Heads([], ended=over))
        if not state.is_sealed:  # what stages hand over is of topics that all of them have (R14)
            self.end(read[: self.at_once])

    # -- 3. it is over -----------------------------------------------------------------------------------------

    def end_read(self) -> bool:
        """End topics that all their readers have read, because others have left, as many as one step may. Return
        whether there are more. All are looked at: one reader may keep any number of them."""
        state, most = self._state, self.at_once
        read = (each for each, told in state.endings.items() if state.overlaps.is_read_by(each, told))
        found = list(islice(read, most + 1))
        self.end(found[:most])
        return len(found) > most

    def end(self, topics: Iterable[int]) -> None:
        """Forget those of the ending topics that all their readers have read."""
        state = self._state
        ended = {topic for topic in topics if state.overlaps.is_read_by(topic, state.endings[topic])}
        if not ended:
            return
        told = {key: used for key, each in state.sessions.items() if (used := each.used.keys() & ended)}
        for each in state.overlaps:
            if had := each.active & ended:
                told.setdefault((each.client_id, each.incarnation), set()).update(had)
        for key, found in told.items():
            self._outbox.reply(*key, Heads([], ended=sorted(found)))
        for topic in ended:
            topic_ended(state, state.topics[topic])
        self._forget(ended)

    def ride(self, ride: TopicsEndRide) -> None:
        """Topics have ended."""
        self._forget(set(ride.topics))

    def _forget(self, topics: set[int]) -> None:
        state = self._state
        for topic in topics:
            manager = state.topics.pop(topic)
            if state.by_name.get((manager.space, manager.name)) == topic:
                del state.by_name[manager.space, manager.name]
            state.on_stage[manager.stage] &= ~(1 << topic)
            state.kept -= len(manager.records)
            state.ages.forget(topic)
            state.endings.pop(topic, None)
        state.order = [each for each in state.order if each not in topics]
        state.overlaps.forget_topics(topics)
        for changes in (state.growths, state.partings):
            changes.forget(bit_set(topics))
        for session in state.sessions.values():
            _drop(session.used, topics)
            _drop(session.vouched, topics)
        for manager in state.topics.values():
            for base in (manager.base, manager.log_base):
                if base:  # few topics have one
                    _drop(base, topics)
            if manager.follows and manager.follows[0] in topics:
                manager.follows = []
        if state.index > 0:
            self._outbox.up(TopicsEndRide(sorted(topics)))


def _drop(table: dict[int, Any], topics: set[int]) -> None:
    for topic in table.keys() & topics:
        del table[topic]


def let_follow(manager: TopicManager, before: TopicManager | None) -> None:
    """Let a new topic follow one that has the same name and ends."""
    if before is not None:
        manager.follows = [before.id, before.number] if before.number else before.follows


def tell_ends(state: StageState, outbox: Outbox, client_id: str, topics: Iterable[int]) -> None:
    """Tell a client the last numbers of its ending topics that are not read yet."""
    known, endings = state.overlaps.get(client_id), state.endings
    if known is None or not endings:
        return
    active = known.active
    if wanted := [each for each in topics if each in active and each in endings and client_id not in endings[each]]:
        ends = joined((topic, state.topics[topic].number) for topic in wanted)
        outbox.reply(client_id, known.incarnation, Heads([], ends))
