"""The subscriptions of one connection, and the messages that arrive on it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from redis.asyncio.connection import Connection
from redis.exceptions import ResponseError

from inorder.errors import LinkError, TimedOut
from inorder.patience import Patience
from inorder.ports import Arrival, EnsSink
from inorder.protocol.names import Filter, FilterKind
from inorder_adapters.payload_form import split
from inorder_adapters.redis.failures import request_refusal
from inorder_adapters.redis.link import PING, Link, pack

logger = logging.getLogger(__name__)

_Answer = asyncio.Future[ResponseError | None]


class Subscribing:
    """The connection for subscriptions. Apart from messages, replies come in the order of the commands.

    A channel stays subscribed to while one filter's text stands for it; several may (``a`` and ``\\a``).
    """

    def __init__(
        self,
        connection: Connection,
        interval: float,
        ack_timeout: float,
        sink: EnsSink,
        broken: Callable[[Exception], None],
    ) -> None:
        self.link = Link(connection, interval, on_reply=self._replied, on_ping=self._pinged, on_broken=broken)
        self._ack_timeout = ack_timeout
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._channels: dict[bytes, tuple[str, ...]] = {}
        self._patterns: dict[bytes, tuple[str, ...]] = {}
        self._unanswered: deque[_Answer | None] = deque()

    async def subscribe(self, wanted: Filter) -> None:
        """Subscribe and wait for the server's confirmation. Raises Refused, LinkError."""
        command, texts, name = self._place(wanted, b"SUBSCRIBE")
        before = texts.get(name, ())
        if wanted.text not in before:
            texts[name] = (*before, wanted.text)
        what = f"the subscription to {wanted.text!r}"
        error = await self._answer(command, name, what)
        if error is not None:
            self._forget(texts, name, wanted.text)
            raise request_refusal(what, error) from None

    async def unsubscribe(self, wanted: Filter) -> None:
        """Unsubscribe and wait for the server's confirmation. Raises Refused, LinkError."""
        command, texts, name = self._place(wanted, b"UNSUBSCRIBE")
        if any(text != wanted.text for text in texts.get(name, ())):
            self._forget(texts, name, wanted.text)
            return
        what = f"the end of the subscription to {wanted.text!r}"
        error = await self._answer(command, name, what)
        if error is not None:
            raise request_refusal(what, error) from None
        self._forget(texts, name, wanted.text)

    async def barrier(self) -> None:
        """Wait for the reply to a PING, which follows all messages that the server had before. Raises LinkError."""
        future: _Answer = self._loop.create_future()
        self._unanswered.append(future)
        self.link.send(PING)
        await future

    def stop(self, error: LinkError) -> None:
        """Stop and fail the waiting requests with the error."""
        self.link.stop()
        unanswered, self._unanswered = self._unanswered, deque()
        for future in unanswered:
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()  # marks it as seen: its waiter may be gone

    def _place(self, wanted: Filter, command: bytes) -> tuple[bytes, dict[bytes, tuple[str, ...]], bytes]:
        if wanted.kind is FilterKind.EXACT:
            return command, self._channels, wanted.name.encode()
        return b"P" + command, self._patterns, wanted.text.encode()

    @staticmethod
    def _forget(texts: dict[bytes, tuple[str, ...]], name: bytes, text: str) -> None:
        left = tuple(other for other in texts.get(name, ()) if other != text)
        if left:
            texts[name] = left
        else:
            texts.pop(name, None)

    async def _answer(self, command: bytes, name: bytes, what: str) -> ResponseError | None:
        future: _Answer = self._loop.create_future()
        self._unanswered.append(future)
        self.link.send(pack(command, name))
        try:
            async with Patience(self._ack_timeout):
                return await future
        except TimeoutError:
            raise TimedOut(what, self._ack_timeout) from None

    def _pinged(self) -> None:
        self._unanswered.append(None)

    def _replied(self, reply: Any) -> None:
        if type(reply) is list:
            kind = reply[0]
            if kind == b"message":
                self._arrived(reply[1], reply[2], self._channels.get(reply[1], ()))
                return
            if kind == b"pmessage":
                self._arrived(reply[2], reply[3], self._patterns.get(reply[1], ()))
                return
        # A confirmation, a pong or an error: each answers the oldest command.
        future = self._unanswered.popleft() if self._unanswered else None
        if future is not None and not future.done():
            future.set_result(reply if isinstance(reply, ResponseError) else None)

    def _arrived(self, channel: bytes, raw: bytes, via: tuple[str, ...]) -> None:
        try:
            topic = channel.decode()
        except UnicodeDecodeError:
            self._sink.malformed("a channel's name is not UTF-8")
            return
        stamp, payload = split(raw)
        try:
            self._sink.arrived(Arrival(topic, payload, stamp, via=via))
        except Exception:
            # It must not end the task that reads.
            logger.exception("the owner of a Redis connection failed on an arrival")
