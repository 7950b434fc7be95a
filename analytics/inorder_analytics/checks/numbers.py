"""Checks of numbers and identities: one number for one event (R1), and only published events are notified."""

from __future__ import annotations

from collections.abc import Iterator

from inorder_analytics.checks.history import EventId, History, Place
from inorder_analytics.checks.violation import Violation, Witness, witness

UNNUMBERED = frozenset({"unsequenced", "fifo", "retained"})
"""Verdicts of what may come from a publisher that nobody recorded."""


def check_unique_numbers(history: History) -> Iterator[Violation]:
    """Check that no number is two events', and that no event has two numbers or two timestamps (R1)."""
    for each in history.stamps:
        first, owner = history.stamped[each.event], history.places[each.place]
        if owner != each.event:
            yield _two_events(history, each.place, owner, each.event)
        if first.place != each.place:
            yield _two_numbers(history, each.event, first.place, each.place)
        elif first.deps != each.deps:
            sentence = f"{each.event} {history.named(each.place)} had {dict(first.deps)}, later {dict(each.deps)}"
            yield Violation("R1", (Witness(each.event, each.place),), (), sentence)
    yield from _check_seen(history)
    numbers: dict[EventId, Place] = {}
    for place, event in history.owners.items():  # also those of which nobody heard
        if numbers.setdefault(event, place) != place:
            yield _two_numbers(history, event, numbers[event], place)


def _check_seen(history: History) -> Iterator[Violation]:
    """Check that subscribers agree on a timestamp that its publisher never got."""
    owners: dict[Place, EventId] = {}
    numbers: dict[EventId, Place] = {}
    for subscriber in history.subscribers.values():
        for each in subscriber.notified:
            if each.place is None or each.event is None or each.event in history.stamped:
                continue
            owner = history.places.get(each.place) or owners.setdefault(each.place, each.event)
            if owner != each.event:
                yield _two_events(history, each.place, owner, each.event)
            if numbers.setdefault(each.event, each.place) != each.place:
                yield _two_numbers(history, each.event, numbers[each.event], each.place)


def check_forgotten(history: History) -> Iterator[Violation]:
    """Check that only publishers get ``forgotten`` whose session a stage may have dropped (R1)."""
    for event in history.forgotten:
        if event[:2] not in history.ended:
            sentence = f"{event} was forgotten, though no stage ever dropped its publisher's session"
            yield Violation("R1", (Witness(event, None),), (), sentence)


def _two_events(history: History, place: Place, one: EventId, two: EventId) -> Violation:
    sentence = f"{history.named(place)} was given to {one} and to {two}"
    return Violation("R1", (Witness(one, place), Witness(two, place)), (), sentence)


def _two_numbers(history: History, event: EventId, one: Place, two: Place) -> Violation:
    sentence = f"{event} was {history.named(one)}, later {history.named(two)}"
    return Violation("R1", (Witness(event, one), Witness(event, two)), (), sentence)


def check_phantoms(history: History) -> Iterator[Violation]:
    """Check that a notified event was published under that number and is not void (R16)."""
    for subscriber in history.subscribers.values():
        for each in subscriber.notified:
            place, event = each.place, each.event
            got = f"{subscriber.name} got {event} as {history.named(place)}"
            publish = None if event is None else history.publishes.get(event)
            stamped = None if event is None else history.stamped.get(event)
            if publish is None and stamped is None and (event is not None or each.verdict not in UNNUMBERED):
                yield Violation("phantom", (witness(each),), (subscriber.name,), f"{got}, which nobody published")
            elif stamped is not None and place is not None and place != stamped.place:
                sentence = f"{got}, but it is {history.named(stamped.place)}"
                yield Violation("phantom", (witness(each),), (subscriber.name,), sentence)
            is_void = place is not None and event is not None and history.states.get(place) == "VOID"
            if is_void or (publish is not None and publish.outcome == "void"):
                yield Violation("R16", (witness(each),), (subscriber.name,), f"{got}, which is void")
