"""Redis as an ENS whose I/O is redis-py's."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import replace

from inorder.client.client import Client
from inorder.client.configured import ClientConfiguration
from inorder.client.embedded import EmbeddedEns
from inorder.ports import EnsCapabilities, Outgoing
from inorder.protocol.filters import MAX_TOPIC_BYTES, redis_filter
from inorder.protocol.names import Filter
from inorder_adapters.payload_form import wire_payload
from inorder_adapters.redis.publishing import MAX_VALUE_BYTES, check_channel
from inorder_adapters.stamp_property import Properties, check_no_properties

SPACE = "redis"
MAX_OWN_ID = 119
"""Characters of a configured client id that are kept in those made from it."""


def engine_of(configuration: ClientConfiguration, ens: EmbeddedEns) -> Client:
    """Return an unopened client for one ``PubSub`` or one publisher. An application has several, and the workers know
    one of each id: so each has an id of its own, which begins with the one that is configured. Raises InvalidOption."""
    if configuration.client_id is None:
        return configuration.client(ens)
    client_id = f"{configuration.client_id[:MAX_OWN_ID]}-{secrets.token_hex(4)}"
    return replace(configuration, client_id=client_id).client(ens)


class Payload(bytes):
    """A payload that waits for its stamp; ``on_stamped`` is called with the token and the bytes to publish."""

    on_stamped: Callable[[int, bytes], None]


PONG = b"inorder-barrier-"
"""What the answers to pings of barriers begin with."""


class RedisPyEns(EmbeddedEns):
    """An always connected ENS, as redis-py connects on demand; the caller reports what becomes of a message.

    Subscriptions are the library's, and made before the client is told of them.
    """

    def __init__(self, address: str) -> None:
        capabilities = EnsCapabilities(
            properties=False,
            retain=False,
            qos=(0,),
            max_topic_bytes=MAX_TOPIC_BYTES,
            max_payload_bytes=MAX_VALUE_BYTES,
        )
        super().__init__(address, SPACE, capabilities)
        self.on_ping_due: Callable[[], None] = lambda: None
        """Called when whoever reads the connection has something to send (:meth:`take_ping`)."""
        self._ping: bytes | None = None
        self._asked = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}

    # -- barriers (R24) ----------------------------------------------------------------------------------------

    async def barrier(self) -> None:
        """Wait until the library has read every message that the server has for its subscriptions now."""
        self._asked += 1
        number, passed = self._asked, asyncio.get_running_loop().create_future()
        self._waiting[number] = passed
        passed.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._ping = PONG + b"%d" % number
        self.on_ping_due()
        await passed

    def take_ping(self) -> bytes | None:
        """Return the text of a PING to send now, or ``None``; for the reading thread (any thread)."""
        ping, self._ping = self._ping, None
        return ping

    def connected_again(self) -> None:
        """Send open pings again after a reconnection, which loses their answers (any thread)."""
        if self._waiting:
            self._ping = PONG + b"%d" % self._asked

    def is_pong(self, response: object) -> bool:
        """Tell whether a response answers such a PING, and note the answer."""
        text = response[1] if isinstance(response, list) and len(response) == 2 else response
        if not isinstance(text, bytes) or not text.startswith(PONG):
            return False
        answered = int(text[len(PONG) :]) if text[len(PONG) :].isdigit() else 0
        for number, passed in self._waiting.items():
            if number <= answered and not passed.done():
                passed.set_result(None)
        return True

    def flush(self) -> None:
        """Pass all reports on at once; on the event loop's thread."""
        self._take_reports()

    async def subscribe(self, filter: Filter, *, qos: int = 0) -> None:
        """See :class:`~inorder.ports.Ens`."""

    async def unsubscribe(self, filter: Filter) -> None:
        """See :class:`~inorder.ports.Ens`."""

    def publish(self, message: Outgoing, token: int) -> None:
        """See :class:`~inorder.ports.Ens`."""
        payload = message.payload
        assert isinstance(payload, Payload)
        payload.on_stamped(token, wire_payload(message.stamp, payload, retain=False))

    def parse_filter(self, text: object) -> Filter:
        """See :class:`~inorder.ports.Ens`."""
        return redis_filter(text)

    def check_topic(self, topic: object) -> str:
        """See :class:`~inorder.ports.Ens`."""
        return check_channel(topic)

    def encode_payload(self, payload: object) -> bytes:
        """See :class:`~inorder.ports.Ens`; the library's encoder has already encoded the payload."""
        assert isinstance(payload, Payload)
        return payload

    def check_properties(self, properties: Properties) -> Properties:
        """See :class:`~inorder.ports.Ens`."""
        return check_no_properties(properties)
