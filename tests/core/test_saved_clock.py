"""What a durable subscriber saves, and when (R18)."""

from __future__ import annotations

import pytest
from tests.core.endpoints import SPACE, Hand

from inorder.endpoint.durable import ASK_AGAIN
from inorder.endpoint.effects import Resumed, Send
from inorder.endpoint.endpoint import EndpointTimes
from inorder.endpoint.notifications import Event, Gap, GapReason, Reconnected, Verdict
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.wire import AskDurable, Done, Durable, SaveClock, SpaceFilter

DELAY = 0.25


@pytest.fixture
def hand() -> Hand:
    made = Hand(durable=True, times=EndpointTimes(save_delay=DELAY))
    made.subscribe("t/1", "t/2")
    return made


def done(hand: Hand, topic: int, number: int, verdict: Verdict = Verdict.IN_ORDER) -> None:
    hand.endpoint.done_with(Event(SPACE, f"t/{topic}", b"x", verdict, number))


def saved(hand: Hand, seconds: float) -> list[list[int]]:
    """Let time pass; return what is saved in it."""
    hand.time += seconds
    hand.endpoint.tick()
    return [each.numbers for each in hand.sent(SaveClock)]


def test_what_is_done_with_is_saved_together_a_little_later(hand: Hand) -> None:
    clock = hand.endpoint.durable
    assert clock is not None
    assert (clock.is_saved, clock.due_at) == (True, None)
    hand.endpoint.outbox.wants_timer = False
    done(hand, 1, 3)
    assert (clock.is_saved, clock.due_at, hand.endpoint.outbox.wants_timer) == (False, hand.time + DELAY, True)
    assert hand.endpoint.next_deadline() == hand.time + DELAY
    done(hand, 2, 1)
    done(hand, 1, 2)
    hand.endpoint.done_with(Gap(SPACE, "t/2", 2, 5, GapReason.LOST))
    assert saved(hand, DELAY - 0.01) == []
    assert saved(hand, 0.01) == [[1, 3, 2, 5]]
    assert (clock.saving, clock.is_saved, clock.due_at) == ({1: 3, 2: 5}, False, None)


def test_the_next_save_waits_for_the_answer(hand: Hand) -> None:
    clock = hand.endpoint.durable
    assert clock is not None
    done(hand, 1, 3)
    hand.time += DELAY
    hand.endpoint.tick()
    (first,) = hand.sent(SaveClock)
    done(hand, 1, 4)
    assert hand.endpoint.next_deadline() != hand.time + DELAY
    assert saved(hand, DELAY) == []
    hand.endpoint.receive(Done(first.request + 1))
    assert clock.saving == {1: 3}, "that was an answer to another question"
    hand.endpoint.receive(Done(first.request))
    assert not clock.saving
    assert clock.due_at == hand.time + DELAY
    assert saved(hand, DELAY) == [[1, 4]]
    hand.endpoint.receive(Done(first.request))
    assert clock.saving == {1: 4}


def test_what_is_not_answered_is_saved_again_over_the_next_connection(hand: Hand) -> None:
    done(hand, 1, 3)
    assert saved(hand, DELAY) == [[1, 3]]
    hand.endpoint.lost({0})
    hand.endpoint.reached({0}, 0)
    (again,) = hand.sent(SaveClock)
    assert again.numbers == [1, 3]
    hand.endpoint.receive(Done(again.request))
    hand.endpoint.reached({0}, 0)
    assert saved(hand, DELAY) == []


@pytest.mark.parametrize("verdict", [each for each in Verdict if each is not Verdict.IN_ORDER])
def test_only_what_was_given_in_order_counts(hand: Hand, verdict: Verdict) -> None:
    done(hand, 1, 3, verdict)
    hand.endpoint.done_with(Reconnected(SPACE))
    hand.endpoint.done_with(Event(SPACE, "t/1", b"x", Verdict.IN_ORDER))
    done(hand, 99, 3)
    assert saved(hand, DELAY) == []


def test_notifications_of_a_former_domain_are_of_no_use(hand: Hand) -> None:
    clock = hand.endpoint.durable
    assert clock is not None
    done(hand, 1, 3)
    clock.forget(2)
    assert clock.is_saved
    for number in (4, 5):
        done(hand, 1, number)
    assert clock.is_saved
    done(hand, 1, 1)
    assert saved(hand, DELAY) == [[1, 1]]


def test_it_asks_what_to_resume_until_it_is_told(hand: Hand) -> None:
    endpoint = hand.endpoint
    assert endpoint.durable is not None
    filters = [SpaceFilter(SPACE, mqtt_filter("t/+"))]
    endpoint.receive(Durable(1, filters))
    assert hand.all(Resumed) == [], "nobody asked"
    endpoint.outbox.wants_timer = False
    endpoint.resume()
    assert (endpoint.durable.due_at, endpoint.outbox.wants_timer) == (hand.time + ASK_AGAIN, True)
    assert len(hand.sent(AskDurable)) == 1
    endpoint.durable.save()
    assert endpoint.durable.due_at == hand.time + ASK_AGAIN, "it still waits for the answer"
    hand.time += ASK_AGAIN
    endpoint.tick()
    assert len(hand.sent(AskDurable)) == 1
    endpoint.receive(Durable(1, filters))
    assert endpoint.describe()["saving"] == {}
    assert [each.filters for each in hand.all(Resumed)] == [filters]
    endpoint.receive(Durable(1, filters))
    hand.time += ASK_AGAIN
    endpoint.tick()
    effects = hand.done()
    assert not any(isinstance(each, Resumed | Send) for each in effects), "it is told, and asks no more"


def test_one_that_closes_saves_once_more_and_asks_nothing(hand: Hand) -> None:
    endpoint = hand.endpoint
    assert endpoint.durable is not None
    done(hand, 1, 3)
    endpoint.resume()
    hand.done()
    endpoint.stop()
    assert endpoint.durable.due_at is None
    done(hand, 1, 4)
    assert endpoint.durable.due_at is None
    endpoint.leave()
    assert [each.numbers for each in hand.sent(SaveClock)] == [[1, 4]]
