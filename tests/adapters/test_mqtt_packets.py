"""QoS 0 packets without paho-mqtt: read as paho reads them, written as paho writes them, left to it where odd."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import inorder.paho as drop_in
from inorder.ports import Arrival, Outgoing
from inorder.protocol.names import exact
from inorder.testing.ens_recorder import connected, unique
from inorder.testing.services import Mosquitto
from inorder_adapters.mqtt import open_ens
from inorder_adapters.mqtt.outbox import DirectWrites
from inorder_adapters.mqtt.packets import publish_packet, read_publishes
from inorder_adapters.mqtt.paho_client import PahoClient
from inorder_adapters.mqtt.properties import NO_PROPERTIES, pack_properties, variable_length
from inorder_adapters.mqtt.user_properties import take_out
from inorder_adapters.payload_form import join

TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\ufeff"), max_size=40)
STAMP = st.from_regex(rb"[A-Za-z0-9_-]{1,40}", fullmatch=True)


def via(ids: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(map(str, ids))


@given(TEXT.filter(bool), st.binary(max_size=300), st.booleans(), st.none() | STAMP, st.lists(st.tuples(TEXT, TEXT)))
def test_what_is_written_is_read(
    topic: str, payload: bytes, retain: bool, stamp: bytes | None, own: list[tuple[str, str]]
) -> None:
    own = [pair for pair in own if pair[0] != "inorder"]
    properties = pack_properties(stamp, tuple(own))
    packed = NO_PROPERTIES if properties is None else properties.pack()
    packet = publish_packet(topic.encode(), payload, retain, packed)
    wanted = Arrival(topic, payload, stamp, retain, properties=tuple(own))
    assert read_publishes(packet * 2 + packet[:-1], True, via) == ([wanted, wanted], 2 * len(packet))


@given(st.binary(min_size=1, max_size=200), st.booleans())
def test_any_bytes_are_read_or_left(data: bytes, has_properties: bool) -> None:
    arrivals, size = read_publishes(b"\x30" + data, has_properties, via)
    assert size <= len(data) + 1
    assert (size == 0) == (not arrivals)


def test_every_cut_is_left_for_later() -> None:
    packet = publish_packet(b"t", join(b"stamp", b"x" * 200), True, b"")
    assert read_publishes(packet, False, via) == ([Arrival("t", b"x" * 200, b"stamp", True)], len(packet))
    for cut in range(len(packet)):
        assert read_publishes(packet[:cut], False, via) == ([], 0)


def test_subscription_identifiers_name_their_filters() -> None:
    properties = bytes([5, 0x0B, 1, 0x0B, 0x80, 0x01])
    (arrival,), _ = read_publishes(publish_packet(b"t", b"", False, properties), True, via)
    assert arrival.via == ("1", "128")


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(publish_packet(b"", b"x", False, NO_PROPERTIES), id="empty topic"),
        pytest.param(publish_packet(b"\xff", b"x", False, NO_PROPERTIES), id="topic not UTF-8"),
        pytest.param(b"\x30\x05\x00\x09abc", id="topic too long"),
        pytest.param(b"\x30\x80\x80\x80\x80\x01", id="length too long"),
        pytest.param(publish_packet(b"t", b"", False, b"\x09\x26\x00\x01a\x00\x09b"), id="value too long"),
        pytest.param(publish_packet(b"t", b"", False, b"\x07\x26\x00\x01a\x00\x01\x00"), id="NUL in a property"),
        pytest.param(publish_packet(b"t", b"", False, b"\x02\x01\x01"), id="other property"),
        pytest.param(b"\x32" + publish_packet(b"t", b"\0\1x", False, NO_PROPERTIES)[1:], id="QoS 1"),
        pytest.param(b"\xd0\x00", id="PINGRESP"),
    ],
)
def test_what_is_left_to_paho(packet: bytes) -> None:
    good = publish_packet(b"t", b"x", False, NO_PROPERTIES)
    assert read_publishes(packet, True, via) == ([], 0)
    assert read_publishes(good + packet + good, True, via) == ([Arrival("t", b"x")], len(good))


def test_properties_are_packed_as_paho_packs_them() -> None:
    theirs = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    theirs.UserProperty = [("inorder", "stamp"), ("a", "b")]
    ours = pack_properties(b"stamp", (("a", "b"),))
    assert ours is not None
    assert ours.pack() == theirs.pack()  # type: ignore[no-untyped-call]


def test_direct_writes_say_what_has_left() -> None:
    ours, peer = socket.socketpair()
    with ours, peer:
        ours.setblocking(False)
        writes, packets = DirectWrites(), [bytes([number]) * 50_000 for number in range(40)]
        for number, packet in enumerate(packets):
            writes.put(packet, number)
        got, left = bytearray(), list[int]()
        while len(got) < 2_000_000:
            writes.write(ours)
            left += writes.written()
            assert 50_000 * len(left) <= len(got) + 1_000_000
            got += peer.recv(30_000)
        assert bytes(got) == b"".join(packets)
        assert left == list(range(40))
        assert not writes.is_waiting


@pytest.mark.parametrize("protocol", [5, 4])
async def test_qualities_in_turn_keep_their_order_through_a_full_socket(mosquitto: Mosquitto, protocol: int) -> None:
    """B06: what goes to the socket directly and what goes through paho leave in the order of the calls."""
    topic, options = unique(), {"protocol": protocol}
    publisher = open_ens(mosquitto.url, client_id=unique(), options=options)
    subscriber = open_ens(mosquitto.url, client_id=unique(), options=options)
    payloads = [b"%04d" % number + b"x" * 60_000 for number in range(200)]
    async with connected(publisher) as sent, connected(subscriber) as got:
        await subscriber.subscribe(exact(topic))  # QoS 0, so that the broker keeps the order as well
        for token, payload in enumerate(payloads):
            publisher.publish(Outgoing(topic, payload, qos=int(token % 7 == 3)), token)
        await got.until_arrived(len(payloads))
        await sent.until_accepted(len(payloads))
    assert got.payloads == payloads


# -- user properties, which anybody may send ---------------------------------------------------------------------------

PAIR = b"\x26\0\x01a\0\x01b"
BOM = b"\0\x03\xef\xbb\xbf"
MARK = b"\x26\0\x01a" + BOM
OTHERS = b"\x01\x01\x02\0\0\0\x09\x03\0\x01c\x08\0\x01r\x09\0\x02\xff\0\x0b\x80\x01\x23\0\x07"


def rest_of(qos: int, properties: bytes, payload: bytes = b"load") -> bytes:
    """Return a PUBLISH of MQTT 5 behind its fixed header."""
    return b"\0\x01t" + (b"\0\x09" if qos else b"") + variable_length(len(properties)) + properties + payload


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize(
    ("given", "left", "pairs"),
    [
        (OTHERS, OTHERS, []),
        (PAIR + OTHERS + MARK, OTHERS, [("a", "b"), ("a", "\ufeff")]),
        (b"\x03" + BOM + b"\x08" + BOM + b"\x09" + BOM, b"\x09" + BOM, []),
        (PAIR * 40, b"", [("a", "b")] * 40),
    ],
)  # fmt: skip
def test_user_properties_and_what_paho_cannot_read_are_taken_out(
    qos: int, given: bytes, left: bytes, pairs: list[tuple[str, str]]
) -> None:
    assert take_out(0x30 | qos << 1, rest_of(qos, given))[:2] == (rest_of(qos, left), pairs)


@pytest.mark.parametrize("cut", range(1, len(PAIR)))
def test_a_publish_that_is_not_well_formed_is_left_to_paho(cut: int) -> None:
    for packet in (rest_of(1, PAIR + PAIR[:cut]), rest_of(1, PAIR * 2, b"")[:-cut], rest_of(1, b"\x7f" + PAIR)):
        assert take_out(0x32, packet) == (packet, [], 0)


def test_a_topic_alias_is_told_of_a_publish_that_is_well_formed() -> None:
    assert take_out(0x32, rest_of(1, PAIR + b"\x23\x01\x05" + MARK))[2] == 261
    assert take_out(0x32, rest_of(1, b"\x23\x01\x05" + PAIR[:3]))[2] == 0


@given(st.binary(max_size=60))
def test_any_bytes_of_properties_are_taken_out_or_left(data: bytes) -> None:
    packet = rest_of(1, data)
    left, pairs, _ = take_out(0x32, packet)
    assert (left == packet and not pairs) or len(left) < len(packet)


@pytest.mark.parametrize("make", [PahoClient, drop_in.Client])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_paho_reads_no_user_properties(make: Any, qos: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It copies the rest of the packet for each, so that one message stops a reader; over U+FEFF it closes."""
    read, unpack = list[bytes](), Properties.unpack

    def unpack_seen(self: Any, buffer: bytes) -> Any:
        read.append(bytes(buffer))
        return unpack(self, buffer)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(Properties, "unpack", unpack_seen)
    client: Any = make(CallbackAPIVersion.VERSION2, client_id="c", protocol=MQTTv5)
    client._connect_properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    client._connect_properties.TopicAliasMaximum = 5
    got = list[Any]()
    client.on_message = lambda client, userdata, message: got.append(message)
    client._in_packet["command"] = 0x30 | qos << 1
    for properties in (PAIR * 3000 + MARK + OTHERS[:2], OTHERS[:2]):
        client._in_packet["packet"] = bytearray(rest_of(qos, properties))
        client._handle_publish()
        if qos == 2:
            got.append(client._in_messages.pop(9))
    assert {*read} == {b"\x02" + OTHERS[:2] + b"load"}
    assert got[0].properties.UserProperty == [("a", "b")] * 3000 + [("a", "\ufeff")]
    assert not hasattr(got[1].properties, "UserProperty")
    assert [(each.payload, each.properties.PayloadFormatIndicator) for each in got] == [(b"load", 1)] * 2
