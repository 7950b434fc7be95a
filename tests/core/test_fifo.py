"""Publisher order without topic managers: counters per stream."""

from __future__ import annotations

import pytest

from inorder.endpoint import fifo as fifo_module
from inorder.endpoint.fifo import MAX_STREAMS, FifoSequencer


def _get(fifo: FifoSequencer, *counters: int, now: float = 0.0) -> list[int]:
    return [each for counter in counters for each in fifo.receive("stream", counter, counter, now)]


def test_the_first_counter_seen_is_the_start() -> None:
    fifo = FifoSequencer(1.0)
    assert _get(fifo, 7, 8) == [7, 8]
    assert _get(fifo, 6, 8) == []
    assert fifo.duplicates == 2


def test_a_stream_is_put_in_order() -> None:
    fifo = FifoSequencer(1.0)
    assert _get(fifo, 1, 4, 3, 3, 2) == [1, 2, 3, 4]
    assert fifo.is_idle
    assert fifo.next_deadline() is None


def test_streams_do_not_wait_for_each_other() -> None:
    fifo = FifoSequencer(1.0)
    _get(fifo, 1, 3)
    assert fifo.receive("other", 1, "x", 0.0) == ["x"]


def test_a_missing_counter_is_passed_over_after_the_timeout() -> None:
    fifo = FifoSequencer(1.0)
    _get(fifo, 1, 3, 6, now=5.0)
    assert fifo.next_deadline() == 6.0
    assert fifo.tick(5.9) == []
    assert fifo.tick(6.0) == [3, 6]
    assert fifo.is_idle
    assert [fifo.take_late("stream", each) for each in (2, 2, 5, 6, 7, 0)] == [True, False, True, False, False, False]
    assert _get(fifo, 2) == []


def test_a_stream_that_waits_too_long_in_length_is_let_go() -> None:
    fifo = FifoSequencer(1.0, limit=3)
    assert _get(fifo, 1, 3, 4, 6) == [1]
    assert _get(fifo, 7) == [3, 4]


def test_the_stream_that_waits_longest_is_due_first() -> None:
    fifo = FifoSequencer(1.0)
    for stream, now in (("one", 5.0), ("two", 5.5)):
        for counter in (1, 3):
            fifo.receive(stream, counter, stream, now)
    assert fifo.next_deadline() == 6.0
    assert fifo.tick(6.0) == ["one"]
    assert fifo.next_deadline() == 6.5


def test_the_oldest_stream_is_forgotten_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless something waits in it, which would be lost."""
    monkeypatch.setattr(fifo_module, "MAX_STREAMS", 2)
    fifo = FifoSequencer(1.0)
    for stream in ("one", "two"):
        fifo.receive(stream, 1, 1, 0.0)
    assert [fifo.receive(stream, 1, 1, 0.0) for stream in ("one", "two")] == [[], []]
    fifo.receive("three", 1, 1, 0.0)
    assert fifo.receive("two", 1, 1, 0.0) == []
    fifo.receive("two", 3, 3, 0.0)
    fifo.receive("four", 1, 1, 0.0)
    assert fifo.receive("two", 2, 2, 0.0) == [2, 3]


def test_what_is_next_in_a_stream_is_beyond_what_has_come() -> None:
    fifo = FifoSequencer(1.0)
    assert not fifo.is_next("stream", 1)
    _get(fifo, 3, 5)
    assert [fifo.is_next("stream", each) for each in (2, 3, 4, 5, 6)] == [False, False, True, False, True]


def test_each_missing_counter_has_its_own_time() -> None:
    """Of a stream with many holes none waits for the others'."""
    fifo = FifoSequencer(1.0)
    _get(fifo, 1, 5, now=0.0)
    _get(fifo, 3, now=0.5)
    _get(fifo, 8, now=0.7)
    assert fifo.tick(1.0) == [3, 5], "a counter above 2 and 4 came at 0.0"
    assert fifo.next_deadline() == 1.7
    assert fifo.tick(1.7) == [8]


def test_what_waits_in_all_streams_is_bounded() -> None:
    """Anybody on a broker may leave counters out, in streams of his own."""
    fifo = FifoSequencer(1.0, limit=3, max_bytes=10)
    for stream in range(4):
        fifo.receive(stream, 1, f"{stream}:1", 0.0)
    assert [fifo.receive(stream, 3, f"{stream}:3", 0.0, 1) for stream in range(4)] == [[], [], [], ["0:3"]]
    assert fifo.receive(3, 5, "large", 0.0, 9) == ["1:3", "2:3"]
    assert fifo.tick(1.0) == ["3:3", "large"]
    assert fifo.is_idle


def test_a_stream_that_waits_for_ever_keeps_no_others() -> None:
    fifo = FifoSequencer(1.0)
    fifo.receive("held", 1, "first", 0.0)
    fifo.receive("held", 3, "third", 0.0)
    for incarnation in range(MAX_STREAMS + 5):
        fifo.receive(incarnation, 1, "first", 0.0)
    assert fifo.receive(0, 7, "goes on", 0.0) == ["goes on"], "forgotten, so it begins anew"
    assert fifo.receive("held", 2, "second", 0.0) == ["second", "third"]


def test_streams_that_nobody_ends_do_not_pile_up() -> None:
    """Publishers that restart begin new streams; the oldest are forgotten, and one that goes on begins anew."""
    fifo = FifoSequencer(1.0)
    for incarnation in range(MAX_STREAMS + 5):
        assert fifo.receive(incarnation, 1, "first", 0.0) == ["first"]
    assert fifo.receive(MAX_STREAMS + 4, 1, "again", 0.0) == [], "a young stream is still known"
    assert fifo.receive(0, 7, "goes on", 0.0) == ["goes on"]
