"""``Client.replay``: a topic's event log from a number or a time on (R18)."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.client.helpers import PATIENCE, Site, new_site, published, until
from tests.client.test_restored import Restorable

from inorder import Client, Event, Gap, GapReason, Verdict
from inorder.errors import Closed, InvalidOption, InvalidTopic, NotInLog, NotLogged, Refused
from inorder_worker.sequencer.commands import TrimLog
from inorder_worker.service.work import Work
from inorder_worker.store.store import Store


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with new_site(tmp_path, log_topics=["memory:log/#"]) as made:
        yield made


async def replayed(client: Client, topic: str = "log/a", **how: int | datetime.datetime) -> list[Event | Gap]:
    async with asyncio.timeout(PATIENCE):
        return [each async for each in client.replay(topic, **how)]  # type: ignore[arg-type]


async def rest_of(stream: AsyncIterator[Event | Gap]) -> list[Event | Gap]:
    return [each async for each in stream]


async def test_the_whole_log_in_order(site: Site) -> None:
    """More than fits into one answer; without a subscription, and beside it."""
    async with site.client("one") as one, site.client("publisher") as publisher:
        await published(publisher, "log/b", 3)
        futures = [publisher.publish("log/a", b"%d" % at, properties=[("at", str(at))]) for at in range(2500)]
        await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)
        seen = await replayed(one)
        assert [each.payload for each in seen if isinstance(each, Event)] == [b"%d" % at for at in range(2500)]
        last = seen[-1]
        assert isinstance(last, Event)
        assert (last.number, last.verdict, last.properties) == (2500, Verdict.REPLAYED, (("at", "2499"),))
        assert one.stats().undelivered == 0


async def test_from_a_number_and_from_a_time(site: Site) -> None:
    async with site.client("one") as one:
        await published(one, "log/a", 10)
        await asyncio.sleep(0.01)
        between = datetime.datetime.now(datetime.UTC)
        await asyncio.sleep(0.01)
        await published(one, "log/a", 5, first=10)
        assert [each.number for each in await replayed(one, from_=8) if isinstance(each, Event)] == list(range(8, 16))
        assert [each.number for each in await replayed(one, from_=between) if isinstance(each, Event)] == [
            11, 12, 13, 14, 15,
        ]  # fmt: skip
        assert await replayed(one, from_=16) == []
        assert await replayed(one, from_=between + datetime.timedelta(hours=1)) == []


async def test_what_is_not_there_is_named(site: Site) -> None:
    async with site.client("one") as one:
        await published(one, "log/a", 10)
        await published(one, "plain", 1)
        with pytest.raises(NotLogged) as missing:
            await replayed(one, "plain")
        assert missing.value.topic == "plain"
        host = site.worker._host
        done = asyncio.Event()
        await until(lambda: one.stats().pending == 0, "the confirmations")

        def trim() -> None:
            host.commits.step(0, TrimLog(1, 4, []))
            host.commits.after_commit(done.set)

        host.commits.submit(Work(None, 0, trim))
        await asyncio.wait_for(done.wait(), PATIENCE)
        with pytest.raises(NotInLog) as gone:
            await replayed(one, from_=2)
        assert (gone.value.topic, gone.value.first, gone.value.last) == ("log/a", 2, 4)
        assert len(await replayed(one)) == len(await replayed(one, from_=5)) == 6
        for wrong in (0, -1, True, "1", datetime.datetime(2026, 1, 1)):
            with pytest.raises(InvalidOption, match="from_"):
                await replayed(one, from_=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidTopic):
            await replayed(one, "log/#")


async def test_a_damaged_row_is_a_gap(site: Site) -> None:
    async with site.client("one") as one:
        await published(one, "log/a", 5)
        store = Store(f"sqlite:///{site.store}")
        store.write(lambda connection: connection.execute(sa.text("UPDATE event_log SET size = 0 WHERE number = 3")))
        store.close()
        seen = await replayed(one)
        assert [each.number if isinstance(each, Event) else each for each in seen] == [
            1, 2, Gap("memory", "log/a", 3, 3, GapReason.LOST), 4, 5,
        ]  # fmt: skip


async def test_a_replay_ends_with_its_client_and_survives_its_worker(site: Site) -> None:
    """A worker that is away is waited for; a client that closes ends the iterator with its reason."""
    async with site.client("one") as one:
        await published(one, "log/a", 5)
        await site.stop()
        task = asyncio.create_task(replayed(one))
        await site.start()
        assert len(await task) == 5
        await site.stop()
        task = asyncio.create_task(replayed(one))
        await asyncio.sleep(0.05)
        await one.close()
        with pytest.raises(Closed):
            await task
        with pytest.raises(Closed):
            one.replay("log/a")
        await site.start()


async def test_a_replay_does_not_go_on_in_another_domain(site: Site, tmp_path: Path) -> None:
    """The store is put back from a backup meanwhile: the numbers that would follow are of other events."""
    async with site.client("one") as one:
        await asyncio.wait_for(asyncio.gather(*(one.publish("log/a", b"x") for _ in range(2500))), PATIENCE)
        stream = one.replay("log/a")
        assert isinstance(await anext(stream), Event)
        await Restorable(site, tmp_path).put_back(one, log_topics=["memory:log/#"])
        with pytest.raises(Refused, match="restored"):
            await asyncio.wait_for(rest_of(stream), PATIENCE)
        assert len(await replayed(one)) == 2500
