"""What the lives of a durable subscriber must be, put together: the judge of the chaos on made-up records."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.chaos.histories import Histories, ProcessStart, lost_though_logged
from tests.chaos.records import (
    Acknowledged,
    AnyRecord,
    Began,
    Called,
    Missing,
    Notified,
    Saved,
    Subscribed,
    Subscribing,
)
from tests.chaos.store import Numbers

PUBLISHED = 6


def took(number: int, *, again: bool = False) -> Notified:
    return Notified(topic="a", number=number, payload=str(number), verdict="in_order", redelivered=again)


def saved(number: int) -> Saved:
    return Saved(numbers={"a": number})


def judge(*lives: Sequence[AnyRecord]) -> Histories:
    """Judge a durable subscriber of one topic, by what it was told in each of its lives."""
    publishes: list[AnyRecord] = [Began(when=1.0, incarnation=7, mode="strict")]
    for number in range(1, PUBLISHED + 1):
        publishes.append(Called(when=2.0 + number, counter=number, topic="a", payload=str(number)))
        publishes.append(Acknowledged(when=2.5 + number, counter=number, topic="a", number=number, deps=()))
    begun = [
        [
            Began(when=1.0, incarnation=at, mode="strict"),
            Subscribing(when=1.0, topics=("#",)),
            Subscribed(when=1.5, topics=("#",)),
            *told,
        ]
        for at, told in enumerate(lives)
    ]
    durable = [ProcessStart("d", f"d/{at}", records, durable=True) for at, records in enumerate(begun)]
    places = [("a", number) for number in range(1, PUBLISHED + 1)]
    numbers = Numbers(
        states=dict.fromkeys(places, "CONFIRMED"),
        deps={place: {} for place in places},
        owners=dict.fromkeys(places, ("w", 7)),
    )
    return Histories([ProcessStart("w", "w", publishes), *durable], numbers, 60.0)


@pytest.mark.parametrize(
    "lives",
    [
        ([took(1), took(2)], [took(3), took(4)], [took(5), took(6)]),
        ([took(1), took(2), saved(1)], [took(2, again=True), took(3), took(4)], [], [took(5), took(6)]),
        ([], [took(1), took(2)], [Missing(topic="a", first=3, last=4, reason="expired"), took(5), took(6)]),
        ([took(1), took(2)], [Missing(topic="a", first=2, last=3, reason="expired"), took(4), took(5), took(6)]),
    ],
    ids=["goes on", "repeats are marked", "a hole is a gap", "a gap begins where the clock was saved"],
)
def test_lives_that_are_one(lives: tuple[list[AnyRecord], ...]) -> None:
    judged = judge(*lives)
    assert judged.judge() == []
    subscriber = judged.history.subscribers["d"]
    assert len(subscriber.resumes) == len(lives) - 1


@pytest.mark.parametrize(
    ("lives", "rules"),
    [
        (([took(1), took(2)], [took(4), took(5), took(6)]), {"R17", "R16"}),
        (([took(1), took(2)], [took(2, again=True), took(4), took(5), took(6)]), {"R17", "R16"}),
        (([took(3), took(4)], [took(5), took(6)]), {"R7", "R17"}),
        (([took(1), took(2), took(3)], [took(3), took(4), took(5), took(6)]), {"R18"}),
        (([took(1), took(2), saved(2)], [took(2, again=True), *map(took, range(3, 7))]), {"R18"}),
        (
            ([took(1), took(2)], [took(2, again=True), took(1, again=True), *map(took, range(3, 7))]),
            {"R4", "R18", "R19"},
        ),
        (([took(1), took(2)], [took(3), took(4), took(5)]), {"R16", "R17", "convergence"}),
    ],
    ids=["hole", "hole behind a repeat", "begins late", "unmarked", "saved", "other order", "misses the end"],
)
def test_lives_that_are_not(lives: tuple[list[AnyRecord], ...], rules: set[str]) -> None:
    found = judge(*lives).judge()
    assert found
    assert {each.rule for each in found} <= rules
    assert all("d" in each.subscribers for each in found)


def test_nothing_expires_for_those_who_come_back_to_a_log() -> None:
    judged = judge([took(1)], [Missing(topic="a", first=2, last=5, reason="expired"), took(6)])
    assert judged.judge() == []
    assert [each.rule for each in lost_though_logged(judged.history, ["d"])] == ["R18"]
    assert not list(lost_though_logged(judged.history))
