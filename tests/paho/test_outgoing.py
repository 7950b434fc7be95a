"""What may be sent when, after a reconnection too: the broker counts what it has of QoS 2 until it is completed."""

from __future__ import annotations

from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from inorder.paho.publication import Outgoing, Publication

WINDOW = 3


@pytest.fixture
def outgoing() -> Outgoing:
    made = Outgoing()
    made.window = WINDOW
    return made


def published(outgoing: Outgoing, *mids: int, qos: int = 2) -> list[Publication]:
    """Have these wanted, with timestamps; those that paho kept are wanted again."""
    return [wanted(outgoing, mid, qos) for mid in mids]


def wanted(outgoing: Outgoing, mid: int, qos: int = 2) -> Publication:
    known = outgoing.by_mid.get(mid)
    if known is None:
        known = outgoing.by_mid[mid] = Publication(mid, "t", b"%d" % mid, qos, False, None, None, is_total=True)
    known.is_ready = True
    outgoing.want(known, dup=False)
    return known


def sent(outgoing: Outgoing) -> list[int]:
    """Send what may be sent."""
    mids = []
    while (publication := outgoing.take()) is not None:
        publication.is_sent = True
        mids.append(publication.mid)
    return mids


def completed(outgoing: Outgoing, mid: int) -> None:
    outgoing.in_flight.discard(mid)
    outgoing.by_mid.pop(mid)


def test_no_more_than_the_window_is_in_flight(outgoing: Outgoing) -> None:
    published(outgoing, 1, 2, 3, 4, 5)
    assert sent(outgoing) == [1, 2, 3]
    completed(outgoing, 2)
    assert sent(outgoing) == [4]


def test_what_the_broker_may_have_counts_from_the_beginning_of_a_connection(outgoing: Outgoing) -> None:
    """What is published before the broker has answered must not come above its window, which it refuses, or drops and
    confirms."""
    published(outgoing, 1, 2, 3)
    assert sent(outgoing) == [1, 2, 3]
    completed(outgoing, 1)
    outgoing.connecting()
    published(outgoing, 4, 5)
    assert sent(outgoing) == [4]
    published(outgoing, 2, 3)
    assert sent(outgoing) == [2, 3]
    completed(outgoing, 2)
    assert sent(outgoing) == [5]


def test_what_takes_up_the_window_is_sent_first(outgoing: Outgoing) -> None:
    """Else an earlier one that was never sent would wait for it, and it for the earlier one."""
    (first,) = published(outgoing, 1)
    first.is_ready = False
    outgoing.connecting()
    published(outgoing, 2, 3, 4)
    assert sent(outgoing) == [2, 3, 4]
    outgoing.connecting()
    published(outgoing, 1, 2, 3, 4)
    assert sent(outgoing) == [2, 3, 4]
    completed(outgoing, 3)
    assert sent(outgoing) == [1]


def test_qos_1_does_not_count_on_the_next_connection(outgoing: Outgoing) -> None:
    published(outgoing, 1, 2, 3, qos=1)
    assert sent(outgoing) == [1, 2, 3]
    outgoing.connecting()
    published(outgoing, 4, qos=1)
    assert sent(outgoing) == [4]


def test_what_is_wanted_late_takes_the_place_of_its_call(outgoing: Outgoing) -> None:
    published(outgoing, 1, 2, qos=1)
    outgoing.connecting()
    published(outgoing, 3, 1, 2, qos=1)
    assert sent(outgoing) == [1, 2, 3]


def test_what_the_broker_has_is_not_sent_again(outgoing: Outgoing) -> None:
    """Nobody would release it, and it would take up the broker's window for good."""
    one, _ = published(outgoing, 1, 2)
    assert sent(outgoing) == [1, 2]
    outgoing.connecting()
    published(outgoing, 1, 2, 3)
    outgoing.received(one)
    assert outgoing.in_flight == {1, 2}
    assert sent(outgoing) == [2, 3]
    outgoing.connecting()
    published(outgoing, 1)
    assert sent(outgoing) == [1], "the broker may have forgotten it"


def closed(outgoing: Outgoing, *mids: int) -> Publication | None:
    """Have the broker close a connection, and paho keep these."""
    refused = outgoing.closed()
    outgoing.connecting()
    published(outgoing, *mids, qos=1)
    return refused


def test_what_the_broker_closes_each_connection_over_is_refused(outgoing: Outgoing) -> None:
    """Of several it may be any: they are sent one after the other, and those that have an answer go on."""
    published(outgoing, 1, 2, 3, qos=1)
    for _ in range(2):
        assert sent(outgoing) == [1, 2, 3]
        assert closed(outgoing, 1, 2, 3) is None
    assert sent(outgoing) == [1]
    outgoing.answered(1)
    completed(outgoing, 1)
    for _ in range(2):
        assert sent(outgoing) == [2, 3]
        assert closed(outgoing, 2, 3) is None
    for _ in range(2):
        assert sent(outgoing) == [2]
        assert closed(outgoing, 2, 3) is None
    assert sent(outgoing) == [2]
    assert closed(outgoing, 3) is outgoing.by_mid[2]
    assert sent(outgoing) == [3]


def test_connections_that_end_without_a_word_are_not_a_refusal_while_others_have_an_answer(outgoing: Outgoing) -> None:
    published(outgoing, 1, 2, qos=1)
    for _ in range(20):
        assert 1 in sent(outgoing)
        assert closed(outgoing, 1, 2) is None
        assert 1 in sent(outgoing)
        outgoing.answered(1)
        assert closed(outgoing, 1, 2) is None
    assert outgoing.by_mid[1].closings == 0


def test_an_alias_stands_for_its_topic_on_the_connection_that_knows_it(outgoing: Outgoing) -> None:
    properties: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.TopicAlias = 3
    first, again, other = (Publication(at, name, b"", 0, False, properties, None, is_total=True) for at, name in
                           enumerate(["a", "a", "b"]))  # fmt: skip
    for each, topic in [(first, "a"), (first, "a")]:
        assert outgoing.wire_topic(each) == topic, "it was not sent yet"
    outgoing.sent(first)
    assert outgoing.wire_topic(again) == ""
    assert outgoing.wire_topic(other) == "b"
    outgoing.sent(other)
    assert outgoing.wire_topic(again) == "a"
    outgoing.sent(again)
    outgoing.connecting()
    assert outgoing.wire_topic(again) == "a"
