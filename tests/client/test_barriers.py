"""Lost only behind a barrier (R24): readers that stand still, adapters that know no barriers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.helpers import (
    Site,
    events_of,
    gaps_of,
    published,
    take,
    take_events,
    times,
    until,
)

from inorder import Bounded, Client, GapReason, Verdict
from inorder.client import barriers
from inorder.ports import BarrierEns, Ens
from inorder_adapters.memory import open_ens

QUICK = times(gap_timeout=0.02, loss_timeout=0.05)


class FirstVersion:
    """An ENS of version 1 of the port: without barriers."""

    def __init__(self, ens: Ens) -> None:
        self._ens = ens

    def __getattr__(self, name: str) -> Any:
        if name == "barrier":
            raise AttributeError(name)
        return getattr(self._ens, name)


async def loss_timeouts_pass(client: Client, count: int) -> None:
    """Let time pass in which numbers that are known to be confirmed and missing are not given up."""
    describe = client._endpoint.ordering.describe
    await until(lambda: any(each["missing"]["confirmed"] or each["jumped"] for each in describe()["readers"].values()))
    await asyncio.sleep(count * QUICK.loss_timeout)  # what must not happen takes time


@pytest.mark.parametrize("mode", ["strict", "tag", Bounded(buffer=5)])
async def test_a_reader_that_does_not_read_loses_nothing(site: Site, mode: Any) -> None:
    """The broker has it, and the workers tell that it is confirmed: it is on its way, however long that takes."""
    async with site.client("one", mode=mode, clock=QUICK) as one, site.client("publisher") as publisher:
        topics = [f"t{number}" for number in range(10)]
        await one.subscribe(*topics)
        for topic in topics:
            await published(publisher, topic, 2)
        await take_events(one, 20)
        line = site.hub.members["one"].line
        first, line._send_copy = line._send_copy, lambda *_: None  # type: ignore[method-assign]
        await published(publisher, "t0", 1, first=2)  # what comes of t0 next shows that this one is missing
        line._send_copy = first  # type: ignore[method-assign]
        await published(publisher, "t0", 1, first=3)
        site.hub.stall("one")
        for topic in topics[1:]:
            await published(publisher, topic, 20, first=2)
        await loss_timeouts_pass(one, 6)
        assert one.stats().gaps == 0
        site.hub.resume("one")
        seen = await take_events(one, 9 * 20 + 1)
        seen += [] if gaps_of(seen) else await take(one, 1)
        assert {each.verdict for each in events_of(seen)} == {Verdict.IN_ORDER}
        reason = GapReason.LOST if mode == "strict" else GapReason.SKIPPED
        assert [(each.topic, each.first, each.last, each.reason) for each in gaps_of(seen)] == [("t0", 3, 3, reason)]
        assert (one.stats().after_gap, one.stats().duplicates) == (0, 0)


async def test_a_loss_is_told_when_the_connection_is_back(site: Site) -> None:
    """Meanwhile nobody knows what the broker has kept."""
    async with site.client("one", clock=QUICK) as one, site.client("publisher") as publisher:
        await one.subscribe("a")
        site.hub._down = True  # for new connections
        site.hub.cut("one")
        await published(publisher, "a", 3)
        await loss_timeouts_pass(one, 6)
        assert one.stats().gaps == 0
        site.hub.start()
        seen = await take(one, 2)
        assert [(each.first, each.last, each.reason) for each in gaps_of(seen)] == [(1, 3, GapReason.LOST)]


async def test_without_barriers_an_event_is_lost_when_nothing_comes_for_a_while(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adapter of the port's first version."""
    monkeypatch.setattr(barriers, "QUIET", 0.01)
    ens: Any = FirstVersion(open_ens(f"memory://{site.name}", client_id="one", options={}))
    assert isinstance(ens, Ens)
    assert not isinstance(ens, BarrierEns)
    one = Client(ens, workers=[site.address], client_id="one", times=QUICK)
    async with one, site.client("publisher") as publisher:
        await one.subscribe("a")
        await site.lose(one, published(publisher, "a", 1))
        await published(publisher, "a", 1, first=1)
        seen = await take(one, 2)
        assert [(each.first, each.last, each.reason) for each in gaps_of(seen)] == [(1, 1, GapReason.LOST)]


async def test_without_barriers_nothing_is_lost_while_something_comes_or_the_loop_is_held_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up to a limit: else a stream that never rests would keep strict readers waiting for ever."""
    times_slept = 0
    asked = barriers.Barriers(FirstVersion(open_ens("memory://x", client_id="x", options={})))
    loop, now = asyncio.get_running_loop(), 0.0
    monkeypatch.setattr(loop, "time", lambda: now)

    async def sleep(seconds: float) -> None:
        nonlocal times_slept, now
        times_slept += 1
        is_busy, is_held_up = times_slept < 10, 10 <= times_slept < 20
        asked.arrived += is_busy
        now += seconds * (5 if is_held_up else 1)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert await asked.passed()
    assert times_slept == 20
    monkeypatch.setattr(barriers, "MAX_BUSY", 5)
    times_slept = 0
    assert await asked.passed()
    assert times_slept == 5
