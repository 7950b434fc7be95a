"""Programs that do not just ask a ``PubSub`` for messages: they look at its connection, and wait for its socket."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis as stock
from tests.redis_py.helpers import PATIENCE, data, held, take

import inorder.redis as redis
from inorder.client.clock import ReadingTime
from inorder.client.configured import ClientConfiguration
from inorder.redis import _thread
from inorder.testing.ens_recorder import unique
from inorder.testing.services import RedisServer


@pytest.fixture
def client(redis_server: RedisServer, inorder_: ClientConfiguration) -> Iterator[redis.Redis]:
    with redis.Redis(port=redis_server.port, inorder=inorder_) as client:
        yield client


def wait_for(pubsub: Any) -> None:
    """Wait for the socket, as programs do that have others to wait for, too."""
    poller = select.poll()
    poller.register(pubsub.connection._sock, select.POLLIN)
    assert poller.poll(PATIENCE * 1000), "the socket stays quiet"


def drained(pubsub: Any, count: int) -> list[Any]:
    """Read as celery waits for results: it looks at the connection, then at the socket, and only then asks."""
    seen: list[Any] = []
    while len(seen) < count:
        if not pubsub.connection.can_read(timeout=0):
            wait_for(pubsub)
        message = pubsub.get_message(timeout=0)
        if message is not None:
            seen.append(message)
    return seen


def received(pubsub: Any, count: int) -> list[Any]:
    """Read as kombu does: when the socket can be read it takes a response without a timeout, then all that there is."""
    seen: list[Any] = []
    while len(seen) < count:
        wait_for(pubsub)
        responses = [pubsub.parse_response()]
        while pubsub.connection.can_read(timeout=0):
            responses.append(pubsub.parse_response())
        seen += [each[-1] for each in responses if each is not None and each[0].endswith(b"message")]
    return seen


def test_what_was_read_ahead_is_visible(client: redis.Redis) -> None:
    """While it subscribes to another channel, or reads another message of a batch."""
    one, two = unique("one"), unique("two")

    def publish(*pairs: tuple[str, str]) -> None:
        with client.pipeline() as pipeline:
            for each in pairs:
                pipeline.publish(*each)
            pipeline.execute()

    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(one)
        publish((one, "1"), (one, "2"))
        pubsub.subscribe(two)
        assert data(drained(pubsub, 2)) == [b"1", b"2"]
        publish((two, "3"), (one, "4"))
        assert received(pubsub, 2) == [b"3", b"4"]
        assert not pubsub.connection.can_read(timeout=0)


@pytest.mark.parametrize("read", [drained, received])
def test_a_message_that_is_held_back_is_visible_when_its_turn_comes(
    client: redis.Redis, redis_server: RedisServer, inorder_: ClientConfiguration, read: Any
) -> None:
    """Until then nobody who looks is kept; then the socket can be read, though nothing came over it."""
    one, two = unique("c"), unique("c")
    with (
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
        client.pubsub() as second,  # else nobody shares the two channels, which have no order then
        redis.Redis(port=redis_server.port, inorder=inorder_) as other,
    ):
        pubsub.subscribe(one, two)
        second.subscribe(one, two)
        while pubsub.connection.can_read(timeout=0):
            pubsub.get_message()
        refused = stock.ResponseError("NOPERM")

        def refuse(*args: Any, **options: Any) -> Any:
            raise refused

        other._send_command_parse_response = refuse
        with held(other, one, "never") as late:
            client.publish(two, "after")
            wait_for(pubsub)
            assert not pubsub.connection.can_read(timeout=0)
            reader = threading.Thread(target=lambda: seen.extend(read(pubsub, 1)))
            seen: list[Any] = []
            reader.start()
            late.go()
        reader.join(PATIENCE)
        assert [each if isinstance(each, bytes) else each["data"] for each in seen] == [b"after"]


def test_time_goes_on_for_who_waits_for_a_quiet_socket(
    client: redis.Redis, redis_server: RedisServer, inorder_: ClientConfiguration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits does not read, and what is not read cannot be missing; but it would wait for ever."""
    one, logged = unique("c"), unique("two")
    monkeypatch.setattr(ReadingTime, "PATIENCE", 0.1)
    monkeypatch.setattr(_thread, "NUDGE", 0.05)
    with (
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
        client.pubsub() as second,
        redis.Redis(port=redis_server.port, inorder=inorder_) as other,
    ):
        pubsub.subscribe(one, logged)
        second.subscribe(one, logged)
        other._send_command_parse_response = lambda *args, **options: 1
        other.publish(logged, "from the log")
        client.publish(one, "after")
        assert received(pubsub, 2) == [b"from the log", b"after"]


def test_a_connection_is_the_pools_again(client: redis.Redis) -> None:
    """With its own socket, and with what it can read itself; and one that breaks has another socket afterwards."""
    channel = unique("c")
    pubsub = client.pubsub(ignore_subscribe_messages=True)
    pubsub.subscribe(channel)
    connection: Any = pubsub.connection
    first = connection._sock
    connection.disconnect()
    client.publish(channel, "lost")
    assert pubsub.get_message(timeout=0) is None
    assert connection._sock is not first
    assert first.fileno() == -1
    pubsub.close()
    assert "can_read" not in vars(connection)
    assert client.ping()
    again = client.pubsub(ignore_subscribe_messages=True)
    again.subscribe(channel)
    client.publish(channel, "1")
    assert data(take(again, 1)) == [b"1"]
    again.close()


def test_waiting_without_an_end_is_for_a_message(
    client: redis.Redis, redis_server: RedisServer, inorder_: ClientConfiguration
) -> None:
    """``get_message(timeout=None)`` returns none for what is only read meanwhile."""
    one, two = unique("c"), unique("c")
    with client.pubsub() as pubsub, client.pubsub() as second:
        pubsub.subscribe(one, two)
        second.subscribe(one, two)
        assert [pubsub.get_message(timeout=None)["type"] for _ in range(2)] == ["subscribe"] * 2
        with redis.Redis(port=redis_server.port, inorder=inorder_) as other, held(other, one, "1") as late:
            client.publish(two, "2")
            timer = threading.Timer(0.1, late.go)
            timer.start()
            assert data([pubsub.get_message(timeout=None) for _ in range(2)]) == [b"1", b"2"]
            timer.join()
