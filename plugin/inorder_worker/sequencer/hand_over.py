"""A stage hands the state of its topics over to their new homes, and takes that of topics that come (R14).

Beside numbers and records that is all that sessions had to do with these topics: the ids that they asked for, what
they used last (R19), their open numbers (R16).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from inorder.protocol.pairs import joined, pairs, triples
from inorder_worker.sequencer.moved import MovedSession, MovedTopic
from inorder_worker.sequencer.rides import SwitchRide
from inorder_worker.sequencer.sessions import take_ended
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import Session, TopicManager

RIDE_PARTS = 100_000
"""Integers in one ride of a hand-over, about; what is beyond goes into the next one."""
_deps_of = attrgetter("deps")


class HandOver:
    """The hand-over makes rides of the state of topics that leave a stage, and keeps what such rides bring."""

    def __init__(self, state: StageState) -> None:
        self._state = state

    def parts(self, order_epoch: int, going: list[TopicManager]) -> Iterator[SwitchRide]:
        """Yield the state of topics that leave, in rides of a bounded size."""
        if not going:
            return
        new_part = partial(SwitchRide, order_epoch, ended_for=self._ended_for())
        part, room = new_part(topics=[], records=[], sessions=[], ended=[]), RIDE_PARTS
        for what, some, size in self._pieces(going):
            if room < 0 and what != "topics":
                yield part
                part, room = new_part(topics=[], records=[], sessions=[], ended=[]), RIDE_PARTS
            getattr(part, what).extend(some)
            room -= size
        yield part

    def _pieces(self, going: list[TopicManager]) -> Iterator[tuple[str, Sequence[Any], int]]:
        """Yield the name of a list in a ride, what goes into that, and how many integers this has, about. Records are
        not copied: a sealed stage changes none, and forgets these when it is in the new order."""
        together = max(1, RIDE_PARTS // 1_000)  # topics, or records, that are reckoned at once
        for at in range(0, len(going), together):
            managers = going[at : at + together]
            topics = [_moved_topic(each) for each in managers]
            yield "topics", topics, sum(5 + 2 * len(each.log_base or ()) + len(each.marks) for each in topics)
            records = [each for manager in managers for each in manager.records.values()]
            for first in range(0, len(records), together):
                some = records[first : first + together]
                yield "records", some, 10 * len(some) + sum(map(len, filter(None, map(_deps_of, some))))
        leaving = {each.id for each in going}
        for session in self._state.sessions.values():
            moved = _moved_session(session, leaving)
            yield "sessions", (moved,), 8 + len(moved.answers) + len(moved.used) + len(moved.open)
        for key, (mark, _) in self._state.ended.items():
            yield "ended", ((*key, mark),), 4

    def _ended_for(self) -> int:
        """Return for how long this stage knows all the sessions that it has dropped."""
        state = self._state
        return max(1, state.now - state.ended_since) if state.ended_since else 0

    def take_numbers(self, part: SwitchRide) -> SwitchRide:
        """Keep the numbers and the sessions of a part; return the rest of it, for the switch.

        So the switch has the less to do. Nobody asks for any of that before, for the stage is sealed, and not yet the
        home of these topics. Records are copied, as their old home may have to send its own again.
        """
        topics, now = self._state.topics, self._state.now
        for record in part.records:
            topics[record.topic].records[record.number] = replace(record, created=now)
        self._state.kept += len(part.records)
        for moved in part.sessions:
            self._take_session(moved)
        return replace(part, records=[], sessions=[])

    def take(self, part: SwitchRide) -> None:
        """Keep the state of topics that come here now. Timers start anew."""
        state, part = self._state, self.take_numbers(part)  # of a part that came under an earlier release
        for topic in part.topics:
            manager = state.topics[topic.id]
            manager.head, manager.expired = topic.head, topic.expired
            manager.marks, manager.mark_at = list(topic.marks), topic.mark_at
            manager.log_first, manager.log_base = topic.log_first, topic.log_base
            manager.confirmed, manager.void, manager.abandoned, manager.late = topic.counts
        if state.ended_since >= 0 and (part.topics or part.ended):
            self._take_ended(part)

    def _take_session(self, moved: MovedSession) -> None:
        state, key = self._state, (moved.client_id, moved.incarnation)
        session = state.sessions.get(key)
        if session is None:
            # its client is connected elsewhere, and may never come here: it is gone from now on
            began = take_ended(state, key) + 1
            session = Session(*key, connected=False, since=state.now, timeout=moved.timeout, is_opened=False)
            session.low, session.began = (began, began) if began > 1 else (0, 0)
            state.open_numbers.belongs(session, moved.owner, moved.max_owned)
            state.sessions[key], state.gone[key] = session, None
        session.low, session.floor = max(session.low, moved.low), max(session.floor, moved.floor)
        for counter, topic, number in triples(moved.answers):
            session.answers[counter] = topic, number
        for topic, counter, number in triples(moved.used):
            session.used[topic] = counter, number
        session.used = dict(sorted(session.used.items(), key=lambda each: each[1][0]))
        before = len(session.open)
        session.open.update(dict.fromkeys(pairs(moved.open)))
        state.open_numbers.add(session.owner, len(session.open) - before)
        state.deadlines.note(key)

    def _take_ended(self, part: SwitchRide) -> None:
        """Note the sessions that were dropped where topics come from: they may come here next, and ask again (R1)."""
        state = self._state
        for client_id, incarnation, mark in part.ended:
            key = client_id, incarnation
            session = state.sessions.get(key)
            if session is None:
                state.ended[key] = max(mark, take_ended(state, key)), state.now
            elif not session.is_opened:
                session.low, session.began = max(session.low, mark + 1), max(session.began, mark + 1)
        if part.ended_for:
            state.ended_since = max(state.ended_since, state.now - part.ended_for, 1)

    def came(self, topics: Iterable[TopicManager]) -> None:
        """All of these topics is here: note how old their numbers are, and which events these were given to. A session
        that is here may have been dropped where these come from (R1)."""
        sessions = self._state.sessions
        floors = {key: each.forgotten_below for key, each in sessions.items()}
        for each in topics:
            if each.records:
                self._state.ages.note(each.id)
            for number, record in each.records.items():
                floor = floors.get(key := (record.client_id, record.incarnation))
                if floor is not None and record.counter >= floor:
                    sessions[key].answers.setdefault(record.counter, (each.id, number))


def _moved_topic(manager: TopicManager) -> MovedTopic:
    return MovedTopic(
        manager.id, manager.head, manager.expired, {}, list(manager.marks), manager.mark_at,
        manager.log_first, manager.log_base, (manager.confirmed, manager.void, manager.abandoned, manager.late),
    )  # fmt: skip


def _moved_session(session: Session, leaving: set[int]) -> MovedSession:
    """Return a session, and what it has to do with these topics. It goes along in any case: where it is known, event
    ids that it has asked for are not forgotten (R1)."""
    moved = MovedSession(
        session.client_id, session.incarnation, session.low, session.connected, session.timeout, session.is_opened
    )
    moved.floor, moved.owner, moved.max_owned = session.floor, session.owner, session.max_owned
    moved.answers = joined((counter, *place) for counter, place in session.answers.items() if place[0] in leaving)
    moved.used = joined((topic, *use) for topic, use in session.used.items() if topic in leaving)
    moved.open = joined(place for place in session.open if place[0] in leaving)
    return moved
