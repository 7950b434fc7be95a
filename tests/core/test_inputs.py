"""What a stage is told of a hello: what may be forgotten there (R1), and what the client may do."""

from __future__ import annotations

import pytest

from inorder.protocol.wire import MAX_NUMBER, Access, Hello
from inorder_worker.sequencer.commands import OpenSession
from inorder_worker.sequencer.inputs import session_of


def opened(asked: list[int], stage: int = 1, recent: int = 1, role: str = "client") -> OpenSession:
    hello = Hello(1, 1, "", "p", 5, "test", asked, 3, recent)
    return session_of(
        hello, stage, Access(role, max_unconfirmed=7, max_topics=8, max_subscriptions=9, max_owned=10), "who"
    )


@pytest.mark.parametrize(
    ("asked", "own", "first", "anywhere"),
    [
        ([], 1, 1, 1),
        ([0, 9], 1, 1, 10),
        ([1, 9], 10, 10, 10),
        ([1, 9, 2], 10, 10, 10),
        ([2, 9], 1, 10, 10),
        ([0, 20, 1, 6, 2, 9], 7, 10, 21),
        ([0, 3, 1, 9, 2, 6], 10, 10, 10),
        ([1, -4], -3, 1, 1),
        ([1, MAX_NUMBER, 0, MAX_NUMBER + 5], MAX_NUMBER, MAX_NUMBER, MAX_NUMBER),
        ([1, MAX_NUMBER - 1], MAX_NUMBER, MAX_NUMBER, MAX_NUMBER),
        ([1, MAX_NUMBER - 2], MAX_NUMBER - 1, MAX_NUMBER - 1, MAX_NUMBER - 1),
    ],
)
def test_r1_what_was_asked_for_may_be_here_if_it_was_asked_for_here_or_below(
    asked: list[int], own: int, first: int, anywhere: int
) -> None:
    made = opened(asked)
    assert (made.own, made.first, made.anywhere) == (own, first, anywhere)


@pytest.mark.parametrize(
    ("recent", "taken"), [(0, 0), (-3, 0), (17, 17), (MAX_NUMBER, MAX_NUMBER), (MAX_NUMBER + 1, MAX_NUMBER)]
)
def test_a_client_says_which_counters_are_recent(recent: int, taken: int) -> None:
    assert opened([], recent=recent).recent == taken


def test_who_comes_and_what_it_may() -> None:
    made = opened([])
    assert (made.client_id, made.incarnation, made.asked_epoch, made.owner) == ("p", 5, 3, "who")
    assert (made.max_open, made.max_topics, made.max_subscriptions, made.max_owned) == (7, 8, 9, 10)
    assert (made.proves, opened([], role="admin").proves) == (True, False)
