"""What a stage keeps of a number and of a session, one thing at a time."""

from __future__ import annotations

import pytest

from inorder.protocol.wire import NumberState, StampedEvent
from inorder_worker.sequencer.state import FEW_ENTRIES, Outbox, Snapshot, StageState
from inorder_worker.sequencer.topic_manager import NumberRecord, Session, TopicManager

PENDING, CONFIRMED, VOID, ABANDONED = (
    NumberState.PENDING,
    NumberState.CONFIRMED,
    NumberState.VOID,
    NumberState.ABANDONED,
)


TOPICS = {1: TopicManager(1, "m", "t", 0)}


def _record(number: int = 5, *, logged: bool = False) -> NumberRecord:
    return NumberRecord("p", 1, 1, 1, number, [], PENDING, 0, False, logged)


@pytest.mark.parametrize(
    ("logged", "to", "became", "counts"),
    [
        (False, CONFIRMED, CONFIRMED, (1, 0, 0)),
        (False, VOID, VOID, (0, 1, 0)),
        (False, ABANDONED, ABANDONED, (0, 0, 1)),
        (True, VOID, CONFIRMED, (1, 0, 0)),
        (True, ABANDONED, CONFIRMED, (1, 0, 0)),
    ],
)
def test_what_a_number_becomes_is_counted(
    logged: bool, to: NumberState, became: NumberState, counts: tuple[int, int, int]
) -> None:
    manager, record = TopicManager(1, "m", "t", 0, log_first=5), _record(logged=logged)
    assert manager.settle(record, to) is became
    assert record.state is became
    assert (manager.confirmed, manager.void, manager.abandoned) == counts


@pytest.mark.parametrize(("first", "has"), [(0, False), (4, True), (5, True), (6, False)])
def test_r18_a_number_is_in_the_log_from_its_first_on(first: int, has: bool) -> None:
    manager = TopicManager(1, "m", "t", 0, log_first=first)
    assert manager.has_logged(_record(logged=True)) is has
    assert not manager.has_logged(_record())


@pytest.mark.parametrize(
    ("session", "highest"),
    [
        (Session("p", 1), 0),
        (Session("p", 1, low=8), 7),
        (Session("p", 1, floor=8), 7),
        (Session("p", 1, used={3: (9, 1), 2: (7, 1)}), 7),
        (Session("p", 1, low=8, floor=5, used={2: (9, 1)}, answers={11: (2, 1), 10: (2, 2)}), 11),
        (Session("p", 1, low=8, floor=12, used={2: (9, 1)}), 11),
    ],
)
def test_the_highest_counter_that_a_session_knows(session: Session, highest: int) -> None:
    assert session.highest == highest


def test_r1_answers_are_forgotten_below_a_mark_whichever_walk_is_shorter() -> None:
    for low in (3, 10**15):
        session = Session("p", 1, low=1, answers={counter: (1, counter) for counter in (1, 2, 3, 9)})
        session.forget_below(low)
        assert (list(session.answers), session.low) == ([each for each in (1, 2, 3, 9) if each >= low], low)
        session.forget_below(low - 1)
        assert session.low == low


def _session(answers: int, look_at: int = 0) -> Session:
    return Session("p", 1, answers={counter: (1, counter) for counter in range(1, answers + 1)}, look_at=look_at)


@pytest.mark.parametrize(("answers", "look_at", "kept"), [(20, 0, 20), (21, 0, 20), (30, 0, 20), (30, 30, 30)])
def test_answers_that_a_client_does_not_let_go_are_kept_so_far(answers: int, look_at: int, kept: int) -> None:
    """And are looked at only where there are a tenth more than before."""
    session = _session(answers, look_at=look_at)
    session.keep_answers(20, TOPICS)
    assert list(session.answers) == list(range(answers - kept + 1, answers + 1))
    assert session.floor == (answers - kept + 1 if kept < answers else 0)
    assert session.look_at == (look_at if kept == answers else 22)


def test_what_is_open_or_rides_is_no_answer_to_forget() -> None:
    session = _session(30)
    session.answers[2] = (1, 0)
    session.open[1, 1] = session.open[1, 4] = None
    given_up = TopicManager(1, "m", "t", 0, riding={6: -1})
    session.keep_answers(20, {1: given_up})
    assert list(session.answers) == [1, 2, 4, 6, *range(15, 31)]
    assert session.floor == 15


def test_a_walk_over_answers_costs_no_more_than_has_come_since() -> None:
    session = _session(1000, look_at=995)
    session.open.update({(1, counter): None for counter in range(1, 29)})
    session.keep_answers(20, TOPICS)
    assert len(session.answers) == 1000, "4 * (2 + 5) of them were looked at"
    session.look_at = 995
    del session.open[1, 28]
    session.keep_answers(20, TOPICS)
    assert len(session.answers) == 999
    assert session.look_at == 1001


def test_answers_of_a_step_go_together_but_for_long_ones() -> None:
    outbox, key = Outbox(StageState(Snapshot(0, 1))), ("p", 1)
    long = [0] * (FEW_ENTRIES + 1)
    lengths: tuple[list[int], ...] = (long, [], [1, 1], long[1:], long, [])
    frames = [outbox.stamped(key, StampedEvent(at, 1, at, deps)) for at, deps in enumerate(lengths)]
    assert len(outbox.drain()) == 2
    assert [[each.counter for each in frame.events] for frame in (frames[0], frames[4])] == [[0, 1, 2, 3], [4, 5]]
    assert len(outbox.drain()) == 0
