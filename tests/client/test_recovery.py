"""Brokers and workers that go and come back: nothing is lost silently, nothing spins meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest
from tests.client.helpers import (
    PATIENCE,
    Site,
    events_of,
    gaps_of,
    keys,
    payloads,
    published,
    state_of,
    take,
    take_events,
    take_through,
    times,
    until,
)

from inorder import Bounded, Client, Gap, GapReason, Reconnected, Verdict
from inorder.errors import Refused
from inorder.ports import Outgoing
from inorder.protocol.stamp import TotalStamp, encode_stamp
from inorder.protocol.wire import NumberState
from inorder_adapters.memory import open_ens
from inorder_adapters.memory.ens import MemoryEns
from inorder_adapters.memory.hub import WireMessage


async def test_events_of_an_outage_are_a_gap_after_reconnected(site: Site) -> None:
    """B16, R17: ``Reconnected`` comes before the first message after it, the gaps name exactly what was missed, and
    the position goes on."""
    async with site.client("one", clock=times(backoff_first=0.2)) as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b")
        await published(publisher, "a", 10)
        await take_events(one, 10)
        keep_out(site, one)
        await published(publisher, "a", 7, first=10)
        await published(publisher, "b", 3)
        let_in(site, one)
        await until(lambda: one.stats().connected)
        await published(publisher, "a", 5, first=17)
        seen = await take_through(one, b"21")
        assert seen[0] == Reconnected("memory")
        assert set(gaps_of(seen)) == {
            Gap("memory", "a", 11, 17, GapReason.LOST),
            Gap("memory", "b", 1, 3, GapReason.LOST),
        }
        assert keys(seen) == [("a", number) for number in range(18, 23)]


def keep_out(site: Site, client: Client) -> None:
    """Cut a client off; it cannot come back before :func:`let_in`."""
    ens: Any = client._links["memory"].ens
    ens._hub = Unreachable(site)
    site.hub.cut(client.client_id)


def let_in(site: Site, client: Client) -> None:
    ens: Any = client._links["memory"].ens
    ens._hub = site.hub


class Unreachable:
    """A broker as it looks to one client that cannot reach it."""

    is_down = True

    def __init__(self, site: Site) -> None:
        self.counters = site.hub.counters


@pytest.mark.parametrize("filter", ["a", "#"])
async def test_the_end_of_a_burst_is_found_lost_without_further_traffic(site: Site, filter: str) -> None:
    """B15, R17: heads tell it, also of a topic that is new under a filter (R13)."""
    async with site.client("one", loss=1.0) as one, site.client("publisher") as publisher:
        await one.subscribe(filter)
        await published(publisher, "a", 200)
        (gap,) = await take(one, 1)
        assert gap == Gap("memory", "a", 1, 200, GapReason.LOST)


async def test_a_worker_that_starts_anew_continues_its_numbers(site: Site) -> None:
    """In mid-stream, three times: no number twice, no event lost, the same order at both."""
    rough: dict[str, Any] = {"delay_ms": "0..10", "reorder": 0.3}
    one, two = site.client("one", seed=1, **rough), site.client("two", seed=2, **rough)
    async with one, two, site.client("publisher") as publisher:
        for each in (one, two):
            await each.subscribe("a", "b")
        futures = []
        for at in range(300):
            futures.append(publisher.publish("ab"[at % 2], str(at).encode()))
            await asyncio.sleep(0.001)
            if at in (70, 140, 210):
                await site.stop()
                await site.start()
        async with asyncio.timeout(PATIENCE):
            receipts = await asyncio.gather(*futures)
        assert len({(each.topic, each.number) for each in receipts}) == 300
        seen = [await take_events(each, 300) for each in (one, two)]
        assert keys(seen[0]) == keys(seen[1])
        assert payloads(seen[0]) == [str(at).encode() for at in range(300)]
        assert not gaps_of(seen[0] + seen[1])
        assert one.stats().worker_reconnects == 3


async def test_a_worker_that_is_silent_is_given_up(site: Site) -> None:
    """Three heartbeats without a word: the connection is cut and made again."""
    async with site.client("one", clock=times(heartbeat=0.05)) as one:
        workers: Any = one._worker
        (worker,) = workers._links
        connection = worker._connection
        connection.data_received = lambda data: None  # what the worker says does not arrive
        before = connection.last_reception
        await until(lambda: worker.is_connected and worker._connection is not connection)
        assert asyncio.get_running_loop().time() - before >= 0.15
        await published(one, "a", 1)


async def test_a_loop_that_stood_still_does_not_blame_the_worker(site: Site) -> None:
    """The answers are there, they were only not read yet."""
    async with site.client("one", clock=times(heartbeat=0.05)) as one:
        await asyncio.sleep(0.06)
        time.sleep(0.3)  # noqa: ASYNC251 (that is the point)
        await asyncio.sleep(0.1)
        await published(one, "a", 1)
        assert one.stats().worker_reconnects == 0


async def test_a_worker_that_throws_us_out_is_not_asked_without_a_rest(site: Site, full_pauses: None) -> None:
    """Each time it accepts, so only the life of the connection tells that it is no good."""
    async with site.client("one", clock=times(backoff_first=0.02, backoff_max=0.1, heartbeat=60.0)) as one:
        loop = asyncio.get_running_loop()
        began = loop.time()
        workers: Any = one._worker
        (worker,) = workers._links
        last: Any = None
        for _ in range(6):
            await until(lambda: worker._connection not in (None, last), "a connection")  # noqa: B023 (called here)
            last = worker._connection
            last.transport.abort()
        assert loop.time() - began > 0.02 + 0.04 + 0.08 + 0.1
        await published(one, "a", 1)


@pytest.mark.parametrize("mode", ["strict", Bounded(buffer=100, max_wait=60.0)])
@pytest.mark.parametrize("has_worker", [True, False])
async def test_waiting_for_a_number_takes_no_time_of_the_cpu(site: Site, mode: Any, has_worker: bool) -> None:
    """An event waits behind a number that is not lost yet; with or without a worker nothing spins."""
    async with (
        site.client("one", mode=mode, clock=times(gap_timeout=0.1, loss_timeout=60.0)) as one,
        site.client("publisher") as publisher,
    ):
        await one.subscribe("a")
        await site.lose(one, published(publisher, "a", 1))
        await published(publisher, "a", 1, first=1)
        await until(lambda: one.stats().waiting == 1)
        if not has_worker:
            await site.stop()
            await until(lambda: not one.stats().connected)
        turns = 0
        flush = one._endpoint.flush

        def counted(**how: bool) -> None:
            nonlocal turns
            turns += 1
            flush(**how)

        one._endpoint.flush = counted  # type: ignore[method-assign]
        await asyncio.sleep(0.5)
        assert turns <= 40
        if not has_worker:
            await site.start()


async def test_a_gap_is_settled_when_the_worker_is_back(site: Site) -> None:
    """The question that nobody could answer is asked again."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await site.lose(one, published(publisher, "a", 2))
        await published(publisher, "a", 1, first=2)
        await site.stop()
        await asyncio.sleep(0.2)
        assert one.stats().gaps == 0
        await site.start()
        seen = await take(one, 2)
        assert gaps_of(seen) == [Gap("memory", "a", 1, 2, GapReason.LOST)]
        assert keys(seen) == [("a", 3)]


async def test_a_publisher_that_vanished_is_abandoned_and_reported(site: Site) -> None:
    """R16: it had a number, nobody knows whether it was delivered."""
    await site.stop()
    await site.start(publisher_grace=0.2)
    async with site.client("one") as one:
        await one.subscribe("a")
        async with site.client("gone", clock=times(close_timeout=0.05)) as gone:
            await published(gone, "a", 1)
            await site.lose(one, stalled(site, gone))
        async with site.client("publisher") as publisher:
            await published(publisher, "a", 1, first=1)
            seen = await take_through(one, b"1")
        assert gaps_of(seen) == [Gap("memory", "a", 2, 2, GapReason.ABANDONED)]


async def stalled(site: Site, client: Client) -> None:
    """Hand an event over whose acknowledgement never comes."""
    site.hub.stall(client.client_id)
    before = site.hub.counters["published"]
    client.publish("a", b"perhaps")
    await until(lambda: site.hub.counters["published"] > before)


# -- what arrives and is not in order --------------------------------------------------------------------------


async def test_damaged_and_foreign_stamps_are_delivered_unsequenced(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """B24: nothing breaks, each kind is counted, and foreign ones are said once per topic."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b")
        await published(publisher, "a", 1)
        domain = one._endpoint.domain
        for stamp in (
            b"", b"!", b"AAAA", b"none", b"\xff\xfe",
            encode_stamp(TotalStamp(domain + 1, 1, 1, [])), encode_stamp(TotalStamp(domain + 1, 1, 2, [])),
            encode_stamp(TotalStamp(domain, one._endpoint.arrivals._ids["memory", "b"], 1, [])),
            encode_stamp(TotalStamp(domain, 99_999, 1, [])),
        ):  # fmt: skip
            raw_publish(site, "a", b"raw", stamp)
        await published(publisher, "a", 1, first=1)
        seen = events_of(await take_through(one, b"1"))
        assert [each.verdict for each in seen if each.payload == b"raw"] == [Verdict.UNSEQUENCED] * 9
        assert [each.number for each in seen if each.payload != b"raw"] == [1, 2]
        stats = one.stats()
        assert (stats.corrupt, stats.foreign, stats.unsequenced) == (5, 3, 9)
        assert len([each for each in caplog.records if "not sequenced" in each.message]) == 1


def raw_publish(site: Site, topic: str, payload: bytes, stamp: bytes) -> None:
    properties = (("inorder", stamp.decode("latin-1")),)
    site.hub.publish("raw", WireMessage(topic, payload, 0, properties), retain=False)


async def test_a_number_that_nobody_issued_holds_nothing_up(site: Site) -> None:
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await published(publisher, "a", 1)
        topic = one._endpoint.arrivals._ids["memory", "a"]
        for number, deps in ((2**40, []), (2**63 - 1, [topic, 2**40]), (2, [topic, 2**50])):
            raw_publish(site, "a", b"forged", encode_stamp(TotalStamp(one._endpoint.domain, topic, number, deps)))
        await until(lambda: one.stats().delivered["unsequenced"] >= 2)
        await published(publisher, "a", 3, first=1)
        seen = await take_through(one, b"3")
        assert [each for each in payloads(seen) if each != b"forged"] == [b"0", b"1", b"2", b"3"]


async def test_forged_ticks_make_no_other_topic_late_for_good(site: Site) -> None:
    """R23: who may publish on one topic at the broker."""
    async with site.client("one", mode="tag") as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b")
        await published(publisher, "a", 1)
        stamp = TotalStamp(one._endpoint.domain, one._endpoint.arrivals._ids["memory", "a"], 2, [], (1, 1, 2**60))
        raw_publish(site, "a", b"forged", encode_stamp(stamp))
        await published(publisher, "a", 1, first=1)
        await until(lambda: one.stats().delivered["in_order"] == 2)
        await published(publisher, "b", 1)
        await until(
            lambda: one._endpoint.ordering.describe()["leads"]["distrusted"] or one.stats().delivered["late"] > 1
        )
        await published(publisher, "b", 1, first=1)
        seen = await take_events(one, 4)
        assert [getattr(each, "verdict", "") for each in seen] == ["in_order", "in_order", "late", "in_order"]


async def test_a_loop_of_bridges_is_said_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """B11: the handler sees the event once, the copies are counted, the alarm comes once and not per copy."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        echo = await Echo(site, 30).start()
        await published(publisher, "a", 2)
        await until(lambda: one.stats().duplicates == 60)
        await echo.ens.close()
        assert payloads(await take(one, 2)) == [b"0", b"1"]
        assert len([each for each in caplog.records if "in a loop" in each.message]) == 1


class Echo:
    """A bridge that sends everything back, a number of times."""

    def __init__(self, site: Site, times: int) -> None:
        self.ens = open_ens(f"memory://{site.name}", client_id="echo", options={})
        self._left: dict[bytes, int] = {}
        self._times = times

    async def start(self) -> Echo:
        await self.ens.connect(self)
        await self.ens.subscribe(self.ens.parse_filter("a"))
        return self

    def arrived(self, arrival: Any) -> None:
        left = self._left[arrival.payload] = self._left.get(arrival.payload, self._times) - 1
        if left >= 0:
            self.ens.publish(Outgoing(arrival.topic, arrival.payload, arrival.stamp), left)

    def accepted(self, tokens: list[int]) -> None:
        pass

    def refused(self, token: int, error: Exception) -> None:
        raise AssertionError(error)

    def malformed(self, reason: str) -> None:
        raise AssertionError(reason)

    def connection_lost(self, error: Exception) -> None:
        pass


async def test_what_strips_stamps_is_named(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """B12, R17: delivered unsequenced, the numbers are one gap with the reason, the alarm comes once."""
    caplog.set_level(logging.WARNING)
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        strip(site)
        await published(publisher, "a", 5)
        seen = await take(one, 6)
        assert {each.verdict for each in events_of(seen)} == {Verdict.UNSEQUENCED}
        assert gaps_of(seen) == [Gap("memory", "a", 1, 5, GapReason.UNSTAMPED)]
        await published(publisher, "a", 5, first=5)
        await take(one, 6)
        assert len([each for each in caplog.records if "strips them" in each.message]) == 1
        assert one.stats().unsequenced == 10


def strip(site: Site) -> None:
    """Let the broker drop properties from now on."""
    publish = site.hub.publish

    def stripping(client_id: str, message: WireMessage, *, retain: bool) -> None:
        publish(client_id, WireMessage(message.topic, message.payload, message.qos), retain=retain)

    site.hub.publish = stripping  # type: ignore[method-assign]


# -- limits ----------------------------------------------------------------------------------------------------


async def test_strict_waits_within_its_limits_and_never_skips_silently(site: Site) -> None:
    """B57: behind a missing number only so much waits; what was given up is reported when its turn comes."""
    clock = times(max_waiting=50, gap_timeout=0.2, loss_timeout=0.6)
    async with site.client("one", clock=clock) as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await site.lose(one, published(publisher, "a", 1))
        await published(publisher, "a", 200, first=1)
        await until(lambda: one.stats().waiting == 50)
        assert one.stats().overflow == 150
        await published(publisher, "a", 1, first=201)
        seen: list[Any] = []
        while sum(each.last - each.first + 1 for each in gaps_of(seen)) + len(events_of(seen)) < 202:
            seen += await take(one, 1)
        first, *rest = gaps_of(seen)
        assert (first.first, first.last, first.reason) == (1, 1, GapReason.LOST)
        assert {each.reason for each in rest} == {GapReason.OVERFLOW}
        given_up = [number for each in rest for number in range(each.first, each.last + 1)]
        assert given_up == list(range(52, 203))
        assert keys(seen) == [("a", number) for number in range(2, 52)]


async def test_strict_waits_within_its_limit_of_bytes(site: Site) -> None:
    """B57: a few large events reach the limit as well as many small ones."""
    async with (
        site.client("one", clock=times(max_waiting_bytes=1_000_000)) as one,
        site.client("publisher") as publisher,
    ):
        await one.subscribe("a")
        await site.lose(one, published(publisher, "a", 1))
        await asyncio.gather(*(publisher.publish("a", bytes(300_000)) for _ in range(6)))
        await until(lambda: one.stats().waiting == 3)
        assert one.stats().waiting_bytes == 900_000
        seen = await take(one, 5)
        assert [(each.first, each.last, each.reason) for each in gaps_of(seen)] == [
            (1, 1, GapReason.LOST),
            (5, 7, GapReason.OVERFLOW),
        ]


async def test_bounded_lets_go_at_the_first_limit(site: Site) -> None:
    """B57: in order, with one gap, whichever of count and bytes is reached first."""
    for mode, waits in ((Bounded(buffer=20), 20), (Bounded(buffer=1000, buffer_bytes=100), 10)):
        async with (
            site.client("one", mode=mode, clock=times(loss_timeout=0.2)) as one,
            site.client("publisher") as publisher,
        ):
            await one.subscribe("a")
            await site.lose(one, published(publisher, "a", 1))
            await asyncio.gather(*(publisher.publish("a", bytes(10)) for _ in range(waits)))
            await until(lambda waits=waits: one.stats().waiting == waits)  # type: ignore[misc]
            await asyncio.gather(*(publisher.publish("a", bytes(10)) for _ in range(30)))
            seen = await take(one, waits + 31)
            numbers = [number or 0 for _, number in keys(seen)]
            assert numbers == list(range(numbers[0], numbers[0] + waits + 30))
            assert [each.reason for each in gaps_of(seen)] == [GapReason.SKIPPED]


@pytest.mark.parametrize("order", ["total", "fifo", "none"])
async def test_a_message_that_breaks_every_connection_is_given_up(
    site: Site, monkeypatch: pytest.MonkeyPatch, order: Any
) -> None:
    """Handed over for ever it would hold up everything behind it. Its number is abandoned at once (R16)."""
    broken = 0
    publish = MemoryEns.publish

    def breaking(self: MemoryEns, message: Outgoing, token: int) -> None:
        nonlocal broken
        if message.payload == b"poison":
            broken += 1
            asyncio.get_running_loop().call_soon(site.hub.cut, "publisher")
            return
        publish(self, message, token)

    monkeypatch.setattr(MemoryEns, "publish", breaking)
    async with site.client("publisher") as publisher, asyncio.timeout(PATIENCE):
        await publisher.publish("a", b"before", order=order)
        poison = publisher.publish("a", b"poison", order=order)
        behind = publisher.publish("a", b"behind", order=order)
        with pytest.raises(Refused, match="3 times"):
            await poison
        await behind
        assert broken == 3
        assert not publisher._endpoint.publishing.publisher.describe()["void"]
        await until(lambda: publisher.stats().pending == 0)
        if order == "total":
            await until(lambda: state_of(site, 2) is NumberState.ABANDONED, "the publisher's word")
