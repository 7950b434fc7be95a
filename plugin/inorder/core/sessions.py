"""Which clients are here, and what ends when one is gone for good: R12 (lease), R1 (what is forgotten).

A session is heard while its connection is up. When it goes its timers begin: the numbers it left open are abandoned
(R16, see ``settling``), then its subscription expires, decided by the bottom stage alone, and the session is dropped.
"""

from __future__ import annotations

from inorder.core.commands import ExpireRide, OpenSession, SessionKey
from inorder.core.resuming import note_given
from inorder.core.state import Outbox, StageState
from inorder.core.subscribing import Subscribing
from inorder.core.topic_manager import Session
from inorder.core.wire import Opened


class Sessions:
    """The department of a stage that knows which clients are connected."""

    def __init__(self, state: StageState, outbox: Outbox, subscribing: Subscribing) -> None:
        self._state, self._outbox, self._subscribing = state, outbox, subscribing

    def opened(self, command: OpenSession) -> None:
        """A client connected; other incarnations of it are gone from now on (replaced). Tell it what is left of its
        session: one that was dropped begins with the first counter it has not asked for, so that no event id gets a
        second number (R1)."""
        state = self._state
        key = (command.client_id, command.incarnation)
        for other in list(state.sessions.values()):
            if other.client_id == key[0] and other.incarnation != key[1] and other.connected:
                self.left((other.client_id, other.incarnation))
        session = state.sessions.get(key)
        is_known = session is not None
        if session is None:
            # what it asked of others may have come here with a topic, and been forgotten since (R14)
            anywhere = command.anywhere if state.homes_epoch > command.asked_epoch else 1
            first = max(command.first, anywhere)
            session = state.sessions[key] = Session(*key, low=first, began=first)
        elif not session.is_opened:
            session.low = max(session.low, command.own)
        session.is_opened = session.connected = True
        session.timeout = state.settings.session_timeout_ms
        session.max_open = command.max_open
        state.gone.pop(key, None)
        subscription = state.overlaps.get(command.client_id)
        is_its = subscription is not None and subscription.incarnation == command.incarnation
        version = subscription.version if subscription is not None and is_its else 0
        self._outbox.reply(*key, Opened(state.index, self._outbox.epoch, is_known, version, session.timeout))

    def left(self, key: SessionKey) -> None:
        """A client's connection ended: its timers begin."""
        session = self._state.sessions.get(key)
        if session is not None and session.connected:
            session.connected, session.since = False, self._state.now
            self._state.gone[key] = None

    def restart_timers(self) -> None:
        """R12: while the stage was down nobody could come back."""
        for key in self._state.gone:
            self._state.sessions[key].since = self._state.now

    def end_due(self) -> None:
        """End what is gone for too long: subscriptions at the bottom stage, sessions at each."""
        state = self._state
        while state.gone:
            key = next(iter(state.gone))
            session = state.sessions[key]
            if self._end_of(session) > state.now:
                break
            note_given(state, session.client_id, session.incarnation)
            if state.is_bottom:
                self._expire(session)
            del state.gone[key], state.sessions[key]

    def _end_of(self, session: Session) -> int:
        """Return when a session that is gone ends: not before its client has stopped counting on it, whatever the
        settings are now, nor before its numbers are settled."""
        return session.since + max(session.timeout, self._state.settings.publisher_grace_ms)

    def _expire(self, session: Session) -> None:
        known = self._state.overlaps.get(session.client_id)
        if known is not None and known.incarnation == session.incarnation and not known.durable:
            self._subscribing.expired(ExpireRide(session.client_id, session.incarnation, known.version))

    def next_deadline(self) -> int | None:
        """Return the stage time at which the next session ends, or ``None``."""
        first = next(iter(self._state.gone), None)
        return None if first is None else self._end_of(self._state.sessions[first])
