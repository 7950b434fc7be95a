"""Checks of completeness (R7, R12, R17, R20): nothing is left out silently, gaps are true, and every wait ends.

Numbers are counted as ranges, so that what a check costs grows with what was recorded, not with the size of a gap:
O(n log n) for each subscriber.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from inorder_analytics.checks.history import History, Place, Report, Run, Span, Stamped, SubscriberHistory
from inorder_analytics.checks.ranges import Ranges, by_topic
from inorder_analytics.checks.verdicts import SEQUENCED, numbers_after_gap
from inorder_analytics.checks.violation import Violation, Witness

STATES = {"lost": "CONFIRMED", "unstamped": "CONFIRMED", "abandoned": "ABANDONED"}
"""What a stage must say of a number that was reported so."""
_NONE = Ranges()


def check_convergence(history: History) -> Iterator[Violation]:
    """Check that nothing waits at the end, and that every subscriber has reached the heads of its topics (R17)."""
    for left in history.unfinished:
        yield Violation("convergence", (), (left.client,), f"{left.client} is left with {left.what}")
    for publish in history.publishes.values():
        if publish.outcome == "open":
            client = publish.event[0]
            yield Violation(
                "convergence",
                (Witness(publish.event, None),),
                (client,),
                f"{client} never learnt how {publish.event} ended",
            )
    for subscriber in history.subscribers.values():
        for run in subscriber.runs()[-1:]:
            seen = _seen(run)
            for span in run.spans:
                place = span.topic, history.heads.get(span.topic, 0)
                if span.dropped is None and (end := _end(span, seen)) < place[1]:
                    yield _of_number(history, subscriber, place, f"ends at {end}, below")


def check_gaps(history: History) -> Iterator[Violation]:
    """Check that a number is reported once, in its turn, for the reason that its stage knows, and is notified only
    afterwards, as late (R17, R5)."""
    states = _by_state(history)
    for subscriber in history.subscribers.values():
        for run in subscriber.runs():
            yield from _check_gaps_of(history, subscriber, run)
            yield from _check_turns(history, subscriber, run)
        for gap in subscriber.gaps:
            yield from _check_reason(history, subscriber, gap, states)


def _check_gaps_of(history: History, subscriber: SubscriberHistory, run: Run) -> Iterator[Violation]:
    after_gap = numbers_after_gap(run)
    notified = by_topic(
        (*each.place, each.place[1])
        for each in run.notified
        if each.place is not None and each.verdict in SEQUENCED and each.place not in after_gap
    )
    last: dict[int, int] = {}
    for gap in sorted(run.gaps, key=lambda each: (each.topic, each.first)):
        if gap.first <= last.get(gap.topic, 0):
            yield _of_number(history, subscriber, (gap.topic, gap.first), "was told twice of")
        last[gap.topic] = max(gap.last, last.get(gap.topic, 0))
        both = notified.get(gap.topic, _NONE).common(gap.first, gap.last)
        if both is not None:
            sentence = f"was told that it is {gap.reason}, and was notified of"
            yield _of_number(history, subscriber, (gap.topic, both[0]), sentence)


def _check_turns(history: History, subscriber: SubscriberHistory, run: Run) -> Iterator[Violation]:
    """Check that a topic's numbers, reported or notified, only rise in strict mode."""
    if subscriber.mode != "strict":
        return
    reached: dict[int, int] = {}
    for each in run.stream():
        if isinstance(each, Report):
            if each.first <= reached.get(each.topic, 0):
                sentence = f"was told only after number {reached[each.topic]} of"
                yield _of_number(history, subscriber, (each.topic, each.first), sentence)
        elif each.verdict == "in_order" and each.place is not None:
            topic, number = each.place
            reached[topic] = max(number, reached.get(topic, 0))


def _check_reason(
    history: History, subscriber: SubscriberHistory, gap: Report, states: dict[str, dict[int, Ranges]]
) -> Iterator[Violation]:
    if gap.reason == "skipped" and subscriber.mode == "strict":
        yield _of_number(history, subscriber, (gap.topic, gap.first), "is strict, and skipped")
    if gap.reason not in STATES:
        return
    for state, topics in states.items():
        if state != STATES[gap.reason] and (wrong := topics.get(gap.topic, _NONE).common(gap.first, gap.last)):
            rule = "R16" if state == "VOID" else "R17"
            sentence = f"was told as {gap.reason} of {state}"
            yield _of_number(history, subscriber, (gap.topic, wrong[0]), sentence, rule)


def check_completeness(history: History) -> Iterator[Violation]:
    """Check that every number of a span, and between two spans of an interruption (R12), was notified, is void (by
    whoever's word; or perhaps, without a record), or was reported (R7, R17).

    Of spans that a bounded or tag subscriber dropped nothing is said: what it had jumped might still have come.
    """
    skipped = [(*place, place[1]) for place, state in history.states.items() if state in ("VOID", "RELEASED")]
    voids = by_topic(skipped + history.unknown)
    latest = _latest_published(history)
    for subscriber in history.subscribers.values():
        for run in subscriber.runs():
            seen = _seen(run)
            before: dict[int, Span] = {}
            for span in run.spans:
                yield from _check_start(history, subscriber, span, latest)
                known = seen.get(span.topic, _NONE), voids.get(span.topic, _NONE)
                if subscriber.mode == "strict" or span.dropped is None:
                    end = _end(span, seen)
                    yield from _check_range(history, subscriber, span.topic, (span.start + 1, end), known)
                if span.continues and span.topic in before:
                    between = _end(before[span.topic], seen) + 1, span.start
                    yield from _check_range(history, subscriber, span.topic, between, known)
                before[span.topic] = span


def _check_range(
    history: History, subscriber: SubscriberHistory, topic: int, numbers: tuple[int, int], known: tuple[Ranges, Ranges]
) -> Iterator[Violation]:
    seen, void = known
    for first, last in seen.missing(*numbers):
        for low, high in void.missing(first, last):
            ends = ((topic, low),) if low == high else ((topic, low), (topic, high))
            named = " to ".join(f"{history.named(each)} ({history.states.get(each)})" for each in ends)
            yield Violation(
                "R17",
                tuple(Witness(history.places.get(each), each) for each in ends),
                (subscriber.name,),
                f"{subscriber.name}: {named} skipped silently",
            )


def _latest_published(history: History) -> dict[int, tuple[list[int], list[Stamped]]]:
    """Return each topic's numbers in order, and with each the event up to it that was published last."""
    latest: dict[int, tuple[list[int], list[Stamped]]] = {}
    for each in sorted(history.stamped.values(), key=lambda each: each.place):
        numbers, events = latest.setdefault(each.place[0], ([], []))
        numbers.append(each.place[1])
        events.append(each if not events or each.published > events[-1].published else events[-1])
    return latest


def _check_start(
    history: History,
    subscriber: SubscriberHistory,
    span: Span,
    latest: dict[int, tuple[list[int], list[Stamped]]],
) -> Iterator[Violation]:
    """Check that a subscription begins below all events published after it was complete (R7)."""
    numbers, events = latest.get(span.topic, ([], []))
    at = bisect_right(numbers, span.start)
    if at and events[at - 1].published > span.completed:
        each = events[at - 1]
        sentence = (
            f"{subscriber.name} begins after {history.named((span.topic, span.start))}, but "
            f"{history.named(each.place)} {each.event} was published later"
        )
        yield Violation("R7", (Witness(each.event, each.place),), (subscriber.name,), sentence)


def check_publishes(history: History) -> Iterator[Violation]:
    """Check that an acknowledged publish has a number, is not void, and is notified or reported to every subscriber of
    its topic since before it, unless an operator has released its number (R16, R17)."""
    acknowledged = [each for each in history.publishes.values() if each.outcome == "acknowledged"]
    places: list[Place] = []
    for each in acknowledged:
        stamped = history.stamped.get(each.event)
        if stamped is not None:
            if history.states.get(stamped.place) != "RELEASED":
                places.append(stamped.place)
        elif each.order == "total":
            sentence = f"{each.event} was acknowledged and never got a number"
            yield Violation("R16", (Witness(each.event, None),), (), sentence)
    for place in places:
        if history.states.get(place) == "VOID":
            sentence = f"{history.named(place)} {history.places[place]} was acknowledged and is void"
            yield Violation("R16", (Witness(history.places[place], place),), (), sentence)
    for subscriber in history.subscribers.values():
        for run in subscriber.runs()[-1:]:
            starts = {each.topic: each.start for each in run.spans if each.dropped is None}
            seen = _seen(run)
            for topic, number in places:
                if number > starts.get(topic, number) and number not in seen.get(topic, _NONE):
                    yield _of_number(history, subscriber, (topic, number), "never heard of the acknowledged", "R16")


# -- numbers ---------------------------------------------------------------------------------------------------------


def _seen(run: Run) -> dict[int, Ranges]:
    """Return the numbers that were notified or reported."""
    places = [each.place for each in run.notified if each.place is not None and each.verdict in SEQUENCED]
    ranges = [(topic, number, number) for topic, number in places]
    return by_topic(ranges + [(each.topic, each.first, each.last) for each in run.gaps])


def _end(span: Span, seen: dict[int, Ranges]) -> int:
    """Return the end of a span: the recorded one, else the last number observed."""
    return span.end if span.end is not None else max(span.start, seen.get(span.topic, _NONE).highest)


def _by_state(history: History) -> dict[str, dict[int, Ranges]]:
    states: dict[str, list[tuple[int, int, int]]] = {}
    for (topic, number), state in history.states.items():
        states.setdefault(state, []).append((topic, number, number))
    return {state: by_topic(ranges) for state, ranges in states.items()}


def _of_number(history: History, subscriber: SubscriberHistory, place: Place, how: str, rule: str = "R17") -> Violation:
    witnesses = (Witness(history.places.get(place), place),)
    return Violation(rule, witnesses, (subscriber.name,), f"{subscriber.name} {how} {history.named(place)}")
