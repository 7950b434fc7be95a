"""paho-mqtt's client in the total order of inorder, which works between paho's socket and callbacks.

paho connects, reads, writes, keeps alive, reconnects and calls back, on the threads where it always did. What it
receives goes to an inorder client on the event loop's thread and comes back in order, through a queue that paho's
own loop empties; what it is to send waits for its timestamp in the order of the calls.
"""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from inorder.client.configured import ClientConfiguration
from inorder.errors import InorderError, LinkError
from inorder.logs import logger
from inorder.paho.failures import NotConnected
from inorder.paho.limits import Limits, limits_of
from inorder.paho.loops import Loops
from inorder.paho.receiving import UNHEARD_SECONDS
from inorder.paho.sending import DISCONNECT_SECONDS
from inorder.paho.subscriptions import Subscriptions

_log = logger("inorder.paho")

LINGER_SECONDS: Final = 1.0


class Client(Loops, Subscriptions):
    """A :class:`paho.mqtt.client.Client` that calls ``on_message`` in the total order of all subscribers.

    Takes what paho's takes. Messages have one more attribute, ``inorder``, and there is one more callback, ``on_gap``.

    Args:
        inorder: the workers, and how to use them; by default as :func:`~inorder.client.configured.configured` finds
            them. Without workers nothing is ordered, and this is paho's client.

    Raises:
        InvalidSetting: what was found in the environment or ``inorder.toml`` is not allowed.
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            callback_api_version: CallbackAPIVersion = CallbackAPIVersion.VERSION1,
            client_id: str | None = "",
            clean_session: bool | None = None,
            userdata: Any = None,
            protocol: MQTTProtocolVersion = MQTTProtocolVersion.MQTTv311,
            transport: Literal["tcp", "websockets", "unix"] = "tcp",
            reconnect_on_failure: bool = True,
            manual_ack: bool = False,
            *,
            inorder: ClientConfiguration | None = None,
        ) -> None: ...

    def reconnect(self) -> MQTTErrorCode:
        """Connect again, as paho does, but connect to the workers first.

        Raises:
            WorkersUnreachable: an OSError, as where the broker cannot be reached.
            NotConnected: an OSError, too: the workers do not take this client in. The error is also one of
                ``inorder.errors``, ``Unauthorized`` say.
        """
        ordering = self._ordering
        if ordering is None or not self._host or self._port <= 0:
            return super().reconnect()
        self._lost(LinkError("the application connects again"))
        with self._life_lock:
            try:
                self._begin(goes_on=False)
            except InorderError as error:  # paho's loop tries again, and tells nobody why
                _log.warning("event=connect_failed error=%s", error)
                if self._runners and not isinstance(error, OSError):
                    raise NotConnected(str(error)) from error  # any other would end it
                raise
            self._leaving = self._parting = self._event_loop = None
            self._is_stepped = False
            ordering.restore()
        ordering.outgoing.connecting()
        ordering.outgoing.window = self._max_inflight_messages
        self._acks.clear()
        self._pings.clear()
        self._unacknowledged.clear()
        self._received_aliases.clear()
        with self._requests_lock:
            self._subscribes.clear()
            self._unsubscribes.clear()
            self._silent.clear()
        code = super().reconnect()
        if ordering.session is not None:
            ordering.session.ens.up()
        return code

    def disconnect(self, reasoncode: ReasonCode | None = None, properties: Properties | None = None) -> MQTTErrorCode:
        """Disconnect, as paho does, after earlier publishes have left. An application's loop goes on by itself."""
        ordering, leave = self._ordering, partial(super().disconnect, reasoncode, properties)
        if ordering is None:
            return leave()
        if self._sock is None or not self._is_external or self._on_socket_register_write is None:
            self._send_all(DISCONNECT_SECONDS)
            return leave()
        self._know_event_loop()
        self._state = type(self._state)["MQTT_CS_DISCONNECTING"]
        self._parting = time.monotonic() + DISCONNECT_SECONDS, leave
        self._run_due()
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_connack(self) -> MQTTErrorCode:
        ordering, packet = self._ordering, self._in_packet["packet"]
        if ordering is not None and ordering.session is not None and len(packet) > 1 and packet[1] == 0:
            self._limits = limits_of(bytes(packet)) if self._protocol == paho.MQTTv5 else Limits()
            window = ordering.outgoing.window
            ordering.outgoing.window = min(window or self._limits.in_flight, self._limits.in_flight)
            ordering.session.ens.report_soon(ordering.session.connected, bool(packet[0] & 1))
            if packet[0] & 1 and self._unheard_until is None:
                self._unheard_until = time.monotonic() + UNHEARD_SECONDS
            self._number_kept()  # before anything that on_connect publishes
        return super()._handle_connack()

    def _do_on_disconnect(
        self,
        packet_from_broker: bool,
        v1_rc: MQTTErrorCode,
        reason: ReasonCode | None = None,
        properties: Properties | None = None,
    ) -> None:
        ordering, tell = (
            self._ordering,
            partial(super()._do_on_disconnect, packet_from_broker, v1_rc, reason, properties),
        )
        if ordering is None:
            tell()
            return
        self._parting = None
        if packet_from_broker or v1_rc == MQTTErrorCode.MQTT_ERR_CONN_LOST:
            self._closed_by_broker(reason)
        if not self._is_calling_back:
            ordering.settle()
            self._run_due()
        if self._is_parted and not self._has_session:
            ordering.end()
            self._unheard.clear()
            if self._is_inline and not self._is_external:
                _linger(self._sock)
        else:
            self._lost(LinkError("the connection to the broker ended"))
        tell()

    @property
    def _is_calling_back(self) -> bool:
        """Tell whether a callback of the application's runs, so that another callback would have to wait. Applications
        of a single thread put locks in the place of paho's that never are."""
        is_locked = getattr(self._in_callback_mutex, "locked", None)
        return is_locked is not None and bool(is_locked())

    @property
    def _has_session(self) -> bool:
        """Tell whether the broker keeps subscriptions and messages while this client is away."""
        if self._protocol == paho.MQTTv5:
            properties = self._connect_properties
            return properties is not None and bool(properties.__dict__.get("SessionExpiryInterval", 0))
        return not self._clean_session


def _linger(connected: Any) -> None:
    """Wait until the broker has taken the written bytes: closing a socket with unread bytes (a CONNACK, where no loop
    ran) resets the connection and loses them."""
    if type(connected) is not socket.socket:
        return
    deadline = time.monotonic() + LINGER_SECONDS
    with suppress(OSError, ValueError):
        connected.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            if select.select([connected], [], [], left)[0] and not connected.recv(65_536):
                return
