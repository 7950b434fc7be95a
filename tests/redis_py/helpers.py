"""Reading messages in tests, and disorder on the wire."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis as stock

PATIENCE = 60.0
"""Seconds after which a test that waits for a condition fails."""
Message = dict[str, Any]


def take(pubsub: stock.client.PubSub, count: int) -> list[Message]:
    """Return the next messages of a blocking ``PubSub``, without confirmations."""
    return [_next(pubsub) for _ in range(count)]


def _next(pubsub: stock.client.PubSub) -> Message:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        message: Message | None = pubsub.get_message(ignore_subscribe_messages=True, timeout=0.5)
        if message is not None:
            return message
    raise AssertionError("no message has come")


async def take_async(pubsub: Any, count: int) -> list[Message]:
    """Return the next messages of an asyncio ``PubSub``, without confirmations."""
    messages: list[Message] = []
    deadline = time.monotonic() + PATIENCE
    while len(messages) < count:
        assert time.monotonic() < deadline, "no message has come"
        message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=0.5)
        if message is not None:
            messages.append(message)
    return messages


def data(messages: list[Message]) -> list[Any]:
    return [each["data"] for each in messages]


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that another thread makes true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.005)


class Held:
    """A publish of another thread that has its timestamp, and is not at the server yet."""

    def __init__(self, client: stock.Redis, channel: str, payload: object) -> None:
        self._may_go, self.has_stamp = threading.Event(), threading.Event()
        self.reply: Any = None
        self.error: Exception | None = None
        original = client._send_command_parse_response

        def late(*args: Any, **options: Any) -> Any:
            if args[1] == "PUBLISH":
                self.has_stamp.set()
                assert self._may_go.wait(PATIENCE)
            return original(*args, **options)

        client._send_command_parse_response = late  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._publish, args=(client, channel, payload))
        self._thread.start()
        assert self.has_stamp.wait(PATIENCE)

    def _publish(self, client: stock.Redis, channel: str, payload: Any) -> None:
        try:
            self.reply = client.publish(channel, payload)
        except stock.RedisError as error:
            self.error = error

    def go(self) -> None:
        """Let it get to the server, and wait for its reply."""
        self._may_go.set()
        self._thread.join(PATIENCE)


@contextmanager
def held(client: stock.Redis, channel: str, payload: object) -> Iterator[Held]:
    """Hold a publish back between its timestamp and the server, until it is told to go or the block ends."""
    publish = Held(client, channel, payload)
    try:
        yield publish
    finally:
        publish.go()
