"""Publishes: their order, their outcome, and what becomes of their numbers (R16, R19)."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import (
    PATIENCE,
    Site,
    events_of,
    gaps_of,
    keys,
    new_site,
    payloads,
    published,
    state_of,
    take,
    take_events,
    take_through,
    times,
    until,
)

from inorder import Client, Receipt
from inorder.client import clock
from inorder.client.publishing import Publish
from inorder.errors import (
    Abandoned,
    Closed,
    InvalidOption,
    InvalidPayload,
    InvalidTopic,
    LinkError,
    PayloadTooLarge,
    QueueFull,
    Refused,
)
from inorder.protocol.wire import NumberState
from inorder.testing.services import FaultProxy


async def test_a_receipt_tells_the_number(site: Site) -> None:
    async with site.client("publisher") as publisher:
        assert await publisher.publish("a", b"1") == Receipt("memory", "a", 1)
        assert await publisher.publish("a", b"2") == Receipt("memory", "a", 2)
        assert await publisher.publish("a", b"3", order="fifo") == Receipt("memory", "a", None)
        assert await publisher.publish("a", b"4", order="none") == Receipt("memory", "a", None)


async def test_a_publish_that_is_cancelled_at_once_takes_no_number(site: Site) -> None:
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await published(publisher, "a", 1)
        publisher.publish("a", b"never").cancel()
        await published(publisher, "a", 1, first=1)
        assert keys(await take_events(one, 2)) == [("a", 1), ("a", 2)]
        await until(lambda: publisher.stats().pending == 0)


async def test_a_cancelled_publish_before_another_topic_holds_nothing_up(site: Site) -> None:
    async with site.client("publisher") as publisher:
        await published(publisher, "a", 1)
        publisher.publish("a", b"never").cancel()
        async with asyncio.timeout(PATIENCE):
            await publisher.publish("b", b"of a topic nobody named before")


@pytest.mark.parametrize("turns", range(1, 10))
async def test_a_publish_that_is_cancelled_on_its_way_is_void(site: Site, turns: int) -> None:
    """R16: its number is skipped without a report and without a wait, whenever the cancellation comes; and what was
    handed over already arrives, though its publisher does not care any more."""
    async with (
        site.client("one", clock=times(gap_timeout=0.02, loss_timeout=60.0)) as one,
        site.client("publisher") as publisher,
    ):
        await one.subscribe("a")
        await published(publisher, "a", 1)
        publish = publisher.publish("a", b"cancelled")
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        publish.cancel()
        await published(publisher, "a", 1, first=1)
        seen = await take_through(one, b"1")
        assert not gaps_of(seen)
        assert payloads(seen) in ([b"0", b"1"], [b"0", b"cancelled", b"1"])
        assert one.stats().voids <= 3 - len(seen)
        await until(lambda: publisher.stats().pending == 0, "settlements")


async def test_wait_for_takes_a_publish_back(site: Site) -> None:
    """A caller that gives up through its task cancels the publish itself."""
    async with (
        site.client("one", clock=times(gap_timeout=0.02, loss_timeout=60.0)) as one,
        site.client("publisher") as publisher,
    ):
        await one.subscribe("a")
        await published(publisher, "a", 1)
        site.hub.stop()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(publisher.publish("a", b"never"), 0.05)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(publisher.publish("a", b"never", order="fifo"), 0.01)
        assert len(publisher._publishing._open) == 0
        site.hub.start()
        # else what the publisher is quicker with has no subscriber yet
        await until(lambda: all(link.is_restored for link in one._links.values()), "the subscription")
        await published(publisher, "a", 1, first=1)
        seen = await take_through(one, b"1")
        assert payloads(seen) == [b"0", b"1"]
        assert not gaps_of(seen)


async def test_a_refused_publish_leaves_no_hole(site: Site) -> None:
    """B32: the caller gets the reason, the number becomes void, nobody sees a gap, or waits until it may ask (R17)."""
    async with (
        site.client("one", clock=times(gap_timeout=3600.0)) as one,
        site.client("publisher") as publisher,
    ):
        await one.subscribe("a", "b")
        await published(publisher, "a", 1)
        site.hub.refuse_publishes("publisher", 4)
        outcomes = await asyncio.gather(
            *(publisher.publish("ab"[at % 2], b"refused") for at in range(4)), return_exceptions=True
        )
        assert [type(each) for each in outcomes] == [Refused] * 4
        await published(publisher, "a", 1, first=1)
        await published(publisher, "b", 1, first=2)
        seen = await take_through(one, b"2")
        assert payloads(seen) == [b"0", b"1", b"2"]
        assert not gaps_of(seen)
        assert one.stats().voids == 4


async def test_publishes_wait_for_the_broker_in_their_order(site: Site) -> None:
    """All orders: what was published first is handed over first, also what is published during the reconnection."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("total", "fifo", "none")
        await published(publisher, "total", 1)
        await take_events(one, 1)
        site.hub.stop()
        futures = [publisher.publish(how, str(at).encode(), order=how) for at in range(5) for how in ORDERS]
        await asyncio.sleep(0.02)
        assert not any(each.done() for each in futures)
        site.hub.start()
        for at in range(5, 50):
            futures += [publisher.publish(how, str(at).encode(), order=how) for how in ORDERS]
            await asyncio.sleep(0.001)
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*futures)
        seen = events_of(await take_events(one, 3 * 50 - missed(site, "one")))
        for how in ORDERS:
            own = [int(each.payload) for each in seen if each.topic == how]
            assert own == sorted(set(own)), how
        assert [int(each.payload) for each in seen if each.topic == "total"][-1] == 49


ORDERS: tuple[Any, ...] = ("total", "fifo", "none")


def missed(site: Site, client_id: str) -> int:
    """Return how many publishes a member did not get: those before it was back."""
    return int(3 * 50 + 1 - (site.hub.counters["delivered"]))


async def test_an_accepted_event_is_never_handed_over_twice(site: Site) -> None:
    async with site.client("publisher") as publisher:
        await published(publisher, "a", 10)
        site.hub.cut("publisher")
        await published(publisher, "a", 10, first=10)
        assert site.hub.counters["published"] == 20


async def test_what_may_not_have_arrived_is_handed_over_again_with_its_number(site: Site) -> None:
    """B54: the acknowledgements are lost with the connection; both copies carry one number, one is a duplicate."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await published(publisher, "a", 1)
        site.hub.stall("publisher")
        futures = [publisher.publish("a", str(at).encode()) for at in range(1, 6)]
        futures.append(publisher.publish("a", b"fifo", order="fifo"))
        await until(lambda: site.hub.counters["published"] == 7)
        site.hub.cut("publisher")
        async with asyncio.timeout(PATIENCE):
            receipts = await asyncio.gather(*futures)
        assert [each.number for each in receipts] == [2, 3, 4, 5, 6, None]
        await published(publisher, "a", 1, first=6)
        seen = await take_events(one, 8)
        assert [each for each in payloads(seen) if each != b"fifo"] == [str(at).encode() for at in range(7)]
        assert (site.hub.counters["published"], one.stats().duplicates) == (14, 6)


async def test_publishes_wait_for_the_worker(site: Site) -> None:
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b")
        await published(publisher, "a", 1)
        await site.stop()
        futures = [publisher.publish("ab"[at % 2], str(at).encode()) for at in range(1, 20)]
        await publisher.publish("c", b"", order="none")  # needs no worker
        await asyncio.sleep(0.05)
        assert not any(each.done() for each in futures)
        await site.start()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*futures)
        assert payloads(await take_events(one, 20)) == [str(at).encode() for at in range(20)]


async def test_confirmations_that_met_one_under_way_are_told_soon(site: Site) -> None:
    """R16: no further publish is needed for the last numbers to be confirmed (else they would be abandoned)."""
    async with site.client("publisher", clock=times(settle_delay=0.001)) as publisher:
        for at in range(30):
            publisher.publish("a", str(at).encode())
            await asyncio.sleep(0.001)
        await until(lambda: publisher.stats().pending == 0, "the last settlement")


async def test_what_is_accepted_while_the_worker_is_away_is_confirmed_later(site: Site) -> None:
    """R16: without a further publish."""
    async with site.client("publisher") as publisher:
        await published(publisher, "a", 1)
        site.hub.stall("publisher")
        publish = publisher.publish("a", b"1")
        await until(lambda: site.hub.counters["published"] == 2)
        await site.stop()
        await until(lambda: not publisher.stats().connected)
        site.hub.resume("publisher")
        await publish
        await asyncio.sleep(0.05)  # the time that confirmations wait for others passes
        await site.start()
        await until(lambda: publisher.stats().pending == 0, "the settlement")


CONFIRM_TIMEOUT = 60.0
"""Seconds; the default."""


def is_late(publish: asyncio.Future[Receipt]) -> bool:
    """Tell whether a publish has waited for more than a grace of 0.2 s."""
    return clock.waking_or_sleeping() - publish.publication.asked_at > 0.2  # type: ignore[attr-defined, no-any-return]


async def test_a_confirmation_that_comes_too_late_is_an_error_of_the_publish(tmp_path: Path) -> None:
    """R16: the number was abandoned while the broker did not answer; the caller hears it, who missed it gets a gap."""
    async with (
        new_site(tmp_path, publisher_grace=0.2) as site,
        site.client("one", loss=1.0) as one,
        site.client("publisher") as publisher,
    ):
        await one.subscribe("a")
        await published(publisher, "a", 1)
        site.hub.stall("publisher")
        publish = publisher.publish("a", b"slow")
        await until(lambda: state_of(site, 2) is NumberState.PENDING and is_late(publish), "half the grace")
        site.leap(CONFIRM_TIMEOUT)
        await until(lambda: state_of(site, 2) is NumberState.ABANDONED, "the end of the patience")
        site.hub.resume("publisher")
        with pytest.raises(Abandoned) as raised:
            await asyncio.wait_for(publish, PATIENCE)
        assert (raised.value.topic, raised.value.number) == ("a", 2)
        assert publisher.stats().late_confirms == 1
        await published(publisher, "a", 1, first=2)
        gaps = {(each.first, each.last, each.reason) for each in gaps_of(await take(one, 3))}
        assert gaps == {(1, 1, "lost"), (2, 2, "abandoned"), (3, 3, "lost")}


async def test_a_slow_acceptance_in_time_is_a_receipt(tmp_path: Path) -> None:
    """R16: after half the grace the confirmation is waited for; it was not abandoned, so all is well."""
    async with new_site(tmp_path, publisher_grace=0.2) as site, site.client("publisher") as publisher:
        site.hub.stall("publisher")
        publish = publisher.publish("a", b"slow")
        await until(lambda: is_late(publish), "half the grace")
        site.hub.resume("publisher")
        assert await asyncio.wait_for(publish, PATIENCE) == Receipt("memory", "a", 1)
        assert publisher.stats().late_confirms == 0


async def test_a_late_answer_is_asked_about_before_the_event_is_handed_over(tmp_path: Path) -> None:
    """R16: the answer lay in the network for more than half the grace; the number was abandoned since."""
    async with (
        FaultProxy(1) as proxy,
        new_site(tmp_path, publisher_grace=0.2, advertise=f"127.0.0.1:{proxy.port}") as site,
    ):
        proxy.target_port = int(site.address.rpartition(":")[2])
        site.address = f"127.0.0.1:{proxy.port}"
        async with site.client("publisher", clock=times(heartbeat=5.0)) as publisher:
            await published(publisher, "a", 1)
            proxy.stall("down")
            publish = publisher.publish("a", b"never")
            await until(lambda: state_of(site, 2) is NumberState.PENDING and is_late(publish), "half the grace")
            site.leap(CONFIRM_TIMEOUT)
            await until(lambda: state_of(site, 2) is NumberState.ABANDONED, "the end of the patience")
            await proxy.heal()
            with pytest.raises(Abandoned):
                await asyncio.wait_for(publish, PATIENCE)
            assert site.hub.counters["published"] == 1


async def test_more_publishes_than_may_be_pending(site: Site) -> None:
    async with site.client("publisher", clock=times(max_pending=10)) as publisher:
        futures = [publisher.publish("a", b"") for _ in range(10)]
        with pytest.raises(QueueFull) as raised:
            publisher.publish("a", b"one too many")
        assert raised.value.limit == 10
        await asyncio.gather(*futures)
        await publisher.publish("a", b"room again")


async def test_bad_publishes_take_no_number(site: Site) -> None:
    """B26, B27, B28: each is an error of the call, before anything is changed."""
    async with site.client("publisher") as publisher:
        for topic in ("", "a\0b", "a/+", "#", "a" * 65_536, "\ud800", b"bytes", None, 7):
            with pytest.raises(InvalidTopic):
                publisher.publish(topic)  # type: ignore[arg-type]
        payload: Any
        for payload in (memoryview(b"1"), {"a": 1}, [1], object()):
            with pytest.raises(InvalidPayload):
                publisher.publish("a", payload)
        for qos in (3, -1, True, "1", 1.0):
            with pytest.raises(InvalidOption, match="qos"):
                publisher.publish("a", b"", qos=qos)  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="'total', 'fifo' or 'none'"):
            publisher.publish("a", b"", order="best")  # type: ignore[arg-type]
        with pytest.raises(InvalidOption, match="retain"):
            publisher.publish("a", b"", retain=1)  # type: ignore[arg-type]
        properties: Any
        for properties in (
            {"a": "b"},
            "ab",
            [("a", 1)],
            [("a",)],
            [("a", "\ud800")],
            [("inorder", "x")],
            [("a", "x" * 70_000)],
            [("a", "\0")],
        ):
            with pytest.raises(InvalidOption, match="properties"):
                publisher.publish("a", b"", properties=properties)
        assert publisher._publishing.pending == 0
        assert await publisher.publish("a", b"first") == Receipt("memory", "a", 1)


async def test_payload_over_the_brokers_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    async with site.client("publisher") as publisher:
        ens: Any = publisher._links["memory"].ens
        monkeypatch.setattr(ens, "capabilities", dataclasses.replace(ens.capabilities, max_payload_bytes=1000))
        with pytest.raises(PayloadTooLarge):
            publisher.publish("a", b"x" * 1000)
        assert (await publisher.publish("a", b"x" * 100)).number == 1


@pytest.mark.parametrize(("error", "refusal"), [(LinkError, LinkError), (KeyError, Refused)])
async def test_an_adapter_that_raises_refuses(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: type[Exception], refusal: type[Exception]
) -> None:
    """Whatever an adapter says at once is the outcome of that publish, and nothing else suffers."""
    async with site.client("publisher") as publisher:
        await published(publisher, "a", 1)
        ens: Any = publisher._links["memory"].ens
        publish = ens.publish

        def once(message: Any, token: int) -> None:
            monkeypatch.setattr(ens, "publish", publish)
            raise error("broken")

        monkeypatch.setattr(ens, "publish", once)
        with pytest.raises(refusal, match="broken"):
            await publisher.publish("a", b"refused")
        assert (await publisher.publish("a", b"next")).number == 3
        await until(lambda: publisher.stats().pending == 0)


async def test_publish_before_open_and_after_close(site: Site) -> None:
    """B30: no number is taken."""
    publisher = site.client("publisher")
    with pytest.raises(Closed):
        publisher.publish("a", b"")
    async with publisher:
        await published(publisher, "a", 1)
    with pytest.raises(Closed):
        publisher.publish("a", b"")
    async with site.client("publisher") as again:
        assert (await again.publish("a", b"")).number == 2


async def test_close_waits_for_publishes_that_can_finish(site: Site) -> None:
    """B30: three hundred publishes and an immediate close: all are delivered."""
    async with site.client("one") as one:
        await one.subscribe("a")
        async with site.client("publisher") as publisher:
            futures = [publisher.publish("a", str(at).encode()) for at in range(300)]
        assert all(each.done() and not each.exception() for each in futures)
        assert len(payloads(await take_events(one, 300))) == 300


async def test_what_close_gives_up_is_void_and_said_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Stamped and never handed over: certainly not published, so nobody waits for it (R16)."""
    async with site.client("one", clock=times(gap_timeout=0.02, loss_timeout=60.0)) as one:
        await one.subscribe("a")
        async with site.client("publisher", clock=times(close_timeout=0.1)) as publisher:
            await published(publisher, "a", 1)
            site.hub.stop()
            futures: list[Any] = [publisher.publish("a", b"never") for _ in range(5)]
            for each in futures:
                await until(lambda each=each: each.publication and each.publication.number, "a timestamp")  # type: ignore[misc]
        assert all(isinstance(each.exception(), Closed) for each in futures)
        del futures
        gc.collect()
        assert [each.message for each in caplog.records if each.levelname in ("WARNING", "ERROR")] == [
            'event=broker_lost space=memory error="broker stopped"',
            'event=broker_lost space=memory error="broker stopped"',
            'event=publishes_given_up count=5 reason="the client was closed before that was done"',
        ]
        site.hub.start()
        async with site.client("another") as another:
            await published(another, "a", 1, first=1)
            seen = await take_through(one, b"1")
        assert payloads(seen) == [b"0", b"1"]
        assert not gaps_of(seen)
        assert one.stats().voids == 5


async def test_a_publish_leaves_nothing_behind(site: Site) -> None:
    """Nothing grows with the number of events (besides what one topic needs)."""
    async with site.client("one", delay_ms="0..2", reorder=0.3) as one, site.client("publisher") as publisher:
        await one.subscribe("a", "b")
        await burst(publisher, one, 1_000)
        gc.collect()
        before, publishes = sizes(publisher, one), sum(isinstance(each, Publish) for each in gc.get_objects())
        await burst(publisher, one, 4_000)
        gc.collect()
        assert sum(isinstance(each, Publish) for each in gc.get_objects()) <= publishes  # there may be other clients'
        after = sizes(publisher, one)
        assert all(after[name] <= before[name] + 300 for name in after), (before, after)


async def burst(publisher: Client, one: Client, count: int) -> None:
    for _ in range(count // 500):
        await asyncio.gather(*(publisher.publish("ab"[at % 2], b"x" * 10) for at in range(500)))
        await take_events(one, 500)
    await until(lambda: publisher.stats().pending == 0)


def sizes(publisher: Client, one: Client) -> dict[str, int]:
    """Return the number of elements in every container of the machines inside two clients."""
    machines = {
        "publishing": publisher._publishing,
        "link": publisher._links["memory"],
        "arrivals": one._endpoint.arrivals,
        "subscriber": one._endpoint.subscriber,
    }
    ordering = one._endpoint.ordering
    parts = {name: vars(machine) for name, machine in machines.items()}
    parts["publisher"] = publisher._endpoint.publishing.publisher.describe()
    parts |= {"ordering": ordering.describe(), "room": vars(ordering._turns.room)}
    for topic, reader in parts["ordering"]["readers"].items():
        parts |= {f"reader {topic}": reader, f"missing {topic}": reader["missing"]}
    return {
        f"{name}.{attribute}": deep_size(value)
        for name, part in parts.items()
        for attribute, value in part.items()
        if hasattr(value, "__len__")
    }


def deep_size(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value
    return len(value) + sum(len(each) for each in inner if isinstance(each, (dict, list, set)))
