"""A subscriber's waits, for operators: the numbers that hold events up, whatever the cause.

Nothing decides by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from inorder.endpoint.waiting import Sequenced, WaitingRoom
from inorder.protocol.wire import Wait

Reason = tuple[int, int, list[Sequenced]]
"""A topic, its number that is waited for (0: its name), and the waiting events."""
WAITS_TOLD: Final = 16
"""Numbers that are told, at most."""
LONG: Final = 1.0
"""Seconds for which the first event has waited, at least: shorter waits are the order at work."""
PLACES_LOOKED_AT: Final = 2_000
"""Numbers with sleepers that are looked at in one topic: what holds the others up was slept on first."""


def waits_of(
    room: WaitingRoom, unnamed: Mapping[int, list[Sequenced]], old: Iterable[Reason], now: float
) -> list[Wait]:
    """Return the numbers that hold events up, the longest first. These are the lowest one of each topic with sleepers
    that does not wait itself, topics without a name yet (``unnamed``: their waiting events), and ``old`` numbers of a
    subscription that was resumed."""
    names = ((topic, 0, its) for topic, its in unnamed.items() if its)
    reasons = {each[:2]: each for each in (*old, *_roots(room), *names)}
    found = [_wait(*each, now) for each in reasons.values()]
    long = [each for each in found if each.for_ms >= LONG * 1000]
    return sorted(long, key=lambda each: -each.for_ms)[:WAITS_TOLD]


def _roots(room: WaitingRoom) -> Iterator[Reason]:
    for topic, alarms in room.alarms.items():
        waiting = room.topic(topic)
        slept_on = {
            number: asleep
            for number, sleepers in islice(alarms.items(), PLACES_LOOKED_AT)
            if number not in waiting and (asleep := [each for each in sleepers if not each.done])
        }
        if slept_on:
            lowest = min(slept_on)
            yield topic, lowest, slept_on[lowest]


def _wait(topic: int, number: int, sleepers: list[Sequenced], now: float) -> Wait:
    first = min(sleepers, key=lambda each: each.arrived)
    waited = max(0, int((now - first.arrived) * 1000))
    return Wait(topic, number, first.topic, first.number, sum(not each.is_hole for each in sleepers), waited)
