"""A minimal MQTT 3.1.1 client, enough to see whether a broker, or a bridge, works. Not a client for anything else."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from types import TracebackType
from typing import Self

from inorder.testing.services.server import HOST

_CONNACK, _PUBLISH, _SUBACK, _PINGRESP = 2, 3, 9, 13


class MqttProbe:
    """One connection to a broker on loopback; a context manager. All errors are OSError (also ValueError for
    an answer that is not MQTT).

    Args:
        port: the broker's.
        credentials: user and password.
        tls: the context to connect with, for a TLS listener.
        timeout: seconds that connecting and each answer may take.
    """

    def __init__(
        self,
        port: int,
        *,
        credentials: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        timeout: float = 2.0,
    ) -> None:
        self._timeout = timeout
        self._received = bytearray()
        plain = socket.create_connection((HOST, port), timeout=timeout)
        try:
            self._socket = tls.wrap_socket(plain, server_hostname="localhost") if tls else plain
            self._connect(credentials)
        except BaseException:
            plain.close()
            if hasattr(self, "_socket"):
                self._socket.close()
            raise

    def ping(self) -> None:
        """Send PINGREQ and wait for PINGRESP."""
        self._send(0xC0, b"")
        self._await(_PINGRESP, time.monotonic() + self._timeout)

    def subscribe(self, topic: str) -> None:
        """Subscribe with QoS 0 and wait for the broker's acknowledgement."""
        self._send(0x82, struct.pack("!H", 1) + _text(topic) + b"\0")
        answer = self._await(_SUBACK, time.monotonic() + self._timeout)
        if answer[2:] != b"\0":
            raise ConnectionRefusedError(f"the broker refused a subscription: {answer[2:].hex()}")

    def publish(self, topic: str, payload: bytes) -> None:
        """Publish with QoS 0."""
        self._send(0x30, _text(topic) + payload)

    def receive(self, timeout: float) -> tuple[str, bytes]:
        """Return topic and payload of the next message (QoS 0). Raises TimeoutError (seconds)."""
        body = self._await(_PUBLISH, time.monotonic() + timeout)
        (length,) = struct.unpack_from("!H", body)
        return body[2 : 2 + length].decode(), bytes(body[2 + length :])

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self, credentials: tuple[str, str] | None) -> None:
        flags = 0x02 | (0xC0 if credentials else 0)  # clean session, user name and password
        body = _text("MQTT") + bytes([4, flags]) + struct.pack("!H", 60) + _text("")
        self._send(0x10, body + b"".join(map(_text, credentials or ())))
        answer = self._await(_CONNACK, time.monotonic() + self._timeout)
        if answer[1:] != b"\0":
            raise ConnectionRefusedError(f"the broker refused the connection: {answer[1:].hex()}")

    def _send(self, head: int, body: bytes) -> None:
        self._socket.settimeout(self._timeout)
        self._socket.sendall(bytes([head]) + _length(len(body)) + body)

    def _await(self, wanted: int, deadline: float) -> bytes:
        """Return the body of the next packet of this type, and drop others before."""
        while True:
            packet = self._take_packet()
            if packet is not None:
                kind, body = packet
                if kind == wanted:
                    return body
                continue
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("the broker did not answer in time")
            self._socket.settimeout(left)
            data = self._socket.recv(65_536)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            self._received += data

    def _take_packet(self) -> tuple[int, bytes] | None:
        """Return type and body of the first whole packet received, if there is one."""
        length, shift, position = 0, 0, 1
        while True:
            if position >= len(self._received):
                return None
            byte = self._received[position]
            length |= (byte & 0x7F) << shift
            position, shift = position + 1, shift + 7
            if byte < 0x80:
                break
            if shift > 21:
                raise ValueError("the answer is not MQTT")
        if len(self._received) < position + length:
            return None
        kind, body = self._received[0] >> 4, bytes(self._received[position : position + length])
        del self._received[: position + length]
        return kind, body


def _text(text: str) -> bytes:
    return struct.pack("!H", len(text.encode())) + text.encode()


def _length(number: int) -> bytes:
    """Encode a remaining length (MQTT 3.1.1, section 2.2.3)."""
    encoded = bytearray()
    while True:
        number, digit = divmod(number, 128)
        encoded.append(digit | (0x80 if number else 0))
        if not number:
            return bytes(encoded)
