"""One connection to an MQTT broker, from CONNECT to its loss, on the event loop and without a network thread.

paho-mqtt's hooks for external loops say when its socket wants to be read or written; timers of the loop drive its
keepalive. A paho client is used for one connection only: what an older one still held would be sent again behind
the owner's back, though the owner hands it over again itself.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from inorder.errors import BrokerUnreachable, InorderError, LinkError
from inorder.patience import Patience
from inorder.ports import Arrival, EnsCapabilities, EnsSink
from inorder.protocol.filters import MAX_TOPIC_BYTES
from inorder_adapters.mqtt.barriers import OWN, Answered, Barriers, Echo
from inorder_adapters.mqtt.failures import connect_refusal, loss, map_exceptions
from inorder_adapters.mqtt.options import Target
from inorder_adapters.mqtt.outbox import Outbox
from inorder_adapters.mqtt.packets import read_publishes
from inorder_adapters.mqtt.paho_client import close_socket, connect_socket, make_client
from inorder_adapters.mqtt.subscribing import Subscribing

logger = logging.getLogger(__name__)

_READ_BATCH = 64
_PACKET_OVERHEAD = 16
_PEEK_BYTES = 16_384
_TCP_CORK = getattr(socket, "TCP_CORK", None)


class Connection:
    """One MQTT connection.

    Attributes:
        capabilities: what the broker said it can do.
        outbox: what was published.
        subscribing: what was subscribed to.
    """

    def __init__(self, target: Target, client_id: str, sink: EnsSink, lost: Callable[[InorderError], None]) -> None:
        self._target = target
        self._client_id = client_id
        self._sink = sink
        self._report_lost = lost
        self._client = make_client(target, client_id)
        self._loop = asyncio.get_running_loop()
        self._fd = -1
        self._is_attached = False
        self._has_writer = False
        self._pump_handle: asyncio.Handle | None = None
        self._tick_handle: asyncio.Handle | None = None
        self._handled = 0
        self._connack: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] | None = None
        self._is_open = False
        self._is_established = False
        self._is_ended = False
        self.capabilities = EnsCapabilities(properties=False, retain=True, qos=(0,), max_topic_bytes=MAX_TOPIC_BYTES)
        self.outbox = Outbox(self._client, target.protocol, target.options.max_inflight)
        self.subscribing = Subscribing(self._client, target)
        own_topic = target.options.barrier_topic
        self._echo = None if own_topic is None else Echo(own_topic, self.subscribing, self.outbox, self.schedule)
        self._barriers = Barriers(self._ping, None if self._echo is None else self._echo.send)

    # -- life --------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect to the broker. Raises BrokerUnreachable, Unauthorized, InvalidOption."""
        address = str(self._target.address)
        try:
            async with Patience(self._target.options.connect_timeout):
                await connect_socket(self._client, self._target)
                self._attach()
                await self._connack
            if not self._is_open:
                raise BrokerUnreachable(address, "it closed the connection at once")
        except BaseException as error:
            self._end()
            if isinstance(error, Exception):
                raise map_exceptions(error, address) from None
            raise
        self._is_established = True
        self._tick()

    def abort(self) -> None:
        """End an attempt to connect."""
        self._end()

    async def close(self) -> None:
        """Send what is still to leave, for at most ``close_timeout``, and disconnect; at once when cancelled."""
        try:
            if self._is_open:
                await self._drain(self._target.options.close_timeout)
        finally:
            if self._is_open:
                self._is_open = False
                self._client.disconnect()
                self._write()
            self._end()

    async def barrier(self) -> None:
        """Wait until everything is read that the broker has for this client now (R24). Raises LinkError."""
        if not self._is_open:
            raise LinkError(f"not connected to broker {self._target.address}")
        await self._barriers.passed()

    def schedule(self) -> None:
        """Send new publishes, and packets that paho has queued, at the end of this turn of the loop."""
        if self._pump_handle is None and self._is_attached:
            self._pump_handle = self._loop.call_soon(self._pump)

    # -- the event loop's side ---------------------------------------------------------------------------------

    def _attach(self) -> None:
        """Take the connected client over from the thread that connected it."""
        client = self._client
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_refused = self._on_refused
        client.on_subscribe = client.on_unsubscribe = self._on_answer
        client.on_socket_close = lambda *_: self._detach()
        client.on_socket_register_write = lambda *_: self.schedule()
        client.on_socket_unregister_write = lambda *_: self._stop_writer()
        connected = client.socket()
        if connected is None or self._is_ended:
            raise LinkError("the connection was closed")
        self._fd = connected.fileno()
        self._is_attached = True
        self._loop.add_reader(self._fd, self._read)
        if client.want_write():
            self.schedule()

    def _detach(self) -> None:
        if self._is_attached:
            self._is_attached = False
            self._loop.remove_reader(self._fd)
            self._stop_writer()

    def _stop_writer(self) -> None:
        self.outbox.is_blocked = False
        if self._has_writer:
            self._has_writer = False
            self._loop.remove_writer(self._fd)
            self.schedule()  # what waited for the socket

    def _read(self) -> None:
        """Read packets until there are no more or paho makes no progress, at most a batch of them."""
        client = self._client
        for _ in range(_READ_BATCH):
            if self._read_publishes():
                break
            before = self._handled
            client.loop_read()
            if self._handled == before:
                break
        if self._is_open:
            self._report_outcomes()
            self.outbox.fill()
            if self.outbox.direct.is_waiting:
                self.schedule()
        connected = client.socket()
        if isinstance(connected, ssl.SSLSocket) and connected.pending():
            # TLS has decrypted more than was read; the socket itself may stay silent about it.
            self._loop.call_soon(self._read)

    def _read_publishes(self) -> bool:
        """Take the QoS 0 publishes at the front of the socket; return whether paho has nothing to read for now.

        They are looked at first and taken only if they are complete, so that paho finds a packet's beginning next.
        """
        plain = self._plain_socket()
        if plain is None or not self._client.is_between_packets:
            return False
        try:
            data = plain.recv(_PEEK_BYTES, socket.MSG_PEEK)
        except OSError:
            return False
        arrivals, size = read_publishes(data, self._target.protocol == 5, self.subscribing.reader.via)
        left = size
        while left:
            left -= len(plain.recv(left))
        if arrivals:
            self._client.on_reception()
        for arrival in arrivals:
            self._arrived(arrival)
        return size > 0 and (size == len(data) or len(data) == _PEEK_BYTES)

    def _arrived(self, arrival: Arrival) -> None:
        try:
            self._sink.arrived(arrival)
        except Exception:
            # Through paho it would leave its reader in the middle of a packet, and the packet would come again.
            logger.exception("the owner of an MQTT connection failed on an arrival")

    def _pump(self) -> None:
        self._pump_handle = None
        self.outbox.fill()
        self._write()
        if self._is_open:
            self._report_outcomes()

    def _write(self) -> None:
        client, direct = self._client, self.outbox.direct
        self._write_direct()
        if not direct.is_waiting and client.want_write():
            self._write_with_paho()
        if not self._is_attached:
            return
        if not (client.want_write() or direct.is_waiting):
            self._stop_writer()
        elif not self._has_writer:
            self._has_writer = self.outbox.is_blocked = True
            self._loop.add_writer(self._fd, self._pump)

    def _write_direct(self) -> None:
        """Write the packets that bypass paho, unless paho has begun to write others."""
        plain, direct = self._plain_socket(), self.outbox.direct
        if plain is not None and direct.is_waiting:
            with suppress(OSError):  # the connection broke, which paho's reader is about to find
                direct.write(plain)

    def _write_with_paho(self) -> None:
        client = self._client
        # For QoS 0 paho would make a ReasonCode and a Properties object per message just for this callback.
        client.on_publish = None
        plain = self._plain_socket()
        if _TCP_CORK is not None and plain is not None:
            # One segment for many small packets, instead of one each.
            plain.setsockopt(socket.IPPROTO_TCP, _TCP_CORK, 1)
            client.loop_write()
            if client.socket() is not None:
                plain.setsockopt(socket.IPPROTO_TCP, _TCP_CORK, 0)
        else:
            client.loop_write()
        client.on_publish = self._on_publish

    def _plain_socket(self) -> socket.socket | None:
        """Return the socket if it may be used beside paho: a TLS socket keeps decrypted bytes to itself."""
        connected = self._client.socket()
        return connected if isinstance(connected, socket.socket) and not isinstance(connected, ssl.SSLSocket) else None

    def _tick(self) -> None:
        """Drive paho's keepalive. What came while this process stood still is read first: it may be what paho waits
        for, and not every event loop looks at its sockets before its timers."""
        keepalive = self._client.keepalive
        if keepalive and self._is_attached:
            self._read()
        if keepalive and self._is_attached:
            self._client.loop_misc()
        if keepalive and self._is_attached:
            self._tick_handle = self._loop.call_later(min(1.0, keepalive / 4), self._tick)

    def _report_outcomes(self) -> None:
        accepted, refused = self.outbox.outcomes()
        if OWN in accepted:
            accepted = [token for token in accepted if token != OWN]
        if accepted:
            self._sink.accepted(accepted)
        for token, error in refused:
            if token != OWN:
                self._sink.refused(token, error)
            elif self._echo is not None:
                self._echo.refused(error)
        if self._drained is not None and not self._drained.done() and self.outbox.is_empty:
            self._drained.set_result(None)

    async def _drain(self, seconds: float) -> None:
        self.schedule()
        if self.outbox.is_empty and not self._client.want_write():
            return
        self._drained = self._loop.create_future()
        await asyncio.wait([self._drained], timeout=seconds)

    def _end(self, error: InorderError | None = None) -> None:
        """Release the socket and the timers, and fail all waiting requests."""
        self._is_open = False
        self._is_ended = True
        self._detach()
        close_socket(self._client)
        for handle in (self._pump_handle, self._tick_handle):
            if handle is not None:
                handle.cancel()
        self._pump_handle = self._tick_handle = None
        reason = error or LinkError(f"the connection to broker {self._target.address} was closed")
        if not self._connack.done():
            self._connack.set_exception(reason)
            self._connack.exception()  # marks it as seen: its waiter may be gone
        self.subscribing.end(reason)
        self._barriers.end(reason)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # -- paho's callbacks --------------------------------------------------------------------------------------

    def _on_connect(
        self, client: Client, userdata: Any, flags: ConnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        self._handled += 1
        if self._connack.done():
            return
        if code.value >= 0x80:
            self._connack.set_exception(connect_refusal(code, str(self._target.address), self._client_id))
        else:
            self._learn({} if properties is None else vars(properties))
            self._is_open = True
            self._connack.set_result(None)

    def _learn(self, said: dict[str, Any]) -> None:
        """Take over the broker's properties from its CONNACK."""
        limit = said.get("MaximumPacketSize")
        is_v5 = self._target.protocol == 5
        self.capabilities = EnsCapabilities(
            properties=is_v5 and self._target.options.envelope == "auto",
            retain=bool(said.get("RetainAvailable", 1)),
            qos=tuple(range(said.get("MaximumQoS", 2) + 1)),
            max_topic_bytes=MAX_TOPIC_BYTES,
            max_payload_bytes=None if limit is None else max(limit - _PACKET_OVERHEAD, 0),
        )
        self.subscribing.has_identifiers = is_v5 and bool(said.get("SubscriptionIdentifierAvailable", 1))
        if limit is not None:
            self.outbox.max_packet_bytes = limit
        self.outbox.window = min(self._target.options.max_inflight, said.get("ReceiveMaximum", 65_535))
        self.outbox.open(self.capabilities, is_direct=self._plain_socket() is not None)

    def _on_disconnect(
        self, client: Client, userdata: Any, flags: DisconnectFlags, code: ReasonCode, properties: Properties | None
    ) -> None:
        must_report = self._is_open and self._is_established
        error = loss(code, str(self._target.address), said_by_broker=flags.is_disconnect_packet_from_server)
        if must_report:
            self._report_outcomes()
        self._end(error)
        if must_report:
            self._report_lost(error)

    def _on_message(self, client: Client, userdata: Any, message: MQTTMessage) -> None:
        self._handled += 1
        self._barriers.queued += message.qos > 0
        try:
            if self._echo is not None and message.topic == self._echo.topic:
                self._echo.came(bytes(message.payload))
                return
            arrival = self.subscribing.reader.read(message)
        except UnicodeDecodeError:
            self._sink.malformed(f"a topic from broker {self._target.address} is not UTF-8")
            return
        self._arrived(arrival)

    def _on_publish(
        self, client: Client, userdata: Any, mid: int, code: ReasonCode, properties: Properties | None
    ) -> None:
        self._handled += 1
        self.outbox.answered(mid, code)

    def _ping(self, answered: Answered) -> None:
        def handled(is_open: bool) -> None:
            self._handled += 1
            answered(is_open)

        self._client.ping(handled)

    def _on_refused(self, mid: int, reason: str) -> None:
        self._handled += 1
        self.outbox.refused(mid, reason)

    def _on_answer(
        self, client: Client, userdata: Any, mid: int, codes: list[ReasonCode], properties: Properties | None
    ) -> None:
        self._handled += 1
        self.subscribing.answered(mid, codes)
