"""One order at all subscribers, in every mode, over a broker that reorders, repeats and loses."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.client.helpers import (
    Site,
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

from inorder import Bounded, Client, Event, GapReason, Verdict
from inorder.endpoint import endpoint
from inorder.protocol.stamp import FifoStamp, Stamp, encode_stamp
from inorder_adapters.memory.delivery import Line
from inorder_adapters.memory.hub import WireMessage

ROUGH: dict[str, Any] = {"delay_ms": "0..20", "reorder": 0.3, "duplicate": 0.1}


async def both(site: Site, publisher: Client, count: int, prefix: str = "") -> None:
    """Publish alternately to topics a and b."""
    futures = [publisher.publish("ab"[at % 2], f"{prefix}{at}".encode()) for at in range(count)]
    await asyncio.gather(*futures)


async def test_two_subscribers_see_one_order_over_two_topics(site: Site) -> None:
    """TNO and R19: whatever the broker does, both see the same, and each publisher's events as it published them."""
    one, two = site.client("one", seed=1, **ROUGH), site.client("two", seed=2, **ROUGH)
    left, right = site.client("left"), site.client("right")
    async with one, two, left, right:
        for each in (one, two):
            await each.subscribe("a", "b")
        await asyncio.gather(both(site, left, 300, "l"), both(site, right, 300, "r"))
        seen = [await take_events(each, 600) for each in (one, two)]
        assert keys(seen[0]) == keys(seen[1])
        assert not gaps_of(seen[0] + seen[1])
        assert {each.verdict for each in events_of(seen[0])} == {Verdict.IN_ORDER}
        for side in (b"l", b"r"):
            own = [each for each in payloads(seen[0]) if each.startswith(side)]
            assert own == [side + str(at).encode() for at in range(300)]
        assert one.stats().duplicates > 0
        assert one.stats().waiting == 0


async def test_the_ens_alone_would_have_shown_two_orders(site: Site) -> None:
    """The test above shows something: without an order the same broker gives two."""
    one, two = site.client("one", seed=1, **ROUGH), site.client("two", seed=2, **ROUGH)
    publisher = site.client("publisher")
    async with one, two, publisher:
        for each in (one, two):
            await each.subscribe("a", "b", ordering="none")
        await both(site, publisher, 100)
        seen = [payloads(await take_events(each, 100)) for each in (one, two)]
        assert seen[0] != seen[1]


async def test_strict_reports_each_lost_range_once_and_keeps_the_order(site: Site) -> None:
    """R17: every number is either notified or in exactly one gap, and the rest stays in order."""
    one, two = site.client("one", seed=3, loss=0.1, **ROUGH), site.client("two", seed=4, **ROUGH)
    publisher = site.client("publisher")
    async with one, two, publisher:
        for each in (one, two):
            await each.subscribe("a", "b")
        await both(site, publisher, 200)
        whole = keys(await take_events(two, 200))
        await until(lambda: one.stats().delivered["in_order"] + one.stats().gaps > 100 and is_complete(one, 200))
        seen = await take(one, one.stats().undelivered)
        gaps = gaps_of(seen)
        assert {each.reason for each in gaps} == {GapReason.LOST}
        missing = [(each.topic, number) for each in gaps for number in range(each.first, each.last + 1)]
        assert Counter(missing + keys(seen)) == Counter(whole)
        assert keys(seen) == [each for each in whole if each not in missing]


def is_complete(client: Client, count: int) -> bool:
    """Tell whether a subscriber of topics a and b has passed ``count`` numbers."""
    return sum(client._endpoint.ordering.clock.values()) == count


@pytest.mark.parametrize("mode", [Bounded(buffer=3), Bounded(buffer=None, max_wait=0.01), "tag"])
async def test_bounded_and_tag_keep_one_order_among_in_order(site: Site, mode: Bounded | str) -> None:
    """R6: some events come late, every event comes, and those in order are in one order at both."""
    one, two = site.client("one", seed=5, mode=mode, **ROUGH), site.client("two", seed=6, mode=mode, **ROUGH)
    publisher = site.client("publisher")
    async with one, two, publisher:
        for each in (one, two):
            await each.subscribe("a", "b")
        await both(site, publisher, 300)
        seen = [events_of(await take_events(each, 300)) for each in (one, two)]
        in_order = [[each for each in side if each.verdict == Verdict.IN_ORDER] for side in seen]
        common = set(keys(in_order[0])) & set(keys(in_order[1]))
        assert [each for each in keys(in_order[0]) if each in common] == [
            each for each in keys(in_order[1]) if each in common
        ]
        assert Counter(keys(seen[0])) == Counter(keys(seen[1]))
        assert {each.verdict for each in seen[0] + seen[1]} == {Verdict.IN_ORDER, Verdict.LATE}


async def test_bounded_reports_what_it_passed_over_and_never_came(site: Site) -> None:
    """R6: jumped numbers that do not arrive within ``loss_timeout`` are one gap."""
    async with site.client("one", mode=Bounded(buffer=0)) as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await published(publisher, "a", 1)
        await site.lose(one, published(publisher, "a", 3, first=1))
        await published(publisher, "a", 1, first=4)
        seen = await take(one, 3)
        assert payloads(seen) == [b"0", b"4"]
        assert [(each.first, each.last, each.reason) for each in gaps_of(seen)] == [(2, 4, GapReason.SKIPPED)]


async def test_fifo_keeps_each_publishers_order_without_workers(site: Site) -> None:
    """``fifo``: per publisher and topic, known to no worker."""
    one = Client(f"memory://{site.name}", workers=(), client_id="one", options={"seed": 7, **ROUGH})
    publisher = Client(f"memory://{site.name}", workers=(), client_id="publisher")
    async with one, publisher:
        await one.subscribe("a", ordering="fifo")
        await published(publisher, "a", 1, order="fifo")
        await take(one, 1)  # the first one seen is the start
        await published(publisher, "a", 100, first=1, order="fifo")
        seen = events_of(await take_events(one, 100))
        assert payloads(seen) == [str(at).encode() for at in range(1, 101)]
        assert {each.verdict for each in seen} == {Verdict.FIFO}


async def test_a_fifo_stamp_does_not_tell_the_sessions_incarnation(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """All readers see the stamp, and who knows that and the client's id could speak for its session."""
    stamps: list[Stamp] = []

    def encode(stamp: Stamp) -> bytes:
        stamps.append(stamp)
        return encode_stamp(stamp)

    monkeypatch.setattr(endpoint, "encode_stamp", encode)
    async with site.client("publisher") as publisher:
        await published(publisher, "a", 2, order="fifo")
        first, second = stamps
        assert isinstance(first, FifoStamp)
        assert isinstance(second, FifoStamp)
        assert first.incarnation == second.incarnation != publisher.incarnation


async def test_a_lost_fifo_event_holds_the_others_for_gap_timeout_only(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else happens meanwhile: the timer alone lets them go. What comes all the same is late, once (R5)."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a", ordering="fifo")
        await published(publisher, "a", 1, order="fifo")
        lost: list[WireMessage] = []
        publish = site.hub.publish
        monkeypatch.setattr(site.hub, "publish", lambda client_id, message, retain: lost.append(message))
        await published(publisher, "a", 1, first=1, order="fifo")
        monkeypatch.setattr(site.hub, "publish", publish)
        await published(publisher, "a", 2, first=2, order="fifo")
        assert payloads(await take_events(one, 3)) == [b"0", b"2", b"3"]
        for message in lost * 2:
            site.hub.publish("publisher", message, retain=False)
        (late,) = events_of(await take_events(one, 1))
        assert (late.payload, late.verdict) == (b"1", Verdict.LATE)
        await published(publisher, "a", 1, first=4, order="fifo")
        assert payloads(await take_events(one, 1)) == [b"4"]


async def test_fifo_subscribers_read_total_events_in_their_numbers_order(site: Site) -> None:
    async with site.client("one", seed=8, **ROUGH) as one, site.client("publisher") as publisher:
        await one.subscribe("a", ordering="fifo")
        await published(publisher, "a", 1)
        await take(one, 1)
        await published(publisher, "a", 50, first=1)
        assert payloads(await take_events(one, 50)) == [str(at).encode() for at in range(1, 51)]


async def test_none_passes_everything_through(site: Site) -> None:
    async with site.client("one", seed=9, duplicate=1.0) as one, site.client("publisher") as publisher:
        await one.subscribe("a", ordering="none")
        await published(publisher, "a", 1)
        await published(publisher, "a", 1, first=1, order="none")
        seen = events_of(await take_events(one, 4))
        assert sorted(payloads(seen)) == [b"0", b"0", b"1", b"1"]
        assert {each.verdict for each in seen} == {Verdict.UNSEQUENCED}
        assert {each.number for each in seen} == {1, None}


async def test_a_publisher_without_the_plugin_is_delivered_at_once(site: Site) -> None:
    """B56: plain messages pass in arrival position, also while sequenced ones wait, and are counted."""
    async with site.client("one", clock=times(loss_timeout=60.0)) as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await site.lose(one, published(publisher, "a", 1))
        await published(publisher, "a", 1, first=1)
        await published(publisher, "a", 1, prefix="plain", order="none")
        (first,) = await take(one, 1)
        assert isinstance(first, Event)
        assert (first.payload, first.verdict, first.number) == (b"plain0", Verdict.UNSEQUENCED, None)
        assert one.stats().unsequenced == 1
        assert one.stats().waiting == 1


async def test_dependencies_are_told_by_topic_name(site: Site) -> None:
    async with site.client("one") as one, site.client("two") as two, site.client("publisher") as publisher:
        for each in (one, two):
            await each.subscribe("a", "b")
        receipts = [await publisher.publish("a", b"1"), await publisher.publish("b", b"2")]
        seen = events_of(await take_through(one, b"2"))
        assert [each.deps for each in seen] == [receipts[0].deps, (("a", 1),)]
        assert receipts[1].deps == (("a", 1),)


# -- the retain flag (R5) ------------------------------------------------------------------------------------------


def as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker sends all with the retain flag (MQTT 5: Retain As Published, and all is published so)."""
    notify = Line._arrive

    def arrive(self: Line, message: WireMessage, via: tuple[str, ...], qos: int, retained: bool) -> None:
        notify(self, message, via, qos, True)

    monkeypatch.setattr(Line, "_arrive", arrive)


@pytest.mark.parametrize("mode", ["strict", "tag"])
async def test_numbers_tell_live_from_kept_and_not_the_retain_flag(
    site: Site, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    """R5: repetitions are duplicates, what was passed over is late and not skipped; copies of the store are retained,
    each once for each subscription."""
    as_published(monkeypatch)
    async with site.client("one", seed=1, mode=mode, **ROUGH) as one, site.client("publisher") as publisher:
        await one.subscribe("+")
        await published(publisher, "a", 100, retain=True)
        seen = await take_events(one, 100)
        await until(lambda: site.hub.counters["delivered"] == 100 + site.hub.counters["duplicated"])
        await one.subscribe("a")
        seen += await take_events(one, 1)
        verdicts = Counter(each.verdict for each in events_of(seen))
        assert sorted(payloads(seen)) == sorted([*(b"%d" % at for at in range(100)), b"99"])
        assert verdicts[Verdict.RETAINED] == 1
        assert (verdicts[Verdict.LATE] > 0) == (mode == "tag")
        assert one.stats().duplicates >= site.hub.counters["duplicated"] - 1 > 0
        assert not gaps_of(seen)


async def test_repetitions_of_a_fifo_stream_are_no_copies_of_the_store(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: there the counter decides."""
    as_published(monkeypatch)
    async with site.client("one", duplicate=1.0) as one, site.client("publisher") as publisher:
        await one.subscribe("a", ordering="fifo")
        await published(publisher, "a", 1, order="fifo", retain=True)
        await take(one, 1)  # the broker may have kept it for all we know
        await published(publisher, "a", 50, first=1, order="fifo", retain=True)
        seen = events_of(await take_events(one, 51))
        assert payloads(seen) == [b"%d" % at for at in range(51)]
        assert {each.verdict for each in seen} == {Verdict.FIFO}
