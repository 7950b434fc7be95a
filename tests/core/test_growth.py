"""What one command costs a stage does not depend on what it does not concern: topics, subscribers, sessions.

Counted are the interpreter's steps, and operations with a set of topics as a whole, which cost as much as it is wide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from inorder.protocol.names import Filter, FilterKind, exact
from inorder.protocol.wire import SpaceFilter
from inorder_worker.sequencer.commands import (
    ChangeSubscription,
    CreateTopics,
    OpenSession,
    Tick,
)
from inorder_worker.sequencer.sequencing import bit_set, members
from inorder_worker.sequencer.stage import Stage

ALL = [SpaceFilter("s", Filter("#", FilterKind.MQTT, "#"))]


def _steps(call: Callable[[], object]) -> int:
    """Return how many instructions the interpreter executes in a call."""
    count = 0

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _stage(topics: int) -> Stage:
    stage = Stage(0, 1)
    stage.step(OpenSession("publisher", 1), 0)
    stage.step(CreateTopics("publisher", 1, 1, [("s", f"t{topic}") for topic in range(topics)]), 0)
    return stage


def _subscribe(stage: Stage, client_id: str, version: int, filters: list[SpaceFilter]) -> None:
    stage.step(ChangeSubscription(client_id, 1, version, filters, bounded=False), 0)


def _new_topic(there_are: int) -> int:
    stage = _stage(there_are)
    for subscriber in ("one", "two"):
        stage.step(OpenSession(subscriber, 1), 0)
        _subscribe(stage, subscriber, 1, ALL)
    return _steps(lambda: stage.step(CreateTopics("publisher", 1, 2, [("s", "new")]), 0))


def _new_subscriber(there_are: int) -> int:
    stage = _stage(8)
    for number in range(there_are):
        stage.step(OpenSession(f"subscriber-{number}", 1), 0)
        _subscribe(stage, f"subscriber-{number}", 1, [SpaceFilter("s", exact(f"t{number % 8}"))])

    def join() -> None:
        stage.step(OpenSession("new", 1), 0)
        _subscribe(stage, "new", 1, [SpaceFilter("s", exact("t1")), SpaceFilter("s", exact("t5"))])

    return _steps(join)


def _end_of_a_linger(there_are: int) -> int:
    """One topic is left out of a subscription of as many."""
    stage = _stage(there_are)
    stage.step(OpenSession("one", 1), 0)
    filters = [SpaceFilter("s", exact(f"t{topic}")) for topic in range(there_are)]
    _subscribe(stage, "one", 1, filters)
    _subscribe(stage, "one", 2, filters[1:])
    return _steps(lambda: stage.step(Tick(), 10**6))


@pytest.mark.parametrize("kind", [_new_topic, _new_subscriber, _end_of_a_linger])
def test_a_command_costs_the_same_however_much_there_is_beside(kind: Callable[[int], int]) -> None:
    few, many = kind(20), kind(400)
    assert few > 100
    assert many < few * 1.1


def _noted(name: str) -> Any:
    plain = getattr(int, name)

    def method(self: _Wide, *arguments: Any) -> Any:
        _Wide.operations += 1
        result = plain(self, *arguments)
        return _Wide(result) if type(result) is int and result > 1 << 64 else result

    return method


class _Wide(int):
    """A set of topics that notes each operation with the whole of it."""

    operations = 0
    __and__, __rand__, __xor__, __neg__, __rshift__, bit_length, bit_count, to_bytes = (
        _noted(name)
        for name in ("__and__", "__rand__", "__xor__", "__neg__", "__rshift__", "bit_length", "bit_count", "to_bytes")
    )


def test_the_members_of_a_wide_set_are_not_found_by_operations_with_all_of_it() -> None:
    topics = range(1, 5_000, 2)
    _Wide.operations = 0
    assert list(members(_Wide(bit_set(topics)))) == list(topics)
    assert _Wide.operations <= 5


@pytest.mark.parametrize("width", [1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000])
@pytest.mark.parametrize("step", [1, 3, 60])
def test_a_bit_set_has_the_members_that_it_was_made_of(width: int, step: int) -> None:
    topics = list(range(width, 0, -step))
    bits = bit_set(topics)
    assert bits == sum(1 << topic for topic in topics)
    assert list(members(bits)) == topics[::-1]
    assert (bit_set([]), list(members(0))) == (0, [])


def test_who_takes_and_leaves_topics_again_and_again_leaves_no_more_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them lingers for its time after it was left last (R10)."""
    monkeypatch.setattr("inorder_worker.sequencer.subscribing.LINGERS_UNCHECKED", 10)
    stage = _stage(topics=20)
    stage.step(OpenSession("one", 1), 0)
    for version in range(1, 101):
        _subscribe(stage, "one", version, ALL if version % 2 else [])
        if version == 50:
            stage = Stage.restore(stage.snapshot())
    state = stage._state
    assert len(state.lingers) <= 10 + 3 * 20
    assert stage.next_deadline() == 60_000
    stage.step(Tick(), 59_999)
    known = state.overlaps.get("one")
    assert known is not None
    assert len(known.lingering) == 20
    stage.step(Tick(), 60_000)
    assert (known.lingering, state.lingers) == ({}, [])
