"""What people reported of MQTT, on a real mosquitto."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.helpers import (
    PATIENCE,
    events_of,
    gaps_of,
    keys,
    payloads,
    published,
    take,
    take_events,
    take_through,
    times,
    until,
)
from tests.e2e.helpers import client

from inorder import Client, Gap, GapReason, Reconnected, Verdict
from inorder.errors import InvalidPayload, InvalidTopic, PayloadTooLarge, QueueFull
from inorder.testing.ens_recorder import look_alikes, unique
from inorder.testing.services import FaultProxy, Mosquitto, WorkerServer, bridged_mosquittos


@pytest.mark.parametrize("window", [1, 20])
async def test_qualities_do_not_overtake_each_other(mosquitto: Mosquitto, worker: WorkerServer, window: int) -> None:
    """B06: sixty times QoS 1 and once QoS 0 on one topic; the last is no proof that the others are lost."""
    topic = unique("t")
    async with (
        client(mosquitto.url, worker) as one,
        client(mosquitto.url, worker, max_inflight=window) as publisher,
    ):
        await one.subscribe(topic, qos=1)
        futures = [publisher.publish(topic, str(at).encode(), qos=1) for at in range(60)]
        futures.append(publisher.publish(topic, b"60", qos=0))
        await asyncio.gather(*futures)
        seen = await take_events(one, 61)
        assert payloads(seen) == [str(at).encode() for at in range(61)]
        assert {each.verdict for each in events_of(seen)} == {Verdict.IN_ORDER}
        assert not gaps_of(seen)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_overlapping_filters(mosquitto: Mosquitto, worker: WorkerServer, protocol: str) -> None:
    """B08: one event for one publish, the second copy counts as overlap and not as duplicate."""
    root = unique("ov")
    async with (
        client(mosquitto.url, worker, protocol=protocol) as one,
        client(mosquitto.url, worker) as publisher,
    ):
        await one.subscribe(f"{root}/#", qos=0)
        await one.subscribe(f"{root}/a", qos=1)
        await published(publisher, f"{root}/a", 10, qos=1)
        seen = await take_through(one, b"9")
        assert payloads(seen) == [str(at).encode() for at in range(10)]
        stats = one.stats()
        assert (stats.duplicates, stats.undelivered) == (0, 0)


async def test_protocol_versions_find_a_common_form(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B12: an MQTT 5 publisher and an MQTT 3.1.1 subscriber; the topic's stamps move into the payload while it is
    there, everybody reads both forms, and payloads come as they were published."""
    topic = unique("t")
    async with (
        client(mosquitto.url, worker) as new,
        client(mosquitto.url, worker) as publisher,
        client(mosquitto.url, worker, protocol="3.1.1") as old_publisher,
    ):
        await new.subscribe(topic)
        await published(publisher, topic, 2)
        await until(lambda: new.stats().undelivered == 2)  # so the broker is done with them: they are not for the next
        async with client(mosquitto.url, worker, protocol="3.1.1") as old:
            await old.subscribe(topic)
            await published(publisher, topic, 3, first=2)
            await published(old_publisher, topic, 3, first=5)
            seen = await take_events(old, 6)
            assert payloads(seen) == [str(at).encode() for at in range(2, 8)]
            assert {each.verdict for each in events_of(seen)} == {Verdict.IN_ORDER}
        await published(publisher, topic, 1, first=8)
        seen = await take_events(new, 9)
        assert payloads(seen) == [str(at).encode() for at in range(9)]
        assert {each.verdict for each in events_of(seen)} == {Verdict.IN_ORDER}


async def test_a_bridge_that_strips_properties(worker: WorkerServer, caplog: pytest.LogCaptureFixture) -> None:
    """B12: mosquitto bridges speak MQTT 3.1.1 unless told otherwise. Events arrive unsequenced, their numbers are
    one gap that says why, and one alarm names the topic."""
    topic = unique("t")
    with bridged_mosquittos(protocol="mqttv311") as (here, there):
        async with client(there.url, worker) as far, client(here.url, worker) as publisher:
            await far.subscribe(topic)
            await published(publisher, topic, 20)
            seen = await take(far, 21)
            assert {each.verdict for each in events_of(seen)} == {Verdict.UNSEQUENCED}
            assert payloads(seen) == [str(at).encode() for at in range(20)]
            assert sum(each.last - each.first + 1 for each in gaps_of(seen)) == 20
            assert {each.reason for each in gaps_of(seen)} == {GapReason.UNSTAMPED}
            await published(publisher, topic, 1)
            await take(far, 2)
            assert far.stats().unsequenced == 21
    assert [topic in each.message for each in caplog.records if "strips them" in each.message] == [True]


async def test_such_a_bridge_carries_the_payload_form(worker: WorkerServer) -> None:
    """B12: the way out that the alarm suggests: stamps in the payload cross any bridge."""
    topic = unique("t")
    with bridged_mosquittos(protocol="mqttv311") as (here, there):
        async with client(there.url, worker, envelope="payload") as far, client(here.url, worker) as publisher:
            await far.subscribe(topic)
            await published(publisher, topic, 5)
            seen = await take_events(far, 5)
            assert {each.verdict for each in events_of(seen)} == {Verdict.IN_ORDER}
            assert payloads(seen) == [str(at).encode() for at in range(5)]


async def test_the_users_own_properties(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B12: repeated keys are kept, in order, in every order of delivery and without ours among them."""
    topic = unique("t")
    own = (("trace", "1"), ("trace", "2"), ("", ""), ("trace", "1"))
    async with client(mosquitto.url, worker) as one:
        await one.subscribe(topic)
        for how in ("total", "fifo", "none"):
            await one.publish(topic, b"x", properties=own, order=how)
        assert [each.properties for each in events_of(await take(one, 3))] == [own] * 3


async def test_retained_events(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B18: the copy that the broker kept has its number and is neither late, nor a duplicate, nor a gap, at the
    subscription and at every reconnection; the position does not move back."""
    topic = unique("t")
    async with FaultProxy(mosquitto.port) as proxy, client(mosquitto.url, worker) as publisher:
        await published(publisher, topic, 9)
        await publisher.publish(topic, b"kept", retain=True)
        await published(publisher, topic, 20, first=10)
        async with client(f"mqtt://127.0.0.1:{proxy.port}", worker) as one:
            await one.subscribe(topic)
            await published(publisher, topic, 1, first=30)
            await until(lambda: one.stats().undelivered == 2)
            proxy.cut()
            await until(lambda: proxy.accepted == 2 and one.stats().connected)
            await until(lambda: one.stats().delivered["retained"] == 2)
            await published(publisher, topic, 1, first=31)
            seen = await take(one, 5)
            assert [(each.payload, each.number, each.verdict, each.retained) for each in events_of(seen)] == [
                (b"kept", 10, Verdict.RETAINED, True),
                (b"30", 31, Verdict.IN_ORDER, False),
                (b"kept", 10, Verdict.RETAINED, True),
                (b"31", 32, Verdict.IN_ORDER, False),
            ]
            assert seen[2] == Reconnected("mqtt")
            stats = one.stats()
            assert (stats.duplicates, stats.gaps, stats.delivered["late"]) == (0, 0, 0)
        await publisher.publish(topic, b"", retain=True)


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
async def test_an_empty_retained_publish_clears_the_topic(
    mosquitto: Mosquitto, worker: WorkerServer, protocol: str
) -> None:
    """B19: zero bytes on the wire, whatever the payload was given as; a plain subscriber finds nothing kept. An empty
    event that is not retained is sequenced as any other."""
    topic = unique("t")
    async with client(mosquitto.url, worker, protocol=protocol) as one:
        await one.subscribe(topic)
        for empty in (b"", "", None):
            await one.publish(topic, b"kept", retain=True)
            with mosquitto.probe() as plain:
                await asyncio.to_thread(plain.subscribe, topic)
                assert (await asyncio.to_thread(plain.receive, 5.0))[1].endswith(b"kept")
                await one.publish(topic, empty, retain=True)
                assert await asyncio.to_thread(plain.receive, 5.0) == (topic, b"")
            with mosquitto.probe() as fresh:
                await asyncio.to_thread(fresh.subscribe, topic)
                await one.publish(topic, b"", order="none")
                assert await asyncio.to_thread(fresh.receive, 5.0) == (topic, b"")
        await one.publish(topic, b"")
        seen = events_of(await take(one, 10))
        assert [(each.payload, each.number) for each in seen if each.verdict == Verdict.IN_ORDER] == [
            (b"kept", 1), (b"kept", 2), (b"kept", 3), (b"", 4),
        ]  # fmt: skip
        assert {each.payload for each in seen if each.verdict == Verdict.UNSEQUENCED} == {b""}


async def test_bad_topics_take_no_number(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B26: the error comes from the call, as a ValueError, and the next publish is the first number."""
    topic = unique("t")
    async with client(mosquitto.url, worker) as one:
        await one.subscribe(topic)
        for bad in (f"{topic}\0", f"{topic}/+", "#", "", "\ud800", topic + "/" * 201):
            with pytest.raises(ValueError, match="invalid topic"):
                one.publish(bad, b"", qos=1)
        assert (await one.publish(topic, b"good", qos=1)).number == 1
        assert payloads(await take(one, 1)) == [b"good"]


async def test_odd_topic_names(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B27: they come back unchanged, and ``#`` covers all of them but those that begin with ``$``."""
    space = unique("space")
    names = [
        "/lead",
        "a//b",
        "sp ace/ x",
        "\u00e9/\U0001f600",
        "a*b?[c]",
        "'; drop table",
        "%2F",
        "..",
        "01",
        "x" * 65_535,
    ]
    async with client(mosquitto.url, worker, space=space) as one:
        await one.subscribe("#")
        for name in (*names, "$custom/x"):
            assert (await one.publish(name, name[:9].encode())).topic == name
        await one.subscribe("$custom/x")
        await one.publish("$custom/x", b"exact")
        seen = [each for each in events_of(await take_through(one, b"exact")) if each.verdict == Verdict.IN_ORDER]
        assert [each.topic for each in seen] == [*names, "$custom/x"]
        assert [each.payload for each in seen] == [*(name[:9].encode() for name in names), b"exact"]
        with pytest.raises(InvalidTopic):
            one.publish("x" * 65_536, b"")


async def test_payload_types(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B28: as paho takes and encodes them, byte for byte; what only looks like our envelope is left alone."""
    topic = unique("t")
    every = bytes(range(256))
    table: list[tuple[Any, bytes]] = [
        (None, b""), ("", b""), (b"", b""), (bytearray(b"1"), b"1"), (1, b"1"), (1.5, b"1.5"),
        ("\u00e9", "\u00e9".encode()),
        (every, every), *((each, each) for each in look_alikes()),
    ]  # fmt: skip
    async with (
        client(mosquitto.url, worker) as one,
        client(mosquitto.url, worker, protocol="3.1.1") as old,
        client(mosquitto.url, worker) as publisher,
    ):
        for bad in ({}, [], memoryview(b"1"), object()):
            with pytest.raises(InvalidPayload):
                publisher.publish(topic, bad)
        await one.subscribe(topic)
        await asyncio.gather(*(publisher.publish(topic, given) for given, _ in table))
        await until(lambda: one.stats().undelivered == len(table))
        await old.subscribe(topic)
        await asyncio.gather(*(publisher.publish(topic, given) for given, _ in table))
        expected = [encoded for _, encoded in table]
        assert payloads(await take_events(one, 2 * len(table))) == 2 * expected
        assert payloads(await take_events(old, len(table))) == expected


async def test_look_alikes_of_others_are_not_stripped(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B28: a foreign producer's payload, however much it looks like ours."""
    topic = unique("t")
    fakes = [b"inorder/1 ", b"inorder/1 abc", b"inorder/1 abc 00000000\nx", b"inorder/2 abc 00000000\nx"]
    async with client(mosquitto.url, worker) as one:
        await one.subscribe(topic)
        with mosquitto.probe() as plain:
            for each in fakes:
                await asyncio.to_thread(plain.publish, topic, each)
            seen = events_of(await take(one, len(fakes)))
        assert [each.payload for each in seen] == fakes
        assert {each.verdict for each in seen} == {Verdict.UNSEQUENCED}


async def test_many_publishes_and_a_close_at_once(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B30: what was published before the close is delivered, or said not to be; nobody sees a hole."""
    topic = unique("t")
    async with client(mosquitto.url, worker) as one:
        await one.subscribe(topic, qos=1)
        async with client(mosquitto.url, worker, clock=times(close_timeout=PATIENCE)) as publisher:
            futures = [publisher.publish(topic, str(at).encode(), qos=at % 2) for at in range(300)]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert [each for each in outcomes if isinstance(each, BaseException)] == []
        seen = await take_events(one, 300)
        assert not gaps_of(seen)
        assert payloads(seen) == [str(at).encode() for at in range(300)]


async def test_a_full_queue(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B32: five may be pending, two in flight, no acknowledgement comes, nine publishes: four are refused by the
    call and leave no hole."""
    topic = unique("t")
    clock = times(max_pending=5, heartbeat=5.0)
    async with FaultProxy(mosquitto.port) as proxy, client(mosquitto.url, worker) as one:
        await one.subscribe(topic, qos=1)
        url = f"mqtt://127.0.0.1:{proxy.port}"
        async with client(url, worker, clock=clock, max_inflight=2) as publisher:
            proxy.stall("down")
            futures = []
            refused = 0
            for at in range(9):
                try:
                    futures.append(publisher.publish(topic, str(at).encode(), qos=1))
                except QueueFull:
                    refused += 1
                await asyncio.sleep(0.01)
            assert (len(futures), refused) == (5, 4)
            await proxy.heal()
            await asyncio.gather(*futures)
            await publisher.publish(topic, b"last")
            seen = await take_through(one, b"last")
            assert keys(seen) == [(topic, at) for at in range(1, 7)]
            assert not gaps_of(seen)


async def test_a_payload_over_the_brokers_limit(worker: WorkerServer) -> None:
    """The broker's own limit is known from its CONNACK; over it the call fails, and no number is taken."""
    with Mosquitto(extra=["max_packet_size 10000"]) as broker:
        async with client(broker.url, worker) as one:
            topic = unique("t")
            with pytest.raises(PayloadTooLarge):
                one.publish(topic, bytes(10_001))
            assert (await one.publish(topic, bytes(5_000))).number == 1


async def test_messages_of_publishers_without_the_plugin(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B56: delivered untouched, at once and in arrival position, and counted."""
    topic = unique("t")
    async with client(mosquitto.url, worker) as one, client(mosquitto.url, worker) as publisher:
        await one.subscribe(topic)
        with mosquitto.probe() as plain:
            for at in range(5):
                await publisher.publish(topic, b"ours%d" % at)
                await asyncio.to_thread(plain.publish, topic, b"theirs%d" % at)
                await until(lambda at=at: one.stats().unsequenced == at + 1)  # type: ignore[misc]
        seen = events_of(await take(one, 10))
        assert sorted(each.payload for each in seen if each.number is None) == [b"theirs%d" % at for at in range(5)]
        assert [each.number for each in seen if each.number is not None] == [1, 2, 3, 4, 5]


async def test_a_cut_in_mid_stream_at_the_subscriber(mosquitto: Mosquitto, worker: WorkerServer) -> None:
    """B16 on MQTT: reconnected, then exact gaps, then the stream goes on from its position."""
    topic = unique("t")
    async with (
        FaultProxy(mosquitto.port) as proxy,
        client(mosquitto.url, worker) as publisher,
        client(f"mqtt://127.0.0.1:{proxy.port}", worker) as one,
    ):
        await one.subscribe(topic)
        await published(publisher, topic, 50)
        await until(lambda: one.stats().undelivered == 50)
        await cut_while(proxy, one, published(publisher, topic, 50, first=50))
        await published(publisher, topic, 50, first=100)
        seen = await take_through(one, b"149")
        assert_complete(topic, seen, 150)


async def test_the_tail_that_the_broker_drops(worker: WorkerServer) -> None:
    """B15, R17: the subscriber's socket is stalled, mosquitto's queue for it overflows, the publisher gets all its
    acknowledgements, and then there is silence: one gap, as large as the broker's own count of what it dropped."""
    topic, count = unique("t"), 400
    with Mosquitto(max_queued=200, extra=["sys_interval 1"]) as broker:
        async with (
            FaultProxy(broker.port) as proxy,
            client(broker.url, worker) as publisher,
            client(f"mqtt://127.0.0.1:{proxy.port}", worker, clock=times(heartbeat=5.0, loss_timeout=5.0)) as one,
        ):
            await one.subscribe(topic, qos=1)
            proxy.stall("down")
            await published(publisher, topic, count, qos=1)
            await proxy.heal()
            seen: list[Any] = []
            while not gaps_of(seen):
                seen += await take(one, 1)
            (gap,) = gaps_of(seen)
            assert (gap.last, gap.reason) == (count, GapReason.LOST)
            assert keys(seen) == [(topic, number) for number in range(1, gap.first)]
            dropped = gap.last - gap.first + 1
            with broker.probe() as plain:
                await asyncio.to_thread(plain.subscribe, "$SYS/broker/publish/messages/dropped")
                _, counted = await asyncio.to_thread(plain.receive, 10.0)
                while int(counted) < dropped:
                    _, counted = await asyncio.to_thread(plain.receive, 10.0)
            assert int(counted) == dropped
            await publisher.publish(topic, b"next", qos=1)
            assert keys(await take(one, 1)) == [(topic, count + 1)]  # once, and the position goes on
            assert one.stats().gaps == 1


async def cut_while(proxy: FaultProxy, one: Client, action: Any) -> None:
    """Keep a client away from its broker during an action."""
    proxy.refuse()
    proxy.cut()
    await until(lambda: not one.stats().connected)
    await action
    await proxy.heal()
    await until(lambda: one.stats().connected)
    await until(lambda: one._links["mqtt"].is_restored)


def assert_complete(topic: str, seen: list[Any], count: int) -> None:
    """Check that every number was notified or is in a gap, in order, and where ``Reconnected`` stands."""
    at = next(at for at, each in enumerate(seen) if isinstance(each, Reconnected))
    assert max(numbers_of(seen[:at])) < min(numbers_of(seen[at:]))
    assert not gaps_of(seen[:at])
    missing = [number for each in gaps_of(seen) for number in range(each.first, each.last + 1)]
    assert all(isinstance(each, Gap) and each.reason == GapReason.LOST for each in gaps_of(seen))
    assert numbers_of(seen) == sorted(set(range(1, count + 1)) - set(missing))
    assert 0 < len(missing) < count


def numbers_of(seen: list[Any]) -> list[int]:
    return [each.number for each in events_of(seen) if each.number is not None]
