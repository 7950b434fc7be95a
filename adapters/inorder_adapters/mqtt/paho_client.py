"""paho-mqtt clients: made from options, connected in a thread of their own, closed by force."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeVar

from paho.mqtt.client import Client, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from inorder_adapters.mqtt.barriers import Pings
from inorder_adapters.mqtt.options import Target
from inorder_adapters.mqtt.properties import make_properties
from inorder_adapters.mqtt.user_properties import UserProperties
from inorder_adapters.payload_form import protect

T = TypeVar("T")


class TlsSocket(ssl.SSLSocket):
    """A socket that a failed handshake closes; paho-mqtt leaves it to the garbage collector."""

    def do_handshake(self, block: bool = False) -> None:
        """Shake hands. Raises OSError."""
        try:
            super().do_handshake(block)
        except BaseException:
            self.close()
            raise


class PahoClient(Pings, UserProperties, Client):
    """paho's client, which also says when the broker refuses a publish, and pings for others.

    paho ignores the reason code of PUBREC, answers PUBREL in any case, and then reports what the broker says to
    that, which is "success" with mosquitto: the publish would count as accepted though nobody got it. And over a
    code that it does not expect in PUBACK or PUBREC (mosquitto's 0x95, packet too large) it closes the connection,
    so the publish would be sent again and again. So refusals are read here, and paho gets the packet without its
    code, which lets it forget the message. There is no public hook for it. If paho renames its methods these
    overrides are never called, and a test fails.

    Attributes:
        on_refused: called with the message id and the broker's reason in words.
    """

    on_refused: Callable[[int, str], None] | None = None

    @property
    def is_between_packets(self) -> bool:
        """No packet is half read, so that the next byte of the socket begins one."""
        return bool(self._in_packet["command"] == 0)

    def _handle_pubackcomp(self, cmd: Literal["PUBACK", "PUBCOMP"]) -> MQTTErrorCode:
        if cmd == "PUBACK":
            self._take_refusal()
        return super()._handle_pubackcomp(cmd)

    def _handle_pubrec(self) -> MQTTErrorCode:
        self._take_refusal()
        return super()._handle_pubrec()

    def _take_refusal(self) -> None:
        packet = self._in_packet["packet"]
        if len(packet) > 2 and packet[2] >= 0x80 and self.on_refused is not None:
            self.on_refused(int.from_bytes(packet[:2], "big"), reason_in_words(packet[2]))
            self._in_packet["packet"] = packet[:2]


def reason_in_words(code: int) -> str:
    """Return the meaning of a reason code of PUBACK, PUBREC or, for codes that belong elsewhere, DISCONNECT."""
    for packet_type in (PacketTypes.PUBACK, PacketTypes.DISCONNECT):
        with suppress(KeyError, ValueError):
            return str(ReasonCode(packet_type, identifier=code))
    return f"reason code 0x{code:02X}"


def make_client(target: Target, client_id: str) -> PahoClient:
    """Make a client without paho's own reconnection and queue."""
    options = target.options
    client = PahoClient(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        clean_session=None if target.protocol == 5 else options.clean_start,
        protocol=MQTTv5 if target.protocol == 5 else MQTTv311,
        reconnect_on_failure=False,
    )
    client.connect_timeout = options.connect_timeout
    client.max_inflight_messages_set(0)
    if options.username is not None or options.password is not None:
        client.username_pw_set(options.username, options.password)
    if target.tls is not None:
        target.tls.sslsocket_class = TlsSocket
        client.tls_set_context(target.tls)
    if options.will_topic is not None:
        client.will_set(
            options.will_topic, protect(options.will_payload.encode()), options.will_qos, options.will_retain
        )
    return client


async def connect_socket(client: Client, target: Target) -> None:
    """Connect, with name, TCP and TLS, and send CONNECT. Raises OSError.

    paho does this in one blocking call; its thread is a daemon, so that a name server that does not answer holds
    nobody up. A connection that comes too late is closed at once.
    """
    options, address = target.options, target.address
    abandoned = threading.Event()

    def connect() -> None:
        if target.protocol == 5:
            client.connect(
                address.host,
                address.port,
                options.keepalive,
                clean_start=options.clean_start,
                properties=make_properties(
                    PacketTypes.CONNECT,
                    SessionExpiryInterval=options.session_expiry,
                    ReceiveMaximum=options.receive_maximum,
                    MaximumPacketSize=options.max_packet_size,
                ),
            )
        else:
            client.connect(address.host, address.port, options.keepalive)
        if abandoned.is_set():
            close_socket(client)

    try:
        await _in_thread(connect)
    except BaseException:
        abandoned.set()
        close_socket(client)
        raise
    connected = client.socket()
    if connected is None:
        raise ConnectionResetError("the connection was closed at once")
    if isinstance(connected, socket.socket):
        # Small publishes must not wait for the acknowledgement of the one before (Nagle's algorithm).
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def close_socket(client: Client) -> None:
    """Close a client's socket without a word to the broker."""
    connected = client.socket()
    if connected is not None:
        with suppress(OSError):
            connected.close()


async def _in_thread(call: Callable[[], T]) -> T:
    """Run a blocking call in a daemon thread, which neither the loop's end nor the process's end waits for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = call()
        except BaseException as caught:  # raised again in the awaiting task
            error = caught
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(finish, result, error)

    threading.Thread(target=run, name="inorder-mqtt-connect", daemon=True).start()
    return await future
