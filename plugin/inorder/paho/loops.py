"""paho's network loops and the application's own: who does the due work, and when."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Final

from paho.mqtt import client as paho
from paho.mqtt.enums import MQTTErrorCode

from inorder.errors import InorderError
from inorder.logs import logger
from inorder.paho.ordering import Ordering
from inorder.paho.receiving import ACK_SECONDS, Receiving
from inorder.paho.sending import DISCONNECT_SECONDS, Sending

_log = logger("inorder.paho")

SLICE_SECONDS: Final = 0.05
"""How long one round of callbacks may take before keepalive and socket have their turn again."""
READ_AHEAD: Final = 64
"""Messages that are read at most before anything else is done."""
LEAVE_SECONDS: Final = 1.0
"""How long after a loop ended by an exception another one may begin as if nothing had happened. Then nobody reads what
the broker sends, and this client leaves the workers: it would hold up others, and look well to operators."""


class Loops(Sending, Receiving):
    """The network loops that drive a client."""

    def loop_forever(self, timeout: float = 1.0, retry_first_connection: bool = False) -> MQTTErrorCode:
        """See paho."""
        if self._ordering is None:
            return super().loop_forever(timeout, retry_first_connection)
        if self._sockpairR is None:  # what wakes it when something is due without a word from the broker
            self._sockpairR, self._sockpairW = paho._socketpair_compat()
        self._runners += 1
        try:
            return super().loop_forever(timeout, retry_first_connection)
        except Exception as error:
            self._loop_failed(error)
            raise
        finally:
            self._runners -= 1

    def _loop_failed(self, error: Exception) -> None:
        """End a loop after an exception, which most likely came from a callback; the application handles it, as with
        paho. Where no other loop goes on, the workers are not to take this client for one that reads."""
        client_id, why = self._client_id.decode(errors="replace"), f"{type(error).__name__}: {error}"
        hint = "nothing is received until a loop runs again"
        _log.error("event=loop_failed client=%s error=%s hint=%s", client_id, why, hint)
        with self._life_lock:
            if self._leaving is None and self._ordering is not None:
                self._leaving = threading.Timer(self._ordering.patience(LEAVE_SECONDS), _leave, (weakref.ref(self),))
                self._leaving.daemon = True
                self._leaving.start()

    def _leave(self) -> None:
        """Leave the workers, unless a loop has begun again."""
        ordering = self._ordering
        with self._send_lock, self._life_lock:  # in this order: what sends may find that it goes on
            if ordering is not None and self._leaving is not None and not self._runners:
                ordering.leave()

    def _goes_on(self) -> bool:
        """Begin a step of a loop; return whether the workers have this client, also after an earlier loop ended by an
        exception. Where they do not take it in, the connection to the broker ends, too."""
        try:
            if self._leaving is not None:
                self._go_on(reads=True)
        except InorderError as error:
            self._order_failed(error)
            return False
        return True

    def loop_stop(self) -> MQTTErrorCode:
        """See paho; earlier publishes leave first."""
        if self._ordering is not None and self._thread is not None:
            self._send_all(DISCONNECT_SECONDS)
        return super().loop_stop()

    def _loop(self, timeout: float = 1.0) -> MQTTErrorCode:
        ordering, thread = self._ordering, threading.get_ident()
        if ordering is None or thread in self._looping:
            return super()._loop(timeout)
        if not self._goes_on():
            return MQTTErrorCode.MQTT_ERR_CONN_LOST
        self._looping.add(thread)
        seconds = timeout
        try:
            self._run_due()
            if timeout > 0 and (ordering.due or self._acks):
                timeout = 0.0 if ordering.due and not self._due_lock.locked() else min(timeout, ACK_SECONDS)
            with self._reading:  # two loops at once would read one packet with two hands
                code = self._read(partial(super()._loop, timeout))
            self._catch_up(seconds)
            return code
        finally:
            self._looping.discard(thread)

    def loop_read(self, max_packets: int = 1) -> MQTTErrorCode:
        """See paho."""
        ordering, read = self._ordering, partial(super().loop_read, max_packets)
        step = read if ordering is None or ordering.session is None else partial(self._read_on, ordering, read)
        return step() if threading.get_ident() in self._looping else self._by_hand(step)

    def _read_on(self, ordering: Ordering, read: Callable[[], MQTTErrorCode]) -> MQTTErrorCode:
        """Read while messages come, so that they cross over together; paho would ask the system after each."""
        self._is_reading_on = True
        try:
            for _ in range(READ_AHEAD):
                before = ordering.given
                code = read()
                if code or ordering.given == before:
                    break
            return code
        finally:
            self._is_reading_on = False
            ordering.wake()

    def loop_write(self) -> MQTTErrorCode:
        """See paho."""
        if self._on_socket_register_write is None:  # paho calls it itself, within publish() say
            return super().loop_write()
        return self._by_hand(super().loop_write)

    def loop_misc(self) -> MQTTErrorCode:
        """See paho."""
        return self._by_hand(super().loop_misc)

    def _by_hand(self, step: Callable[[], MQTTErrorCode]) -> MQTTErrorCode:
        """Do one step of a loop; a loop of the application's own also does the due work."""
        thread = threading.get_ident()
        if self._ordering is None or thread in self._looping:
            return step()
        if not self._goes_on():
            return MQTTErrorCode.MQTT_ERR_CONN_LOST
        self._is_stepped = self._is_inline
        self._know_event_loop()
        self._looping.add(thread)
        try:
            code = self._read(step)
            self._run_due()
            return code
        finally:
            self._looping.discard(thread)

    def _read(self, step: Callable[[], MQTTErrorCode]) -> MQTTErrorCode:
        """Do one step of a loop. Unread events are not waited for while a slow callback keeps the loop (R17)."""
        assert self._ordering is not None
        self._ordering.time.begin()
        try:
            return step()
        finally:
            self._ordering.time.end()

    def _catch_up(self, seconds: float) -> None:
        """Do the due work; where the application calls ``loop()``, wait at most so long for its consequences."""
        ordering = self._ordering
        if ordering is not None and self._is_inline and not self._is_external:
            ordering.settle()
            deadline = time.monotonic() + seconds
            while self._confirming and not ordering.due and time.monotonic() < deadline:
                with ordering.outgoing.changed:
                    ordering.outgoing.changed.wait(0.005)
            self._send_all(deadline - time.monotonic())
        self._run_due()

    def _run_due(self) -> None:
        """Do the due work on this thread: messages, gaps, confirmations, sending. One thread at a time."""
        ordering = self._ordering
        if ordering is None:
            return
        deadline = time.monotonic() + SLICE_SECONDS
        due = ordering.due
        while self._due_lock.acquire(blocking=False):
            try:
                ordering.is_woken = False
                self._send_ready()
                self._tell_unheard()
                while due and time.monotonic() < deadline:
                    due.popleft()(self)
                self._acknowledge()
            finally:
                self._due_lock.release()
            if not due or time.monotonic() >= deadline:
                break
        self._part()
        if due and self._is_external:
            ordering.ask_for_turn()

    def _part(self) -> None:
        """Carry out a disconnect that waited for earlier publishes to leave."""
        parting, ordering = self._parting, self._ordering
        if parting is not None and ordering is not None:
            deadline, disconnect = parting
            if not ordering.outgoing.is_waiting or ordering.session is None or time.monotonic() >= deadline:
                self._parting = None
                disconnect()


def _leave(reference: weakref.ref[Loops]) -> None:
    """Disconnect a client from the workers (a timer's thread)."""
    client = reference()
    if client is not None:
        client._leave()
