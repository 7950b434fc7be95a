"""An application of redis-py in total order: its messages, their one more key, disorder on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis as stock
from tests.redis_py.helpers import data, held, take, take_async

import inorder.redis as redis
import inorder.redis.asyncio as asyncio_redis
from inorder import Verdict
from inorder.client.configured import ClientConfiguration
from inorder.sync._thread import THREAD
from inorder.testing.ens_recorder import unique
from inorder.testing.services import RedisServer


@pytest.fixture
def client(redis_server: RedisServer, inorder_: ClientConfiguration) -> Iterator[redis.Redis]:
    with redis.Redis(port=redis_server.port, inorder=inorder_) as client:
        yield client


@pytest.fixture
def other(redis_server: RedisServer, inorder_: ClientConfiguration) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_server.url, inorder=inorder_) as client:
        yield client


def test_it_is_the_library_with_one_more_key(client: redis.Redis, redis_server: RedisServer) -> None:
    channel = unique("c").encode()
    assert isinstance(client, stock.Redis)
    with client.pubsub() as pubsub, stock.Redis(port=redis_server.port) as plain:
        assert isinstance(pubsub, stock.client.PubSub)
        pubsub.subscribe(channel)
        reply = client.publish(channel, b"\x00\xff")
        assert (type(reply), reply) == (int, 1)
        assert plain.publish(channel, "unstamped") == 1
        confirmation = pubsub.get_message(timeout=1)
        assert confirmation == {"type": "subscribe", "pattern": None, "channel": channel, "data": 1}
        first, second = take(pubsub, 2)
        assert first.pop("inorder") == redis.Inorder(Verdict.IN_ORDER, 1)
        assert second.pop("inorder") == redis.Inorder(Verdict.UNSEQUENCED)
        assert first == {"type": "message", "pattern": None, "channel": channel, "data": b"\x00\xff"}
        assert second == {"type": "message", "pattern": None, "channel": channel, "data": b"unstamped"}


def test_disorder_on_the_wire(client: redis.Redis, other: redis.Redis, redis_server: RedisServer) -> None:
    """What is stamped first and arrives last comes first, on two subscribers of both channels; the stock library gives
    the order of the wire."""
    one, two = unique("one"), unique("two")
    readers = [client.pubsub(), other.pubsub()]
    with stock.Redis(port=redis_server.port) as plain, plain.pubsub() as bare:
        for each in (*readers, bare):
            each.subscribe(one, two)
        with held(client, one, "first") as late:
            assert other.publish(two, "second") == 3
            for each in readers * 3:  # two confirmations, and then nothing
                assert each.get_message(ignore_subscribe_messages=True, timeout=0.05) is None
            late.go()
            assert late.reply == 3
        assert [data(take(each, 2)) for each in readers] == [[b"first", b"second"]] * 2
        wire = [each["data"].rpartition(b"\n")[2] for each in take(bare, 2)]
        assert wire == [b"second", b"first"]
    for each in readers:
        each.close()


def test_a_message_for_channel_and_patterns_comes_once_for_each(client: redis.Redis, other: redis.Redis) -> None:
    """As from the library, and copies of one message stay together when order is restored."""
    channel = unique("c")
    with client.pubsub() as pubsub:
        pubsub.subscribe(channel)
        pubsub.psubscribe(f"{channel}*", f"*{channel}")
        with held(client, channel, "1") as late:
            other.publish(channel, "2")
            late.go()
        seen = [(each["data"], each["type"], each["pattern"]) for each in take(pubsub, 6)]
        kinds = {("message", None), ("pmessage", f"{channel}*".encode()), ("pmessage", f"*{channel}".encode())}
        assert {each[1:] for each in seen[:3]} == {each[1:] for each in seen[3:]} == kinds
        assert [each[0] for each in seen] == [b"1"] * 3 + [b"2"] * 3


async def test_the_asyncio_twin(client: redis.Redis, redis_server: RedisServer, inorder_: ClientConfiguration) -> None:
    one, two = unique("one"), unique("two")
    async with (
        asyncio_redis.Redis(port=redis_server.port, decode_responses=True, inorder=inorder_) as twin,
        twin.pubsub(ignore_subscribe_messages=True) as pubsub,
        twin.pubsub(ignore_subscribe_messages=True) as another,
    ):
        assert isinstance(twin, stock.asyncio.Redis)
        for each in (pubsub, another):
            assert isinstance(each, stock.asyncio.client.PubSub)
            await each.subscribe(one)
            await each.psubscribe(f"{two}*")
        with held(client, one, "first") as late:
            assert await twin.publish(two, "second") == 2
            for each in (pubsub, another, pubsub, another, pubsub, another):  # confirmations, and then nothing
                assert await each.get_message(timeout=0.05) is None
            late.go()
        for each in (pubsub, another):
            first, second = await take_async(each, 2)
            assert first.pop("inorder").verdict == "in_order"
            assert second.pop("inorder").dependencies == ((one, 1),)
            assert first == {"type": "message", "pattern": None, "channel": one, "data": "first"}
            assert second == {"type": "pmessage", "pattern": f"{two}*", "channel": two, "data": "second"}


def test_pipelines_and_transactions_are_stamped_when_executed(client: redis.Redis) -> None:
    one, two, key = unique("one"), unique("two"), unique("key")
    with client.pubsub() as pubsub:
        pubsub.subscribe(one, two)
        pipeline: Any  # chained commands are their results to type checkers
        for transaction in (True, False):
            with client.pipeline(transaction=transaction) as pipeline:
                assert pipeline.publish(one, "1").set(key, "v").publish(two, "2").execute() == [1, True, 1]
        client.transaction(lambda pipeline: pipeline.publish(one, "3"), key)  # type: ignore[arg-type]
        assert client.execute_command("publish", two, "4") == 1
        seen = take(pubsub, 6)
        assert data(seen) == [b"1", b"2", b"1", b"2", b"3", b"4"]
        assert [each["inorder"].sequence for each in seen] == [1, 1, 2, 2, 3, 3]


def test_listen_and_handlers(client: redis.Redis) -> None:
    channel = unique("c")
    handled: list[Any] = []
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(channel)
        pubsub.psubscribe(**{f"{channel}?": handled.append})
        client.publish(f"{channel}1", "for the handler")
        client.publish(channel, "for listen")
        assert next(pubsub.listen())["data"] == b"for listen"
        assert [(each["data"], each["inorder"].verdict) for each in handled] == [(b"for the handler", "in_order")]


def test_without_workers_it_is_the_library(redis_server: RedisServer) -> None:
    channel = unique("c")
    none = ClientConfiguration(workers=())
    with redis.Redis(port=redis_server.port, inorder=none) as client, client.pubsub() as pubsub:
        pubsub.subscribe(channel)
        assert client.publish(channel, "1") == 1
        assert take(pubsub, 1) == [{"type": "message", "pattern": None, "channel": channel.encode(), "data": b"1"}]


def test_workers_that_are_not_there(redis_server: RedisServer, unused_port: int) -> None:
    """An error that names them, and that is a connection error of the library: nothing is published out of order."""
    nowhere = ClientConfiguration(workers=(f"127.0.0.1:{unused_port}",))
    channel = unique("c")
    with (
        stock.Redis(port=redis_server.port) as plain,
        plain.pubsub() as bare,
        redis.Redis(port=redis_server.port, inorder=nowhere) as client,
        client.pubsub() as pubsub,
    ):
        bare.subscribe(channel)
        for attempt in (lambda: client.publish(channel, "1"), lambda: pubsub.subscribe(channel)):
            with pytest.raises(stock.ConnectionError, match=f"no worker is reachable at 127.0.0.1:{unused_port}"):
                attempt()
        assert plain.publish(channel, "2") == 1
        assert data(take(bare, 1)) == [b"2"]


# -- barriers (R24) ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_barrier_comes_back_behind_what_the_library_has_read(
    redis_server: RedisServer, inorder_: ClientConfiguration, protocol: int
) -> None:
    """R24: as soon as the application reads, and also if its connection breaks meanwhile. Nobody else sees it."""
    channel = unique("c")
    with (
        redis.Redis(port=redis_server.port, inorder=inorder_, protocol=protocol) as client,
        redis.Redis(port=redis_server.port, inorder=inorder_) as publisher,
        client.pubsub() as pubsub,
    ):
        pubsub.subscribe(channel)
        for number in range(100):
            publisher.publish(channel, number)
        subscriber: Any = pubsub._inner.subscriber

        async def numbers() -> int:
            await subscriber.ens.barrier()
            return int(subscriber._client.stats().delivered["in_order"])

        counted = THREAD.submit(numbers())
        assert not counted.done()
        assert data(take(pubsub, 100)) == [b"%d" % number for number in range(100)]
        assert pubsub.get_message(timeout=0.05) is None
        assert counted.result(60) == 100
        counted = THREAD.submit(numbers())
        publisher.client_kill_filter(_type="pubsub")
        while not counted.done():
            pubsub.get_message(ignore_subscribe_messages=True, timeout=0.05)
        publisher.publish(channel, "last")
        assert data(take(pubsub, 1)) == [b"last"]


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_barrier_of_the_asyncio_client(
    redis_server: RedisServer, inorder_: ClientConfiguration, protocol: int
) -> None:
    """R24: likewise."""
    channel = unique("c")
    async with (
        asyncio_redis.Redis(port=redis_server.port, inorder=inorder_, protocol=protocol) as client,
        client.pubsub() as pubsub,
    ):
        await pubsub.subscribe(channel)
        for number in range(100):
            await client.publish(channel, number)
        subscriber: Any = pubsub._inner
        barrier = asyncio.create_task(subscriber.ens.barrier())
        await asyncio.sleep(0)
        assert not barrier.done()
        assert data(await take_async(pubsub, 100)) == [b"%d" % number for number in range(100)]
        while not barrier.done():
            assert await pubsub.get_message(timeout=0.05) is None
        assert subscriber._client.stats().delivered["in_order"] == 100
