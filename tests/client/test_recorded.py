"""Runs of real clients, judged by the checks of the protocol; and the judge sees what is planted in them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.client.helpers import Notification, Site, events_of, take_events
from tests.client.recorder import Recorder

from inorder import Bounded, Client, Event, Gap, GapReason

ROUGH: dict[str, Any] = {"delay_ms": "0..20", "reorder": 0.3, "duplicate": 0.1}
EVENTS = 100


async def _publish(recorder: Recorder, client: Client, prefix: str) -> None:
    futures = [recorder.publish(client, "ab"[at % 2], f"{prefix}{at}".encode()) for at in range(EVENTS)]
    await asyncio.gather(*futures)


async def _run(site: Site, plant: str = "") -> Recorder:
    """Two publishers and two subscribers over a rough broker; then something is planted in what one has seen."""
    recorder = Recorder()
    one, two = site.client("one", seed=1, **ROUGH), site.client("two", seed=2, **ROUGH)
    left, right = site.client("left"), site.client("right")
    async with one, two, left, right:
        for each in (one, two):
            await recorder.subscribe(each, "a", "b")
        await asyncio.gather(_publish(recorder, left, "l"), _publish(recorder, right, "r"))
        recorder.took(one, await take_events(one, 2 * EVENTS))
        recorder.took(two, _planted(plant, await take_events(two, 2 * EVENTS)))
    return recorder


def _planted(plant: str, taken: list[Notification]) -> list[Notification]:
    events = events_of(taken)
    assert events == taken
    middle = events[EVENTS]
    assert middle.number is not None
    match plant:
        case "swapped topics":
            at = next(at for at in range(EVENTS, 2 * EVENTS) if events[at].topic != events[at + 1].topic)
            taken[at], taken[at + 1] = taken[at + 1], taken[at]
        case "left out":
            taken.remove(middle)
        case "the last left out":
            taken.pop()
        case "twice":
            taken.append(middle)
        case "another's payload":
            taken[EVENTS] = Event(middle.space, middle.topic, b"?", middle.verdict, middle.number)
        case "reported too":
            taken.append(Gap(middle.space, middle.topic, middle.number, middle.number, GapReason.LOST))
    return taken


async def test_a_run_over_a_rough_broker_breaks_nothing(site: Site) -> None:
    recorder = await _run(site)
    assert recorder.violations() == []
    assert len(recorder.history.stamped) == 2 * EVENTS
    assert all(each.spans for name, each in recorder.history.subscribers.items() if name in ("one", "two"))


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        ("swapped topics", "TNO"),
        ("left out", "R17"),
        ("the last left out", "R16"),
        ("twice", "R5"),
        ("another's payload", "phantom"),
        ("reported too", "R17"),
    ],
)
async def test_what_is_planted_is_found(site: Site, plant: str, rule: str) -> None:
    assert rule in {each.rule for each in (await _run(site, plant)).violations()}


async def test_what_was_not_read_is_not_judged(site: Site) -> None:
    assert (await _run(site, "the last left out")).violations(everything=False) == []


async def _publish_three(recorder: Recorder, client: Client) -> None:
    await asyncio.gather(*[recorder.publish(client, "a", bytes([at])) for at in range(3)])


@pytest.mark.parametrize("mode", ["strict", "tag", Bounded(buffer=5)])
async def test_losses_are_reported_in_every_mode(site: Site, mode: Any) -> None:
    """R17, with the stream read through the recorder; an event of b comes last and nobody loses it."""
    recorder = Recorder()
    reader, other, writer = site.client("reader", mode=mode), site.client("other"), site.client("writer")
    async with reader, other, writer:
        for each in (reader, other):
            await recorder.subscribe(each, "a", "b")
        await recorder.publish(writer, "a", b"first")
        await site.lose(reader, _publish_three(recorder, writer))
        await recorder.publish(writer, "b", b"last")
        for each in (reader, other):
            numbers = 0
            async for notification in recorder.events(each):
                numbers += notification.last - notification.first + 1 if isinstance(notification, Gap) else 1
                if numbers == 5:
                    break
    assert recorder.violations() == []
    assert [(each.first, each.last) for each in recorder.history.subscribers["reader"].gaps] == [(2, 4)]
