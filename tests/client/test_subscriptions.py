"""Subscriptions that change while events flow: R7 to R13 from the application's side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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
    take,
    take_events,
    take_through,
    until,
)

from inorder import Client, Event, Gap, Reconnected, Verdict
from inorder.errors import Closed, InvalidFilter, InvalidOption, Refused
from inorder.protocol import filters
from inorder.protocol.filters import MAX_FILTERS

ROUGH: dict[str, Any] = {"delay_ms": "0..10", "reorder": 0.3}


async def test_extend_and_unsubscribe_while_events_flow(site: Site) -> None:
    """R8, R11: the clocks of old topics are kept, nothing of a dropped topic follows, and no gap is made up."""
    one, two = site.client("one", seed=1, **ROUGH), site.client("two", seed=2, **ROUGH)
    async with one, two, site.client("publisher") as publisher:
        await two.subscribe("a", "b")
        await one.subscribe("a")
        flow = asyncio.create_task(keep_publishing(publisher, 400))
        await take_events(one, 50)
        await one.subscribe("b")
        extended = await take_events(one, 100)
        await one.unsubscribe("a")
        left = one.stats().undelivered
        rest = await take_through(one, await flow)
        whole = keys(await take_events(two, 400))
        assert not gaps_of(extended + rest)
        assert {topic for topic, _ in keys(extended)} == {"a", "b"}
        for part in (keys(extended), keys(rest)):
            assert part == [each for each in whole if each in set(part)]
        assert {topic for topic, _ in keys(rest[left:])} == {"b"}


async def keep_publishing(publisher: Client, count: int) -> bytes:
    """Publish alternately, a little at a time; return the last payload, which is on b."""
    for at in range(count):
        publisher.publish("ab"[at % 2], str(at).encode())
        await asyncio.sleep(0.0005)
    return str(count - 1).encode()


async def test_wildcards_of_a_client_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs the workers a look at every topic; what is in no total order costs them nothing."""
    monkeypatch.setattr(filters, "MAX_WILDCARDS", 2)
    async with site.client("one") as one:
        await one.subscribe("a/#", "b/+")
        with pytest.raises(InvalidFilter, match="3 filters have wildcards, a client may have 2"):
            await one.subscribe("c/#")
        await one.subscribe("c/#", ordering="none")
        with pytest.raises(InvalidFilter):
            await one.subscribe("c/#")
        await one.subscribe("a/#", "exact")
        await one.unsubscribe("b/+")
        await one.subscribe("c/#")


async def test_filters_of_a_client_are_bounded(site: Site) -> None:
    """They go to the workers as a whole."""
    async with site.client("one") as one:
        with pytest.raises(
            InvalidFilter, match=f"{MAX_FILTERS + 1} filters are too many, a client may have {MAX_FILTERS}"
        ):
            await one.subscribe(*(f"t{each}" for each in range(MAX_FILTERS + 1)))
        await one.subscribe("a")


async def test_nothing_of_a_dropped_topic_follows(site: Site) -> None:
    async with site.client("one", delay_ms="5..20") as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b")
        await published(publisher, "a", 20)
        await one.unsubscribe("a")
        await published(publisher, "b", 1, prefix="b")
        seen = await take_through(one, b"b0")
        assert "b" not in {each.topic for each in events_of(seen[:-1])}
        await published(publisher, "a", 5, first=20)
        await published(publisher, "b", 1, first=1, prefix="b")
        assert payloads(await take_through(one, b"b1")) == [b"b1"]


async def test_r22_the_broker_delivers_until_what_was_left_is_read_and_then_it_can_be_taken_again(site: Site) -> None:
    """Its connection is lost meanwhile: the subscription must be there again, or the rest would never come."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b", "c")
        site.hub.stall("one")
        await published(publisher, "a", 20)
        await one.unsubscribe("a")
        assert set(site.hub.members["one"].filters) == {"a", "b", "c"}
        site.hub.cut("one")
        await one.subscribe("a")
        await published(publisher, "a", 1, prefix="again")
        seen = await take_through(one, b"again0")
        assert payloads(seen[-1:]) == [b"again0"]
        assert not gaps_of(seen)
        await one.unsubscribe("a")
        await until(lambda: set(site.hub.members["one"].filters) == {"b", "c"})


async def test_a_filter_covers_topics_that_are_created_later(site: Site) -> None:
    """R13: a new topic begins at 1 for whoever had a filter for it."""
    one, two = site.client("one", seed=3, **ROUGH), site.client("two", seed=4, **ROUGH)
    async with one, two, site.client("publisher") as publisher:
        for each in (one, two):
            await each.subscribe("room/+/door", "room/#")
        for at in range(40):
            publisher.publish(f"room/{at % 8}/door", str(at).encode())
        seen = [await take_events(each, 40) for each in (one, two)]
        assert keys(seen[0]) == keys(seen[1])
        assert payloads(seen[0]) == [str(at).encode() for at in range(40)]
        assert not gaps_of(seen[0] + seen[1])


@pytest.mark.parametrize("overlap", ["each", "once"])
async def test_overlapping_filters_are_one_event(site: Site, overlap: str) -> None:
    """B08: one event for one publish; the copy for the other filter counts as overlap, not as duplicate."""
    async with site.client("one", overlap=overlap) as one, site.client("publisher") as publisher:
        await one.subscribe("ov/#")
        await one.subscribe("ov/a", qos=1)
        await published(publisher, "ov/a", 5)
        await published(publisher, "ov/a", 1, prefix="plain", order="none")
        assert payloads(await take(one, 6)) == [b"0", b"1", b"2", b"3", b"4", b"plain0"]
        await until(lambda: site.hub.counters["delivered"] == (12 if overlap == "each" else 6))
        stats = one.stats()
        assert (stats.overlaps, stats.duplicates, stats.undelivered) == (6 if overlap == "each" else 0, 0, 0)


async def test_the_strongest_ordering_of_overlapping_filters_wins(site: Site) -> None:
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("#", ordering="none")
        await one.subscribe("a")
        await published(publisher, "a", 3)
        seen = events_of(await take(one, 3))
        assert [each.verdict for each in seen] == [Verdict.IN_ORDER] * 3


async def test_a_subscription_that_is_made_weaker_leaves_the_total_order(site: Site) -> None:
    """Events of other topics do not wait for what is no longer counted."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b")
        await one.subscribe("a", ordering="fifo")
        await published(publisher, "a", 2)
        await published(publisher, "b", 1, prefix="b")
        seen = events_of(await take(one, 3))
        assert {each.payload: each.verdict for each in seen} == {
            b"0": Verdict.FIFO, b"1": Verdict.FIFO, b"b0": Verdict.IN_ORDER,
        }  # fmt: skip


async def test_two_spaces_in_one_client_are_one_order(site: Site) -> None:
    brokers = {"plant": f"memory://{site.name}-plant", "office": f"memory://{site.name}-office"}

    def client(client_id: str, **options: Any) -> Client:
        return Client(brokers, workers=[site.address], client_id=client_id, options=options)

    one, two = client("one", seed=5, **ROUGH), client("two", seed=6, **ROUGH)
    async with one, two, client("publisher") as publisher:
        for each in (one, two):
            for space in brokers:
                await each.subscribe("t", space=space)
        for at in range(100):
            publisher.publish("t", str(at).encode(), space=("plant", "office")[at % 2])
        seen = [events_of(await take_events(each, 100)) for each in (one, two)]
        assert payloads(seen[0]) == payloads(seen[1]) == [str(at).encode() for at in range(100)]
        assert {each.space for each in seen[0]} == {"plant", "office"}
        with pytest.raises(InvalidOption, match="'plant', 'office'"):
            publisher.publish("t", b"")
        with pytest.raises(InvalidOption, match="elsewhere"):
            await one.subscribe("t", space="elsewhere")


async def test_a_subscribe_in_mid_stream_starts_there(site: Site) -> None:
    """B57: the first number seen is the start, not a gap."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await published(publisher, "a", 10)
        await one.subscribe("a")
        await published(publisher, "a", 3, first=10)
        seen = await take(one, 3)
        assert keys(seen) == [("a", 11), ("a", 12), ("a", 13)]


async def test_unsubscribe_and_subscribe_again_reports_nothing_between(site: Site) -> None:
    """B48: what was published between is not loss."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await published(publisher, "a", 2)
        await one.unsubscribe("a")
        await published(publisher, "a", 5, first=2)
        await one.subscribe("a")
        await published(publisher, "a", 2, first=7)
        assert payloads(await take(one, 4)) == [b"0", b"1", b"7", b"8"]


async def test_a_cancelled_subscribe_completes_all_the_same(site: Site) -> None:
    """R11: a change that is on its way cannot be taken back; the next one follows it."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        for wait in range(8):  # cancelled at another await each time
            task = asyncio.create_task(one.subscribe("a" if wait % 2 else "b"))
            for _ in range(wait):
                await asyncio.sleep(0)
            if not task.cancel():
                continue  # the worker was quicker
            with pytest.raises(asyncio.CancelledError):
                await task
        await one.subscribe("c")
        for at, topic in enumerate("abc"):
            await published(publisher, topic, 1, first=at)
        assert payloads(await take(one, 3)) == [b"0", b"1", b"2"]


async def test_a_subscribe_outlives_its_worker(site: Site) -> None:
    """The change is asked for again when the worker is back."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await site.stop()
        await until(lambda: not one.stats().connected)
        task = asyncio.create_task(one.subscribe("a"))
        await asyncio.sleep(0.05)
        assert not task.done()
        await site.start()
        async with asyncio.timeout(PATIENCE):
            await task
        await published(publisher, "a", 2)
        assert payloads(await take_events(one, 2)) == [b"0", b"1"]


async def test_a_subscribe_outlives_its_broker(site: Site) -> None:
    async with site.client("one") as one, site.client("publisher") as publisher:
        site.hub.stop()
        tasks = [asyncio.create_task(one.subscribe(each)) for each in ("a", "b")]
        await asyncio.sleep(0.03)
        assert not any(each.done() for each in tasks)
        site.hub.start()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*tasks)
        await published(publisher, "a", 1)
        assert payloads(await take_events(one, 1)) == [b"0"]


async def test_unsubscribe_without_a_broker_does_not_wait_for_it(site: Site) -> None:
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b")
        site.hub.stop()
        async with asyncio.timeout(PATIENCE):
            await one.unsubscribe("a")
        site.hub.start()
        assert await take(one, 1) == [Reconnected("memory")]
        await published(publisher, "a", 1)
        await published(publisher, "b", 1, prefix="b")
        assert payloads(await take_events(one, 1)) == [b"b0"]


async def test_a_refused_subscribe_changes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        ens = one._links["memory"].ens
        refuse(monkeypatch, ens, "b")
        with pytest.raises(Refused):
            await one.subscribe("c", "b")
        await published(publisher, "c", 1)
        await published(publisher, "a", 1, prefix="a")
        assert payloads(await take(one, 1)) == [b"a0"]
        assert [each.filter.text for each in one._endpoint.subscriber.filters] == ["a"]


async def test_a_filter_that_is_refused_after_a_reconnection_is_said_to_who_waits(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        refuse(monkeypatch, one._links["memory"].ens, "b")
        site.hub.stop()
        task = asyncio.create_task(one.subscribe("b"))
        await asyncio.sleep(0)
        site.hub.start()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(Refused):
                await task
        await published(publisher, "a", 1)
        assert payloads(await take_events(one, 1)) == [b"0"]


def refuse(monkeypatch: pytest.MonkeyPatch, ens: Any, text: str) -> None:
    """Let the broker refuse one filter."""
    subscribe: Callable[..., Awaitable[None]] = ens.subscribe

    async def refusing(filter: Any, *, qos: int = 0) -> None:
        if filter.text == text:
            raise Refused("not authorized")
        await subscribe(filter, qos=qos)

    monkeypatch.setattr(ens, "subscribe", refusing)


async def test_bad_subscribes_are_refused_before_anything_changes(site: Site) -> None:
    async with site.client("one") as one:
        with pytest.raises(InvalidOption, match="at least one topic"):
            await one.subscribe()
        with pytest.raises(InvalidOption, match="'total', 'fifo' or 'none'"):
            await one.subscribe("a", ordering="best")  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="qos"):
            await one.subscribe("a", qos=3)
        with pytest.raises(InvalidOption, match="qos"):
            await one.subscribe("a", qos=True)
        for bad in ("", "a/#/b", "a+", "a\0", "\ud800", "a" * 65_536, "$share/g/a"):
            with pytest.raises(InvalidFilter):
                await one.subscribe("fine", bad)
        with pytest.raises(InvalidFilter, match="not subscribed"):
            await one.unsubscribe("fine")
        assert one._endpoint.routes.all() == []


async def test_a_client_without_workers_has_no_total_order(site: Site) -> None:
    async with Client(f"memory://{site.name}", workers=()) as client:
        with pytest.raises(InvalidOption, match="without workers"):
            await client.subscribe("a")
        with pytest.raises(InvalidOption, match="without workers"):
            client.publish("a", b"")
        await client.subscribe("a", ordering="fifo")
        await client.publish("a", b"1", order="none")
        (seen,) = await take(client, 1)
        assert isinstance(seen, Event)
        assert seen.verdict == Verdict.UNSEQUENCED


async def test_an_outstanding_subscribe_ends_with_the_client(site: Site) -> None:
    """Whether it waits for the broker or for the worker, the caller learns why it ended."""
    one = site.client("one")
    async with one:
        site.hub.stop()
        task = asyncio.create_task(one.subscribe("a"))
        await asyncio.sleep(0.01)
    with pytest.raises(Closed):
        await task
    site.hub.start()
    two = site.client("two")
    async with two:
        await site.stop()
        task = asyncio.create_task(two.subscribe("a"))
        await asyncio.sleep(0.01)
    with pytest.raises(Closed):
        await task
    await site.start()


async def test_events_wait_while_a_subscribe_is_outstanding(site: Site) -> None:
    """R9, over a worker that is away while the broker already delivers: nothing passes too early, nothing is lost."""
    one = site.client("one")
    async with one, site.client("two") as two, site.client("publisher") as publisher:
        for each in (one, two):
            await each.subscribe("a")
        await two.subscribe("b")
        site.hub.stall("one")
        task = asyncio.create_task(one.subscribe("b"))
        await asyncio.sleep(0.02)
        for at in range(20):
            publisher.publish("ab"[at % 2], str(at).encode())
        site.hub.resume("one")
        await task
        seen = [await take_through(each, b"19") for each in (one, two)]
        common = set(keys(seen[0])) & set(keys(seen[1]))
        assert [each for each in keys(seen[0]) if each in common] == [each for each in keys(seen[1]) if each in common]
        assert not [each for each in seen[0] if isinstance(each, Gap)]


async def test_b60_a_subset_of_the_topics_sees_holes_only_where_something_was_lost(site: Site) -> None:
    """Ten topics, of which a subscriber has one, then two, then those of a wildcard, then one again; one event is lost.
    One gap, on the right topic, and none for the others' numbers or for a change of the filters."""
    topics = [f"t/{number}" for number in range(10)]
    async with site.client("one") as one, site.client("all") as everything, site.client("publisher") as publisher:
        await everything.subscribe(*topics)
        await one.subscribe("t/3")
        for change in (
            one.subscribe("t/5"),
            one.subscribe("t/+"),
            one.unsubscribe("t/+"),
            one.unsubscribe("t/3"),
            one.subscribe("t/3"),
        ):
            await asyncio.gather(*(published(publisher, topic, 2) for topic in topics))
            await change
        await site.lose(one, published(publisher, "t/5", 1))
        await asyncio.gather(*(published(publisher, topic, 2) for topic in topics))
        await published(publisher, "t/3", 1, prefix="end")
        seen = await take_through(one, b"end0")
        rest = await take_events(everything, 6 * 2 * len(topics) + 2)
    (lost,) = gaps_of(seen)
    assert (lost.topic, lost.first, lost.last, lost.reason) == ("t/5", 11, 11, "lost")
    assert not gaps_of(rest)
    assert one.stats().gaps == 1
