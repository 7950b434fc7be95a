"""The order in which one subscriber is notified: per topic (R4), by dependencies (R4), per publisher (R19), fifo."""

from __future__ import annotations

from collections.abc import Iterator

from inorder_analytics.checks.history import History, Notified, Session, SubscriberHistory
from inorder_analytics.checks.violation import Violation, Witness


def check_topic_order(history: History) -> Iterator[Violation]:
    """R4: per topic the numbers notified in order rise."""
    for subscriber in history.subscribers.values():
        last: dict[int, Notified] = {}
        for each in subscriber.in_order:
            if each.place is None:
                continue
            before = last.get(each.place[0])
            if before is not None and before.place is not None and before.place[1] >= each.place[1]:
                yield _out_of_order("R4", history, subscriber, before, each)
            last[each.place[0]] = each


def check_publisher_order(history: History) -> Iterator[Violation]:
    """R19: what one session published arrives in its order, across topics."""
    for subscriber in history.subscribers.values():
        if subscriber.mode != "strict":
            continue
        last: dict[Session, Notified] = {}
        for each in subscriber.in_order:
            if each.event is None:
                continue
            before = last.get(each.event[:2])
            if before is not None and before.event is not None and before.event[2] > each.event[2]:
                yield _out_of_order("R19", history, subscriber, before, each)
            last[each.event[:2]] = each


def _out_of_order(
    rule: str, history: History, subscriber: SubscriberHistory, before: Notified, after: Notified
) -> Violation:
    return Violation(
        rule,
        (Witness(before.event, before.place), Witness(after.event, after.place)),
        (subscriber.name,),
        f"{subscriber.name} was notified of {history.named(before.place)} {before.event} before "
        f"{history.named(after.place)} {after.event}",
    )
