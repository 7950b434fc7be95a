"""Refusals and broken connections are to the application what they are with the library alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis as stock
from tests.redis_py.helpers import PATIENCE, data, take, take_async, until

import inorder.redis as redis
import inorder.redis.asyncio as asyncio_redis
from inorder import errors
from inorder.client.configured import ClientConfiguration
from inorder.sync._thread import THREAD
from inorder.testing.ens_recorder import unique
from inorder.testing.services import RedisServer

REVOKED = errors.Unauthorized("the token was revoked", peer="worker")


@pytest.fixture
def client(redis_server: RedisServer, inorder_: ClientConfiguration) -> Iterator[redis.Redis]:
    with redis.Redis(port=redis_server.port, inorder=inorder_) as client:
        yield client


@pytest.fixture(scope="module")
def user(redis_server: RedisServer) -> str:
    """A user of the server that may subscribe to channels ``open-...`` only."""
    with stock.Redis(port=redis_server.port) as plain:
        plain.acl_setuser("narrow", enabled=True, nopass=True, commands=["+@all"], channels=["open-*"], reset=True)
    return "narrow"


def messages(pubsub: Any, count: int) -> list[Any]:
    """Return payloads as a program reads that goes on after connection errors, which are all that it expects."""
    seen: list[Any] = []

    def look() -> bool:
        try:
            message = pubsub.get_message(ignore_subscribe_messages=True, timeout=0.05)
        except stock.ConnectionError as error:
            seen.append(type(error).__name__)
        else:
            seen.extend([] if message is None else [message["data"]])
        return len(seen) >= count

    until(look)
    return seen


def test_a_channel_that_the_server_refuses(redis_server: RedisServer, inorder_: ClientConfiguration, user: str) -> None:
    """The error is the library's, where it reads, and no later subscription waits for the refused one."""
    forbidden, allowed = unique("closed"), unique("open")
    with (
        redis.Redis(port=redis_server.port, username=user, password="", inorder=inorder_) as client,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
    ):
        subscribed = threading.Thread(target=lambda: (pubsub.subscribe(forbidden), pubsub.subscribe(allowed)))
        subscribed.start()
        subscribed.join(PATIENCE - 10)  # the time for which subscriptions wait here is longer
        assert not subscribed.is_alive()
        with pytest.raises(stock.exceptions.NoPermissionError):
            take(pubsub, 1)
        client.publish(allowed, "1")
        assert data(take(pubsub, 1)) == [b"1"]


async def test_a_channel_that_the_server_refuses_in_asyncio(
    redis_server: RedisServer, inorder_: ClientConfiguration, user: str
) -> None:
    forbidden, allowed = unique("closed"), unique("open")
    async with (
        asyncio_redis.Redis(port=redis_server.port, username=user, password="", inorder=inorder_) as client,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
    ):
        await pubsub.subscribe(forbidden)
        await pubsub.subscribe(allowed)
        with pytest.raises(stock.exceptions.NoPermissionError):
            await take_async(pubsub, 1)
        await client.publish(allowed, "1")
        assert data(await take_async(pubsub, 1)) == [b"1"]


def test_a_program_that_survives_connection_errors_survives_a_revoked_token(client: redis.Redis) -> None:
    """It is told once, and goes on when the workers take it in again."""
    channel = unique("c")
    with client.pubsub() as pubsub:
        pubsub.subscribe(channel)
        client.publish(channel, "1")
        assert messages(pubsub, 1) == [b"1"]
        first = pubsub._inner
        assert first is not None
        THREAD.call(first.subscriber._client._fail, REVOKED)
        assert messages(pubsub, 1) == ["Unauthorized"]
        until(lambda: pubsub.get_message(timeout=0.05) is None and pubsub._inner not in (None, first))
        pubsub.subscribe(channel)
        client.publish(channel, "2")
        assert messages(pubsub, 1) == [b"2"]


def test_a_publisher_whose_token_was_revoked(client: redis.Redis) -> None:
    channel = unique("c")
    with client.pubsub() as pubsub:
        pubsub.subscribe(channel)
        client.publish(channel, "1")
        publisher = redis.client._PUBLISHERS.of(client.connection_pool, client._configuration).publisher
        THREAD.call(publisher._client._fail, REVOKED)
        outcomes: list[Any] = []

        def publish() -> bool:
            try:
                outcomes.append(client.publish(channel, "2"))
            except stock.ConnectionError as error:
                outcomes.append(type(error).__name__)
            return bool(outcomes[-1] == 1)

        until(publish)
        assert set(outcomes[:-1]) <= {"Unauthorized"}
        assert messages(pubsub, 2) == [b"1", b"2"]


async def test_a_revoked_token_in_asyncio(redis_server: RedisServer, inorder_: ClientConfiguration) -> None:
    channel = unique("c")
    async with (
        asyncio_redis.Redis(port=redis_server.port, inorder=inorder_) as client,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
    ):
        await pubsub.subscribe(channel)
        await client.publish(channel, "1")
        assert data(await take_async(pubsub, 1)) == [b"1"]
        publisher = await asyncio_redis.client._PUBLISHERS.of(client.connection_pool, client._configuration)
        publisher._client._fail(REVOKED)
        with pytest.raises(stock.AuthenticationError):
            await client.publish(channel, "lost")
        assert pubsub._inner is not None
        pubsub._inner._client._fail(REVOKED)
        with pytest.raises(stock.AuthenticationError):
            await take_async(pubsub, 1)
        while not publisher.is_closed:
            await pubsub.get_message(timeout=0.01)
        await pubsub.subscribe(channel)
        await client.publish(channel, "2")
        assert data(await take_async(pubsub, 1)) == [b"2"]


def test_what_fails_while_it_subscribes_again_is_tried_as_often_as_the_library_is_told(client: redis.Redis) -> None:
    """Not once more for each of the tries, without an end."""
    channel = unique("c")
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(channel)
        connection: Any = pubsub.connection
        connection.retry = stock.retry.Retry(stock.backoff.NoBackoff(), 3)
        tries: list[str] = []
        send = connection.send_command

        def refuse(*args: Any, **kwargs: Any) -> Any:
            if args[0] != "SUBSCRIBE":
                return send(*args, **kwargs)
            tries.append(args[0])
            raise stock.ConnectionError("broken")

        connection.send_command = refuse
        connection.disconnect()
        with pytest.raises(stock.ConnectionError, match="broken"):
            take(pubsub, 1)
        assert 1 <= len(tries) <= 8  # the library connects, and connects anew, for each try
        connection.send_command = send
        until(lambda: pubsub.get_message(timeout=0.05) is None and client.publish(channel, "1") == 1)
        assert data(take(pubsub, 1)) == [b"1"]


def test_threads_take_turns_at_a_connection(client: redis.Redis) -> None:
    """One that subscribes does not write on a connection that another one makes anew."""
    one, two = unique("c"), unique("c")
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(one)
        connection: Any = pubsub.connection
        connect, send = connection.connect, connection.send_command
        is_connecting, has_written = threading.Event(), threading.Event()
        writers: list[int] = []

        def slowly() -> None:
            is_connecting.set()
            has_written.wait(0.2)  # nobody does; else the writer is found below
            connect()
            connection.connect = connect

        def written(*args: Any, **kwargs: Any) -> Any:
            writers.append(threading.get_ident())
            if threading.current_thread() is writer:
                assert connection.connect is connect, "it has written meanwhile"
                has_written.set()
            return send(*args, **kwargs)

        def subscribe() -> None:
            assert is_connecting.wait(PATIENCE)
            pubsub.subscribe(two)

        writer = threading.Thread(target=subscribe)
        connection.connect, connection.send_command = slowly, written
        connection.disconnect()
        writer.start()
        until(lambda: pubsub.get_message(timeout=0.05) is None and not writer.is_alive())
        assert has_written.is_set()
        connection.send_command = send
        client.publish(two, "1")
        assert data(take(pubsub, 1)) == [b"1"]
