"""A store that was put back from a backup: clients that saw later numbers notice, and mix nothing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
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

from inorder import Client
from inorder.errors import Forgotten, StoreOutdated
from inorder_worker.store.backup import back_up
from inorder_worker.store.restoring import renew, restore
from inorder_worker.store.verification import verify


class Restorable:
    """A site whose store is put back to where it was when this was made."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._site, self._url, self._file = site, f"sqlite:///{site.store}", folder / "site.backup"
        back_up(self._url, self._file)

    async def put_back(self, *clients: Client, is_lost: bool = False, **changes: Any) -> None:
        """Restore, and wait until the clients are back and subscribed. ``is_lost``: the store is gone, with the epochs
        that it had since the backup."""
        before = [client.incarnation for client in clients]
        await self._site.stop()
        if is_lost:
            self._site.store.unlink()
        restore(self._url, self._file, force=True)
        await self._site.start(**changes)
        await until(lambda: all(c.incarnation != old for c, old in zip(clients, before, strict=True)), "the new domain")
        await until(lambda: all(settled(client) for client in clients), "the new subscriptions")


def settled(client: Client) -> bool:
    subscribing = client._endpoint.subscribing
    return client.stats().connected and not (subscribing.is_changing or subscribing.is_holding)


async def test_subscribers_begin_anew_and_agree(site: Site, tmp_path: Path) -> None:
    """Numbers are given again, topic ids too; neither leads anybody astray."""
    async with site.client("one") as one, site.client("two") as two, site.client("publisher") as publisher:
        for each in (one, two):
            await each.subscribe("a", "news/#")
        await published(publisher, "a", 3)
        point = Restorable(site, tmp_path)
        await published(publisher, "news/later", 2)
        await published(publisher, "a", 2, first=3)
        for each in (one, two):
            assert keys(await take_events(each, 7))[-1] == ("a", 5)
        await point.put_back(one, two, publisher)
        domain = one._endpoint.domain
        await published(publisher, "news/other", 1, prefix="n")  # gets the id that news/later had
        await published(publisher, "a", 2, prefix="new ")
        await published(publisher, "news/later", 1, prefix="n")
        seen = [await take(each, 6) for each in (one, two)]
    assert one._endpoint.domain == two._endpoint.domain == publisher._endpoint.domain == domain
    for its in seen:
        assert {(gap.topic, gap.first, gap.last, gap.reason) for gap in gaps_of(its)} == {
            ("a", 6, 6, "restored"),
            ("news/later", 3, 3, "restored"),
        }
        assert keys(its) == [("news/other", 1), ("a", 4), ("a", 5), ("news/later", 1)]
        assert {each.verdict for each in events_of(its)} == {"in_order"}


async def test_what_waits_goes_out_without_an_order(site: Site, tmp_path: Path) -> None:
    async with site.client("one", clock=times(gap_timeout=60.0, loss_timeout=60.0)) as one:
        await one.subscribe("a")
        async with site.client("publisher") as publisher:
            await published(publisher, "a", 1)
            point = Restorable(site, tmp_path)
            await site.lose(one, published(publisher, "a", 1, first=1))
            await published(publisher, "a", 2, first=2)
            assert payloads(await take_events(one, 1)) == [b"0"]
            await until(lambda: one.stats().waiting == 2)
            await point.put_back(one, publisher)
            assert one.stats().waiting == 0
            await published(publisher, "a", 1, prefix="new")
            seen = await take_through(one, b"new0")
    assert [(gap.first, gap.last, gap.reason) for gap in gaps_of(seen)] == [(2, 4, "restored")]
    assert [(each.payload, each.verdict) for each in events_of(seen)] == [
        (b"2", "unsequenced"),
        (b"3", "unsequenced"),
        (b"new0", "in_order"),
    ]


async def test_open_publishes(site: Site, tmp_path: Path) -> None:
    """One that the former domain may have numbered fails, and says whether it may have been delivered; one that was
    never asked for gets its number in the new domain."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await published(publisher, "a", 1)
        await take_events(one, 1)
        point = Restorable(site, tmp_path)
        await site.stop()
        asked = publisher.publish("a", b"asked")
        publication = asked.publication  # type: ignore[attr-defined]
        publisher._endpoint.publishing.requests()  # as if it had left, and the answer been lost
        assert publication.is_asked
        fresh = publisher.publish("a", b"fresh")
        await point.put_back(one, publisher)
        with pytest.raises(Forgotten) as caught:
            await asked
        assert not caught.value.may_be_delivered
        assert (await fresh).number == 2
        seen = await take_through(one, b"fresh")
        assert payloads(seen)[-1] == b"fresh"
        assert publisher._endpoint.publishing.publisher.pending <= 1
        await until(lambda: publisher._publishing.pending == 0, "the confirmation")


async def test_an_outcome_of_the_former_domain_confirms_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker accepts an event after the restore: its number stands for another event by now."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        point = Restorable(site, tmp_path)
        outcomes: list[Callable[[Exception | None], None]] = []
        (link,) = publisher._links.values()
        with monkeypatch.context() as patch:
            patch.setattr(link, "hand_over", lambda message, outcome: not outcomes.append(outcome))  # type: ignore[func-returns-value]
            slow = publisher.publish("a", b"slow")
            await until(lambda: bool(outcomes), "the hand-over")
        await point.put_back(one, publisher)
        with pytest.raises(Forgotten) as caught:
            await slow
        assert caught.value.may_be_delivered
        outcomes[0](None)
        assert publisher._endpoint.publishing.publisher.settlements() == []
        await asyncio.gather(publisher.publish("a", b"next"))
        assert (await take_through(one, b"next"))[-1].number == 1  # type: ignore[union-attr]


async def test_a_publisher_goes_on_where_the_epochs_are_lower_than_before(site: Site, tmp_path: Path) -> None:
    async with site.client("publisher") as publisher:
        await published(publisher, "a", 1)
        point = Restorable(site, tmp_path)
        for _ in range(4):
            await site.stop()
            await site.start()
        await published(publisher, "a", 1)
        await point.put_back(publisher, is_lost=True)
        assert (await publisher.publish("a", b"x")).number == 2


def put_copy(source: Path, target: Path) -> None:
    """Put the files of an SQLite store somewhere else, with nothing that another one had there."""
    for suffix in ("", "-wal", "-shm"):
        there = target.with_name(target.name + suffix)
        there.unlink(missing_ok=True)
        if (here := source.with_name(source.name + suffix)).exists():
            shutil.copyfile(here, there)


def witnesses(client: Client, row: int) -> bool:
    """Tell whether a worker has told a client of this row of stage 0."""
    workers: Any = client._worker
    return bool(workers._map.positions) and workers._map.positions[0].row >= row


def told(caplog: pytest.LogCaptureFixture, text: str) -> int:
    """Return how often clients have logged something."""
    return sum(text in each.getMessage() for each in caplog.records if each.name == "inorder.client")


async def test_an_older_copy_is_found_out_by_what_clients_show_and_goes_on_once_renewed(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A copy of the file was put back: no number is given twice without a word, and `inorder renew` is the way out."""
    url, copy = f"sqlite:///{site.store}", tmp_path / "copy.db"
    async with site.client("one") as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await published(publisher, "a", 2)
        await site.stop()
        put_copy(site.store, copy)
        await site.start()
        await published(publisher, "a", 3, first=2)
        assert len(await take_events(one, 5)) == 5
        last = site.worker._host.standings[0].row
        await until(lambda: witnesses(one, last) and witnesses(publisher, last), "what the worker tells of its journal")
        await site.stop()
        put_copy(copy, site.store)
        await site.start()
        await until(lambda: "older copy" in str(site.worker.health()[1]["store_error"]), "the worker to find out")
        waiting = publisher.publish("a", b"new")
        assert not site.worker.health()[0]
        assert "inorder_store_outdated 1.0" in site.worker.answer("/metrics").body.decode()
        await until(lambda: told(caplog, "older copy") >= 2, "both clients to say why they wait")
        assert ["older copy" in each.detail for each in verify(url).problems] == [True]
        await site.stop()
        with pytest.raises(StoreOutdated, match=r"clients were told of row .* run `inorder renew`"):
            await site.start()
        assert not waiting.done()
        former = one._endpoint.domain
        renewed = renew(url, beat_interval=0.0)
        assert (renewed.former, verify(url).problems) == (former, [])
        await site.start()
        assert (await waiting).number == 3
        seen = await take_through(one, b"new")
        assert [(gap.first, gap.last, gap.reason) for gap in gaps_of(seen)] == [(6, 6, "restored")]
        # whichever of the two is connected again first: where the topic begins is known to the subscriber, or not yet
        ((number, verdict),) = [(each.number, each.verdict) for each in events_of(seen)]
        assert (number, verdict) in [(3, "in_order"), (3, "unsequenced")]
        assert one._endpoint.domain == publisher._endpoint.domain == renewed.domain
