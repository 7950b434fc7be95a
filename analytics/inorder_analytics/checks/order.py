"""Checks of one subscriber's order: per topic and by dependencies (R4), per publisher (R19), fifo.

All checks read each subscriber once. A durable subscriber that resumes is judged anew from there (R18).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from inorder_analytics.checks.history import EventId, History, Notified, Place, Report, Session, SubscriberHistory
from inorder_analytics.checks.violation import Violation, Witness, witness

IN_TURN = frozenset({"lost", "abandoned", "unstamped"})
"""Reasons of gaps whose numbers are skipped in their own turn, by their own dependencies (R17)."""


def check_topic_order(history: History) -> Iterator[Violation]:
    """Check that the numbers notified in order rise in each topic (R4)."""
    for subscriber in history.subscribers.values():
        for run in subscriber.runs():
            last: dict[int, Notified] = {}
            for each in run.notified:
                if each.verdict != "in_order" or each.place is None:
                    continue
                topic, number = each.place
                before = last.get(topic)
                if before is not None and before.place is not None and before.place[1] >= number:
                    yield _out_of_order("R4", history, subscriber, before, each)
                last[topic] = each


def check_dependencies(history: History) -> Iterator[Violation]:
    """Check that no event is notified in order after an event with a dependency on it (R4). R17: in strict mode a
    number that is skipped takes its turn in the same way."""
    for subscriber in history.subscribers.values():
        for run in subscriber.runs():
            floor: dict[int, tuple[int, Witness, str]] = {}
            for each in run.stream():
                step = _step(subscriber, each)
                if step is None:
                    continue
                topic, number = step
                seen = witness(each) if isinstance(each, Notified) else Witness(history.places.get(step), step)
                reason = each.reason if isinstance(each, Report) else ""
                found = floor.get(topic)
                if found is not None and number <= found[0]:
                    yield Violation(
                        "R17" if reason or found[2] else "R4",
                        (found[1], seen),
                        (subscriber.name,),
                        f"{subscriber.name} {_passed(history, found[1], found[2])}, which depends on "
                        f"{history.named((topic, found[0]))}, before it {_passed(history, seen, reason)}",
                    )
                if reason and reason not in IN_TURN:
                    continue  # nothing is known of what they depend on
                for other, needed in (history.deps_of(step) or {}).items():
                    if other not in floor or floor[other][0] < needed:
                        floor[other] = needed, seen, reason


def _step(subscriber: SubscriberHistory, each: Notified | Report) -> tuple[int, int] | None:
    """Return the number of an entry in its turn, or ``None``."""
    if isinstance(each, Notified):
        return each.place if each.verdict == "in_order" else None
    return (each.topic, each.first) if subscriber.mode == "strict" else None


def _passed(history: History, seen: Witness, reason: str) -> str:
    named = history.named(seen.place)
    return f"was told that {named} is {reason}" if reason else f"was notified of {named} {seen.event}"


def check_publisher_order(history: History) -> Iterator[Violation]:
    """Check that the events of one session arrive in its order, across topics (R19). R20: in bounded mode not across
    numbers that were jumped over: dependencies on older events go through the newer ones."""
    numbers = {event: place for place, event in history.owners.items()}  # also of those that were taken back (R16)
    numbers.update((event, each.place) for event, each in history.stamped.items())
    for subscriber in history.subscribers.values():
        for run in subscriber.runs():
            yield from _publisher_order(history, subscriber, run.notified, numbers)


def _publisher_order(
    history: History, subscriber: SubscriberHistory, notified: list[Notified], numbers: Mapping[EventId, Place]
) -> Iterator[Violation]:
    sessions: dict[Session, tuple[list[int], list[Notified]]] = {}
    for each in notified:
        if each.verdict != "in_order" or each.event is None:
            continue
        counter = each.event[2]
        counters, seen = sessions.setdefault(each.event[:2], ([], []))
        at = bisect_left(counters, counter)
        # the next of what it had before: whatever is between the two did not come before it
        is_behind = at < len(counters) and counters[at] != counter
        if is_behind and not _is_between_jumped(numbers, subscriber, each, seen[at]):
            yield _out_of_order("R19", history, subscriber, seen[at], each)
        counters.insert(at, counter)
        seen.insert(at, each)


def _is_between_jumped(
    numbers: Mapping[EventId, Place], subscriber: SubscriberHistory, first: Notified, second: Notified
) -> bool:
    """Tell whether a bounded subscriber passed over an event published between these two."""
    if subscriber.mode == "strict" or first.event is None or second.event is None:
        return False
    client, incarnation, low = first.event
    topics = {span.topic for span in subscriber.spans}
    return any(
        place is not None and (not topics or place[0] in topics)
        for place in (numbers.get((client, incarnation, at)) for at in range(low + 1, second.event[2]))
    )


def check_fifo(history: History) -> Iterator[Violation]:
    """Check that ``fifo`` events come in the order of publishing, without repetition, per session and topic."""
    for subscriber in history.subscribers.values():
        for run in subscriber.runs():
            last: dict[tuple[Any, ...], Notified] = {}
            for each in run.notified:
                if each.verdict != "fifo" or each.event is None or each.redelivered:
                    continue
                publish = history.publishes.get(each.event)
                topic = publish.topic if publish is not None else each.place[0] if each.place is not None else None
                before = last.get((*each.event[:2], topic))
                if before is not None and before.event is not None and before.event[2] >= each.event[2]:
                    yield _out_of_order("fifo", history, subscriber, before, each)
                last[*each.event[:2], topic] = each


def _out_of_order(
    rule: str, history: History, subscriber: SubscriberHistory, before: Notified, after: Notified
) -> Violation:
    return Violation(
        rule,
        (witness(before), witness(after)),
        (subscriber.name,),
        f"{subscriber.name} was notified of {history.named(before.place)} {before.event} before "
        f"{history.named(after.place)} {after.event}",
    )
