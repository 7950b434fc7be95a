"""A stage that has worked for long is as small as one that has not: what it keeps does not grow with what it has done.

The snapshot holds all of a stage's state, so its length is the measure, the same on every machine.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from inorder.protocol.names import exact
from inorder.protocol.wire import NewEvent, SpaceFilter
from inorder_worker.sequencer.commands import (
    ChangeSubscription,
    Configure,
    Create,
    CreateTopics,
    OpenSession,
    SettleNumbers,
    StageSettings,
    Tick,
)
from inorder_worker.sequencer.stage import Stage

FRAME = 64
TTL_MS = 120_000


def begun(**settings: int) -> Stage:
    """Return a stage with a publisher."""
    stage = Stage(0, 1)
    stage.step(Configure(StageSettings(**settings)), 0)
    stage.step(OpenSession("publisher", 1), 0)
    return stage


def publish(stage: Stage, first: int, topics: list[int], numbers: list[int], now: int) -> None:
    """Publish an event of each of these topics, whose numbers are known, and confirm it."""
    stage.step(Create("publisher", 1, first, [NewEvent(first + at, topic) for at, topic in enumerate(topics)]), now)
    confirmed = [part for topic, number in zip(topics, numbers, strict=True) for part in (topic, number, number)]
    stage.step(SettleNumbers("publisher", 1, first, confirmed, []), now)


def numbers_given(count: int) -> list[int]:
    """Return a snapshot's length after each quarter of so many numbers, of 64 topics with a subscriber."""
    stage, sizes = begun(number_retention=1_000), []
    stage.step(CreateTopics("publisher", 1, 1, [("s", f"t{each}") for each in range(FRAME)]), 0)
    filters = [SpaceFilter("s", exact(f"t{each}")) for each in range(FRAME)]
    stage.step(OpenSession("reader", 1), 0)
    stage.step(ChangeSubscription("reader", 1, 1, filters, bounded=False), 0)
    topics, turns = list(range(1, FRAME + 1)), count // FRAME
    for turn in range(1, turns + 1):
        publish(stage, turn * FRAME, topics, [turn] * FRAME, turn)
        if turn % (turns // 4) == 0:
            sizes.append(len(stage.snapshot()))
    return sizes


def topics_used_once(count: int) -> list[int]:
    """Return a snapshot's length after each quarter of so many topics, each with one event, that retire."""
    stage, sizes = begun(topic_ttl_ms=TTL_MS, number_retention=1_000), []
    turns = count // FRAME
    for turn in range(turns):
        now = turn * TTL_MS // 16
        topics = list(range(turn * FRAME + 1, (turn + 1) * FRAME + 1))
        stage.step(CreateTopics("publisher", 1, turn, [("s", f"short/{each}") for each in topics]), now)
        publish(stage, (turn + 1) * FRAME, topics, [1] * FRAME, now)
        stage.step(Tick(), now)
        if (turn + 1) % (turns // 4) == 0:
            sizes.append(len(stage.snapshot()))
    return sizes


@pytest.mark.long
def test_four_million_numbers_leave_no_more_than_one_million() -> None:
    sizes = numbers_given(4_000_000)
    assert max(sizes) < 1.05 * min(sizes)


@pytest.mark.long
def test_of_fifty_thousand_topics_that_were_used_once_little_is_left() -> None:
    """Name, id and last number, a length that no topic adds to by those before it."""
    sizes = topics_used_once(50_000)
    grown = [after - before for before, after in pairwise(sizes)]
    assert max(grown) < 1.2 * min(grown)
    assert max(grown) / (50_000 / 4) < 400
