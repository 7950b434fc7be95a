"""An inspection shows operators the topics of a stage, its open numbers, and single ones. Nothing changes by it.

Answers are of a bounded size, and so is what is looked at for one: a stage does nothing else meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from itertools import islice, takewhile
from typing import Final

from inorder.protocol.portions import PORTION_BYTES, portions
from inorder.protocol.wire import (
    EventFound,
    FindEvent,
    FindNumber,
    KnownNumber,
    NumberFound,
    NumberState,
    OpenNumbers,
    OpenNumbersFound,
    ShowOpenNumbers,
    ShowOrder,
    ShowTopics,
    TopicFigures,
    TopicOrder,
    TopicsShown,
)
from inorder_worker.sequencer import tally
from inorder_worker.sequencer.bits import members
from inorder_worker.sequencer.event_log import TOPICS_IN_FRAME
from inorder_worker.sequencer.rides import StampRide
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import NumberRecord, TopicManager

TOPICS_SHOWN: Final = 500
"""Topics in one answer, at most."""
GROUP_PARTS: Final = 20_000
"""Members of their groups in one answer, about."""
RECORDS_SEARCHED: Final = 50_000
"""Numbers looked at for one answer, about."""
OPEN_SHOWN: Final = 20_000
"""Open numbers looked at for one answer, as many of each session, the oldest first; and as many whose timestamps are
not complete."""
RANGES_SHOWN: Final = 5_000
"""Ranges of open numbers in one frame, and of rides in one answer."""


class Inspection:
    """Reads the state of a stage."""

    def __init__(self, state: StageState) -> None:
        self._state = state

    # -- counts ------------------------------------------------------------------------------------------------

    def figures(self) -> tally.StageFigures:
        """Return how much this stage keeps."""
        state = self._state
        here = [each for each in state.topics.values() if each.stage == state.index]
        return tally.StageFigures(
            topics=len(here),
            retired=sum(1 for each in here if each.is_retired),
            sessions=sum(1 for each in state.sessions.values() if each.connected),
            subscriptions=sum(1 for each in state.overlaps if each.filters),
            pending=sum(len(each.open) for each in state.sessions.values()),
            waiting={stage: len(kept) for stage, kept in state.outbox.items()},
        )

    def busiest_topics(self, limit: int) -> list[tally.TopicFigures]:
        """Return those of this stage's topics that got a number last, at most ``limit``."""
        state = self._state
        here = (each for each in state.topics.values() if each.stage == state.index and each.number)
        latest = nlargest(limit, here, key=lambda each: each.tick)
        return [
            tally.TopicFigures(each.space, each.name, each.stage, each.number, each.head, len(each.records))
            for each in latest
        ]

    # -- topics ------------------------------------------------------------------------------------------------

    def topics(self, frame: ShowTopics) -> TopicsShown:
        """Return topics whose home this is, without their rates."""
        state, shown, room = self._state, list[TopicFigures](), GROUP_PARTS
        names = PORTION_BYTES
        if frame.only:
            wanted = sorted(state.topics.keys() & frame.only[:TOPICS_SHOWN])
            found, behind = [state.topics[topic] for topic in wanted if topic > frame.after], 0
        else:
            found, behind = state.topics_behind(frame.after)
        pending = self._pending()
        for manager in found:
            if manager.stage != state.index:
                continue
            if len(shown) == TOPICS_SHOWN or room < 0 or names < 0:
                behind = shown[-1].id
                break
            shown.append(self._topic(manager, pending.get(manager.id, 0), with_group=frame.groups))
            room -= len(shown[-1].group)
            names -= len(manager.name.encode())
        return TopicsShown(frame.request, shown, behind)

    def _pending(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for session in self._state.sessions.values():
            for topic, _ in session.open:
                counts[topic] = counts.get(topic, 0) + 1
        return counts

    def _topic(self, manager: TopicManager, pending: int, *, with_group: bool) -> TopicFigures:
        group = self._group(manager.id)
        return TopicFigures(
            id=manager.id,
            space=manager.space,
            name=manager.name,
            stage=manager.stage,
            number=manager.number,
            head=manager.head,
            confirmed=manager.confirmed,
            pending=pending,
            void=manager.void,
            abandoned=manager.abandoned,
            late=manager.late,
            logged=manager.logged,
            is_retired=manager.is_retired,
            group_size=group.bit_count(),
            group=list(members(group)) if with_group else [],
        )

    def _group(self, topic: int) -> int:
        """Return a sequencing group as a bit set."""
        group = self._state.group_of(topic)
        return (group.fills | group.above) & ~(1 << topic)

    def numbers(self) -> dict[int, int]:
        """Return the last number of every topic, as far as this stage knows."""
        return {each.id: each.number for each in self._state.topics.values()}

    def risen_since(self, tick: int) -> tuple[int, list[tuple[int, int]]]:
        """Return the present tick, and this stage's topics that got numbers since an earlier one, with the last. What
        it costs grows with how many these are."""
        state, risen = self._state, list[TopicManager]()
        for its in state.overlaps.classes.latest_first():
            if its.tick <= tick:
                break
            risen += takewhile(lambda each: each.tick > tick, its.risen)
        risen.sort(key=lambda each: each.tick, reverse=True)
        return state.tick, [(each.id, each.number) for each in risen if each.stage == state.index]

    def order(self, frame: ShowOrder) -> list[TopicOrder]:
        """Tell the topic order (R14), in frames of a bounded size; the bottom stage has the latest."""
        state = self._state
        pinned = sorted(state.pins)
        frames = [
            TopicOrder(frame.request, state.order_epoch, state.count, infos, pinned, more=True)
            for infos in portions(map(state.info, state.order), TOPICS_IN_FRAME)
        ]
        frames[-1].more = False
        return frames

    # -- what holds subscribers up (R17) -----------------------------------------------------------------------

    def open_numbers(self, frame: ShowOpenNumbers, now: int) -> list[OpenNumbersFound]:
        """Return numbers that are pending, or whose timestamp is not complete, for some time."""
        ranges: list[OpenNumbers] = []
        sessions = {key: each.open for key, each in self._state.sessions.items() if each.open}
        most = max(1, OPEN_SHOWN // max(1, len(sessions)))  # all together must not keep the stage busy
        behind = {key: len(numbers) - most for key, numbers in sessions.items() if len(numbers) > most}
        for record in self._open(now - frame.older_ms, most):
            one = self._open_one(record, now)
            if behind:
                one.behind = behind.pop((record.client_id, record.incarnation), 0)
            last = ranges[-1] if ranges else None
            if last is not None and _follows(last, one):
                last.last = one.last
            else:
                ranges.append(one)
        riding = list(self._riding())
        frames = [
            OpenNumbersFound(frame.request, ranges[at : at + RANGES_SHOWN], [], more=True)
            for at in range(0, max(len(ranges), 1), RANGES_SHOWN)
        ]
        frames[0].riding, frames[-1].more = riding, False
        return frames

    def _open(self, before: int, most: int) -> list[NumberRecord]:
        """Return the oldest open numbers of each session, so many at ``most``, and those that are not complete."""
        topics, here = self._state.topics, self._state.index
        places = {place for session in self._state.sessions.values() for place in islice(session.open, most)}
        riding = [each for each in topics.values() if each.stage == here and each.riding]
        for manager in riding:
            places.update((manager.id, number) for number in islice(manager.riding, max(1, OPEN_SHOWN // len(riding))))
        records = (topics[topic].records[number] for topic, number in sorted(places))
        return [each for each in records if each.created <= before]

    def _open_one(self, record: NumberRecord, now: int) -> OpenNumbers:
        session = self._state.sessions.get((record.client_id, record.incarnation))
        away = -1 if session is None else 0 if session.connected else max(1, now - session.since)
        is_logged = self._state.topics[record.topic].has_logged(record)
        return OpenNumbers(
            record.topic,
            record.number,
            record.number,
            record.state,
            record.deps is not None,
            record.client_id,
            away,
            now - record.created,
            is_logged,
        )

    def _riding(self) -> Iterator[int]:
        """Yield timestamps that another stage has not taken, while they are few."""
        count = 0
        for stage, kept in self._state.outbox.items():
            for _, ride in kept:
                if isinstance(ride, StampRide) and ride.number and count < RANGES_SHOWN:
                    count += 1
                    yield from (ride.topic, ride.number, stage)

    # -- one number --------------------------------------------------------------------------------------------

    def number(self, frame: FindNumber, now: int) -> NumberFound:
        """Return what is known of a number of one of this stage's topics."""
        manager = self._state.topics.get(frame.topic)
        if manager is None or not 0 < frame.number <= manager.number:
            return NumberFound(frame.request, None)
        record = manager.records.get(frame.number)
        if record is None:
            return NumberFound(frame.request, KnownNumber(NumberState.EXPIRED, logged=self._is_in_log(manager, frame)))
        known = KnownNumber(
            record.state,
            record.deps,
            record.client_id,
            record.incarnation,
            record.counter,
            manager.has_logged(record),
            now - record.created,
        )
        return NumberFound(frame.request, known)

    @staticmethod
    def _is_in_log(manager: TopicManager, frame: FindNumber) -> bool:
        return 0 < manager.log_first <= frame.number

    def event(self, frame: FindEvent) -> EventFound:
        """Return the number of an event id: at once where its session still cares, else by looking at the numbers of
        topics, one after the other."""
        state, key = self._state, (frame.client_id, frame.incarnation)
        session = state.sessions.get(key)
        topic, number = (0, 0) if session is None else session.answers.get(frame.counter, (0, 0))
        if number:
            return EventFound(frame.request, topic, number)
        room = RECORDS_SEARCHED
        for topic in sorted(each for each in state.topics if each > frame.after):
            records = state.topics[topic].records
            for record in records.values():
                if record.counter == frame.counter and (record.client_id, record.incarnation) == key:
                    return EventFound(frame.request, topic, record.number)
            room -= len(records) + 1
            if room < 0:
                return EventFound(frame.request, behind=topic)
        return EventFound(frame.request)


def _follows(one: OpenNumbers, other: OpenNumbers) -> bool:
    """Tell whether a number continues a range."""
    return (one.topic, one.last + 1, 0) == (other.topic, other.first, other.behind) and (
        (one.state, one.is_complete, one.client_id, one.logged)
        == (other.state, other.is_complete, other.client_id, other.logged)
    )
