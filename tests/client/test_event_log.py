"""Event logs: what the broker does not deliver comes from the log of its topic (R18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
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

from inorder import Gap, GapReason, Verdict
from inorder.errors import PayloadTooLarge, Refused
from inorder.protocol.names import exact
from inorder.protocol.wire import Logged, LogRule, encode_logged
from inorder_worker.sequencer.commands import SetLogRule
from inorder_worker.service.work import Work
from inorder_worker.store.store import Store
from inorder_worker.store.verification import verify


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A site whose topics ``log/#`` have an event log."""
    async with new_site(tmp_path, log_topics=["memory:log/#"], log_trim_interval=0.05) as made:
        yield made


async def test_what_the_broker_loses_is_repaired_in_order(site: Site) -> None:
    """R17, R18: two topics, half of everything lost; nothing is reported, both subscribers see one order."""
    async with (
        site.client("one", loss=0.5, seed=3) as one,
        site.client("two") as two,
        site.client("publisher") as publisher,
    ):
        for each in (one, two):
            await each.subscribe("log/a", "log/b")
        futures = [
            publisher.publish(f"log/{'ab'[at % 2]}", str(at).encode(), properties=[("at", str(at))])
            for at in range(200)
        ]
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
        seen = [await take_events(each, 200) for each in (one, two)]
        assert payloads(seen[0]) == payloads(seen[1]) == [str(at).encode() for at in range(200)]
        assert keys(seen[0]) == keys(seen[1])
        assert not gaps_of(seen[0] + seen[1])
        repaired = [each for each in events_of(seen[0]) if each.repaired]
        assert one.stats().repaired == len(repaired) > 50
        assert {each.verdict for each in events_of(seen[0])} == {Verdict.IN_ORDER}
        assert all(each.properties == (("at", each.payload.decode()),) for each in events_of(seen[0]))
        assert not any(each.repaired for each in events_of(seen[1]))


async def test_the_end_of_a_burst_is_repaired_without_further_traffic(site: Site) -> None:
    """B15 with a log: heads tell it, the log has it."""
    async with site.client("one", loss=1.0) as one, site.client("publisher") as publisher:
        await one.subscribe("log/a")
        await published(publisher, "log/a", 300)
        assert payloads(await take(one, 300)) == [str(at).encode() for at in range(300)]


async def test_a_logged_event_is_never_void(site: Site) -> None:
    """R16, R18: the broker refuses it, its publish fails; but it is in the log, and everybody gets it."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("log/a")
        await published(publisher, "log/a", 1)
        site.hub.refuse_publishes("publisher", error=Refused("no"))
        with pytest.raises(Refused):
            await publisher.publish("log/a", b"refused")
        await published(publisher, "log/a", 1, first=2)
        seen = await take(one, 3)
        assert payloads(seen) == [b"0", b"refused", b"2"]
        assert [each.repaired for each in events_of(seen)] == [False, True, False]
        assert one.stats().voids == 0


async def test_what_a_dead_publisher_left_is_delivered(tmp_path: Path) -> None:
    """R16, R18: its number is not abandoned, because the log has it; nothing else is needed to find it."""
    settings: dict[str, Any] = {"log_topics": ["memory:log/a"], "publisher_grace": 0.2}
    async with new_site(tmp_path, **settings) as site, site.client("one") as one:
        await one.subscribe("log/a")
        publisher = await site.client("publisher").__aenter__()
        await published(publisher, "log/a", 1)
        link: Any = publisher._links["memory"]
        link.hand_over = lambda message, outcome: True  # it never reaches the broker
        left = publisher.publish("log/a", b"left")
        await until(lambda: state_of(site, 2) is not None, "the number")
        workers: Any = publisher._worker
        for each in list(workers._links):
            workers._discard(each)
        assert payloads(await take(one, 2)) == [b"0", b"left"]
        await publisher.close()
        assert left.done()


async def test_topics_without_a_log_are_as_ever(site: Site) -> None:
    """Lost is lost there; and nothing of them is stored."""
    async with site.client("one", loss=1.0) as one, site.client("publisher") as publisher:
        await one.subscribe("log/a", "plain")
        await published(publisher, "plain", 3)
        assert await take(one, 1) == [Gap("memory", "plain", 1, 3, GapReason.LOST)]
    assert rows(site) == []


def rows(site: Site) -> list[tuple[int, int]]:
    """Return what the store's log has: topics and numbers."""
    store = Store(f"sqlite:///{site.store}")
    try:
        read = sa.text("SELECT topic, number FROM event_log ORDER BY topic, number")
        return [tuple(row) for row in store.run(lambda connection: connection.execute(read).all())]
    finally:
        store.close()


async def test_payloads_are_stored_before_their_numbers_are_known_and_not_in_the_journal(site: Site) -> None:
    """R18: the row is in the commit of the number; the journal's rows do not hold the payload."""
    secret = b"only once in the store " * 50
    async with site.client("publisher") as publisher:
        futures = [publisher.publish("log/a", secret + str(at).encode()) for at in range(50)]
        for at, future in enumerate(futures):
            receipt = await asyncio.wait_for(future, PATIENCE)
            if at % 10 == 0:
                assert (1, receipt.number) in rows(site)
    store = Store(f"sqlite:///{site.store}")
    read = sa.text("SELECT sum(length(entries)) FROM journal")
    assert store.run(lambda connection: connection.execute(read).scalar_one()) < len(secret) * 10
    store.close()


async def test_a_worker_that_starts_anew_still_has_the_log(site: Site) -> None:
    """What was lost before the restart is repaired after it, from rows that no replay made again."""
    async with site.client("one", loss=1.0, clock=times(gap_timeout=1.0, loss_timeout=2.0)) as one:
        async with site.client("publisher") as publisher:
            await one.subscribe("log/a")
            await published(publisher, "log/a", 20)
        await site.stop()
        await site.start()
        assert payloads(await take(one, 20)) == [str(at).encode() for at in range(20)]
    report = verify(f"sqlite:///{site.store}")
    assert (report.is_ok, report.logs) == (True, {1: 20})


async def test_logs_are_turned_on_and_off_while_everything_runs(site: Site) -> None:
    """Publishers hear of it; what was published before has no row, and turned off a log is forgotten."""
    async with site.client("one", loss=1.0) as one, site.client("publisher") as publisher:
        await one.subscribe("b")
        await published(publisher, "b", 2)
        assert await take(one, 1) == [Gap("memory", "b", 1, 2, GapReason.LOST)]
        set_rule(site, "b", is_on=True)
        await until(lambda: publisher._endpoint.publishing.publisher.is_logged(("memory", "b")), "the news")
        await published(publisher, "b", 2, first=2)
        assert payloads(await take(one, 2)) == [b"2", b"3"]
        assert rows(site) == [(1, 3), (1, 4)]
        set_rule(site, "b", is_on=False)
        await until(lambda: not publisher._endpoint.publishing.publisher.is_logged(("memory", "b")), "the news")
        await until(lambda: rows(site) == [], "the end of the rows")
        await published(publisher, "b", 1, first=4)
        assert await take(one, 1) == [Gap("memory", "b", 5, 5, GapReason.LOST)]


def set_rule(site: Site, topic: str, *, is_on: bool, **bounds: int) -> None:
    host = site.worker._host
    command = SetLogRule("", 0, 0, LogRule("memory", exact(topic), **bounds), is_on)
    host.commits.submit(Work(None, 0, lambda: host.commits.step(host.count - 1, command)))


@pytest.mark.parametrize("bounds", [{"max_count": 30}, {"max_bytes": 300}])
async def test_a_log_stays_within_its_bounds(site: Site, bounds: dict[str, int]) -> None:
    """The oldest go; what is left is a range, and its numbers are repaired. Those that are gone were lost."""
    async with site.client("one", loss=1.0) as one, site.client("publisher") as publisher:
        set_rule(site, "b", is_on=True, **bounds)
        for at in range(100):
            await publisher.publish("b", b"%010d" % at)
        size = len(encode_logged(Logged(bytes(10))))
        kept = 30 if "max_count" in bounds else 300 // size
        await until(lambda: len(rows(site)) <= kept, "the bounds")
        left = [number for _, number in rows(site)]
        assert left == list(range(101 - len(left), 101))
        assert len(left) == kept
        await one.subscribe("b")
        await published(publisher, "b", 1, first=100)
        assert payloads(await take(one, 1)) == [b"100"]


async def test_a_damaged_row_is_named_and_not_served(site: Site) -> None:
    """One flipped bit: verify names the number, the subscriber gets a gap for just this one."""
    async with site.client("one", loss=1.0, clock=times(gap_timeout=0.5)) as one, site.client("publisher") as publisher:
        await one.subscribe("log/a")
        await published(publisher, "log/a", 5)
        store = Store(f"sqlite:///{site.store}")
        flip = sa.text("UPDATE event_log SET content = X'9301' WHERE number = 3")
        store.write(lambda connection: connection.execute(flip))
        store.close()
        seen = await take(one, 5)
        assert payloads(seen) == [b"0", b"1", b"3", b"4"]
        assert gaps_of(seen) == [Gap("memory", "log/a", 3, 3, GapReason.LOST)]
    (problem,) = verify(f"sqlite:///{site.store}").problems
    assert (problem.what, problem.seq) == ("event_log", 3)
    assert "number 3 is damaged" in problem.detail


async def test_a_payload_that_the_log_cannot_take(site: Site) -> None:
    """It is refused by the call, before a number is taken."""
    async with site.client("publisher") as publisher:
        await published(publisher, "log/a", 1)
        with pytest.raises(PayloadTooLarge):
            publisher.publish("log/a", bytes(8 * 1024 * 1024))
        large = bytes(3 * 1024 * 1024)
        receipts = [publisher.publish("log/a", large) for _ in range(4)]
        assert [each.number for each in await asyncio.gather(*receipts)] == [2, 3, 4, 5]


async def test_topics_and_payloads_of_an_applications_own_types(site: Site) -> None:
    class Topic(str): ...

    class Payload(bytes): ...

    async with site.client("one", loss=1.0) as one, site.client("publisher") as publisher:
        await one.subscribe("log/a")
        receipts = [publisher.publish(Topic("log/a"), each) for each in (Payload(b"1"), b"2")]
        assert [each.number for each in await asyncio.wait_for(asyncio.gather(*receipts), PATIENCE)] == [1, 2]
        assert payloads(await take(one, 2)) == [b"1", b"2"]


async def test_large_payloads_come_page_by_page(site: Site) -> None:
    """More than a frame can hold is missing; it comes in several answers."""
    async with site.client("one", loss=1.0) as one, site.client("publisher") as publisher:
        await one.subscribe("log/a")
        futures = [publisher.publish("log/a", b"%d " % at + bytes(600_000)) for at in range(12)]
        futures.append(publisher.publish("log/a", b"last"))
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
        seen = await take_through(one, b"last")
        assert [int(each[:2]) for each in payloads(seen)[:-1]] == list(range(12))
