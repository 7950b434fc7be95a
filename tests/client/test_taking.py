"""A client that is embedded in another library hands notifications, and what it drops, to it."""

from __future__ import annotations

import asyncio

from tests.client.helpers import Site, published, times, until

from inorder import Event, Gap, Verdict
from inorder.errors import InorderError
from inorder.ports import Arrival


class Taken:
    def __init__(self) -> None:
        self.told: list[str] = []
        self.events: list[Event] = []

    def on_event(self, event: Event, arrival: Arrival) -> None:
        assert arrival.topic == event.topic
        self.events.append(event)

    def on_gap(self, gap: Gap) -> None:
        self.told.append(f"gap {gap.first} {gap.last} {gap.reason}")

    def on_passed_over(self, arrival: Arrival, topic: int, number: int, why: str) -> None:
        if why != "before":
            assert (why == "duplicate") == (number in [each.number for each in self.events])
        self.told.append(f"{why} {number}")

    def on_unrouted(self, arrival: Arrival) -> None:
        self.told.append(f"unrouted {arrival.topic}")

    def on_failed(self, error: InorderError) -> None:
        self.told.append(f"failed {type(error).__name__}")


async def test_events_and_repetitions_are_handed_over_in_order(site: Site) -> None:
    taken, one = Taken(), site.client("one", seed=3, reorder=0.5, duplicate=1.0, delay_ms="0..5")
    one.hand_to(taken)
    async with one, site.client("two") as two:
        await one.subscribe("a")
        await published(two, "a", 50)
        await until(lambda: len(taken.events) == 50 and len(taken.told) == 50)
    assert [each.number for each in taken.events] == list(range(1, 51))
    assert {each.verdict for each in taken.events} == {Verdict.IN_ORDER}
    assert {each.partition(" ")[0] for each in taken.told} == {"duplicate", "twin_waits"}
    assert sorted(int(each.partition(" ")[2]) for each in taken.told) == list(range(1, 51))


async def test_what_is_lost_and_what_is_not_subscribed_to_is_told(site: Site) -> None:
    taken = Taken()
    one = site.client("one", clock=times(gap_timeout=0.05, loss_timeout=0.1))
    one.hand_to(taken)
    async with one, site.client("two") as two:
        await one.subscribe("a")
        await site.lose(one, published(two, "a", 3))
        await until(lambda: taken.told == ["gap 1 3 lost"])
        link = next(iter(one._links.values()))
        link.arrived(Arrival("elsewhere", b"x"))
        assert taken.told[1:] == ["unrouted elsewhere"]


async def test_a_failure_for_good_is_told(site: Site) -> None:
    taken, first = Taken(), site.client("same")
    first.hand_to(taken)
    async with first, site.client("same"):
        await until(lambda: taken.told == ["failed Replaced"])
        await asyncio.sleep(0)
