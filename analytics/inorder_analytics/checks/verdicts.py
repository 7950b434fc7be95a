"""Checks of each notification's verdict. ``late`` is true (R5, R6), nothing comes twice (R5), nothing in order without
a lease (R12), nothing lost arrives (R24), and repeats after a resume are marked (R18)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator

from inorder_analytics.checks.history import History, Notified, Place, Report, Run, SubscriberHistory
from inorder_analytics.checks.ranges import by_topic
from inorder_analytics.checks.violation import Violation, witness

VERDICTS = frozenset({"in_order", "late", "fifo", "unsequenced", "retained"})
SEQUENCED = frozenset({"in_order", "late"})
"""Verdicts by which a number counts as notified."""


def check_repetition(history: History) -> Iterator[Violation]:
    """Check that no number is notified twice (the broker's retained copies have the verdict ``retained``) (R5)."""
    for subscriber in history.subscribers.values():
        for run in subscriber.runs():
            seen: set[Place] = set()
            for each in run.notified:
                if each.place is None or each.verdict not in SEQUENCED:
                    continue
                if each.place in seen:
                    yield _broken("R5", history, subscriber, each, "twice")
                seen.add(each.place)


def check_verdicts(history: History) -> Iterator[Violation]:
    """Check that each verdict may reach applications. ``late`` is for bounded waiting (R6) and for events after their
    gap (R5), ``unsequenced`` for events without a timestamp, ``retained`` for copies not above the clock (R5)."""
    for subscriber in history.subscribers.values():
        after_gap = set[Place]().union(*map(numbers_after_gap, subscriber.runs()))
        topics = {span.topic for span in subscriber.spans}
        for each in subscriber.notified:
            if each.verdict not in VERDICTS:
                yield _broken("R5", history, subscriber, each, f"as {each.verdict}")
            elif (
                each.verdict == "late"
                and subscriber.mode == "strict"
                and not (each.place in after_gap or (topics and each.place is not None and each.place[0] not in topics))
            ):  # topics beside the spans are read in another order: fifo passes numbers over, too
                yield _broken("R6", history, subscriber, each, "late, and is strict")
            elif each.verdict == "unsequenced" and _is_ordered(history, subscriber, each):
                yield _broken("R5", history, subscriber, each, "without an order, though it has a timestamp")
        for run in subscriber.runs():
            yield from _check_retained(history, subscriber, run)


def _is_ordered(history: History, subscriber: SubscriberHistory, each: Notified) -> bool:
    """Tell whether an event has a timestamp in a topic that its subscriber reads in total order, which has a span."""
    stamped = None if each.event is None else history.stamped.get(each.event)
    return stamped is not None and any(span.topic == stamped.place[0] for span in subscriber.spans)


def _check_retained(history: History, subscriber: SubscriberHistory, run: Run) -> Iterator[Violation]:
    """Check that a retained copy above the clock counts as the event itself (R5)."""
    retained: set[Place] = set()
    reached: dict[int, int] = dict(run.clock)
    for span in subscriber.spans:
        reached[span.topic] = max(span.start, reached.get(span.topic, 0))
    topics = {span.topic for span in subscriber.spans}
    for each in run.stream():
        if isinstance(each, Report):
            reached[each.topic] = max(each.last, reached.get(each.topic, 0))
        elif each.place is not None and each.verdict == "in_order":
            if each.place in retained:
                yield _broken("R5", history, subscriber, each, "in order, after a copy of it as retained")
            reached[each.place[0]] = max(each.place[1], reached.get(each.place[0], 0))
        elif each.place is not None and each.verdict == "retained":
            retained.add(each.place)
            topic, number = each.place
            # a bounded one's clock may have been moved there by dependencies
            if subscriber.mode == "strict" and topic in topics and number > reached.get(topic, 0):
                yield _broken("R5", history, subscriber, each, "as retained, above its clock")


def numbers_after_gap(run: Run) -> set[Place]:
    """Return the numbers that came as late after their gap (R5)."""
    told: dict[int, list[tuple[int, int]]] = {}
    found: set[Place] = set()
    if not run.gaps:
        return found
    for each in run.stream():
        if isinstance(each, Report):
            insort(told.setdefault(each.topic, []), (each.first, each.last))
        elif each.place is not None and each.verdict == "late":
            ranges = told.get(each.place[0], [])
            at = bisect_right(ranges, each.place[1], key=lambda known: known[0]) - 1
            if at >= 0 and each.place[1] <= ranges[at][1]:
                found.add(each.place)
    return found


def check_lost(history: History) -> Iterator[Violation]:
    """Check that no event reported lost arrives (R24), in topics with one broker, which accepted their events."""
    if not history.is_direct:
        return
    for subscriber in history.subscribers.values():
        for run in subscriber.runs():
            after_gap = numbers_after_gap(run)
            lost = by_topic((each.topic, each.first, each.last) for each in run.gaps if each.reason == "lost")
            for each in run.notified:
                if each.place in after_gap and each.place is not None and each.place[1] in lost.get(each.place[0], ()):
                    yield _broken("R24", history, subscriber, each, "late, after it was reported lost")


def check_late(history: History) -> Iterator[Violation]:
    """Check that a ``late`` event comes behind one of its successors, or behind an expired lease (R5, R6, R12).

    An event in order that need not come before it excuses it, too: readers that take events out of turn go by ticks,
    which order more than timestamps do (R23).

    What is before the start of a topic counts by its publisher's order (R19) too: the base of its first event has it
    (R8), also of topics that nobody shared and no timestamp therefore names.

    Said only of subscribers whose lapses are recorded, and not any more where a number came before whose dependencies
    nobody recorded. What follows from the timestamps notified is kept as one clock that only rises: each number below
    it is looked at once, O(numbers + dependencies) for each subscriber.
    """
    judged = [(each, each.lapses) for each in history.subscribers.values() if each.mode != "strict"]
    earlier = _earlier(history) if judged else {}
    for subscriber, lapses in judged:
        if lapses is not None:
            given = list[Place]()
            for run in subscriber.runs():
                yield from _late(history, subscriber, run, lapses, earlier, given)


def _earlier(history: History) -> dict[Place, Place]:
    """Return for each number its publisher's one just before, whether or not the publisher got the timestamps."""
    last: dict[tuple[str, int], Place] = {}
    earlier: dict[Place, Place] = {}
    owned = {**history.owners, **history.places}
    for (client, incarnation, _), place in sorted((event, place) for place, event in owned.items()):
        if (client, incarnation) in last:
            earlier[place] = last[client, incarnation]
        last[client, incarnation] = place
    return earlier


def _late(
    history: History,
    subscriber: SubscriberHistory,
    run: Run,
    lapses: list[tuple[float, float]],
    earlier: dict[Place, Place],
    given: list[Place],
) -> Iterator[Violation]:
    starts: dict[int, int] = {}
    for span in run.spans:
        starts[span.topic] = max(span.start, starts.get(span.topic, 0))
    passed = _Passed(history, starts, earlier)
    for each in run.stream():
        if isinstance(each, Report):
            passed.rise(each.topic, each.last)
            continue
        if each.place is None or each.verdict not in SEQUENCED:
            continue
        if each.verdict == "in_order":
            given.append(each.place)
        elif (
            passed.clock.get(each.place[0], 0) < each.place[1]
            and passed.is_sure
            and not (_is_within(each.when, lapses) or _may_follow(each.place, given, _Passed(history, starts, earlier)))
        ):
            yield _broken("R6", history, subscriber, each, "late, but nothing that may follow it came before")
        passed.rise(*each.place)


def _may_follow(place: Place, given: list[Place], before: _Passed) -> bool:
    """Tell whether timestamps let an event come before one of those that were given, or nobody knows."""
    before.rise(*place)
    return not before.is_sure or any(before.clock.get(topic, 0) < number for topic, number in given)


def _is_within(when: float, lapses: list[tuple[float, float]]) -> bool:
    return any(since <= when <= until for since, until in lapses)


class _Passed:
    """The numbers before notified events: by their timestamps, and below a topic's start by the publishers' order."""

    def __init__(self, history: History, starts: dict[int, int], earlier: dict[Place, Place]) -> None:
        self._history, self._starts, self._earlier = history, starts, earlier
        self.clock: dict[int, int] = {}
        self.is_sure = True

    def rise(self, topic: int, number: int) -> None:
        """Record a notification up to this number."""
        todo = [(topic, number)]
        while todo:
            topic, number = todo.pop()
            clock = self.clock.get(topic, 0)
            if number <= clock:
                continue
            self.clock[topic] = number
            for each in range(clock + 1, number + 1):
                deps = self._history.deps_of((topic, each))
                if deps is None:
                    self.is_sure = False
                    return
                todo += deps.items()
                if each <= self._starts.get(topic, 0) and (topic, each) in self._earlier:
                    todo.append(self._earlier[topic, each])


def check_lease(history: History) -> Iterator[Violation]:
    """Check that nothing is notified in order without a valid lease: strict holds events, bounded tags them (R12)."""
    for subscriber in history.subscribers.values():
        for each in subscriber.notified:
            if each.verdict == "in_order" and any(
                since < each.when < until for since, until in subscriber.lapses or ()
            ):
                yield _broken("R12", history, subscriber, each, "in order, without a lease")


def check_resumes(history: History) -> Iterator[Violation]:
    """Check that repeats after a resume are marked ``redelivered``, begin after the saved clock and come in their old
    order (R18). (That nothing after the saved clock is left out is part of completeness.)"""
    for subscriber in history.subscribers.values():
        first: dict[Place, int] = {}
        for run in subscriber.runs():
            yield from _resumed(history, subscriber, run, first)


def _resumed(history: History, subscriber: SubscriberHistory, run: Run, first: dict[Place, int]) -> Iterator[Violation]:
    known = len(first)
    highest: tuple[int, Notified] | None = None
    for each in run.notified:
        if each.place is None or each.verdict not in SEQUENCED:
            continue
        topic, number = each.place
        at = first.setdefault(each.place, len(first))
        if number <= run.clock.get(topic, 0):
            yield _broken("R18", history, subscriber, each, f"after it had resumed behind {run.clock[topic]}")
        if at < known and not each.redelivered:
            yield _broken("R18", history, subscriber, each, "again without a mark")
        if each.verdict != "in_order":
            continue
        if known and highest is not None and at < highest[0]:
            yield Violation(
                "R18",
                (witness(highest[1]), witness(each)),
                (subscriber.name,),
                f"{subscriber.name} was notified of {history.named(each.place)} {each.event} before "
                f"{history.named(highest[1].place)} {highest[1].event}, and after it once it had resumed",
            )
        if highest is None or at > highest[0]:
            highest = at, each


def _broken(rule: str, history: History, subscriber: SubscriberHistory, each: Notified, how: str) -> Violation:
    sentence = f"{subscriber.name} was notified of {history.named(each.place)} {each.event} {how}"
    return Violation(rule, (witness(each),), (subscriber.name,), sentence)
