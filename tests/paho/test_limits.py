"""What brokers refuse by closing the connection: it is told as paho tells it, and nothing waits behind it for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from tests.paho.conftest import Make
from tests.paho.helpers import connect, subscribed, until

import inorder.paho as mqtt
from inorder.client.options import ClientTimes
from inorder.errors import InvalidOption, PayloadTooLarge
from inorder.paho.ens import PahoEns
from inorder.paho.limits import Limits, limits_of
from inorder.paho.publication import Publication
from inorder.ports import Arrival
from inorder.protocol.filters import mqtt_filter
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto

LIMIT = 400


@pytest.fixture(scope="module")
def small() -> Iterator[Mosquitto]:
    """A broker that takes packets of 400 bytes, topic aliases, and no more than seven messages at a time."""
    extra = [f"max_packet_size {LIMIT}", "max_inflight_messages 7"]
    with Mosquitto(extra=extra, listener_options=["max_topic_alias 5"]) as broker:
        yield broker


def test_limits_are_those_of_the_connack() -> None:
    said: Any = mqtt.Properties(2)  # type: ignore[no-untyped-call]
    said.MaximumPacketSize, said.MaximumQoS, said.RetainAvailable, said.TopicAliasMaximum = 100, 1, 0, 7
    said.ReceiveMaximum = 3
    limits = limits_of(b"\0\0" + said.pack())
    assert limits == Limits(100, 1, False, 7, 3)
    limits.check(91, 50, 1, False, 7)
    with pytest.raises(PayloadTooLarge, match="50 bytes is over the limit of 49"):
        limits.check(92, 50, 1, False, 0)
    for wrong in [(2, False, 0), (0, True, 0), (0, False, 8)]:
        with pytest.raises(InvalidOption, match="broker"):
            limits.check(0, 0, *wrong)
    assert limits_of(b"\0\0" + mqtt.Properties(2).pack()) == Limits(alias=0)  # type: ignore[no-untyped-call]
    assert limits_of(b"\0\0\xff") == Limits(), "paho's affair"


@pytest.mark.parametrize("qos", [0, 1])
def test_what_is_over_the_limit_that_the_broker_told_is_refused_at_once(small: Mosquitto, make: Make, qos: int) -> None:
    topic, client = unique("t"), make()
    log = subscribed(client, small, topic, qos=1)
    assert client._ordering.outgoing.window == 7
    refused = [client.publish(topic, "x" * (LIMIT - 100), qos), client.publish(topic, "x" * (LIMIT + 100), qos)]
    assert [info.rc for info in refused] == [mqtt.MQTT_ERR_PAYLOAD_SIZE] * 2
    client.publish(topic, "y" * 100, qos)
    until(lambda: log.messages != [], "the next one")
    assert [(each.payload[:1], each.inorder.sequence) for each in log.messages] == [(b"y", 1)], "no number was taken"


def test_what_is_over_the_limit_with_a_long_stamp_is_refused(
    small: Mosquitto, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room that is kept for a stamp is not enough for every one: its number is given back."""
    monkeypatch.setattr(Limits, "check_call", lambda *call: None)  # as if its stamp had fitted
    topic, client = unique("t"), make()
    log = subscribed(client, small, topic, qos=1)
    payload = "x" * (LIMIT - len(topic) - 20)  # without a stamp it would fit
    info = client.publish(topic, payload, 1)
    assert info.rc == mqtt.MQTT_ERR_SUCCESS
    until(lambda: bool(log.published), "the word")
    assert info.rc == mqtt.MQTT_ERR_PAYLOAD_SIZE
    client.publish(topic, "next", 1)
    until(lambda: log.payloads == [b"next"], "the next one")
    assert log.messages[0].inorder.verdict == mqtt.Verdict.IN_ORDER


def test_what_the_broker_refuses_by_closing_is_refused_in_the_end(small: Mosquitto, make: Make) -> None:
    """MQTT 3.1.1 tells no limit: a payload that fits alone does not fit with its stamp. What is behind it goes on."""
    topic, client = unique("t"), make(protocol=mqtt.MQTTv311)
    codes: list[Any] = []
    client.on_publish = lambda c, u, mid, reason, properties: codes.append((mid, reason.is_failure))
    client.reconnect_delay_set(0.01, 0.02)
    log = subscribed(make(), small, topic, qos=1)
    connect(client, small)
    infos = [client.publish(topic, payload, 1) for payload in ("a", "x" * (LIMIT - len(topic) - 20), "b")]
    until(lambda: len(codes) == 3, "the word about all of them")
    until(lambda: len(log.messages) == 2, "the others")
    assert dict(codes) == {infos[0].mid: False, infos[1].mid: True, infos[2].mid: False}
    assert infos[1].rc != mqtt.MQTT_ERR_SUCCESS
    assert log.payloads == [b"a", b"b"]
    assert [(each.first, each.last, each.reason) for each in log.gaps] == [(2, 2, mqtt.GapReason.ABANDONED)]


@pytest.mark.parametrize(("why", "counts"), [("Session taken over", False), ("Packet too large", True)])
def test_not_each_end_of_a_connection_is_a_refusal(why: str, counts: bool) -> None:
    """Two clients of one id throw each other out for ever; what they publish meanwhile is not given up."""
    settings = mqtt.ClientConfiguration(workers=("w:1",))
    client: Any = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5, inorder=settings)
    client._state = type(client._state)["MQTT_CS_CONNECTED"]
    outgoing = client._ordering.outgoing
    publication = Publication(1, "t", b"x", 1, False, None, None, is_total=True)
    for _ in range(5):
        outgoing.unanswered = {1: publication}
        client._closed_by_broker(mqtt.ReasonCode(PacketTypes.DISCONNECT, why))
    assert publication.closings == (3 if counts else 0)
    assert len(client._ordering.due) == counts


@pytest.mark.parametrize(("qos", "command"), [(1, 0x40), (2, 0x50)])
def test_a_refusal_that_paho_does_not_know_is_one(qos: int, command: int) -> None:
    """Mosquitto's over ``message_size_limit``: paho would close the connection, and send it again, for ever."""
    settings = mqtt.ClientConfiguration(workers=("w:1",))
    client: Any = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5, inorder=settings)
    told: list[tuple[int, bool]] = []
    client.on_publish = lambda c, u, mid, reason, properties: told.append((mid, reason.is_failure))
    mid = client.publish("t", "x", qos).mid  # kept until there is a connection
    client._number_kept()

    def receive(command: int, body: bytes) -> None:
        packet = bytearray(mid.to_bytes(2, "big") + body)
        client._in_packet = {"command": command, "packet": packet, "remaining_length": len(packet)}
        client._packet_handle()

    receive(command, b"\x95")
    if qos == 2:
        assert client._ordering.outgoing.by_mid[mid].error is not None
        receive(0x70, b"\x92")  # of what it has released the broker knows nothing
    assert told == [(mid, True)]
    assert client._out_messages == {}


def test_topic_aliases_keep_the_order_of_their_publisher(small: Mosquitto, make: Make) -> None:
    """An alias alone names its topic; it has its number, also over a connection that does not know it."""
    topic, client = unique("t"), make()
    log = subscribed(make(), small, topic, qos=1)
    connect(client, small)
    aliased: Any = mqtt.Properties(3)  # type: ignore[no-untyped-call]
    aliased.TopicAlias = 5
    with pytest.raises(ValueError, match="alias 5"):
        client.publish("", "never named", properties=aliased)
    for at in range(12):
        client.publish("" if at % 4 else topic, str(at), at % 3, properties=aliased)
        client.publish(topic, f"{at} plain", 1)
    client.reconnect()
    client.publish("", "12", 1, properties=aliased)
    until(lambda: log.payloads[-1:] == [b"12"], "the last one")
    assert log.payloads == [text for at in range(12) for text in (b"%d" % at, b"%d plain" % at)] + [b"12"]
    assert {each.inorder.verdict for each in log.messages} == {mqtt.Verdict.IN_ORDER}
    aliased.TopicAlias = 6
    assert client.publish(topic, "over the broker's limit", properties=aliased).rc == mqtt.MQTT_ERR_NOT_SUPPORTED


def test_what_the_broker_names_by_an_alias_has_its_topic() -> None:
    """An empty topic has no place in the order, and no handler of a topic either."""
    client: Any = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    told: list[tuple[str, bytes]] = []
    client.on_message = lambda c, u, message: told.append((message.topic, message.payload))
    client._connect_properties = mqtt.Properties(1)  # type: ignore[no-untyped-call]
    client._connect_properties.TopicAliasMaximum = 10

    def receive(topic: bytes, alias: int, payload: bytes, qos: int = 0) -> None:
        properties: Any = mqtt.Properties(3)  # type: ignore[no-untyped-call]
        if alias:
            properties.TopicAlias = alias
        body = len(topic).to_bytes(2, "big") + topic + (b"\0\1" if qos else b"") + properties.pack() + payload
        client._in_packet = {"command": 0x30 | qos << 1, "packet": bytearray(body)}
        client._handle_publish()

    receive(b"a", 1, b"1", 2)  # told when it is released
    receive(b"", 1, b"2")
    receive(b"b", 0, b"3")
    receive(b"", 2, b"4")  # of no name: as paho has it
    receive(b"c", 1, b"5")
    receive(b"", 1, b"6", 1)
    client._in_packet = {"command": 0x62, "packet": bytearray(b"\0\1"), "remaining_length": 2}
    client._handle_pubrel()
    assert told == [("a", b"2"), ("b", b"3"), ("", b"4"), ("c", b"5"), ("c", b"6"), ("a", b"1")]


class Told:
    """The client's side of a connection."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def arrived(self, arrival: Arrival) -> None:
        self.payloads.append(arrival.payload)


async def test_what_waits_for_its_subscription_to_have_its_turn_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """A change waits for the one before it as long as the workers are away; the broker's messages come meanwhile."""
    times, told, kept = ClientTimes(max_waiting=3, max_waiting_bytes=100), Told(), mqtt_filter("c")
    ens = PahoEns("nowhere", properties=True, ready=lambda: None, ping=lambda answered: None, times=times)
    ens.attach(asyncio.get_running_loop())
    ens.up()
    await ens.connect(told)  # type: ignore[arg-type]
    for round, sizes in enumerate(([1, 1, 1, 1, 1], [90, 20, 10, 1])):
        ens.expect([kept])
        for size in sizes:
            ens.arrived(Arrival("c", b"x" * size))
        ens.wake()
        await asyncio.sleep(0)
        assert told.payloads == []
        await ens.subscribe(kept)
        assert [len(each) for each in told.payloads] == [[1, 1, 1], [90, 10]][round]
        assert caplog.text.count("event=overflow") == round + 1
        told.payloads.clear()
        await ens.unsubscribe(kept)
