"""What may be sent when, after a reconnection too: the broker counts what it has of QoS 2 until it is completed."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import inorder.paho as mqtt
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


def test_what_an_earlier_connection_sent_counts_when_this_one_could_not(outgoing: Outgoing) -> None:
    """Else one too many is sent on the next connection."""
    published(outgoing, 1, 2, 3)
    assert sent(outgoing) == [1, 2, 3]
    for _ in range(2):  # connections that end before anything is written
        outgoing.connecting()
        published(outgoing, 1, 2, 3)
        unsent = outgoing.take()
        assert unsent is not None
        outgoing.put_back(unsent)
        assert outgoing.in_flight == {1, 2, 3}
        assert not outgoing.unanswered
    new = wanted(outgoing, 4)
    outgoing.in_flight.clear()
    assert outgoing.take() is not new, "the one that was put back is first again"
    sent(outgoing)
    completed(outgoing, 1)
    assert outgoing.take() is new
    outgoing.put_back(new)
    assert outgoing.in_flight == {2, 3}, "nothing has sent this one"


def test_what_could_not_be_sent_is_queued_once_on_the_next_connection(outgoing: Outgoing) -> None:
    """A second time would take up the window after its end."""
    (one,) = published(outgoing, 1)
    assert outgoing.take() is one
    outgoing.connecting()
    outgoing.put_back(one)
    published(outgoing, 1)
    assert outgoing.take() is one
    outgoing.connecting()
    published(outgoing, 1)
    outgoing.put_back(one)
    assert sent(outgoing) == [1]
    completed(outgoing, 1)
    assert not outgoing.in_flight
    assert not outgoing.is_waiting


class Numbered(mqtt.Client):
    """A client without connections that notes which publishes it requests numbers for, where ``meanwhile`` runs in the
    middle of the first one."""

    def __init__(self) -> None:
        settings = mqtt.ClientConfiguration(workers=("w:1",))
        super().__init__(mqtt.CallbackAPIVersion.VERSION2, inorder=settings)
        self.requested: list[int] = []
        session: Any = SimpleNamespace(
            submit=lambda each: self.requested.append(each.mid), check_publish=lambda _: None
        )
        assert self._ordering is not None
        self._ordering.session = session
        self.other: threading.Thread | None = None

    def _publication(self, *args: Any, **given: Any) -> Publication:
        if self.other is None:
            self.other = threading.Thread(target=self._number_kept)
            self.other.start()
            self.other.join(0.05)  # it has to wait for this one
        return super()._publication(*args, **given)


@pytest.mark.parametrize("is_connected", [True, False])
def test_two_threads_request_one_number(is_connected: bool) -> None:
    """The application's publishes, paho's thread numbers what is kept as the broker answers. A second number would be
    nobody's: every strict subscriber would wait for it until it is given up."""
    client: Any = Numbered()
    client._sock = SimpleNamespace() if is_connected else None
    client._thread = SimpleNamespace()  # a loop runs
    client._inflight_messages = 0 if is_connected else client.max_inflight_messages
    try:
        infos = [client.publish("t", str(at), 2) for at in range(3)]
        client.other.join()
    finally:
        client._sock = client._thread = client._ordering.session = None
    assert client.requested == [each.mid for each in infos]


def test_what_is_over_meanwhile_gets_no_number() -> None:
    client: Any = Numbered()
    client._inflight_messages = client.max_inflight_messages
    client.publish("t", "x", 1)
    (message,) = client._out_messages.values()
    client.other.join()
    client._out_messages.clear()  # paho's thread has sent it, and has its answer
    client._ordering.outgoing.by_mid.clear()
    client._number(message)
    client._ordering.session = None
    assert client.requested == [message.mid]


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
