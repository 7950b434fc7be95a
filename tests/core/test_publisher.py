"""The publisher's side: R1 (asked again), R16 (confirm, void, doubt), R19 (path and dependencies)."""

from __future__ import annotations

import pytest
from tests.core.publishers import SPACE, STAGES
from tests.core.publishers import answer as _answer
from tests.core.publishers import asked as _asked
from tests.core.publishers import follows as _follows
from tests.core.publishers import new_publisher as _publisher
from tests.core.publishers import publish as _publish
from tests.core.publishers import stamped as _stamped

from inorder.endpoint.publications import PublicationState
from inorder.endpoint.publisher import Publisher
from inorder.endpoint.requests import MAX_BATCH, MAX_BATCH_BYTES, MAX_FRAMES
from inorder.protocol.pairs import joined
from inorder.protocol.wire import (
    Moved,
    Settle,
    Settled,
    StampedEvent,
    Timestamps,
    TopicInfo,
    encode_frame,
)

# -- R1 --------------------------------------------------------------------------------------------------------


def test_r1_a_topic_is_asked_for_once_and_again_after_a_reconnection() -> None:
    publisher = Publisher()
    _publish(publisher, "new", "new")
    assert publisher.is_waiting_for_names
    assert publisher.requests() == []
    assert publisher.unnamed() == [(SPACE, "new")]
    assert publisher.unnamed() == []
    publisher.connected()
    assert publisher.unnamed() == [(SPACE, "new")]


def test_r1_what_is_asked_of_its_home_meanwhile_does_not_draw_others_there() -> None:
    """Both are to be asked again of the stage below; then one is answered, and its home is asked whether it stands."""
    publisher = _publisher()
    first = _stamped(publisher, "low")
    (second,) = _publish(publisher, "top")
    assert _asked(publisher.requests()) == [(2, [2])]
    publisher.connected()
    publisher.ask_again([first])
    _answer(publisher, second, 1)
    publisher.ask_again([second])
    assert _asked(publisher.requests()) == [(2, [1]), (0, [2])]


def test_r1_what_is_unanswered_is_asked_again_in_order_with_the_same_counters() -> None:
    publisher = _publisher()
    first, second = _publish(publisher, "top", "top")
    assert _asked(publisher.requests()) == [(0, [1, 2])]
    _answer(publisher, first, 1)
    assert publisher.connected() == []
    _publish(publisher, "top")
    frames = publisher.requests()
    assert _asked(frames) == [(0, [2]), (0, [3])]
    assert frames[0].low == 1
    assert second.state is PublicationState.REQUESTED


def test_r1_an_answer_of_a_lower_epoch_is_ignored() -> None:
    publisher = _publisher()
    first, second = _publish(publisher, "top", "top")
    publisher.requests()
    assert _answer(publisher, first, 1, epoch=2) == [first]
    assert _answer(publisher, second, 2, epoch=1) == []
    assert _answer(publisher, second, 2, epoch=2) == [second]
    assert _answer(publisher, second, 3, epoch=2) == []


def test_r1_forgotten_and_abandoned_requests_are_done() -> None:
    publisher = _publisher()
    first, second = _publish(publisher, "top", "top")
    publisher.requests()
    answers = publisher.answered(Timestamps(0, 1, [], [first.counter], [second.counter, 1, 7]))
    assert (answers.forgotten, answers.abandoned, second.number) == ([first], [second], 7)
    assert publisher.pending == 0


def test_requests_leave_in_bounded_frames() -> None:
    publisher = _publisher()
    _publish(publisher, *["top"] * (MAX_BATCH * 3))
    frames = publisher.requests()
    assert [len(frame.events) for frame in frames] == [MAX_BATCH] * MAX_FRAMES
    assert publisher.requests() == []
    for event in frames[0].events:
        publisher.answered(Timestamps(0, 1, [StampedEvent(event.counter, 1, event.counter, [])]))
    assert [len(frame.events) for frame in publisher.requests()] == [MAX_BATCH]


def test_r19_frames_are_bounded_however_much_requests_carry_after_a_lost_connection() -> None:
    """The first requests of a new connection carry what the stage would have known: of a thousand topics, 999 each."""
    count = 1000
    publisher = Publisher()
    publisher.named(TopicInfo(number, SPACE, str(number), 0) for number in range(1, count + 1))
    for each in _publish(publisher, *map(str, range(1, count + 1))):
        publisher.requests()
        _answer(publisher, each, 1)
    asked = _publish(publisher, *map(str, range(1, 201)))
    assert len(publisher.requests()) == 1
    publisher.lost(0)
    publisher.connected([0])
    sizes, counters = list[int](), list[int]()
    while frames := publisher.requests():
        sizes += [len(encode_frame(each)) for each in frames]
        for event in (event for each in frames for event in each.events):
            counters.append(event.counter)
            _answer(publisher, publisher.publications.open[event.counter], 2)
    assert counters == [each.counter for each in asked]
    assert max(sizes) < MAX_BATCH_BYTES < sum(sizes)


def test_r1_requests_answered_out_of_turn_do_not_use_up_the_frames_in_flight() -> None:
    """A request may be answered while it waits to be asked again. Frames whose answers were not counted would hold
    all later requests back for ever."""
    publisher = _publisher()
    (each,) = _publish(publisher, "top")
    publisher.requests()
    publisher.connected()
    _answer(publisher, each, 1)  # its first completion, over the new connection
    assert publisher.requests() == []
    each.handed = True
    for _ in range(MAX_FRAMES + 1):
        publisher.ask_again([each])
        assert _answer(publisher, each, 1) == [each]  # another late copy
        assert publisher.requests() == []
    publisher.ask_again([each])
    assert _asked(publisher.requests()) == [(0, [1])]
    _publish(publisher, "top")
    assert _asked(publisher.requests()) == [(0, [2])]


# -- R19 -------------------------------------------------------------------------------------------------------


def test_r19_what_follows_an_event_that_is_never_numbered_follows_the_one_before_it() -> None:
    """In its topic; also where another one of that topic was asked for meanwhile, and is forgotten, too."""
    publisher = _publisher()
    _stamped(publisher, "top", 5)
    _publish(publisher, "top", "top")
    publisher.requests()
    assert len(publisher.answered(Timestamps(0, 1, [], [2, 3])).forgotten) == 2
    assert _follows(publisher, "low") == [[1, 5]]


def test_r19_what_is_forgotten_behind_a_later_one_in_its_topic_leaves_others_alone() -> None:
    """The later one was answered, and then the connection was lost; what is queued has no topic that a worker named."""
    publisher = _publisher()
    first, second = _publish(publisher, "top", "top")
    publisher.requests()
    _answer(publisher, second, 2)
    publisher.lost(0)
    (queued,) = _publish(publisher, "unnamed")
    publisher.connected([0])
    publisher.requests()
    assert publisher.answered(Timestamps(0, 1, [], [first.counter])).forgotten == [first]
    assert (queued.before, _follows(publisher, "low")) == (None, [])
    publisher.named([TopicInfo(4, SPACE, "unnamed", 2)])
    (frame,) = publisher.requests()
    assert [(each.counter, each.after) for each in frame.events] == [(3, [1, 2]), (4, [1, 2])]


def test_r19_what_was_numbered_and_is_forgotten_is_still_followed() -> None:
    """It was handed over, and only asked about again: subscribers may have it."""
    publisher = _publisher()
    each = _stamped(publisher, "top", 5)
    publisher.ask_again([each])
    publisher.requests()
    assert publisher.answered(Timestamps(0, 1, [], [1])).forgotten == [each]
    assert _follows(publisher, "low") == [[1, 5]]


def test_r19_a_request_follows_unanswered_ones_into_their_entry_stage() -> None:
    publisher = _publisher()
    _publish(publisher, "low", "middle", "top")
    assert _asked(publisher.requests()) == [(2, [1, 2, 3])]


def test_r19_they_enter_below_all_that_is_queued_and_lower_ones_rely_on_the_stages_above() -> None:
    publisher = _publisher()
    _publish(publisher, "top", "middle", "low")
    (frame,) = publisher.requests()
    assert (frame.stage, [(each.counter, each.required) for each in frame.events]) == (
        2, [(1, []), (2, [0, 1]), (3, [0, 1, 1, 2])]
    )  # fmt: skip


def test_r19_below_their_entry_stage_it_waits_until_they_are_complete() -> None:
    publisher = _publisher()
    (first,) = _publish(publisher, "top")
    assert _asked(publisher.requests()) == [(0, [1])]
    _publish(publisher, "low")
    assert publisher.requests() == []
    _answer(publisher, first, 5)
    frames = publisher.requests()
    assert _asked(frames) == [(2, [2])]
    assert frames[0].events[0].after == [1, 5]


def test_r19_after_a_lower_one_it_enters_there_and_rides_up() -> None:
    publisher = _publisher()
    _stamped(publisher, "low")
    _publish(publisher, "top")
    frames = publisher.requests()
    assert _asked(frames) == [(2, [2])]
    assert frames[0].events[0].after == []  # the stage it passes adds it


def test_r19_what_a_lost_stage_was_told_of_topics_further_down_is_followed_from_there() -> None:
    """A stage believes of these only what came up to it; its session may be new."""
    publisher = _publisher()
    _stamped(publisher, "low", 4)
    _stamped(publisher, "top", 5)
    publisher.lost(0)
    (middle,) = _publish(publisher, "middle")
    assert _asked(publisher.requests()) == [(2, [3])]
    _answer(publisher, middle, 6)
    _publish(publisher, "middle")
    assert _asked(publisher.requests()) == [(1, [4])], "which follows only what is behind the last one there"


def test_r19_only_events_since_the_last_one_of_the_same_topic_are_named() -> None:
    publisher = _publisher()
    _stamped(publisher, "low", 4)
    _stamped(publisher, "top", 5)
    _publish(publisher, "top")
    assert publisher.requests()[0].events[0].after == []


def test_r19_an_abandoned_event_is_still_followed_it_may_have_been_delivered() -> None:
    publisher = _publisher()
    (first,) = _publish(publisher, "top")
    publisher.requests()
    publisher.answered(Timestamps(0, 1, [], [], [first.counter, 1, 9]))
    _publish(publisher, "low")
    assert publisher.requests()[0].events[0].after == [1, 9]


def test_r18_content_that_cannot_be_made_fails_that_publish_alone() -> None:
    """Its request leaves without content, as others follow it (R19), and what number it gets becomes void."""
    publisher = Publisher()
    publisher.named([TopicInfo(1, SPACE, "low", 0, logged=True)])

    def spoilt() -> bytes:
        raise TypeError("of no type")

    contents = [lambda: b"1", spoilt, lambda: b"3"]
    first, second, third = [publisher.publish((SPACE, "low"), None, each) for each in contents]
    (frame,) = publisher.requests()
    assert [(each.counter, each.content) for each in frame.events] == [(1, b"1"), (2, None), (3, b"3")]
    assert [(each, str(error)) for each, error in publisher.take_spoilt()] == [(second, "of no type")]
    assert publisher.take_spoilt() == []
    assert _answer(publisher, second, 2) == []
    assert (_answer(publisher, first, 1), _answer(publisher, third, 3)) == ([first], [third])
    assert publisher.settlements() == [Settle(0, 1, [], [1, 2, 2])]


# -- R16 -------------------------------------------------------------------------------------------------------


def test_r16_accepted_events_are_confirmed_in_ranges_and_then_done() -> None:
    publisher = _publisher()
    for number in (1, 2, 4):
        publisher.accepted(_stamped(publisher, "top", number))
    publisher.refused(_stamped(publisher, "top", 5))
    assert publisher.settlements() == [Settle(0, 1, [1, 1, 2, 1, 4, 4], [1, 5, 5])]
    assert publisher.settlements() == []
    assert publisher.settled(Settled(0, 1, 1, [1, 4])) == [(1, 4)]
    assert publisher.pending == 0


def test_r16_a_settlement_is_sent_again_after_a_reconnection() -> None:
    publisher = _publisher()
    publisher.accepted(_stamped(publisher, "top"))
    sent = publisher.settlements()
    assert publisher.connected() == sent


def test_r16_a_stage_that_does_not_answer_holds_back_no_other_stages_confirms() -> None:
    publisher = _publisher()
    publisher.accepted(_stamped(publisher, "low"))
    assert [frame.stage for frame in publisher.settlements()] == [2]
    publisher.accepted(_stamped(publisher, "top", 7))
    publisher.accepted(_stamped(publisher, "low", 2))
    assert publisher.settlements() == [Settle(0, 2, [1, 7, 7])]
    publisher.settled(Settled(2, 1, 1))
    assert publisher.settlements() == [Settle(2, 3, [3, 2, 2])]


def test_r16_cancelled_before_it_was_requested_it_costs_no_number() -> None:
    publisher = _publisher()
    first, _ = _publish(publisher, "top", "top")
    publisher.cancel(first)
    assert _asked(publisher.requests()) == [(0, [2])]


def test_r16_cancelled_before_it_was_handed_over_its_number_is_void() -> None:
    publisher = _publisher()
    (each,) = _publish(publisher, "top")
    publisher.requests()
    publisher.cancel(each)
    assert _answer(publisher, each, 3) == []
    assert publisher.settlements() == [Settle(0, 1, [], [1, 3, 3])]


def test_r16_before_it_is_handed_over_again_its_number_is_asked_for() -> None:
    publisher = _publisher()
    each = _stamped(publisher, "top", 3)
    each.handed = True
    assert publisher.handed_over(SPACE) == [each]
    publisher.ask_again([each])
    assert _asked(publisher.requests()) == [(0, [1])]
    assert _answer(publisher, each, 3) == [each]


@pytest.mark.parametrize("how", ["cancel", "refuse"])
def test_r16_what_the_broker_may_have_never_becomes_void(how: str) -> None:
    """A void is skipped without report: it must be true. What will never be known is abandoned, at once."""
    publisher = _publisher()
    each = _stamped(publisher, "top", 3)
    each.handed = True
    publisher.ask_again([each])
    publisher.requests()
    if how == "cancel":
        publisher.cancel(each)
        assert _answer(publisher, each, 3) == [each]  # handed over again
    else:
        _answer(publisher, each, 3)
        publisher.refused(each)
    given_up = [Settle(0, 1, [], [], [1, 3, 3])] if how == "refuse" else []
    assert publisher.settlements() == given_up


def test_r16_a_first_refusal_is_certain() -> None:
    publisher = _publisher()
    each = _stamped(publisher, "top", 3)
    each.handed = True
    publisher.refused(each)
    assert publisher.settlements() == [Settle(0, 1, [], [1, 3, 3])]


# -- R14 -------------------------------------------------------------------------------------------------------


def _moved(publisher: Publisher, order_epoch: int, since: int, **homes: int) -> None:
    ids = {name: number for number, name in enumerate(STAGES, 1)}
    flat = joined((ids[name], stage) for name, stage in homes.items())
    publisher.moved(Moved(0, 1, order_epoch, since, flat))


def test_r14_what_is_unanswered_is_planned_anew_in_publish_order_with_the_same_counters() -> None:
    publisher = _publisher()
    first, second, third = _publish(publisher, "low", "top", "middle")
    (frame,) = publisher.requests()
    assert (frame.stage, frame.order_epoch, [event.counter for event in frame.events]) == (2, 1, [1, 2, 3])
    _moved(publisher, 2, 1, low=0, middle=0)
    (frame,) = publisher.requests()
    assert (frame.stage, frame.order_epoch, [event.counter for event in frame.events]) == (0, 2, [1, 2, 3])
    for number, each in enumerate((first, second, third), 1):
        assert _answer(publisher, each, number) == [each]


def test_r14_what_is_known_already_or_not_complete_changes_nothing() -> None:
    publisher = _publisher()
    _publish(publisher, "low")
    publisher.requests()
    _moved(publisher, 3, 2, low=0)  # it does not tell what moved in epoch 2
    assert publisher.requests() == []
    _moved(publisher, 3, 1, low=0)
    assert _asked(publisher.requests()) == [(0, [1])]
    _moved(publisher, 3, 1, low=0)  # another stage says so too
    _moved(publisher, 2, 1, low=1)  # a slow one
    assert publisher.requests() == []
    _publish(publisher, "low")
    assert _asked(publisher.requests()) == [(0, [2])]


def test_r14_an_answer_that_comes_behind_the_news_is_taken_when_it_is_given_again() -> None:
    publisher = _publisher()
    (first,) = _publish(publisher, "low")
    publisher.requests()
    _moved(publisher, 2, 1, low=0)
    assert _answer(publisher, first, 1) == []  # it was in the queue again
    publisher.requests()
    assert _answer(publisher, first, 1) == [first]


def test_r14_dependencies_are_collected_anew_for_the_new_stages() -> None:
    publisher = _publisher()
    one = _stamped(publisher, "top")
    two = _stamped(publisher, "low")
    _publish(publisher, "middle")
    (frame,) = publisher.requests()
    assert (frame.stage, frame.events[0].after) == (2, [1, one.number])  # low's stage is passed
    _moved(publisher, 2, 1, low=0, middle=1)
    (frame,) = publisher.requests()
    assert (frame.stage, frame.events[0].after) == (1, [3, two.number, 1, one.number])


def test_r14_a_number_that_is_asked_about_again_is_asked_of_its_topics_new_stage() -> None:
    publisher = _publisher()
    each = _stamped(publisher, "low", 4)
    each.handed = True
    publisher.ask_again([each])
    assert _asked(publisher.requests()) == [(2, [1])]
    _moved(publisher, 2, 1, low=1)
    assert _asked(publisher.requests()) == [(1, [1])]
    assert _answer(publisher, each, 4) == [each]


def test_r14_a_number_is_asked_about_where_its_topic_went_meanwhile() -> None:
    """The stage that gave it would call its id forgotten, and the event would be lost to its publisher (R16, R19)."""
    publisher = _publisher()
    each = _stamped(publisher, "top", 4)
    each.handed = True
    _moved(publisher, 2, 1, top=2)
    publisher.ask_again([each])
    assert _asked(publisher.requests()) == [(2, [1])]
    assert _answer(publisher, each, 4) == [each]


def test_r19_an_event_whose_topic_moves_behind_a_later_request_is_still_followed() -> None:
    """It is the last use of its topic again, as soon as the later one is planned anew: with its stage of now."""
    publisher = _publisher()
    publisher.named([TopicInfo(1, SPACE, "top", 0, True)])  # what it has in its log rides behind nothing (R18)
    one = _stamped(publisher, "top", 7)
    _publish(publisher, "low", "top")
    assert _asked(publisher.requests()) == [(2, [2, 3])]
    _moved(publisher, 2, 1, top=2, low=0)
    (frame,) = publisher.requests()
    assert (frame.stage, [(each.counter, each.after) for each in frame.events]) == (0, [(2, [1, one.number])])


def test_r19_an_event_of_a_lost_connection_behind_a_later_request_is_still_followed() -> None:
    publisher = _publisher()
    one = _stamped(publisher, "top", 7)
    _publish(publisher, "low", "top")
    publisher.requests()
    publisher.lost(0)
    _moved(publisher, 2, 1, low=0)
    (frame,) = publisher.requests()
    assert (frame.events[0].counter, frame.events[0].after) == (2, [1, one.number])


def test_r14_a_publish_cancelled_while_it_is_planned_anew_may_have_a_number_and_voids_it() -> None:
    publisher = _publisher()
    (each,) = _publish(publisher, "low")
    publisher.requests()
    _moved(publisher, 2, 1, low=0)
    publisher.cancel(each)
    assert _asked(publisher.requests()) == [(0, [1])]
    assert _answer(publisher, each, 3) == []
    (settle,) = publisher.settlements()
    assert (settle.stage, settle.void) == (0, [3, 3, 3])


def test_r14_settlements_go_to_the_new_stage() -> None:
    publisher = _publisher()
    each = _stamped(publisher, "low", 4)
    publisher.accepted(each)
    _moved(publisher, 2, 1, low=1)
    (settle,) = publisher.settlements()
    assert (settle.stage, settle.confirmed) == (1, [3, 4, 4])


def test_r14_what_a_worker_says_of_an_older_order_is_asked_once_more() -> None:
    publisher = Publisher()
    publisher.welcomed(3)
    _publish(publisher, "x")
    assert publisher.unnamed() == [(SPACE, "x")]
    publisher.named([TopicInfo(9, SPACE, "x", 1)], 2)
    assert publisher.requests() == []
    assert publisher.unnamed() == [(SPACE, "x")]
    publisher.named([TopicInfo(9, SPACE, "x", 0)], 3)
    assert _asked(publisher.requests()) == [(0, [1])]


def test_r14_the_order_epoch_of_a_hello_counts_for_who_knows_no_stage_yet() -> None:
    publisher = _publisher()
    publisher.welcomed(5)
    _publish(publisher, "top")
    assert publisher.requests()[0].order_epoch == 1
    newcomer = Publisher()
    newcomer.welcomed(7)
    _publish(newcomer, "top")
    newcomer.named([TopicInfo(1, SPACE, "top", 0)], 7)
    assert newcomer.requests()[0].order_epoch == 7
