"""The delivery stream by itself: what is given up, and how that is told."""

from __future__ import annotations

from collections.abc import Iterable

from inorder.client.delivery import DeliveryStream
from inorder.endpoint.notifications import Event, Gap, GapReason, Verdict


def _event(number: int, verdict: Verdict = Verdict.IN_ORDER) -> Event:
    return Event("m", "a", b"", verdict, number)


async def _told(given_up: Iterable[Event]) -> list[tuple[int, int, str]]:
    """Fill a stream, let events be given up, take everything and return the gaps that were told."""
    stream = DeliveryStream(max_events=2, max_bytes=1000)
    for number in (5, 6):
        stream.put(_event(number))
    for event in given_up:
        stream.put(event)
    taken = [await anext(stream) for _ in range(2)]
    stream.end()
    taken += [each async for each in stream]
    return [(each.first, each.last, each.reason) for each in taken if isinstance(each, Gap)]


async def test_numbers_given_up_are_told_as_the_ranges_they_are() -> None:
    """8 and 9 may have been delivered before: a late 7 must not claim them."""
    assert await _told([_event(7, Verdict.LATE), _event(10), _event(11)]) == [(7, 7, "overflow"), (10, 11, "overflow")]


async def test_a_retained_event_leaves_no_gap() -> None:
    assert await _told([_event(2, Verdict.RETAINED), _event(9)]) == [(9, 9, "overflow")]


async def test_a_gap_that_is_given_up_is_part_of_the_gap_told() -> None:
    stream = DeliveryStream(max_events=1, max_bytes=1000)
    stream.put(_event(1))
    stream.put(_event(2))
    stream.put(Gap("m", "a", 3, 5, "lost"))  # type: ignore[arg-type]
    stream.put(_event(6))
    assert isinstance(await anext(stream), Event)
    stream.end()
    assert [(each.first, each.last) async for each in stream if isinstance(each, Gap)] == [(2, 6)]


async def test_that_numbers_are_others_from_here_on_is_never_given_up() -> None:
    """What was given up before has the former numbers, so it is told before; what is given up behind it has the new
    ones, and is told behind it."""
    stream = DeliveryStream(max_events=1, max_bytes=1000)
    for number in (1, 2, 3):
        stream.put(_event(number))
    for topic in "ab":
        stream.put(Gap("m", topic, 4, 4, GapReason.RESTORED))
    for number in (1, 2):
        stream.put(_event(number))
    stream.end()
    gaps = [each async for each in stream if isinstance(each, Gap)]
    assert [(each.topic, each.first, each.last, str(each.reason)) for each in gaps] == [
        ("a", 2, 3, "overflow"), ("a", 4, 4, "restored"), ("b", 4, 4, "restored"), ("a", 1, 2, "overflow"),
    ]  # fmt: skip


async def test_long_names_and_properties_are_within_the_limit_of_bytes() -> None:
    """Strangers have a topic of 64 KB beside no payload; of a usual one the payload counts alone."""
    stream = DeliveryStream(max_events=100, max_bytes=1000)
    usual = Event("m", "plant/line-3", bytes(250), Verdict.UNSEQUENCED, properties=(("trace", "17"),))
    assert [stream.put(each) for each in [usual] * 4] == [True] * 4
    taken = [await anext(stream) for _ in range(4)]
    assert stream.put(Event("m", "t" * 1500, b"", Verdict.UNSEQUENCED))
    assert not stream.put(Event("m", "t", b"", Verdict.UNSEQUENCED, properties=(("name", "v" * 2000),)))
    assert (len(taken), len(stream), stream.overflowed) == (4, 1, 1)
