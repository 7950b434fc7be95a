"""What people reported of redis-py's publish/subscribe: the right value, on a real server with a real worker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis as stock
from tests.client.helpers import until as eventually
from tests.redis_py.helpers import PATIENCE, data, held, take, take_async, until

import inorder.redis as redis
import inorder.redis.asyncio as asyncio_redis
from inorder import Gap, Verdict
from inorder.client.configured import ClientConfiguration
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, RedisServer, WorkerServer


@pytest.fixture
def client(redis_server: RedisServer, inorder_: ClientConfiguration) -> Iterator[redis.Redis]:
    with redis.Redis(port=redis_server.port, inorder=inorder_) as client:
        yield client


def refuse(client: redis.Redis) -> None:
    """Have the server refuse what this client publishes."""

    def refused(*args: Any, **options: Any) -> Any:
        raise stock.ResponseError("NOPERM")

    client._send_command_parse_response = refused  # type: ignore[method-assign]


def retries() -> stock.retry.Retry:
    """As many as redis-py 8 has by default, without its pauses."""
    return stock.retry.Retry(stock.backoff.ConstantBackoff(0.05), 3)


def test_threads_share_one_publisher(client: redis.Redis) -> None:
    """B04: in each thread numbers rise with the calls; all subscribers see the same order, and no number twice."""
    one, two = unique("one"), unique("two")
    readers = [client.pubsub(), client.pubsub()]
    for each in readers:
        each.subscribe(one, two)

    def publish(name: int) -> None:
        for at in range(25):
            client.publish((one, two)[at % 2], f"{name}-{at}")

    threads = [threading.Thread(target=publish, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    seen = [take(each, 200) for each in readers]
    for thread in threads:
        thread.join()
    assert data(seen[0]) == data(seen[1])
    for name in range(8):
        mine = [each for each in data(seen[0]) if each.startswith(b"%d-" % name)]
        assert mine == [b"%d-%d" % (name, at) for at in range(25)]
    for channel in (one, two):
        numbers = [each["inorder"].sequence for each in seen[0] if each["channel"] == channel.encode()]
        assert numbers == list(range(1, len(numbers) + 1))
    for each in readers:
        each.close()


def test_confirmations_that_are_ignored_end_a_call_as_ever(client: redis.Redis) -> None:
    """B41: the sequence of messages and ``None`` is the library's."""
    one, two = unique("one"), unique("two")
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(one, two)
        began = time.monotonic()
        assert [pubsub.get_message(timeout=PATIENCE) for _ in range(2)] == [
            None,
            None,
        ]  # at once, for two confirmations
        assert time.monotonic() - began < PATIENCE
        began = time.monotonic()
        assert pubsub.get_message(timeout=0.2) is None
        assert time.monotonic() - began >= 0.2
        handled: list[Any] = []
        pubsub.subscribe(**{one: handled.append})
        client.publish(one, "1")
        until(lambda: pubsub.get_message(timeout=0.2) or handled)
        assert data(handled) == [b"1"]


def test_a_message_is_available_when_its_turn_comes(
    client: redis.Redis, redis_server: RedisServer, inorder_: ClientConfiguration
) -> None:
    """B41: it waits for one that is never published; that it need not is known without traffic on the connection."""
    one, two = unique("one"), unique("two")
    readers = [client.pubsub(ignore_subscribe_messages=True), client.pubsub(ignore_subscribe_messages=True)]
    for each in readers:
        each.subscribe(one, two)
    with redis.Redis(port=redis_server.port, inorder=inorder_) as other:
        refuse(other)
        with held(other, one, "never") as late:
            client.publish(two, "after")
            for _ in range(4):
                assert readers[0].get_message(timeout=0.05) is None
            late.go()
            assert isinstance(late.error, stock.ResponseError)
    for each in readers:
        assert data(take(each, 1)) == [b"after"]
        each.close()


def test_listen_outlasts_the_socket_timeout(redis_server: RedisServer, inorder_: ClientConfiguration) -> None:
    """B42: silence is no error, and what the application has set stays so."""
    channel = unique("c")
    with (
        redis.Redis(port=redis_server.port, socket_timeout=0.2, inorder=inorder_) as client,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
    ):
        pubsub.subscribe(channel)
        timer = threading.Timer(1.0, client.publish, (channel, "after silence"))
        timer.start()
        assert next(pubsub.listen())["data"] == b"after silence"
        timer.join()
        assert pubsub.connection is not None
        assert pubsub.connection.socket_timeout == 0.2
        assert client.get_connection_kwargs()["socket_timeout"] == 0.2


@pytest.mark.parametrize("protocol", [2, 3])
def test_both_protocols_look_the_same(redis_server: RedisServer, inorder_: ClientConfiguration, protocol: int) -> None:
    """B43: a connection that also pings."""
    one, two = unique("one"), unique("two")
    pushed: list[Any] = []

    def handler(response: Any) -> Any:
        pushed.append(response)
        return response

    with (
        redis.Redis(
            port=redis_server.port, protocol=protocol, decode_responses=True, health_check_interval=30, inorder=inorder_
        ) as client,
        client.pubsub(push_handler_func=handler if protocol == 3 else None) as pubsub,
    ):
        pubsub.subscribe(one, two)
        pubsub.ping()
        client.publish(one, "1")
        client.publish(two, "2")
        seen: list[Any] = []
        while len(seen) < 5:
            message = pubsub.get_message(timeout=PATIENCE)
            assert message is not None
            seen.append(message)
        assert [(each["type"], each["channel"], each["data"]) for each in seen] == [
            ("subscribe", one, 1), ("subscribe", two, 2), ("pong", None, ""), ("message", one, "1"),
            ("message", two, "2"),
        ]  # fmt: skip
        assert len(pushed) == (4 if protocol == 3 else 0)  # a pong is none
        assert not pushed or pushed[-1] == ["message", two, "2"]


@pytest.mark.parametrize("protocol", [2, 3])
def test_bytes_that_are_no_text_do_not_jam_a_reader_of_text(
    redis_server: RedisServer, inorder_: ClientConfiguration, protocol: int
) -> None:
    """B44: the error is the library's, once; what others read of a text stays text."""
    channel = unique("c")
    with (
        redis.Redis(port=redis_server.port, decode_responses=True, protocol=protocol, inorder=inorder_) as client,
        stock.Redis(port=redis_server.port, decode_responses=True) as plain,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
        plain.pubsub(ignore_subscribe_messages=True) as bare,
    ):
        pubsub.subscribe(channel)
        client.publish(channel, b"\xff\xfe")
        bare.subscribe(channel)
        client.publish(channel, "after é")
        assert pubsub.get_message(timeout=1) is None
        with pytest.raises(UnicodeDecodeError):
            pubsub.get_message(timeout=PATIENCE)
        assert data(take(pubsub, 1)) == ["after é"]
        assert data(take(bare, 1))[0].endswith("\nafter é")


async def test_bytes_that_are_no_text_do_not_jam_the_asyncio_twin(
    redis_server: RedisServer, inorder_: ClientConfiguration
) -> None:
    channel = unique("c")
    async with (
        asyncio_redis.Redis(port=redis_server.port, decode_responses=True, inorder=inorder_) as client,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
    ):
        await pubsub.subscribe(channel)
        await client.publish(channel, b"\xff\xfe")
        await client.publish(channel, "after")
        assert await pubsub.get_message(timeout=1) is None
        with pytest.raises(UnicodeDecodeError):
            await pubsub.get_message(timeout=PATIENCE)
        assert data(await take_async(pubsub, 1)) == ["after"]


async def test_a_thread_that_reads_survives_an_outage_and_errors(
    redis_server: RedisServer, client: redis.Redis, inorder_: ClientConfiguration
) -> None:
    """B46: what was missed is a gap; an error of a handler goes to ``exception_handler``, which may stop the thread."""
    channel = unique("c")
    handled: list[bytes] = []
    errors: list[Exception] = []
    gaps: list[Gap] = []

    def handle(message: dict[str, Any]) -> None:
        handled.append(message["data"])
        if message["data"] == b"bad":
            raise ValueError("of the application")

    def failed(error: Exception, pubsub: Any, thread: Any) -> None:
        errors.append(error)
        if isinstance(error, ValueError):
            thread.stop()

    async with FaultProxy(redis_server.port) as proxy:

        def run() -> Any:
            far = redis.Redis(port=proxy.port, retry=retries(), inorder=inorder_)
            pubsub = far.pubsub(on_gap=gaps.append)
            pubsub.subscribe(**{channel: handle})
            thread = pubsub.run_in_thread(sleep_time=0.1, exception_handler=failed)
            client.publish(channel, "1")
            until(lambda: handled == [b"1"])
            return far, thread

        far, thread = await asyncio.to_thread(run)
        proxy.refuse()
        proxy.cut()

        def has_readers(count: int) -> bool:
            return bool(client.pubsub_numsub(channel)[0][1] == count)

        await asyncio.to_thread(until, lambda: has_readers(0))  # the server has seen the cut
        assert await asyncio.to_thread(client.publish, channel, "missed") == 0
        await proxy.heal()

        def finish() -> None:
            until(lambda: has_readers(1))
            client.publish(channel, "2")
            until(lambda: handled == [b"1", b"2"])
            assert [(each.first, each.last, each.reason) for each in gaps] == [(2, 2, "lost")]
            client.publish(channel, "bad")
            thread.join(PATIENCE)
            assert not thread.is_alive()
            assert [type(each) for each in errors if not isinstance(each, stock.ConnectionError)] == [ValueError]
            far.close()

        await asyncio.to_thread(finish)


def test_unsubscribe_and_subscribe_at_once(client: redis.Redis) -> None:
    """B48: still subscribed after a reconnection, and what came between is no loss."""
    channel = unique("c")
    gaps: list[Gap] = []
    with client.pubsub(on_gap=gaps.append, ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(channel)
        client.publish(channel, "1")
        assert data(take(pubsub, 1)) == [b"1"]
        pubsub.unsubscribe(channel)
        pubsub.subscribe(channel)
        assert pubsub.connection is not None
        pubsub.connection.disconnect()
        until(lambda: client.pubsub_numsub(channel)[0][1] == 0)
        until(lambda: pubsub.get_message(timeout=0.01) is None and client.pubsub_numsub(channel)[0][1] == 1)
        client.publish(channel, "2")
        assert data(take(pubsub, 1)) == [b"2"]
        assert (gaps, list(pubsub.channels)) == ([], [channel.encode()])


def test_a_subscription_does_not_wait_for_one_that_ends(client: redis.Redis) -> None:
    one, two = unique("one"), unique("two")
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(one)
        pubsub.unsubscribe(one)
        began = time.monotonic()
        pubsub.subscribe(two)
        assert time.monotonic() - began < 60.0  # the timeout of a subscription here
        client.publish(two, "1")
        assert data(take(pubsub, 1)) == [b"1"]


async def test_a_half_open_connection_is_noticed(
    redis_server: RedisServer, client: redis.Redis, inorder_: ClientConfiguration
) -> None:
    """B49: no answer to the health check: the connection is made anew, the gap reported, and no pong is a message."""
    channel = unique("c")
    gaps: list[Gap] = []
    async with FaultProxy(redis_server.port) as proxy:

        def subscribe() -> Any:
            far = redis.Redis(port=proxy.port, retry=retries(), health_check_interval=0.3, inorder=inorder_)
            pubsub = far.pubsub(on_gap=gaps.append, ignore_subscribe_messages=True)
            pubsub.subscribe(channel)
            return far, pubsub

        far, pubsub = await asyncio.to_thread(subscribe)
        proxy.stall()
        reading = asyncio.create_task(asyncio.to_thread(take, pubsub, 1))
        await asyncio.to_thread(client.publish, channel, "into the hole")
        first = pubsub.connection._sock
        await asyncio.to_thread(until, lambda: pubsub.connection._sock is not first)
        await proxy.heal()

        def finish() -> None:
            until(lambda: client.pubsub_numsub(channel)[0][1] >= 1)
            until(lambda: client.publish(channel, "after") and reading.done())

        await asyncio.to_thread(finish)
        assert data(await reading) == [b"after"]
        assert [each.first for each in gaps][:1] == [1]
        pubsub.close()
        far.close()


async def test_waiting_is_not_spinning(redis_server: RedisServer, inorder_: ClientConfiguration) -> None:
    """B51: a call that waits looks a few times, whether for the socket or for an event whose turn has not come."""
    channel = unique("c")
    async with (
        asyncio_redis.Redis(port=redis_server.port, inorder=inorder_) as client,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
    ):
        await pubsub.subscribe(channel)
        assert await pubsub.get_message(timeout=1) is None
        passes = 0
        original = pubsub._read_or_wait

        async def counted(*args: Any) -> None:
            nonlocal passes
            passes += 1
            await original(*args)

        pubsub._read_or_wait = counted  # type: ignore[method-assign, assignment]
        used = time.process_time()
        assert await pubsub.get_message(timeout=1.0) is None
        assert passes <= 5
        waiting = asyncio.create_task(pubsub.get_message(timeout=None))
        await client.publish(channel, "1")
        message = await asyncio.wait_for(waiting, PATIENCE)
        assert message["data"] == b"1"
        assert time.process_time() - used < 1.0


async def test_a_subscription_while_another_task_reads_already(
    redis_server: RedisServer, inorder_: ClientConfiguration
) -> None:
    channel = unique("c")
    handled: list[Any] = []
    async with (
        asyncio_redis.Redis(port=redis_server.port, decode_responses=True, inorder=inorder_) as client,
        client.pubsub() as pubsub,
    ):
        running = asyncio.create_task(pubsub.run(poll_timeout=PATIENCE))
        await eventually(lambda: pubsub.connection is not None and pubsub._reading.locked())
        await pubsub.subscribe(**{channel: handled.append})
        await client.publish(channel, "1")
        await eventually(lambda: bool(handled))
        assert [(each["data"], each["inorder"].verdict) for each in handled] == [("1", "in_order")]
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


def test_a_long_message_that_comes_in_parts(client: redis.Redis) -> None:
    """A call that does not wait takes what is there; the rest is not waited for, and nothing is lost."""
    channel, payload = unique("c"), bytes(range(256)) * 40_000
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(channel)
        connection: Any = pubsub.connection
        first = connection._sock
        client.publish(channel, payload)
        seen: list[Any] = []

        def look() -> bool:
            message = pubsub.get_message(timeout=0)
            if message is not None:
                seen.append(message)
            return bool(seen)

        until(look)
        assert seen[0]["data"] == payload
        assert connection._sock is first


def test_sharded_channels_are_the_librarys_own(client: redis.Redis) -> None:
    """B52: a shard channel and a channel of one name never share a sequence; what is sharded has no stamp."""
    channel = unique("c")
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(channel)
        pubsub.ssubscribe(channel)
        assert client.publish(channel, "1") == 1
        assert client.spublish(channel, "sharded") == 1
        assert client.publish(channel, "2") == 1
        seen = take(pubsub, 3)
        sharded = {"type": "smessage", "pattern": None, "channel": channel.encode(), "data": b"sharded"}
        assert sharded in seen
        seen.remove(sharded)
        assert [(each["data"], each["inorder"].sequence) for each in seen] == [(b"1", 1), (b"2", 2)]


def test_publish_tried_twice_by_the_library_comes_once(
    redis_server: RedisServer, inorder_: ClientConfiguration
) -> None:
    """B54: both copies carry the same stamp."""
    channel = unique("c")
    with (
        redis.Redis(port=redis_server.port, retry=retries(), inorder=inorder_) as client,
        client.pubsub(ignore_subscribe_messages=True) as pubsub,
    ):
        pubsub.subscribe(channel)
        original = client._send_command_parse_response
        tries = 0

        def lost_reply(*args: Any, **options: Any) -> Any:
            nonlocal tries
            reply = original(*args, **options)
            tries += 1
            if tries == 1:
                raise stock.ConnectionError("the reply was lost")
            return reply

        client._send_command_parse_response = lost_reply
        assert client.publish(channel, "once") == 1
        assert tries == 2
        client.publish(channel, "after")
        assert data(take(pubsub, 2)) == [b"once", b"after"]


def test_an_application_that_does_not_read_loses_nothing(
    redis_server: RedisServer, worker: WorkerServer, inorder_: ClientConfiguration
) -> None:
    """What it has not read yet has arrived for the library, and is not given up while the application is busy."""
    channel = unique("c")
    gaps: list[Gap] = []
    with redis.Redis(port=redis_server.port, inorder=inorder_) as client, client.pubsub(on_gap=gaps.append) as pubsub:
        pubsub.subscribe(channel)
        for at in range(300):
            client.publish(channel, str(at))
        assert pubsub._inner is not None
        engine = pubsub._inner.subscriber._client
        until(lambda: engine._endpoint._stands_still)  # longer than gaps are waited for: their time stands still
        assert data(take(pubsub, 300)) == [b"%d" % at for at in range(300)]
        assert gaps == []


def test_refused_publishes_leave_no_hole(
    client: redis.Redis, redis_server: RedisServer, inorder_: ClientConfiguration
) -> None:
    """What the library refuses takes no number; what the server refuses makes its number void."""
    channel = unique("c")
    gaps: list[Gap] = []
    with client.pubsub(on_gap=gaps.append, ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(channel)
        refused: tuple[Any, ...] = (None, True, {})
        for payload in refused:
            with pytest.raises(stock.DataError):
                client.publish(channel, payload)
        with redis.Redis(port=redis_server.port, inorder=inorder_) as other:
            refuse(other)
            with pytest.raises(stock.ResponseError):
                other.publish(channel, "refused")
        client.set(channel, "no list")
        with client.pipeline(transaction=False) as pipeline:
            pipeline.lpush(channel, "x")
            pipeline.publish(channel, "1")
            with pytest.raises(stock.ResponseError, match="Command # 1"):
                pipeline.execute()
        with client.pipeline() as pipeline:
            pipeline.watch(channel)
            pipeline.multi()
            pipeline.publish(channel, "never")
            client.set(channel, "changed")
            with pytest.raises(stock.WatchError):
                pipeline.execute()
        client.publish(channel, "2")
        seen = take(pubsub, 2)
        assert [(each["data"], each["inorder"].sequence) for each in seen] == [(b"1", 2), (b"2", 4)]
        assert gaps == []


def test_names_that_are_no_text(client: redis.Redis) -> None:
    """The topic managers cannot know them: they come as from the library, and say so."""
    channel = unique("c").encode() + b"\xff"
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(channel)
        assert client.publish(channel, "1") == 1
        (message,) = take(pubsub, 1)
        assert (message["channel"], message["data"]) == (channel, b"1")
        assert message["inorder"] == redis.Inorder(Verdict.UNSEQUENCED)


FORKED = """
import os, sys, threading
import inorder.redis as redis
client = redis.Redis(port=int(sys.argv[1]))
client.publish(sys.argv[2], "parent")
pubsub = client.pubsub(ignore_subscribe_messages=True)
pubsub.subscribe(sys.argv[2] + "-own")
client.publish(sys.argv[2] + "-own", "for the parent")
is_held, has_forked = threading.Event(), threading.Event()

def use():
    with pubsub._using:
        is_held.set()
        has_forked.wait()

user = threading.Thread(target=use)
user.start()
is_held.wait()
child = os.fork()
has_forked.set()
if child == 0:
    for use in (pubsub.get_message, pubsub.parse_response, pubsub.connection.can_read, lambda: pubsub.subscribe("c")):
        try:
            use()
        except redis.RedisError as error:
            assert "before fork()" in str(error)
        else:
            sys.exit("it was not refused")
    pubsub.close()
    pubsub.subscribe("anew")
client.publish(sys.argv[2], "child" if child == 0 else "parent again")
if child:
    status = os.waitpid(child, 0)[1]
    while (message := pubsub.get_message(timeout=60)) is None:
        pass
    assert message["data"] == b"for the parent"
    sys.exit(status)
"""


def test_a_forked_process_is_a_publisher_of_its_own(
    client: redis.Redis, redis_server: RedisServer, worker: WorkerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reads nothing that is the parent's."""
    channel = unique("c")
    monkeypatch.setenv("INORDER_CLIENT__WORKERS", worker.url)
    with client.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe(channel)
        run = subprocess.run(
            [sys.executable, "-c", FORKED, str(redis_server.port), channel],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert (run.returncode, run.stderr) == (0, "")
        seen = take(pubsub, 3)
        assert sorted(data(seen)) == [b"child", b"parent", b"parent again"]
        assert [each["inorder"].sequence for each in seen] == [1, 2, 3]
