"""The publishes of one connection, from the call to the server's reply."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from redis.asyncio.connection import Connection
from redis.exceptions import ResponseError

from inorder.errors import InorderError, InvalidTopic, PayloadTooLarge
from inorder.ports import EnsSink, Outgoing
from inorder.protocol.filters import text_problem
from inorder_adapters.payload_form import wire_payload
from inorder_adapters.redis.failures import request_refusal
from inorder_adapters.redis.link import Link

MAX_VALUE_BYTES = 512 * 1024 * 1024
"""What Redis takes as one value; over it the server would close the connection, for every repetition again."""


def check_channel(name: object) -> str:
    """Check a channel to publish to; any text will do. Raises InvalidTopic."""
    problem = text_problem(name, nul_allowed=True)
    if problem is not None or not isinstance(name, str):
        raise InvalidTopic(name, problem or "it is not text")
    return name


class Publishing:
    """The connection for publishing. Replies come in the order of the commands."""

    def __init__(
        self, connection: Connection, interval: float, sink: EnsSink, broken: Callable[[Exception], None]
    ) -> None:
        self.link = Link(connection, interval, on_reply=self._replied, on_ping=self._pinged, on_broken=broken)
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._unanswered: deque[int | None] = deque()
        self._accepted: list[int] = []
        self._refused: list[tuple[int, InorderError]] = []
        self._report_handle: asyncio.Handle | None = None
        self._drained: asyncio.Future[None] | None = None

    def put(self, message: Outgoing, token: int) -> None:
        """Send a message with the others of this turn of the loop."""
        payload = wire_payload(message.stamp, message.payload, retain=False)
        if len(payload) > MAX_VALUE_BYTES:
            self._refused.append((token, PayloadTooLarge(len(payload), MAX_VALUE_BYTES)))
            self._schedule_report()
            return
        channel = message.topic.encode()
        self._unanswered.append(token)
        self.link.send(
            b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(channel), channel, len(payload), payload)
        )

    async def drain(self, seconds: float) -> None:
        """Wait until every publish has its reply, for at most ``timeout`` seconds."""
        if self._unanswered:
            self._drained = self._loop.create_future()
            await asyncio.wait([self._drained], timeout=seconds)
        self.report()

    def stop(self) -> None:
        """Stop and forget the publishes without an outcome."""
        self.link.stop()
        if self._report_handle is not None:
            self._report_handle.cancel()
        self._drain_done()

    def report(self) -> None:
        """Report the new outcomes to the sink."""
        self._report_handle = None
        accepted, refused = self._accepted, self._refused
        self._accepted, self._refused = [], []
        if accepted:
            self._sink.accepted(accepted)
        for token, error in refused:
            self._sink.refused(token, error)

    def _pinged(self) -> None:
        self._unanswered.append(None)

    def _replied(self, reply: Any) -> None:
        token = self._unanswered.popleft()
        if token is not None:
            if isinstance(reply, ResponseError):
                self._refused.append((token, request_refusal("the publish", reply)))
            else:
                self._accepted.append(token)
            self._schedule_report()
        if not self._unanswered:
            self._drain_done()

    def _schedule_report(self) -> None:
        """Report in the next turn of the loop, so that replies already received make one batch."""
        if self._report_handle is None:
            self._report_handle = self._loop.call_soon(self.report)

    def _drain_done(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
