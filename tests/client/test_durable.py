"""Durable subscriptions: they stay while their client is away, and resume from its saved clock (R12, R18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import (
    PATIENCE,
    Notification,
    Site,
    events_of,
    gaps_of,
    keys,
    new_site,
    payloads,
    published,
    take,
    take_events,
    times,
    until,
)
from tests.client.recorder import Recorder
from tests.client.test_restored import Restorable

from inorder import Client, Gap, GapReason, Verdict
from inorder.errors import Closed, InvalidOption, Refused
from inorder_worker.admin import Cluster
from inorder_worker.sequencer.commands import TrimLog
from inorder_worker.service.work import Work

SETTINGS: dict[str, Any] = {"log_topics": ["memory:log/#"], "session_timeout": 0.5, "publisher_grace": 0.3}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with new_site(tmp_path, **SETTINGS) as made:
        yield made


def durable(site: Site, client_id: str = "desk", **changes: Any) -> Client:
    return Client(
        f"memory://{site.name}",
        workers=[site.address],
        client_id=client_id,
        durable=True,
        times=times(save_delay=0.01),
        **changes,
    )


async def done_with(client: Client, count: int) -> list[Notification]:
    """Take so many notifications, and ask for what follows them: they are done with."""
    taken = await take(client, count)
    stream: Any = client._stream
    stream.done()
    return taken


async def kill(client: Client) -> None:
    """End a client as if its process were killed: nothing more is said or saved."""
    workers: Any = client._worker
    for link in workers._links:
        link.drop()
    for each in client._links.values():
        await each.ens.close()
    clock: Any = client._endpoint.durable
    clock._unsaved.clear()
    clock._saving = None
    await client.close()


async def gone(site: Site, client_id: str = "desk") -> None:
    state = site.worker._host.stage(0)._state
    await until(lambda: client_id not in [each for each, _ in state.sessions], "the end of the session")


async def test_what_happened_meanwhile_comes_first_and_in_the_one_order(site: Site) -> None:
    """Closed, away for longer than a session lives, opened again: history and live events without a seam; nobody has to
    subscribe again, and another subscriber saw the same."""
    recorder = Recorder()
    async with site.client("other") as other, site.client("publisher") as publisher:
        await recorder.subscribe(other, "log/a", "log/b")
        async with durable(site) as first:
            await recorder.subscribe(first, "log/a", "log/b")
            sent = [recorder.publish(publisher, f"log/{'ab'[at % 2]}", b"%d" % at) for at in range(20)]
            await asyncio.wait_for(asyncio.gather(*sent), PATIENCE)
            recorder.took(first, await done_with(first, 20))
        await gone(site)
        sent = [recorder.publish(publisher, f"log/{'ab'[at % 3 % 2]}", b"%d" % at) for at in range(20, 120)]
        await asyncio.wait_for(asyncio.gather(*sent), PATIENCE)
        async with durable(site) as second:
            live = [recorder.publish(publisher, f"log/{'ab'[at % 2]}", b"%d" % at) for at in range(120, 150)]
            await asyncio.wait_for(asyncio.gather(*live), PATIENCE)
            seen = await take_events(second, 130)
            recorder.took(second, seen)
            assert not gaps_of(seen)
            assert payloads(seen) == [b"%d" % at for at in range(20, 150)]
            assert {each.verdict for each in events_of(seen)} == {Verdict.IN_ORDER}
            assert not any(each.redelivered for each in events_of(seen)), "all was done with, and saved"
            assert second.stats().duplicates == 0
            recorder.took(other, await take_events(other, 150))
        assert recorder.violations() == []


async def test_a_killed_client_gets_again_what_it_was_not_done_with(site: Site) -> None:
    """At least once: what the application had in its hands comes again, marked; what came later is not marked."""
    async with site.client("publisher") as publisher:
        first = await durable(site).__aenter__()
        await first.subscribe("log/a")
        await published(publisher, "log/a", 10)
        await done_with(first, 6)
        await until(lambda: clock_of(site) == {1: 6}, "the saved clock")
        await take(first, 3)  # 7 and 8 are done with, 9 is in the application's hands
        await kill(first)
        await gone(site)
        await published(publisher, "log/a", 5, first=10)
        async with durable(site) as second:
            seen = events_of(await take_events(second, 9))
            assert [each.number for each in seen] == list(range(7, 16))
            assert [each.redelivered for each in seen] == [each.number <= 10 for each in seen]  # type: ignore[operator]


def clock_of(site: Site, client_id: str = "desk") -> dict[int, int]:
    clock = site.worker._host.stage(0)._state.clocks.get(client_id)
    return {} if clock is None else clock.numbers


def is_saved(client: Client) -> bool:
    """The store has the clock. The worker has it in memory before, when a backup may be without it."""
    clock: Any = client._endpoint.durable
    return bool(clock.is_saved)


async def test_the_clock_is_saved_when_the_application_asks_for_the_next_event(site: Site) -> None:
    """Not when it was notified; and a client that closes saves what is left."""
    async with durable(site) as one:
        await one.subscribe("log/a")
        await published(one, "log/a", 3)
        stream = one.events()
        async with asyncio.timeout(PATIENCE):
            await anext(stream)
            await until(lambda: one.stats().undelivered == 2)
            assert clock_of(site) == {1: 0}
            await anext(stream)
            await until(lambda: clock_of(site) == {1: 1}, "the first one")
            await anext(stream)
    assert clock_of(site) == {1: 2}


async def test_what_no_log_has_is_one_exact_gap(site: Site) -> None:
    """A topic without a log, and one whose log was trimmed: each tells which numbers are gone; the rest comes."""
    async with site.client("publisher") as publisher:
        async with durable(site) as first:
            await first.subscribe("log/a", "plain")
            await published(publisher, "log/a", 5)
            await published(publisher, "plain", 5)
            await done_with(first, 10)
        await published(publisher, "log/a", 20, first=5)
        await published(publisher, "plain", 3, first=5)
        await until(lambda: publisher.stats().pending == 0, "the confirmations")
        await step(site, TrimLog(1, 12, []))
        async with durable(site) as second:
            await published(publisher, "plain", 1, first=8)
            seen = await take(second, 16)
            assert set(gaps_of(seen)) == {
                Gap("memory", "log/a", 6, 12, GapReason.EXPIRED),
                Gap("memory", "plain", 6, 8, GapReason.EXPIRED),
            }
            assert [number for topic, number in keys(seen) if topic == "log/a"] == list(range(13, 26))
            assert [number for topic, number in keys(seen) if topic == "plain"] == [9]


async def step(site: Site, command: TrimLog) -> None:
    host, done = site.worker._host, asyncio.Event()

    def run() -> None:
        host.commits.step(0, command)
        host.commits.after_commit(done.set)

    host.commits.submit(Work(None, 0, run))
    await asyncio.wait_for(done.wait(), PATIENCE)


async def test_topics_that_came_meanwhile_begin_with_their_first_number(site: Site) -> None:
    """R13: created under a wildcard of the subscription while its client was away."""
    async with site.client("publisher") as publisher:
        async with durable(site) as first:
            await first.subscribe("log/#")
            await published(publisher, "log/a", 2)
            await done_with(first, 2)
        await published(publisher, "log/new", 3)
        async with durable(site) as second:
            assert keys(await take_events(second, 3)) == [("log/new", 1), ("log/new", 2), ("log/new", 3)]
            assert not second.stats().gaps


async def test_the_clock_outlives_the_worker(site: Site) -> None:
    """It is in the store, with the subscription: nothing of it is the client's."""
    async with durable(site) as first:
        await first.subscribe("log/a")
        await published(first, "log/a", 4)
        await done_with(first, 3)
    await site.stop()
    await site.start()
    async with durable(site) as second:
        await published(second, "log/a", 1, first=4)
        assert payloads(await take_events(second, 2)) == [b"3", b"4"]


async def test_numbers_of_a_store_that_was_put_back_are_not_those_of_the_former_one(site: Site, tmp_path: Path) -> None:
    """R18: that the application is done with the end of the former numbers says nothing of the new ones, which are
    lower: they come again if they were not done with."""
    async with site.client("publisher") as publisher:
        first = await durable(site).__aenter__()
        await first.subscribe("log/a")
        await published(publisher, "log/a", 2)
        await done_with(first, 2)
        await until(lambda: is_saved(first), "the answer that the clock is in the store")
        assert clock_of(site) == {1: 2}
        point = Restorable(site, tmp_path)
        await published(publisher, "log/a", 6, first=2)
        await done_with(first, 6)
        # longer than a busy machine may hold this process up: a session that ends here is another story
        await point.put_back(first, publisher, **{**SETTINGS, "session_timeout": 5.0})
        (gap,) = await done_with(first, 1)
        assert gap == Gap("memory", "log/a", 9, 9, GapReason.RESTORED)
        await published(publisher, "log/a", 4, prefix="new ")
        await done_with(first, 1)
        await until(lambda: clock_of(site) == {1: 3}, "the saved clock, of the new numbers")
        await kill(first)
        await gone(site)
        async with durable(site) as second:
            assert [each.number for each in events_of(await take_events(second, 3))] == [4, 5, 6]


async def test_a_client_that_was_only_cut_off_goes_on_from_its_own_clock(site: Site) -> None:
    """The same process, away for longer than its session: its subscription is still there, nothing comes twice."""
    async with durable(site) as one, site.client("publisher") as publisher:
        await one.subscribe("log/a")
        await published(publisher, "log/a", 3)
        await done_with(one, 3)
        link = next(iter(one._worker._links))  # type: ignore[union-attr]
        place, link._place = link._place, ("127.0.0.1", 1)
        link._connection.fail(OSError("cut"))  # type: ignore[union-attr]
        await gone(site)
        await published(publisher, "log/a", 3, first=3)
        link._place = place
        seen = await take_events(one, 3)
        assert payloads(seen) == [b"3", b"4", b"5"]
        assert not gaps_of(seen)


async def test_a_durable_subscription_is_ended_by_hand(site: Site) -> None:
    """Not while its client is there or may still notify; then it counts no more, and the client begins anew."""
    async with Cluster([site.address]) as cluster:
        with pytest.raises(Refused, match="no subscription"):
            await cluster.end_subscription("desk")
        async with durable(site) as first:
            await first.subscribe("log/a")
            await published(first, "log/a", 2)
            with pytest.raises(Refused, match="connected"):
                await cluster.end_subscription("desk")
        with pytest.raises(Refused, match="session_timeout"):
            await cluster.end_subscription("desk")
        await gone(site)
        (known,) = await cluster.subscriptions()
        assert (known.client_id, known.durable, known.away_ms, known.topics) == ("desk", True, -1, 1)
        await cluster.end_subscription("desk")
        assert await cluster.subscriptions() == []
    assert clock_of(site) == {}
    async with durable(site) as second:
        await second.subscribe("log/a")
        await published(second, "log/a", 1, first=2)
        assert payloads(await take(second, 1)) == [b"2"]


async def test_a_subscription_changes_and_ends_by_its_client(site: Site) -> None:
    """What was unsubscribed has no clock any more; without a topic there is nothing to resume."""
    async with durable(site) as first:
        await first.subscribe("log/a", "log/b")
        await published(first, "log/a", 1)
        await done_with(first, 1)
        await first.unsubscribe("log/a")
        assert clock_of(site) == {2: 0}
    async with durable(site) as second:
        await published(second, "log/a", 1, first=1)
        await published(second, "log/b", 1)
        assert keys(await take(second, 1)) == [("log/b", 1)]
        await second.subscribe("log/b")  # it is subscribed
        await second.unsubscribe("log/b")
        assert clock_of(site) == {}
    async with durable(site) as third:
        await published(third, "log/b", 1, first=1)
        assert third.stats().undelivered == 0


async def test_what_a_durable_client_needs(site: Site) -> None:
    wrong: dict[str, Any]
    for wrong in ({"client_id": None}, {"workers": []}, {"durable": "yes"}):
        given: dict[str, Any] = {"client_id": "desk", "workers": [site.address], "durable": True, **wrong}
        with pytest.raises(InvalidOption, match="durable"):
            Client(f"memory://{site.name}", **given)
    async with durable(site) as first:
        for ordering in ("fifo", "none"):
            with pytest.raises(InvalidOption, match="'total' for a durable client"):
                await first.subscribe("log/a", ordering=ordering)
        await first.subscribe("log/a")
    other = Client({"elsewhere": f"memory://{site.name}"}, workers=[site.address], client_id="desk", durable=True)
    with pytest.raises(InvalidOption, match="'memory' too"):
        await other.__aenter__()
    with pytest.raises(Closed):
        await other.subscribe("x")
