"""The check of total notification order (TNO): no two subscribers get two events in opposite orders, both in order.

Cost: the positions of a subscriber's notifications are looked up once, O(n). For two subscribers the events that both
got are read once in the order of the one, with their positions at the other: they rise if and only if every neighbour
is higher than the one before, so a pair costs O(n) and the first descent is the witness, two events with no common one
between them. Only where an order is not promised across an old unsubscription (R20) are further pairs looked at: there,
and only there, the cost grows with the number of opposite pairs, up to O(n^2).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from itertools import combinations

from inorder_analytics.checks.history import EventId, History, Notified, SubscriberHistory
from inorder_analytics.checks.violation import Violation, Witness

Sequence = dict[EventId, tuple[int, Notified]]
"""By event: its position among what a subscriber got in order, and how it got it."""


def check_total_order(history: History) -> Iterator[Violation]:
    """Return one violation for each two subscribers that saw any two events in opposite orders (TNO)."""
    sequences = [(each, sequence_of(each)) for each in history.subscribers.values()]
    for (one, first), (two, second) in combinations(sequences, 2):
        found = _find_opposite(history, (one, two), (first, second))
        if found is None:
            continue
        before, after = found
        yield Violation(
            "TNO",
            (Witness(before.event, before.place), Witness(after.event, after.place)),
            (one.name, two.name),
            f"{one.name} ({one.mode}) was notified of {history.named(before.place)} {before.event} before "
            f"{history.named(after.place)} {after.event}, {two.name} ({two.mode}) after it",
        )


def sequence_of(subscriber: SubscriberHistory) -> Sequence:
    """Return a subscriber's events in order, each at its first notification (R18: later ones are repeats)."""
    sequence: Sequence = {}
    for each in subscriber.notified:
        if each.verdict == "in_order" and each.event is not None:
            sequence.setdefault(each.event, (len(sequence), each))
    return sequence


def count_opposite(one: SubscriberHistory, two: SubscriberHistory) -> int:
    """Return how many pairs of events two subscribers got in opposite orders, promised or not."""
    return _inversions([at for _, at in _common(sequence_of(one), sequence_of(two))])


def _inversions(numbers: list[int]) -> int:
    seen: list[int] = []
    count = 0
    for each in numbers:
        count += len(seen) - bisect_right(seen, each)
        insort(seen, each)
    return count


def _common(one: Sequence, two: Sequence) -> list[tuple[Notified, int]]:
    """Return the common events in the order of the first subscriber, with their positions at the second."""
    return [(each, two[event][0]) for event, (_, each) in one.items() if event in two]


def _find_opposite(
    history: History, pair: tuple[SubscriberHistory, SubscriberHistory], sequences: tuple[Sequence, Sequence]
) -> tuple[Notified, Notified] | None:
    """Return two events that the two subscribers got in opposite orders without an excuse."""
    common = _common(*sequences)
    descents = [at for at in range(1, len(common)) if common[at - 1][1] > common[at][1]]
    if not descents:
        return None
    for at in descents:
        if not _is_excused(history, pair, sequences, common[at - 1][0], common[at][0]):
            return common[at - 1][0], common[at][0]
    return _find_among_all(history, pair, sequences, common)


def _find_among_all(
    history: History,
    pair: tuple[SubscriberHistory, SubscriberHistory],
    sequences: tuple[Sequence, Sequence],
    common: list[tuple[Notified, int]],
) -> tuple[Notified, Notified] | None:
    """Look for two events further apart when all neighbours in opposite orders are excused."""
    earlier: list[tuple[int, int]] = []
    for at, (after, position) in enumerate(common):
        for _, index in earlier[bisect_right(earlier, (position, at)) :]:
            before = common[index][0]
            if not _is_excused(history, pair, sequences, before, after):
                return before, after
        insort(earlier, (position, at))
    return None


def _is_excused(
    history: History,
    pair: tuple[SubscriberHistory, SubscriberHistory],
    sequences: tuple[Sequence, Sequence],
    before: Notified,
    after: Notified,
) -> bool:
    one, two = pair
    first, second = sequences
    return _is_beyond_linger(history, (one, two), first, before, after) or _is_beyond_linger(
        history, (two, one), second, after, before
    )


def _is_beyond_linger(
    history: History,
    pair: tuple[SubscriberHistory, SubscriberHistory],
    sequence: Sequence,
    before: Notified,
    after: Notified,
) -> bool:
    """Tell whether an unsubscription longer ago than ``linger`` excuses a pair of events (R20). But while both go on
    holding what they shared at its end, the removed topic is carried once more and the order stays (R10)."""
    if before.place is None or after.place is None or before.event is None:
        return False
    stamps = [history.stamped[each.event].stamped for each in (before, after) if each.event in history.stamped]
    stamped = max(stamps, default=0.0)
    one, two = pair
    first, second = before.place[0], after.place[0]
    for span in one.spans:
        if span.topic != first or span.dropped is None or span.dropped + history.linger > stamped:
            continue
        if span.dropped < sequence[before.event][1].when:
            continue  # it took the topic again, and was notified of the event only then
        when = span.dropped + history.linger
        if not (_held(one, second, when, stamped) and all(_held(two, each, when, stamped) for each in (first, second))):
            return True
    return False


def _held(subscriber: SubscriberHistory, topic: int, since: float, until: float) -> bool:
    return any(
        span.topic == topic and span.began < since and (span.dropped is None or span.dropped > until)
        for span in subscriber.spans
    )
