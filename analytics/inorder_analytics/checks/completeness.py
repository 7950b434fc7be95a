"""Nothing is left out silently (R7, R17), and every wait ends."""

from __future__ import annotations

from collections.abc import Iterator

from inorder_analytics.checks.history import History, Place, Span, SubscriberHistory
from inorder_analytics.checks.violation import Violation, Witness


def check_convergence(history: History) -> Iterator[Violation]:
    """Nothing waits at the end, and every subscriber has reached the heads of its topics (R17)."""
    for each in history.unfinished:
        yield Violation("convergence", (), (each.client,), f"{each.client} is left with {each.what}")
    for subscriber in history.subscribers.values():
        for span in subscriber.spans:
            head = history.heads.get(span.topic, 0)
            if span.dropped is None and (span.end or 0) < head:
                place = span.topic, head
                sentence = f"{subscriber.name} ends at {span.end}, below {history.named(place)}"
                yield Violation("R17", (Witness(history.places.get(place), place),), (subscriber.name,), sentence)


def check_gaps(history: History) -> Iterator[Violation]:
    """R17: a number is reported once, and not both reported and notified."""
    for subscriber in history.subscribers.values():
        got = {each.place for each in subscriber.notified}
        reported: set[Place] = set()
        for gap in subscriber.gaps:
            for place in [(gap.topic, number) for number in range(gap.first, gap.last + 1)]:
                witness = (Witness(history.places.get(place), place),)
                if place in reported:
                    sentence = f"{subscriber.name} was told twice of {history.named(place)}"
                    yield Violation("R17", witness, (subscriber.name,), sentence)
                if place in got and subscriber.mode == "strict":
                    sentence = f"{subscriber.name} was notified of {history.named(place)}, reported as {gap.reason}"
                    yield Violation("R17", witness, (subscriber.name,), sentence)
                reported.add(place)


def check_completeness(history: History) -> Iterator[Violation]:
    """R7, R17: every number of a span was notified, is void, or was reported."""
    for subscriber in history.subscribers.values():
        for span in subscriber.spans:
            yield from _check_start(history, subscriber, span)
            # else numbers it jumped may have been due later
            if subscriber.mode == "strict" or span.dropped is None:
                yield from _check_span(history, subscriber, span)


def _check_span(history: History, subscriber: SubscriberHistory, span: Span) -> Iterator[Violation]:
    known = {each.place for each in subscriber.notified}
    known |= {(gap.topic, number) for gap in subscriber.gaps for number in range(gap.first, gap.last + 1)}
    for place in [(span.topic, number) for number in range(span.start + 1, (span.end or 0) + 1)]:
        if place not in known and history.states.get(place) != "VOID":
            sentence = f"{subscriber.name}: {history.named(place)} ({history.states.get(place)}) was skipped silently"
            yield Violation("R17", (Witness(history.places.get(place), place),), (subscriber.name,), sentence)


def _check_start(history: History, subscriber: SubscriberHistory, span: Span) -> Iterator[Violation]:
    """R7: what is published after a subscription is complete belongs to it."""
    for each in history.stamped.values():
        if each.place[0] == span.topic and each.published > span.completed and each.place[1] <= span.start:
            sentence = (
                f"{subscriber.name} begins after {history.named((span.topic, span.start))}, but "
                f"{history.named(each.place)} {each.event} was published later"
            )
            yield Violation("R7", (Witness(each.event, each.place),), (subscriber.name,), sentence)
