"""Each check with a history that breaks its rule, and one that nearly does."""

from __future__ import annotations

from inorder_analytics.checks import History, violations


def _history(*sequences: list[tuple[int, int]]) -> History:
    history = History(linger=20.0)
    for at, sequence in enumerate(sequences):
        subscriber = history.subscriber(f"s{at}")
        for topic, number in sequence:
            event = f"p{topic}", 1, number
            if event not in history.stamped:
                history.stamp(event, (topic, number), [], 0, 1.0)
            subscriber.notify(event, (topic, number), "in_order", 1.0)
    return history


def test_two_orders_are_seen() -> None:
    found = violations(_history([(1, 1), (2, 1)], [(2, 1), (1, 1)]))
    assert list(map(str, found)) == [
        "TNO s0 (strict) was notified of 1#1 ('p1', 1, 1) before 2#1 ('p2', 1, 1), s1 (strict) after it"
    ]


def test_repetition_and_regression_are_seen() -> None:
    found = violations(_history([(1, 2), (1, 1), (1, 1)]))
    assert [each.rule for each in found] == ["R4", "R4", "R5", "R19"]
