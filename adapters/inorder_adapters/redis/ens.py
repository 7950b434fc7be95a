"""A Redis server's pub/sub as an ENS."""

from __future__ import annotations

import asyncio

from inorder.errors import (
    BrokerUnreachable,
    Closed,
    InorderError,
    InvalidPayload,
    LinkError,
    UsageError,
)
from inorder.patience import Patience
from inorder.ports import EnsCapabilities, EnsSink, Outgoing
from inorder.protocol.filters import MAX_TOPIC_BYTES, redis_filter
from inorder.protocol.names import Filter
from inorder_adapters.redis.failures import loss, map_exceptions
from inorder_adapters.redis.link import log_in, make_connection
from inorder_adapters.redis.options import Target
from inorder_adapters.redis.publishing import MAX_VALUE_BYTES, Publishing, check_channel
from inorder_adapters.redis.subscribing import Subscribing
from inorder_adapters.stamp_property import Properties, check_no_properties

_ALLOWED_PAYLOADS = "bytes, bytearray, memoryview, str, int and float"


class RedisEns:
    """One client of a Redis server: one connection to publish, one for subscriptions."""

    def __init__(self, target: Target, client_id: str) -> None:
        self.address = str(target.address)
        self.space = target.options.space
        self.capabilities = EnsCapabilities(
            properties=False,
            retain=False,
            qos=(0,),
            max_topic_bytes=MAX_TOPIC_BYTES,
            max_payload_bytes=MAX_VALUE_BYTES,
        )
        self._target = target
        self._client_id = client_id
        self._sink: EnsSink | None = None
        self._publishing: Publishing | None = None
        self._subscribing: Subscribing | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._is_opening = False
        self._is_closed = False

    def __repr__(self) -> str:
        state = "connected" if self._publishing else "not connected"
        return f"<RedisEns {self.address} RESP{self._target.options.protocol} {state}>"

    def parse_filter(self, text: object) -> Filter:
        """Read a filter: a glob if it holds an unescaped glob character, else one channel. Raises InvalidFilter."""
        return redis_filter(text)

    def check_topic(self, topic: object) -> str:
        """Check a channel to publish to; any text will do. Raises InvalidTopic."""
        return check_channel(topic)

    def encode_payload(self, payload: object) -> bytes:
        """Encode a payload as redis-py does. Raises InvalidPayload."""
        if isinstance(payload, bytes):
            return payload
        if isinstance(payload, bytearray | memoryview):
            return bytes(payload)
        if isinstance(payload, str):
            try:
                return payload.encode()
            except UnicodeEncodeError:
                raise InvalidPayload(payload, "str without lone surrogates") from None
        if isinstance(payload, int | float) and not isinstance(payload, bool):
            return repr(payload).encode()
        raise InvalidPayload(payload, _ALLOWED_PAYLOADS)

    def check_properties(self, properties: Properties) -> Properties:
        """Check a user's own properties. Raises InvalidOption."""
        return check_no_properties(properties)

    async def connect(self, sink: EnsSink) -> None:
        """Connect to the server, once. Raises BrokerUnreachable, Unauthorized, Closed."""
        if self._is_closed:
            raise Closed(f"the connection to {self.address} is closed")
        if self._publishing is not None or self._is_opening:
            raise UsageError(f"already connected to {self.address}")
        self._sink = sink
        self._is_opening = True
        try:
            await self._open(sink)
        finally:
            self._is_opening = False

    async def subscribe(self, filter: Filter, *, qos: int = 0) -> None:
        """Subscribe and wait for the confirmation. Raises Refused, LinkError."""
        await self._connected().subscribe(filter)

    async def unsubscribe(self, filter: Filter) -> None:
        """Unsubscribe and wait for the confirmation. Raises Refused, LinkError."""
        await self._connected().unsubscribe(filter)

    async def barrier(self) -> None:
        """Wait until everything is read that the server has for the subscriptions now. Raises LinkError."""
        await self._connected().barrier()

    def publish(self, message: Outgoing, token: int) -> None:
        """Hand a message over to the server. Raises Closed before the first connect and after close."""
        if self._publishing is not None:
            self._publishing.put(message, token)
            return
        if self._sink is None or self._is_closed:
            raise Closed(f"the connection to {self.address} is not open")
        error = LinkError(f"not connected to server {self.address}")
        asyncio.get_running_loop().call_soon(self._refuse, self._sink, token, error)

    async def close(self) -> None:
        """Disconnect when all publishes have left or ``close_timeout`` has passed."""
        self._is_closed = True
        try:
            if self._publishing is not None:
                await self._publishing.drain(self._target.options.close_timeout)
        finally:
            self._end(LinkError(f"the connection to server {self.address} was closed"))
        if self._ending:
            await asyncio.wait(self._ending)

    async def _open(self, sink: EnsSink) -> None:
        options = self._target.options
        connections = (make_connection(self._target), make_connection(self._target))
        try:
            async with Patience(options.connect_timeout):
                for connection in connections:
                    await log_in(connection, self._client_id)
        except BaseException as error:
            for connection in connections:
                await connection.disconnect(nowait=True)
            if isinstance(error, Exception):
                raise map_exceptions(error, self.address) from None
            raise
        if self._is_closed:
            for connection in connections:
                await connection.disconnect(nowait=True)
            raise BrokerUnreachable(self.address, "the connection was closed meanwhile")
        interval = options.health_check_interval
        self._publishing = Publishing(connections[0], interval, sink, self._broken)
        self._subscribing = Subscribing(connections[1], interval, options.ack_timeout, sink, self._broken)

    def _connected(self) -> Subscribing:
        if self._subscribing is None:
            raise LinkError(f"not connected to server {self.address}")
        return self._subscribing

    def _broken(self, error: Exception) -> None:
        """End both connections after one broke, and report the loss once."""
        publishing = self._publishing
        if publishing is None:
            return
        if not self._is_closed:
            publishing.report()
        reason = loss(error, self.address)
        self._end(reason)
        if self._sink is not None and not self._is_closed:
            self._sink.connection_lost(reason)

    def _end(self, reason: LinkError) -> None:
        publishing, self._publishing = self._publishing, None
        subscribing, self._subscribing = self._subscribing, None
        if publishing is None or subscribing is None:
            return
        publishing.stop()
        subscribing.stop(reason)
        for link in (publishing.link, subscribing.link):
            task = asyncio.create_task(link.stopped(), name="inorder-redis-end")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _refuse(self, sink: EnsSink, token: int, error: InorderError) -> None:
        if not self._is_closed:
            sink.refused(token, error)
