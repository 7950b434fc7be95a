"""The in-process broker: the suite of all adapters, and its own controls."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import pytest

from inorder.errors import BrokerUnreachable, InvalidOption, Refused
from inorder.ports import Outgoing
from inorder.protocol.names import exact
from inorder.testing.ens_conformance import (
    EnsConformance,
    EnsMaker,
    Recorder,
    StoppableBroker,
    connected,
    ens_maker,
    unique,
)
from inorder_adapters.memory import hub, open_ens


class TestMemory(EnsConformance):
    """With stamps beside the payload."""

    is_in_process: ClassVar[bool] = True

    @pytest.fixture
    def hub_name(self) -> str:
        return unique("hub")

    @pytest.fixture
    def make_ens(self, hub_name: str) -> EnsMaker:
        return ens_maker(open_ens, f"memory://{hub_name}")

    @pytest.fixture
    def stoppable(self, hub_name: str) -> StoppableBroker:
        async def stop() -> None:
            hub(hub_name).stop()

        async def start() -> None:
            hub(hub_name).start()

        return StoppableBroker(ens_maker(open_ens, f"memory://{hub_name}"), stop, start)


class TestMemoryWithoutProperties(TestMemory):
    """With stamps in front of the payload."""

    @pytest.fixture
    def make_ens(self, hub_name: str) -> EnsMaker:
        return ens_maker(open_ens, f"memory://{hub_name}", properties=False)


class TestMemoryWithDelay(TestMemory):
    """Delay alone keeps what the suite asks for."""

    @pytest.fixture
    def make_ens(self, hub_name: str) -> EnsMaker:
        return ens_maker(open_ens, f"memory://{hub_name}", delay_ms="0..3")


async def arrivals_of(name: str, client_id: str, count: int, sent: int, **options: object) -> list[bytes]:
    """Return what one client gets of a number of events, the last of which is never lost."""
    make = ens_maker(open_ens, f"memory://{name}")
    publisher, subscriber = make(), make(client_id, **options)
    async with connected(publisher), connected(subscriber) as recorder:
        await subscriber.subscribe(exact("t"))
        for number in range(sent):
            publisher.publish(Outgoing("t", b"%d" % number), number)
        await recorder.until_arrived(count)
        return list(recorder.payloads)


async def test_loss_and_duplicates_are_the_same_for_the_same_seed() -> None:
    async def run(name: str, seed: int, client_id: str) -> tuple[list[bytes], dict[str, int]]:
        sink = Recorder()
        make = ens_maker(open_ens, f"memory://{name}")
        publisher, subscriber = make(), make(client_id, seed=seed, loss=0.2, duplicate=0.2)
        await subscriber.connect(sink)
        async with connected(publisher) as sent:
            await subscriber.subscribe(exact("t"))
            for number in range(200):
                publisher.publish(Outgoing("t", b"%d" % number), number)
            counters = hub(name).counters
            await sent.until_accepted(200)
            expected = 200 - counters["lost"] + counters["duplicated"]
            await sink.until_arrived(expected)
        await subscriber.close()
        return sink.payloads, dict(counters)

    first, counters = await run(unique("hub"), 7, "a")
    assert counters["lost"] > 0
    assert counters["duplicated"] > 0
    assert await run(unique("hub"), 7, "a") == (first, counters)
    assert (await run(unique("hub"), 8, "a"))[0] != first
    assert (await run(unique("hub"), 7, "b"))[0] != first


async def test_publishers_overtake_each_other_but_not_themselves() -> None:
    """B01, as two bridged brokers do it."""
    name = unique("hub")
    make = ens_maker(open_ens, f"memory://{name}")
    left, right = make("left", delay_ms="0..5"), make("right", delay_ms="0..5")
    async with (
        connected(make("p")) as _,
        connected(left) as seen_left,
        connected(right) as seen_right,
    ):
        publishers = [make(f"p{number}") for number in range(2)]
        for subscriber in (left, right):
            await subscriber.subscribe(subscriber.parse_filter("#"))
        async with connected(publishers[0]), connected(publishers[1]):
            for number in range(200):
                publishers[number % 2].publish(Outgoing(f"t/{number % 2}", b"%d" % number), number)
                if number % 20 == 0:
                    await asyncio.sleep(0)
            await seen_left.until_arrived(200)
            await seen_right.until_arrived(200)
    assert seen_left.payloads != seen_right.payloads
    for seen in (seen_left, seen_right):
        for parity in (0, 1):
            own = [int(payload) for payload in seen.payloads if int(payload) % 2 == parity]
            assert own == sorted(own)


async def test_reorder_lets_events_of_one_publisher_overtake() -> None:
    got = await arrivals_of(unique("hub"), "a", 200, 200, delay_ms="0..2", reorder=0.3)
    assert got != sorted(got, key=int)
    assert sorted(got, key=int) == [b"%d" % number for number in range(200)]


async def test_stall_and_resume_keep_the_order() -> None:
    name = unique("hub")
    make = ens_maker(open_ens, f"memory://{name}")
    ens = make("me")
    async with connected(ens) as recorder, connected(make("other")) as other:
        await ens.subscribe(exact("t"))
        hub(name).stall("me")
        for number in range(10):
            ens.publish(Outgoing("t", b"%d" % number), number)
        another = make("third")
        async with connected(another) as third:
            another.publish(Outgoing("t", b"10"), 0)
            await third.until_accepted(1)
        assert (recorder.arrivals, recorder.accepted_tokens, other.arrivals) == ([], [], [])
        hub(name).resume("me")
        await recorder.until_arrived(11)
        await recorder.until_accepted(10)
    assert recorder.payloads == [b"%d" % number for number in range(11)]


async def test_cut_hits_one_client() -> None:
    name = unique("hub")
    make = ens_maker(open_ens, f"memory://{name}")
    async with connected(make("a")) as a, connected(make("b")) as b:
        hub(name).cut("a")
        assert len(a.losses) == 1
        assert b.losses == []


async def test_publishes_can_be_refused() -> None:
    name = unique("hub")
    ens = ens_maker(open_ens, f"memory://{name}")("a")
    async with connected(ens) as recorder:
        hub(name).refuse_publishes("a", 2)
        for token in range(3):
            ens.publish(Outgoing("t", b"x"), token)
        await recorder.until_accepted(1)
    assert recorder.accepted_tokens == [2]
    assert [token for token, _ in recorder.refusals] == [0, 1]
    assert all(isinstance(error, Refused) for _, error in recorder.refusals)
    assert hub(name).counters["refused"] == 2


async def test_a_second_client_of_the_same_id_takes_over() -> None:
    """B21, as MQTT brokers do."""
    make = ens_maker(open_ens, f"memory://{unique('hub')}")
    async with connected(make("same")) as first, connected(make("same")) as second:
        assert len(first.losses) == 1
        assert second.losses == []


async def test_one_copy_for_overlapping_filters_on_request() -> None:
    """B08."""
    ens = ens_maker(open_ens, f"memory://{unique('hub')}")(overlap="once")
    async with connected(ens) as recorder:
        await ens.subscribe(ens.parse_filter("ov/#"))
        await ens.subscribe(ens.parse_filter("ov/a"))
        ens.publish(Outgoing("ov/a", b"x"), 0)
        ens.publish(Outgoing("ov/a", b"y"), 1)
        await recorder.until(lambda: b"y" in recorder.payloads)
    assert recorder.payloads == [b"x", b"y"]
    assert set(recorder.arrivals[0].via) == {"ov/#", "ov/a"}


async def test_a_reader_without_properties_misses_the_stamp() -> None:
    """B12: a subscriber of an older protocol."""
    name = unique("hub")
    new, old = (ens_maker(open_ens, f"memory://{name}")(properties=flag) for flag in (True, False))
    async with connected(new), connected(old) as recorder:
        await old.subscribe(exact("t"))
        new.publish(Outgoing("t", b"beside", b"s"), 0)
        new.publish(Outgoing("t", b"in front", b"s", in_payload=True), 1)
        await recorder.until_arrived(2)
    assert [(arrival.payload, arrival.stamp) for arrival in recorder.arrivals] == [
        (b"beside", None),
        (b"in front", b"s"),
    ]


async def test_a_stopped_broker_refuses_connections() -> None:
    name = unique("hub")
    hub(name).stop()
    with pytest.raises(BrokerUnreachable):
        await ens_maker(open_ens, f"memory://{name}")().connect(Recorder())


@pytest.mark.parametrize(
    "url",
    [
        "memory://x?delay_ms=5..1",
        "memory://x?delay_ms=-1",
        "memory://x?loss=2",
        "memory://x?seed=one",
        "memory://x?overlap=some",
        "memory://x?seed=1&seed=2",
        "memory://",
        "mem://x",
    ],
)
def test_bad_urls(url: str) -> None:
    with pytest.raises(InvalidOption):
        open_ens(url, client_id="a", options={})


def test_options_win_over_the_url() -> None:
    assert open_ens("memory://x?space=a", client_id="a", options={"space": "b"}).space == "b"
    assert open_ens("memory://x?delay_ms=3", client_id="a", options={"delay_ms": 4.5}).space == "memory"
