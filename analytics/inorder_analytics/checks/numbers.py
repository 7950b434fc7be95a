"""Numbers and identities: one number for one event (R1), and what is notified was published so."""

from __future__ import annotations

from collections.abc import Iterator

from inorder_analytics.checks.history import History, Place, SubscriberHistory
from inorder_analytics.checks.violation import Violation, Witness


def check_unique_numbers(history: History) -> Iterator[Violation]:
    """R1: no number for two events, no two numbers (or two timestamps) for one event."""
    for each in history.stamps:
        first, owner = history.stamped[each.event], history.places[each.place]
        if owner != each.event:
            yield Violation(
                "R1",
                (Witness(owner, each.place), Witness(each.event, each.place)),
                (),
                f"{history.named(each.place)} was given to {owner} and to {each.event}",
            )
        if (first.place, first.deps) != (each.place, each.deps):
            yield Violation(
                "R1",
                (Witness(each.event, first.place), Witness(each.event, each.place)),
                (),
                f"{each.event} was {history.named(first.place)} {dict(first.deps)}, later "
                f"{history.named(each.place)} {dict(each.deps)}",
            )


def check_phantoms(history: History) -> Iterator[Violation]:
    """What is notified was published so and was not void, and is late only where events may be passed over (R6)."""
    for subscriber in history.subscribers.values():
        for each in subscriber.notified:
            place, witness = each.place, (Witness(each.event, each.place),)
            got = f"{subscriber.name} got {each.event} as {history.named(place)}"
            if place is not None and history.places.get(place) != each.event:
                yield Violation("phantom", witness, (subscriber.name,), f"{got}, {history.places.get(place)} is")
            if each.verdict == "late" and subscriber.mode == "strict":
                yield Violation("R6", witness, (subscriber.name,), f"{got} late, and is strict")
            if each.verdict not in ("in_order", "late"):
                yield Violation("R4", witness, (subscriber.name,), f"{got} {each.verdict}")
            if place is not None and history.states.get(place) == "VOID":
                yield Violation("R16", witness, (subscriber.name,), f"{got}, which is void")


def check_repetition(history: History) -> Iterator[Violation]:
    """R5: nothing is notified twice."""
    for subscriber in history.subscribers.values():
        yield from _repetitions(history, subscriber)


def _repetitions(history: History, subscriber: SubscriberHistory) -> Iterator[Violation]:
    seen: set[Place] = set()
    for each in subscriber.notified:
        if each.place is None:
            continue
        if each.place in seen:
            sentence = f"{subscriber.name} was notified of {history.named(each.place)} twice"
            yield Violation("R5", (Witness(each.event, each.place),), (subscriber.name,), sentence)
        seen.add(each.place)
