"""Everything at once, from a seed: cuts, restarts, cancellations, a broker that reorders; then it must settle."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest
from tests.client.helpers import PATIENCE, Notification, Site, events_of, gaps_of, keys, take, until

from inorder import Client, Event, Gap, GapReason, Receipt, Verdict

TOPICS = ("a", "b", "c")
EVENTS = 250


@pytest.mark.parametrize("seed", range(4))
async def test_safety_holds_and_everything_settles(site: Site, seed: int) -> None:
    """TNO, R16, R17, R19: numbers are notified in one order at all, or reported; no receipt is forgotten; a subscriber
    that was never cut off misses nothing that was accepted; nothing is pending in the end."""
    chance = random.Random(seed)
    steady = site.client("steady", seed=seed, delay_ms="0..10", reorder=0.3, duplicate=0.05)
    shaky = site.client("shaky", seed=seed, delay_ms="0..10", reorder=0.3)
    left, right = site.client("left"), site.client("right")
    async with steady, shaky, left, right:
        for each in (steady, shaky):
            await each.subscribe("a", "b")
            await each.subscribe("+")
        faults = asyncio.create_task(break_things(site, chance))
        async with asyncio.timeout(2 * PATIENCE):
            sent = await asyncio.gather(
                *(publish(each, random.Random(f"{seed}{name}"), name) for name, each in (("l", left), ("r", right)))
            )
            await faults
        receipts = [receipt for each in sent for receipt in each]
        last = [await left.publish(topic, b"last") for topic in TOPICS]
        await until(lambda: all(passed(each, last) for each in (steady, shaky)), "the end of the streams")
        await until(lambda: left.stats().pending + right.stats().pending == 0, "settlements")
        seen = [await take(each, each.stats().undelivered) for each in (steady, shaky)]
        check_order(*seen)
        check_complete(seen[0], receipts)
        check_complete(seen[1], receipts)
        assert {each.reason for each in gaps_of(seen[0])} <= {GapReason.ABANDONED}
        for each in (steady, shaky):
            assert (each.stats().waiting, each.stats().delivered["late"]) == (0, 0)


async def break_things(site: Site, chance: random.Random) -> None:
    for _ in range(12):
        await asyncio.sleep(chance.uniform(0.01, 0.08))
        what = chance.choice(["left", "right", "shaky", "stall", "refuse", "worker"])
        if what == "worker":
            await site.stop()
            await asyncio.sleep(chance.uniform(0, 0.05))
            await site.start()
        elif what == "stall" and "left" in site.hub.members:
            site.hub.stall("left")
            await asyncio.sleep(chance.uniform(0, 0.03))
            if "left" in site.hub.members:
                site.hub.resume("left")
        elif what == "refuse":
            site.hub.refuse_publishes("right", 2)
        elif what in site.hub.members:
            site.hub.cut(what)


async def publish(publisher: Client, chance: random.Random, name: str) -> list[Receipt]:
    """Publish at random moments, cancel some; return the receipts."""
    futures = []
    for at in range(EVENTS):
        future = publisher.publish(chance.choice(TOPICS), f"{name}{at}".encode(), qos=chance.choice([0, 1]))
        if chance.random() < 0.05:
            asyncio.get_running_loop().call_later(chance.uniform(0, 0.01), future.cancel)
        futures.append(future)
        if chance.random() < 0.5:
            await asyncio.sleep(chance.uniform(0, 0.006))
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    return [each for each in outcomes if isinstance(each, Receipt)]


def passed(client: Client, last: Iterable[Receipt]) -> bool:
    ids, clock = client._endpoint.arrivals._ids, client._endpoint.ordering.clock
    return all(clock.get(ids.get(("memory", each.topic), 0), 0) >= (each.number or 0) for each in last)


def check_order(one: list[Notification], two: list[Notification]) -> None:
    common = set(keys(one)) & set(keys(two))
    assert [each for each in keys(one) if each in common] == [each for each in keys(two) if each in common]
    for seen in (one, two):
        assert {each.verdict for each in events_of(seen)} == {Verdict.IN_ORDER}
        assert len(keys(seen)) == len(set(keys(seen)))
        for name in ("l", "r"):
            own = [
                int(each.payload[1:])
                for each in events_of(seen)
                if each.payload.startswith(name.encode()) and each.payload != b"last"
            ]
            assert own == sorted(own)


def check_complete(seen: list[Notification], receipts: list[Receipt]) -> None:
    """Per topic, numbers and gaps rise without overlap; what was accepted is among them."""
    reached = dict.fromkeys(TOPICS, 0)
    told: set[tuple[str, int]] = set()
    for each in seen:
        if isinstance(each, Event) and each.number is not None:
            first = last = each.number
        elif isinstance(each, Gap):
            first, last = each.first, each.last
        else:
            continue
        assert first > reached[each.topic], each
        reached[each.topic] = last
        told |= {(each.topic, number) for number in range(first, last + 1)}
    assert told >= {(each.topic, each.number) for each in receipts}
