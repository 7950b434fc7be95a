"""The state that all parts of the drop-in client share, and the ways to wake its loop."""

from __future__ import annotations

import asyncio
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from paho.mqtt import client as paho

from inorder.client.configured import ClientConfiguration, configured
from inorder.errors import InorderError
from inorder.logs import logger
from inorder.paho import library
from inorder.paho.callbacks import Base, CallbackOnGap
from inorder.paho.failures import disconnect_reason, error_code
from inorder.paho.forking import register_for_forks, renew_locks
from inorder.paho.limits import Limits
from inorder.paho.ordering import Arrived, Ordering
from inorder.protocol.names import Filter
from inorder_adapters.mqtt.arrivals import ArrivalReader

_log = logger("inorder.paho")

library.check()


class Embedding(Base):
    """paho's client with an inorder client inside. Its parts are mixed into :class:`~inorder.paho.client.Client`."""

    def __init__(self, *args: Any, inorder: ClientConfiguration | None = None, **kwargs: Any) -> None:
        self._sock = self._sockpairR = self._sockpairW = (
            None  # paho's destructor asks for them, whatever is refused below
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            super().__init__(*args, **kwargs)
        for each in caught:  # they are about our caller
            warnings.warn(each.message, each.category, stacklevel=2)
        self._on_gap: CallbackOnGap | None = None
        configuration = configured() if inorder is None else inorder
        self._ordering: Ordering | None = None
        if configuration.is_ordering:
            self._embed(configuration)
            register_for_forks(self)
        self._begin_state()

    def _embed(self, configuration: ClientConfiguration) -> None:
        self._ordering = Ordering(configuration, partial(_wake, weakref.ref(self)))
        weakref.finalize(self, self._ordering.end).atexit = False

    def _begin_state(self) -> None:
        """Set the state of a client that was never connected."""
        self._reader = ArrivalReader()
        self._arriving: Arrived | None = None
        self._is_reading_on = False
        self._acks: deque[Arrived] = deque()
        self._unacknowledged: set[int] = set()  # with manual_ack
        self._unheard: deque[Arrived] = deque()  # what waits for a handler, until when; others were told since
        self._unheard_until: float | None = None
        self._is_passed = self._is_unheard_due = self._has_warned = False
        self._due_lock, self._send_lock, self._requests_lock = threading.Lock(), threading.Lock(), threading.RLock()
        self._limits = Limits()
        self._aliases: dict[int, str] = {}  # as the application's publishes name them
        self._received_aliases: dict[int, bytes] = {}
        self._subscribes: dict[int, list[Filter | None]] = {}
        self._unsubscribes: dict[int, list[Filter]] = {}
        self._silent: set[int] = set()
        self._confirming = 0
        self._looping: set[int] = set()
        self._reading = threading.Lock()
        self._runners = 0
        self._is_stepped = False  # the application calls the steps of a loop one by one
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._parting: tuple[float, Callable[[], object]] | None = None
        self._leaving: threading.Timer | None = None
        self._life_lock = threading.RLock()

    def on_fork(self) -> None:
        """Leave connections and open work to the parent process after a fork. Nothing is published, and nothing read,
        until the child connects. Sockets are closed without a word of TLS, nor to event loops, which the parent
        shares."""
        ordering = self._ordering
        assert ordering is not None
        for each in (self._sock, self._sockpairR, self._sockpairW):
            if each is not None:
                with suppress(OSError):
                    each.close()
        if self._sock is not None:
            self._state = type(self._state)["MQTT_CS_CONNECTION_LOST"]
        self._sock = self._sockpairR = self._sockpairW = self._thread = None
        self._inflight_messages = 0
        for held in (self._out_packet, self._out_messages, self._in_messages):
            held.clear()
        renew_locks(self)
        self._embed(ordering.left_to_parent())
        self._begin_state()

    # -- what is new -------------------------------------------------------------------------------------------

    @property
    def on_gap(self) -> CallbackOnGap | None:
        """The callback ``on_gap(client, userdata, gap)`` for numbers of a topic that will not come: it gets one
        :class:`~inorder.Gap` for each range, in its place among the messages."""
        return self._on_gap

    @on_gap.setter
    def on_gap(self, func: CallbackOnGap | None) -> None:
        with self._callback_mutex:
            self._on_gap = func

    def gap_callback(self) -> Callable[[CallbackOnGap], CallbackOnGap]:
        """Return a decorator that sets ``on_gap``."""

        def decorator(func: CallbackOnGap) -> CallbackOnGap:
            self.on_gap = func
            return func

        return decorator

    def _begin(self, *, goes_on: bool) -> None:
        if self._ordering is not None:
            client_id = self._client_id.decode(errors="replace")
            self._ordering.begin(f"{self._host}:{self._port}", client_id, int(self._protocol), goes_on=goes_on)

    def _lost(self, error: InorderError) -> None:
        if self._ordering is not None and self._ordering.session is not None:
            self._ordering.session.ens.down(error)

    def _order_failed(self, error: InorderError) -> None:
        """Replace the inorder client, which ended for good, over a new connection, if paho reconnects."""
        _log.error("event=order_failed error=%s", error)
        if self._ordering is not None:
            self._ordering.end()
        if self._sock is not None:
            self._sock_close()
            if not self._is_parted:
                self._state = type(self._state)["MQTT_CS_CONNECTION_LOST"]
            self._do_on_disconnect(False, error_code(error), disconnect_reason(error))

    @property
    def _is_parted(self) -> bool:
        """Tell whether the application wants no connection."""
        return self._state.name in ("MQTT_CS_DISCONNECTING", "MQTT_CS_DISCONNECTED")

    def _go_on(self, *, reads: bool) -> None:
        """Connect to the workers again after a loop that an exception ended. Raises the errors of a connect."""
        with self._life_lock:
            timer, ordering = self._leaving, self._ordering
            if timer is None or ordering is None or (ordering.session is None and self._sock is None):
                return
            timer.cancel()
            if ordering.session is None:
                self._begin(goes_on=True)
                session: Any = ordering.session
                session.ens.up()
            if reads:
                self._leaving = None
                ordering.restore()

    # -- who drives it -----------------------------------------------------------------------------------------

    @property
    def _is_inline(self) -> bool:
        """Tell whether no loop of paho's runs in the background, so that each call has to do its own work."""
        return self._thread is None and not self._runners

    @property
    def _is_external(self) -> bool:
        """Tell whether the application's own loop calls ``loop_read()`` and the like for its sockets, so that no call
        may wait. It is woken, or looks again."""
        return (self._on_socket_register_write is not None or self._is_stepped) and self._is_inline

    def _know_event_loop(self) -> None:
        """Remember the asyncio event loop that runs on the calling thread, if there is one."""
        if self._event_loop is None:
            with suppress(RuntimeError):
                self._event_loop = asyncio.get_running_loop()

    def _wake_external(self) -> None:
        """Make the application's loop call ``loop_write()``. It is asked on its own thread, where that is known: what
        registers its writers may be of no use on another one."""
        with suppress(Exception):  # its own, or it has ended
            if self._event_loop is None:
                self._call_socket_register_write()  # as paho does when another thread publishes
            else:
                self._event_loop.call_soon_threadsafe(self._call_socket_register_write)


def _wake(reference: weakref.ref[Embedding]) -> None:
    """Make a client's network loop look at its due work (the event loop's thread)."""
    client = reference()
    if client is None:
        return
    writer = client._sockpairW
    if writer is not None:
        with suppress(OSError):
            writer.send(paho.sockpair_data)
    if client._on_socket_register_write is not None and client._is_inline and client._sock is not None:
        client._wake_external()
