"""Redis pub/sub over redis-py: the suite of all adapters on a real server, and what only Redis has."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest
import redis.asyncio

from inorder.errors import (
    BrokerUnreachable,
    InvalidFilter,
    InvalidOption,
    LinkError,
    Refused,
    TimedOut,
    Unauthorized,
    UsageError,
)
from inorder.ports import Outgoing
from inorder.protocol.names import FilterKind, exact
from inorder.testing.ens_conformance import (
    EnsConformance,
    EnsMaker,
    Recorder,
    StoppableBroker,
    connected,
    ens_maker,
    unique,
)
from inorder.testing.services import Certificates, FaultProxy, RedisServer
from inorder_adapters.redis import open_ens


class TestResp2(EnsConformance):
    """RESP2."""

    options: ClassVar[dict[str, Any]] = {"protocol": 2}
    odd_topics: ClassVar[list[str]] = [
        *EnsConformance.odd_topics,
        "a+b#",
        "line\nbreak\r\n",
        "nul\0",
        "back\\slash",
        "]^-",
        "hello",
        "hallo",
        "hbllo",
    ]
    wildcard_filters: ClassVar[list[str]] = [
        "*",
        "?*",
        "h?llo",
        "h[ae]llo",
        "h[^a]llo",
        "h[a-b]llo",
        "h[b-a]llo",
        "h[a",
        "*/*",
        "caf??/*",
        "caf?/*",
        "*\U0001f600",
        "a\\*b[?]*",
        "*\\\\*",
        "[]^-]*",
        "\\h[]*",
    ]
    bad_topics: ClassVar[list[object]] = ["", "\ud800", "x" * 65_536, b"bytes", None, 5]
    bad_filters: ClassVar[list[object]] = ["", "\ud800", "*" * 65_536, b"bytes", None, 5]
    good_payloads: ClassVar[list[tuple[object, bytes]]] = [
        ("", b""),
        (b"", b""),
        ("caf\u00e9", b"caf\xc3\xa9"),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (1, b"1"),
        (1.5, b"1.5"),
    ]
    bad_payloads: ClassVar[list[object]] = [None, True, {"a": 1}, ["a"], ("a",), object(), "\ud800"]

    @pytest.fixture
    def make_ens(self, redis_server: RedisServer) -> EnsMaker:
        return ens_maker(open_ens, redis_server.url, **self.options)

    @pytest.fixture
    def stoppable(self) -> Iterator[StoppableBroker]:
        with RedisServer() as server:
            yield StoppableBroker(
                ens_maker(open_ens, server.url, **self.options),
                lambda: asyncio.to_thread(server.kill),
                lambda: asyncio.to_thread(lambda: (server.start(), None)[1]),
            )


class TestResp3(TestResp2):
    """RESP3."""

    options: ClassVar[dict[str, Any]] = {"protocol": 3}


@pytest.fixture(params=[2, 3])
def make(request: pytest.FixtureRequest, redis_server: RedisServer) -> EnsMaker:
    """Make clients of either protocol version."""
    return ens_maker(open_ens, redis_server.url, protocol=request.param)


@pytest.fixture
async def plain(redis_server: RedisServer) -> AsyncIterator[redis.asyncio.Redis]:
    """A client without the plugin."""
    client = redis.asyncio.Redis(port=redis_server.port)
    yield client
    await client.aclose()


# -- options ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("redis://h?protocol=4", "2 or 3"),
        ("redis://h/first", "database-number"),
        ("redis://h?health_check_interval=0", "health_check_interval"),
        ("redis://h?sharded=1", "one of: "),
        ("rediss://h?tls_ca=/no/such/file", "tls_ca"),
        ("redis://", "url"),
    ],
)
def test_bad_options(url: str, word: str) -> None:
    """B52: sharded pub/sub is refused by name."""
    with pytest.raises(InvalidOption, match=word):
        open_ens(url, client_id="c", options={})


def test_defaults() -> None:
    for scheme in ("redis", "rediss"):
        ens = open_ens(f"{scheme}://h/3", client_id="c", options={})
        assert (ens.address, ens.space) == ("h:6379", "redis")
        assert not ens.capabilities.properties


def test_filters_without_a_glob_are_channels() -> None:
    ens = open_ens("redis://h", client_id="c", options={})
    for text, name in [("a\\*b", "a*b"), ("plain", "plain"), ("a\\\\b", "a\\b"), ("end\\", "end\\"), ("\\a", "a")]:
        parsed = ens.parse_filter(text)
        assert (parsed.kind, parsed.text, parsed.name) == (FilterKind.EXACT, text, name)
        assert parsed.covers(name)
    assert ens.parse_filter("a\\\\*").kind is FilterKind.REDIS
    with pytest.raises(InvalidFilter):
        ens.parse_filter("")


async def test_secrets_are_in_no_repr_and_no_error(unused_port: int) -> None:
    ens = open_ens(f"redis://user:s3cret@127.0.0.1:{unused_port}/0", client_id="c", options={})
    with pytest.raises(BrokerUnreachable) as caught:
        await ens.connect(Recorder())
    assert "s3cret" not in f"{ens!r} {ens._target!r} {ens.address} {caught.value!r}"  # type: ignore[attr-defined]


# -- connecting ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
async def test_passwords(protocol: int) -> None:
    with RedisServer(password="p@ss/w") as server:
        for user in ("", "default"):
            url = f"redis://{user}:p%40ss%2Fw@127.0.0.1:{server.port}?protocol={protocol}"
            async with connected(open_ens(url, client_id="c", options={})) as recorder:
                assert recorder.losses == []
        for wrong in ({}, {"password": "wr0ng"}, {"username": "who", "password": "wr0ng"}):
            ens = open_ens(server.url, client_id="c", options={"protocol": protocol, **wrong})
            with pytest.raises(Unauthorized) as caught:
                await ens.connect(Recorder())
            assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize("protocol", [2, 3])
async def test_access_lists(protocol: int) -> None:
    """What a user may not do is refused, one by one; the connection stays."""
    rules = ["--user", "ann", "on", ">pw", "&open*", "-@all", "+publish", "+subscribe", "+psubscribe"]
    with RedisServer(args=[*rules, *(["+hello", "+unsubscribe"])]) as server:
        options = {"username": "ann", "password": "pw", "protocol": protocol, "health_check_interval": 0.2}
        ens = open_ens(server.url, client_id="c", options=options)
        async with connected(ens) as recorder:
            await ens.subscribe(exact("open"))
            for wanted in ("shut", "shut*"):
                with pytest.raises(Refused, match="shut"):
                    await ens.subscribe(ens.parse_filter(wanted))
            for token, topic in enumerate(["open", "shut", "open"]):
                ens.publish(Outgoing(topic, b"%d" % token), token)
            await recorder.until_arrived(2)
            await recorder.until_accepted(2)
            # Health checks that are refused count as signs of life.
            await recorder.until(lambda: len(recorder.refusals) == 1)
            await asyncio.sleep(1)
            ens.publish(Outgoing("open", b"later"), 3)
            await recorder.until_arrived(3)
    assert recorder.payloads == [b"0", b"2", b"later"]
    assert [(token, type(error)) for token, error in recorder.refusals] == [(1, Refused)]
    assert recorder.losses == []


@pytest.mark.parametrize("protocol", [2, 3])
async def test_tls(protocol: int) -> None:
    with Certificates() as certificates, RedisServer(tls=certificates) as server:
        topic = unique()
        for given in ({"tls_ca": str(certificates.ca)}, {"tls_insecure": True}):
            ens = open_ens(server.url, client_id="c", options={"protocol": protocol, **given})
            async with connected(ens) as recorder:
                await ens.subscribe(exact(topic))
                for token in range(50):
                    ens.publish(Outgoing(topic, bytes(20_000), b"s"), token)
                await recorder.until_arrived(50)
        with pytest.raises(BrokerUnreachable, match="certificate"):
            await open_ens(server.url, client_id="c", options={}).connect(Recorder())
        gc.collect()


async def test_a_server_that_does_not_answer(redis_server: RedisServer) -> None:
    async with FaultProxy(redis_server.port) as proxy:
        proxy.stall()
        url = f"redis://:pw@127.0.0.1:{proxy.port}"
        with pytest.raises(BrokerUnreachable, match="in time"):
            await open_ens(url, client_id="c", options={"connect_timeout": 0.3}).connect(Recorder())


async def test_connecting_twice_is_a_mistake(make: EnsMaker) -> None:
    ens = make()
    async with connected(ens):
        with pytest.raises(UsageError):
            await ens.connect(Recorder())


async def test_the_connections_are_named(make: EnsMaker, plain: redis.asyncio.Redis) -> None:
    named, unnamable = make("desk-1"), make("des k\u00e9")
    async with connected(named), connected(unnamable):
        names = [client["name"] for client in await plain.client_list()]
    assert names.count("desk-1") == 2


# -- messages --------------------------------------------------------------------------------------------------


async def test_what_text_readers_see_stays_text(make: EnsMaker, redis_server: RedisServer) -> None:
    """B44: a reader that decodes everything is not jammed by stamps."""
    topic, ens = unique(), make()
    reader = redis.asyncio.Redis(port=redis_server.port, decode_responses=True)
    async with connected(ens), reader.pubsub() as subscription:
        await subscription.subscribe(topic)
        for token, text in enumerate(["one", "caf\u00e9", ""]):
            ens.publish(Outgoing(topic, text.encode(), b"stamp-1"), token)
        seen: list[str] = []
        async with asyncio.timeout(30):
            while len(seen) < 3:
                message = await subscription.get_message(ignore_subscribe_messages=True, timeout=1)
                if message is not None:
                    seen.append(message["data"])
    await reader.aclose()
    assert [text.partition("\n")[2] for text in seen] == ["one", "caf\u00e9", ""]
    assert all(
        text.startswith("inorder/1 stamp-1 ") and text.isprintable() for text in [s.split("\n")[0] for s in seen]
    )


async def test_messages_of_others_are_untouched(make: EnsMaker, plain: redis.asyncio.Redis) -> None:
    """B44, B56: what is not ours, text or not, arrives as it is, and the next one too."""
    topic, ens = unique(), make()
    async with connected(ens) as recorder:
        await ens.subscribe(exact(topic))
        sent = [b"\xff\xfe", b"after", b"", b"inorder/1 x 00000000\n"]
        for payload in sent:
            assert await plain.publish(topic, payload) == 1
        await recorder.until_arrived(4)
    assert recorder.payloads == sent
    assert {arrival.stamp for arrival in recorder.arrivals} == {None}


async def test_a_channel_that_is_not_utf8_is_dropped(make: EnsMaker, plain: redis.asyncio.Redis) -> None:
    """B26."""
    prefix, ens = unique(), make()
    async with connected(ens) as recorder:
        await ens.subscribe(ens.parse_filter(f"{prefix}*"))
        await plain.publish(prefix.encode() + b"\xff", b"bad")
        await plain.publish(f"{prefix}good", b"x")
        await recorder.until_arrived(1)
    assert [arrival.topic for arrival in recorder.arrivals] == [f"{prefix}good"]
    assert len(recorder.malformed_reasons) == 1


async def test_keyspace_events_arrive() -> None:
    """B56."""
    with RedisServer(args=["--notify-keyspace-events", "KEA"]) as server:
        ens = open_ens(server.url, client_id="c", options={})
        client = redis.asyncio.Redis(port=server.port)
        async with connected(ens) as recorder:
            await ens.subscribe(ens.parse_filter("__keyspace@0__:*"))
            await client.set("key", "value")
            await client.set(b"\xff", "value")
            await recorder.until_arrived(1)
            await recorder.until(lambda: bool(recorder.malformed_reasons))
        await client.aclose()
    assert [(one.topic, one.payload, one.stamp) for one in recorder.arrivals] == [("__keyspace@0__:key", b"set", None)]


async def test_one_channel_under_two_texts(make: EnsMaker) -> None:
    """The channel stays subscribed to until the last of them goes."""
    topic, ens = unique(), make()
    escaped = ens.parse_filter(f"\\{topic}")
    assert (escaped.name, escaped.kind) == (topic, FilterKind.EXACT)
    async with connected(ens) as recorder:
        await ens.subscribe(exact(topic))
        await ens.subscribe(escaped)
        ens.publish(Outgoing(topic, b"1"), 0)
        await recorder.until_arrived(1)
        await ens.unsubscribe(exact(topic))
        ens.publish(Outgoing(topic, b"2"), 1)
        await recorder.until_arrived(2)
        await ens.unsubscribe(escaped)
    assert [set(arrival.via) for arrival in recorder.arrivals] == [{topic, escaped.text}, {escaped.text}]


async def test_commands_of_one_turn_leave_together(make: EnsMaker) -> None:
    """Answers are reported in few batches, in order."""
    batches: list[list[int]] = []

    class Batches(Recorder):
        def accepted(self, tokens: list[int]) -> None:
            batches.append(list(tokens))
            super().accepted(tokens)

    ens, recorder = make(), Batches()
    await ens.connect(recorder)
    for token in range(1_000):
        ens.publish(Outgoing("t", b"x"), token)
    await recorder.until_accepted(1_000)
    await ens.close()
    assert recorder.accepted_tokens == list(range(1_000))
    assert len(batches) < 100


async def test_a_failing_owner_does_not_stop_the_reader(make: EnsMaker, caplog: pytest.LogCaptureFixture) -> None:
    """B46."""

    class Failing(Recorder):
        def arrived(self, arrival: Any) -> None:
            super().arrived(arrival)
            if arrival.payload == b"1":
                raise RuntimeError("the owner's mistake")

    topic, ens, recorder = unique(), make(), Failing()
    await ens.connect(recorder)
    await ens.subscribe(exact(topic))
    for token in range(3):
        ens.publish(Outgoing(topic, b"%d" % token), token)
    await recorder.until_arrived(3)
    await ens.close()
    assert "the owner's mistake" in caplog.text


# -- broken connections ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [2, 3])
async def test_a_half_open_connection_is_noticed(redis_server: RedisServer, protocol: int) -> None:
    """B49: within three intervals; and a healthy idle connection stays, its pongs unseen."""
    async with FaultProxy(redis_server.port) as proxy:
        options = {"protocol": protocol, "health_check_interval": 0.3, "close_timeout": 0.1}
        ens = open_ens(f"redis://127.0.0.1:{proxy.port}", client_id="c", options=options)
        recorder = Recorder()
        await ens.connect(recorder)
        await ens.subscribe(exact(unique()))
        await asyncio.sleep(1.2)
        assert recorder == Recorder()
        proxy.stall()
        started = time.monotonic()
        await recorder.until(lambda: bool(recorder.losses), timeout=10)
        assert time.monotonic() - started < 3
        await proxy.heal()
        await ens.connect(recorder)
        await ens.close()
    assert len(recorder.losses) == 1


async def test_a_lost_reply_is_a_lost_connection(redis_server: RedisServer, plain: redis.asyncio.Redis) -> None:
    """B54: the publish was executed once, nobody repeats it, its fate is said to be unknown."""
    topic = unique()
    async with FaultProxy(redis_server.port) as proxy, plain.pubsub() as subscription:
        await subscription.subscribe(topic)
        await subscription.get_message(timeout=5)
        ens = open_ens(f"redis://127.0.0.1:{proxy.port}", client_id="c", options={"health_check_interval": 0.3})
        recorder = Recorder()
        await ens.connect(recorder)
        proxy.stall("down")
        ens.publish(Outgoing(topic, b"once"), 0)
        await recorder.until(lambda: bool(recorder.losses), timeout=10)
        await proxy.heal()
        await ens.connect(recorder)
        ens.publish(Outgoing(topic, b"after"), 1)
        await recorder.until_accepted(1)
        await ens.close()
        seen = [(await subscription.get_message(timeout=5))["data"] for _ in range(2)]
    assert seen == [b"once", b"after"]
    assert (recorder.accepted_tokens, recorder.refusals) == ([1], [])


async def test_a_cut_is_reported_once_though_two_connections_break(redis_server: RedisServer) -> None:
    async with FaultProxy(redis_server.port) as proxy:
        ens = open_ens(f"redis://127.0.0.1:{proxy.port}", client_id="c", options={})
        recorder = Recorder()
        for count in range(1, 4):
            await ens.connect(recorder)
            proxy.cut()
            await recorder.until(lambda known=count: len(recorder.losses) == known)  # type: ignore[misc]
        await ens.close()
    assert len(recorder.losses) == 3


async def test_whoever_waits_hears_of_the_loss(redis_server: RedisServer) -> None:
    async with FaultProxy(redis_server.port) as proxy:
        ens = open_ens(f"redis://127.0.0.1:{proxy.port}", client_id="c", options={"ack_timeout": 20})
        recorder = Recorder()
        await ens.connect(recorder)
        proxy.stall("down")
        waiting = asyncio.create_task(ens.subscribe(exact("t")))
        await asyncio.sleep(0)
        proxy.cut()
        with pytest.raises(LinkError):
            await waiting
        await ens.close()


async def test_a_subscription_without_an_answer(redis_server: RedisServer) -> None:
    async with FaultProxy(redis_server.port) as proxy:
        ens = open_ens(f"redis://127.0.0.1:{proxy.port}", client_id="c", options={"ack_timeout": 0.2})
        async with connected(ens):
            proxy.stall("down")
            with pytest.raises(TimedOut):
                await ens.subscribe(exact("t"))


async def test_an_idle_client_costs_nothing(make: EnsMaker) -> None:
    """B51: reads block, nothing spins."""
    ens = make()
    async with connected(ens):
        await ens.subscribe(exact(unique()))
        await asyncio.sleep(0.1)
        before = time.process_time()
        await asyncio.sleep(1)
        assert time.process_time() - before < 0.1
