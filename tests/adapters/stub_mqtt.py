"""An MQTT broker that answers as a test tells it to, for what real brokers do too rarely."""

from __future__ import annotations

import asyncio
import struct

from tests.loopback import LoopbackServer


def length(value: int) -> bytes:
    """Encode a variable byte integer."""
    encoded = bytearray()
    while True:
        value, digit = divmod(value, 128)
        encoded.append(digit | (128 if value else 0))
        if not value:
            return bytes(encoded)


def packet(head: int, body: bytes) -> bytes:
    """Put a fixed header in front of a body."""
    return bytes([head]) + length(len(body)) + body


def publish_packet(topic: bytes, payload: bytes, properties: bytes = b"") -> bytes:
    """Return a PUBLISH of QoS 0, MQTT 5."""
    return packet(0x30, struct.pack("!H", len(topic)) + topic + length(len(properties)) + properties + payload)


class StubBroker(LoopbackServer):
    """Speaks just enough MQTT 5 (or 3.1.1) on a loopback port.

    Attributes:
        connack_code, connack_properties: the answer to CONNECT; a code of -1 gives none.
        suback_code, puback_code, pubrec_code: the answers to SUBSCRIBE and PUBLISH; -1 gives none.
        is_ponging: PINGREQ is answered.
        received: every packet that came, as (type, flags, body).
    """

    def __init__(self, protocol: int = 5) -> None:
        super().__init__()
        self.protocol = protocol
        self.connack_code = 0
        self.connack_properties = b""
        self.suback_code = 0
        self.puback_code = 0
        self.pubrec_code = 0
        self.is_ponging = True
        self.received: list[tuple[int, int, bytes]] = []
        self._changed = asyncio.Event()

    def count(self, kind: int) -> int:
        """Return how many packets of a type came."""
        return sum(received[0] == kind for received in self.received)

    async def until(self, kind: int, count: int) -> None:
        """Wait for packets of a type."""
        async with asyncio.timeout(30):
            while self.count(kind) < count:
                self._changed.clear()
                await self._changed.wait()

    def send(self, data: bytes) -> None:
        """Send bytes to every client."""
        for writer in self._writers:
            writer.write(data)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readexactly(1))[0]
            size, shift = 0, 0
            while True:
                digit = (await reader.readexactly(1))[0]
                size |= (digit & 127) << shift
                shift += 7
                if digit < 128:
                    break
            body = await reader.readexactly(size)
            self.received.append((head >> 4, head & 15, body))
            self._changed.set()
            writer.write(self._answer(head >> 4, head & 15, body))

    def _answer(self, kind: int, flags: int, body: bytes) -> bytes:
        is_5 = self.protocol == 5
        no_properties = b"\0" if is_5 else b""
        if kind == 1 and self.connack_code >= 0:
            tail = length(len(self.connack_properties)) + self.connack_properties if is_5 else b""
            return packet(0x20, bytes([0, self.connack_code]) + tail)
        if kind == 8 and self.suback_code >= 0:
            return packet(0x90, body[:2] + no_properties + bytes([self.suback_code]))
        if kind == 10:
            return packet(0xB0, body[:2] + (b"\0\0" if is_5 else b""))
        if kind == 12 and self.is_ponging:
            return packet(0xD0, b"")
        if kind == 6:
            return packet(0x70, body[:2] + (b"\x92" if is_5 and self.pubrec_code >= 0x80 else b""))
        if kind == 3 and flags & 6:
            size = struct.unpack("!H", body[:2])[0]
            mid = body[2 + size : 4 + size]
            code = self.puback_code if flags & 6 == 2 else self.pubrec_code
            if code >= 0:
                return packet(0x40 if flags & 6 == 2 else 0x50, mid + (bytes([code]) if code else b""))
        return b""
