"""The publishes of one connection, from the call to the broker's answer.

paho-mqtt starts at most a window of QoS 1 and 2 publishes but lets QoS 0 overtake those that wait. Here nothing
overtakes: messages are handed to paho in the order of the calls, and those that find the window full wait here,
with everything behind them. So paho's own queue stays empty and its ``max_inflight`` is switched off.
"""

from __future__ import annotations

import socket
from collections import deque

from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.reasoncodes import ReasonCode

from inorder.errors import InorderError, PayloadTooLarge, Refused
from inorder.ports import EnsCapabilities, Outgoing
from inorder_adapters.mqtt.failures import request_refusal
from inorder_adapters.mqtt.packets import publish_packet
from inorder_adapters.mqtt.properties import (
    NO_PROPERTIES,
    PublishProperties,
    pack_properties,
)
from inorder_adapters.payload_form import protect, wire_payload
from inorder_adapters.stamp_property import MAX_PROPERTY_BYTES, check_properties

_WRITE_BYTES = 65_536
_MAX_REMAINING = 268_435_455
_FIXED_HEADER = 5


class DirectWrites:
    """Whole packets that wait for the socket, and the tokens of those written."""

    def __init__(self) -> None:
        self._packets: deque[tuple[bytes, int]] = deque()
        self._begun = 0
        self._written: list[int] = []

    @property
    def is_waiting(self) -> bool:
        """Tell whether some bytes have not left yet."""
        return bool(self._packets)

    def put(self, packet: bytes, token: int) -> None:
        """Add a packet."""
        self._packets.append((packet, token))

    def write(self, connected: socket.socket) -> None:
        """Write until everything has left or the socket takes no more. Raises OSError."""
        packets = self._packets
        while packets:
            try:
                sent = self._begun + connected.send(memoryview(self._batch())[self._begun :])
            except BlockingIOError:
                return
            while packets and sent >= len(packets[0][0]):
                packet, token = packets.popleft()
                sent -= len(packet)
                self._written.append(token)
            self._begun = sent

    def _batch(self) -> bytes:
        batch, size = [], 0
        for packet, _ in self._packets:
            batch.append(packet)
            size += len(packet)
            if size >= _WRITE_BYTES:
                break
        return b"".join(batch)

    def written(self) -> list[int]:
        """Return, and forget, the tokens of the packets that have left since the last call."""
        written, self._written = self._written, []
        return written


class Outbox:
    """The publishes of one connection.

    Attributes:
        window: QoS 1 and 2 publishes that may be without an answer.
        max_packet_bytes: the broker's limit for a whole packet.
        is_blocked: the socket takes no more for now, so nothing more is handed to paho.
        direct: what goes to the socket without paho: QoS 0, while paho has nothing to write itself.
    """

    def __init__(self, client: Client, protocol: int, window: int) -> None:
        self.window = window
        self.max_packet_bytes = _MAX_REMAINING + _FIXED_HEADER
        self.is_blocked = False
        self.direct = DirectWrites()
        self._client = client
        self._has_properties = protocol == 5
        self._is_direct = False
        self._capabilities: EnsCapabilities | None = None
        self._queue: deque[tuple[Outgoing, int]] = deque()
        self._unwritten: deque[tuple[MQTTMessageInfo, int]] = deque()
        self._inflight: dict[int, int] = {}
        self._accepted: list[int] = []
        self._refused: list[tuple[int, InorderError]] = []

    @property
    def is_empty(self) -> bool:
        """Tell whether every publish has an outcome."""
        return not (self._queue or self._unwritten or self._inflight or self.direct.is_waiting)

    def open(self, capabilities: EnsCapabilities, *, is_direct: bool) -> None:
        """Take the broker's limits, and whether its socket may be written without paho."""
        self._capabilities, self._is_direct = capabilities, is_direct

    def put(self, message: Outgoing, token: int) -> None:
        """Add a message."""
        self._queue.append((message, token))

    def fill(self) -> None:
        """Hand as many messages to paho as the window and the socket allow."""
        queue, capabilities = self._queue, self._capabilities
        if capabilities is None:
            return
        max_qos = capabilities.qos[-1]
        while queue and not self.is_blocked:
            message, token = queue[0]
            qos = min(message.qos, max_qos)
            if qos and len(self._inflight) >= self.window:
                return
            queue.popleft()
            try:
                self._hand_over(message, token, qos, capabilities)
            except InorderError as error:
                self._refused.append((token, error))

    def answered(self, mid: int, code: ReasonCode) -> None:
        """Note that the broker has answered a QoS 1 or 2 publish."""
        token = self._inflight.pop(mid, None)
        if token is None:
            return
        if code.value >= 0x80:
            self._refused.append((token, request_refusal("the publish", str(code))))
        else:
            self._accepted.append(token)

    def refused(self, mid: int, reason: str) -> None:
        """Note that the broker has refused a QoS 1 or 2 publish."""
        token = self._inflight.pop(mid, None)
        if token is not None:
            self._refused.append((token, request_refusal("the publish", reason)))

    def outcomes(self) -> tuple[list[int], list[tuple[int, InorderError]]]:
        """Return, and forget, the tokens accepted and those refused since the last call."""
        unwritten, accepted, refused = self._unwritten, self._accepted, self._refused
        while unwritten and unwritten[0][0].is_published():
            accepted.append(unwritten.popleft()[1])
        accepted += self.direct.written()
        self._accepted, self._refused = [], []
        return accepted, refused

    def _hand_over(self, message: Outgoing, token: int, qos: int, capabilities: EnsCapabilities) -> None:
        """Hand one message to paho. Raises InorderError where it was not handed over."""
        retain = message.retain and capabilities.retain
        payload, properties = self._on_the_wire(message, capabilities, retain)
        self._check_size(message.topic, payload, properties)
        if not qos and self._is_direct and not self._client.want_write():
            self.direct.put(publish_packet(message.topic.encode(), payload, retain, self._packed(properties)), token)
            return
        for _ in range(len(self._inflight) + 1):
            try:
                info = self._client.publish(message.topic, payload, qos, retain, properties)
            except (ValueError, TypeError) as error:
                raise Refused(f"the publish was refused by paho-mqtt: {error}") from None
            if info.rc != MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
                break
            # paho's next message id is still taken by a publish in flight; the one after it may be free.
        if info.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE:
            raise Refused("the publish was refused by paho-mqtt: no message id is free")
        if info.rc == MQTTErrorCode.MQTT_ERR_NO_CONN:
            # The loss is being reported, and with it this message's fate.
            return
        if qos:
            self._inflight[info.mid] = token
        else:
            self._unwritten.append((info, token))

    def _packed(self, properties: PublishProperties | None) -> bytes:
        if not self._has_properties:
            return b""
        return NO_PROPERTIES if properties is None else properties.pack()

    def _on_the_wire(
        self, message: Outgoing, capabilities: EnsCapabilities, retain: bool
    ) -> tuple[bytes, PublishProperties | None]:
        """Return payload and properties with the stamp. Raises InvalidOption for properties that cannot be sent."""
        stamp = message.stamp
        own = message.properties if self._has_properties else ()
        check_properties(own)
        if stamp is None:
            return protect(message.payload), pack_properties(None, own)
        if capabilities.properties and not message.in_payload and len(stamp) <= MAX_PROPERTY_BYTES:
            return message.payload, pack_properties(stamp, own)
        return wire_payload(stamp, message.payload, retain=retain), pack_properties(None, own)

    def _check_size(self, topic: str, payload: bytes, properties: PublishProperties | None) -> None:
        """Refuse a packet that is larger than the broker's limit, over which the broker would close the connection."""
        overhead = _FIXED_HEADER + 5 + (0 if properties is None else len(properties.pack()))
        if len(payload) + 4 * len(topic) + overhead <= self.max_packet_bytes:
            return
        overhead += len(topic.encode())
        if len(payload) + overhead > self.max_packet_bytes:
            raise PayloadTooLarge(len(payload), max(self.max_packet_bytes - overhead, 0))
