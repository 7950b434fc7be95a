"""What one connection between two workers has carried, and what it may carry now."""

from __future__ import annotations

import pytest

from inorder.errors import ProtocolError
from inorder.protocol.wire import HEADER_BYTES, MAX_NUMBER, encode_frame
from inorder_worker.sequencer import link_sender
from inorder_worker.sequencer.commands import Send
from inorder_worker.sequencer.link_sender import FRAME_BYTES, MAX_RIDES, LinkSender
from inorder_worker.sequencer.link_wire import (
    LinkHello,
    Rides,
    decode_hello,
    decode_ride,
    decode_sender_frame,
    encode_ride,
)
from inorder_worker.sequencer.rides import LingerEndRide

BIG = 100_000


def sends(first: int, last: int, size: int = 1) -> list[Send]:
    return [Send(0, number, LingerEndRide("c" * size, number, 1)) for number in range(first, last + 1)]


def rides_in(frame: bytes) -> list[tuple[int, int]]:
    """Return (number, topic) of a frame's rides."""
    rides = decode_sender_frame(frame[HEADER_BYTES:])
    assert isinstance(rides, Rides)
    found = []
    for number, raw in enumerate(rides.rides, rides.first):
        ride = decode_ride(raw)
        assert isinstance(ride, LingerEndRide)
        found.append((number, ride.incarnation))
    return found


def test_it_begins_behind_what_the_other_end_has() -> None:
    sender = LinkSender({1: 7, 2: 0}, BIG)
    assert (sender.sent(1), sender.sent(2)) == (7, 0)
    assert rides_in(sender.frame(1, sends(8, 10))) == [(8, 8), (9, 9), (10, 10)]
    assert rides_in(sender.frame(2, sends(1, 1))) == [(1, 1)]
    assert sender.sent(1) == 10


def test_a_hole_is_a_mistake() -> None:
    sender = LinkSender({1: 7}, BIG)
    for first in (7, 9):
        with pytest.raises(ValueError, match=f"ride {first} of stage 1 does not follow 7"):
            sender.frame(1, sends(first, first))


def test_what_is_under_way_is_bounded_until_it_is_durable() -> None:
    sender = LinkSender({1: 0}, 300)
    frames = []
    while sender.has_room:
        frames.append(sender.frame(1, sends(sender.sent(1) + 1, sender.sent(1) + 1, size=100)))
    assert 300 <= sender.bytes_under_way == sum(map(len, frames)) < 300 + 150
    sender.durable(1, 1)
    assert sender.bytes_under_way == sum(map(len, frames[1:]))
    assert sender.bytes_under_way < 300
    sender.frame(1, sends(sender.sent(1) + 1, sender.sent(1) + 1))
    sender.durable(1, sender.sent(1))
    assert sender.bytes_under_way == 0


def test_what_may_be_under_way_is_exact() -> None:
    sender = LinkSender({1: 0}, BIG)
    size = len(sender.frame(1, sends(1, 1)))
    for most, has_room in ((size, False), (size + 1, True)):
        sender = LinkSender({1: 0}, most)
        sender.frame(1, sends(1, 1))
        assert sender.has_room is has_room


@pytest.mark.parametrize(("beyond", "count"), [(0, 2), (1, 1)])
def test_a_frame_takes_what_fits(beyond: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    each = len(encode_ride(sends(1, 1, size=100)[0].ride))
    monkeypatch.setattr(link_sender, "FRAME_BYTES", 2 * each - beyond)
    assert len(rides_in(LinkSender({1: 0}, BIG).frame(1, sends(1, 3, size=100)))) == count


def test_a_hello_with_a_number_that_no_store_holds_is_refused() -> None:
    body = encode_frame(LinkHello(1, 1, "", MAX_NUMBER + 1, "w", 0, []))[HEADER_BYTES:]
    with pytest.raises(ProtocolError, match="domain of LinkHello has a number over"):
        decode_hello(body)


def test_a_frame_is_closed_in_time_and_never_empty() -> None:
    sender = LinkSender({1: 0}, BIG)
    assert len(rides_in(sender.frame(1, sends(1, MAX_RIDES, size=FRAME_BYTES // 4)))) == 3
    assert len(rides_in(sender.frame(1, sends(4, 5, size=2 * FRAME_BYTES)))) == 1


def test_part_of_a_frame_may_be_durable() -> None:
    sender = LinkSender({1: 0}, BIG)
    size = len(sender.frame(1, sends(1, 4)))
    for _ in range(2):
        sender.durable(1, 3)
        assert sender.bytes_under_way == size
    sender.durable(1, 4)
    assert sender.bytes_under_way == 0


@pytest.mark.parametrize(("origin", "number"), [(1, 5), (1, 1), (2, 1), (1, -1)])
def test_an_acknowledgement_of_what_was_not_sent_is_refused(origin: int, number: int) -> None:
    """It would make the stage forget rides that nobody has. One that goes back is as wrong."""
    sender = LinkSender({1: 0}, BIG)
    sender.frame(1, sends(1, 4))
    sender.durable(1, 2)
    with pytest.raises(ProtocolError, match=f"acknowledges ride {number} of stage {origin}, which was not sent"):
        sender.durable(origin, number)
