"""The clients of a stage, and the end of those that are gone for good: R12 (lease), R1 (forgotten requests).

A session is heard while its connection is up. When it goes its timers begin: the numbers it left open are abandoned
(R16, see ``settling``), then its subscription expires, decided by the bottom stage alone, and the session is dropped.

Of a dropped session the highest counter is kept for long (``ended``), because a stage that meets a client without a
session must tell two cases apart: it has dropped it, and what the client asked for before may have a number; or it has
never had it, and what the client asked for before, of other stages, may be on its way here at this moment.
"""

from __future__ import annotations

from typing import NamedTuple

from inorder.protocol.wire import Opened, SpaceFilter
from inorder_worker.sequencer.commands import OpenSession
from inorder_worker.sequencer.resuming import note_given
from inorder_worker.sequencer.rides import ExpireRide, SessionKey
from inorder_worker.sequencer.state import Outbox, StageState
from inorder_worker.sequencer.subscribing import Subscribing
from inorder_worker.sequencer.topic_manager import Session

MAX_ENDED = 20_000
"""Dropped sessions that a stage knows: it must not keep a row for each of a million short lives. Where more come and go
within the hour it knows them for less long, and a client that it meets again counts by its own word sooner."""

END_WORK = 2_000
"""What one tick may do to end sessions, in topics of their subscriptions: some milliseconds."""
SESSION_COST = 5
"""Of the end of a session, where each topic of its subscription costs 1."""
END_PAUSE_MS = 50
"""Between two ticks that end sessions, or give up numbers, so that commands of clients come between them."""


class Holder(NamedTuple):
    """The owner of a client id (empty without one), and the filters that are kept under the id."""

    owner: str
    filters: list[SpaceFilter]


class Sessions:
    """The department of a stage that knows which clients are connected."""

    def __init__(self, state: StageState, outbox: Outbox, subscribing: Subscribing) -> None:
        self._state, self._outbox, self._subscribing = state, outbox, subscribing
        self._resume_at = 0  # when the next tick goes on: no part of the state, as each does what it finds

    def opened(self, command: OpenSession) -> None:
        """A client connected; other incarnations of it are gone from now on (replaced). Tell it what is left of its
        session: one that was dropped begins with the first counter it has not asked for, so that no event id gets a
        second number (R1)."""
        state = self._state
        key = (command.client_id, command.incarnation)
        before = state.latest.get(command.client_id, command.incarnation)
        if before != command.incarnation:
            self.left((command.client_id, before))
        session = state.sessions.get(key)
        is_known = session is not None
        if session is None:
            # what it asked of others may have come here with a topic, and been forgotten since (R14)
            anywhere = command.anywhere if state.homes_epoch > command.asked_epoch else 1
            first = max(self._unknown_below(command, max(command.first, anywhere)), take_ended(state, key) + 1)
            session = state.sessions[key] = Session(*key, low=first, began=first)
        elif not session.is_opened:
            session.low = max(session.low, self._unknown_below(command, command.own))
        session.is_opened = session.connected = True
        state.latest[command.client_id] = command.incarnation
        session.timeout = state.settings.session_timeout_ms
        session.max_open, session.proves = command.max_open, command.proves
        state.open_numbers.belongs(session, command.owner, command.max_owned)
        session.max_topics, session.max_subscriptions = command.max_topics, command.max_subscriptions
        state.gone.pop(key, None)
        subscription = state.overlaps.get(command.client_id)
        is_its = subscription is not None and subscription.incarnation == command.incarnation
        version = subscription.version if subscription is not None and is_its else 0
        self._outbox.reply(*key, Opened(state.index, self._outbox.epoch, is_known, version, session.timeout))

    def _unknown_below(self, command: OpenSession, first: int) -> int:
        """Return the counter below which this stage may have forgotten a number, as the client's ``first`` says; but a
        dropped session that knew one of the recent counters would still be known here."""
        state = self._state
        is_known = not state.ended_since or state.ended_since + state.settings.ended_kept_ms // 2 <= state.now
        return min(first, command.recent) if command.recent and is_known else first

    def left(self, key: SessionKey) -> None:
        """A client's connection ended: its timers begin."""
        session = self._state.sessions.get(key)
        if session is not None and session.connected:
            session.connected, session.since = False, self._state.now
            self._state.gone[key] = None
            self._state.deadlines.note(key)

    def restart_timers(self) -> None:
        """R12: while the stage was down nobody could come back."""
        for key in self._state.gone:
            self._state.sessions[key].since = self._state.now

    def end_due(self) -> None:
        """End what is gone for too long: subscriptions at the bottom stage, sessions at each; as many as one tick may.
        The others end later, which is always safe (R12): clients that leave together must not stop a stage."""
        state, worked = self._state, 0
        self._resume_at = 0
        while state.gone:
            key = next(iter(state.gone))
            session = state.sessions[key]
            if self._end_of(session) > state.now:
                break
            if session.open or 0 < state.settings.end_work < worked:  # open numbers would stay so for ever (R16)
                self._resume_at = state.now + END_PAUSE_MS
                break
            known = state.overlaps.get(session.client_id)
            worked += SESSION_COST + (0 if known is None else len(known.active))
            note_given(state, session.client_id, session.incarnation)
            if state.is_bottom:
                self._expire(session)
            del state.gone[key], state.sessions[key]
            if state.latest.get(key[0]) == key[1]:
                del state.latest[key[0]]
            if highest := session.highest:
                state.ended[key] = highest, state.now
        self._forget_ended()

    def _forget_ended(self) -> None:
        state = self._state
        while state.ended:
            key, (_, when) = next(iter(state.ended.items()))
            if len(state.ended) <= MAX_ENDED and when + state.settings.ended_kept_ms > state.now:
                break
            del state.ended[key]
            state.ended_since = max(state.ended_since, when + 1)

    def _end_of(self, session: Session) -> int:
        """Return when a session that is gone ends: after its client has stopped counting on it, and its numbers are
        settled."""
        return session.since + max(session.timeout, self._state.settings.publisher_grace_ms)

    def _expire(self, session: Session) -> None:
        known = self._state.overlaps.get(session.client_id)
        if known is not None and known.incarnation == session.incarnation and not known.durable:
            self._subscribing.expired(ExpireRide(session.client_id, session.incarnation, known.version))

    def next_deadline(self) -> int | None:
        """Return the stage time at which the next session ends, or ``None``."""
        first = next(iter(self._state.gone), None)
        return None if first is None else max(self._end_of(self._state.sessions[first]), self._resume_at)


def holder_of(state: StageState, client_id: str) -> Holder | None:
    """Return the owner of a client id: that of its durable subscription, else of its session; ``None``: nobody.
    A client whose connection is gone comes back, and must not find that somebody else took its id meanwhile."""
    known, incarnation = state.overlaps.get(client_id), state.latest.get(client_id)
    if known is not None and known.durable and known.filters:
        return Holder(known.owner, known.filters)
    session = None if incarnation is None else state.sessions[client_id, incarnation]
    return None if session is None else Holder(session.owner, [])


def take_ended(state: StageState, key: SessionKey) -> int:
    """Take out the highest counter of a session that was dropped here before and begins again; 0 if there was none, or
    too long ago."""
    return state.ended.pop(key, (0, 0))[0]
