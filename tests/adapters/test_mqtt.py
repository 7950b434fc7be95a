"""MQTT over paho-mqtt: the suite of all adapters on mosquitto, and what only MQTT has."""

from __future__ import annotations

import asyncio
import gc
import select
import struct
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import paho.mqtt.client as paho_client
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from tests.adapters.stub_mqtt import StubBroker, packet, publish_packet

from inorder.client.adapters import open_ens as open_any
from inorder.errors import (
    BrokerUnreachable,
    Closed,
    InvalidFilter,
    InvalidOption,
    LinkError,
    PayloadTooLarge,
    Refused,
    TimedOut,
    Unauthorized,
    UsageError,
)
from inorder.ports import Outgoing
from inorder.protocol.names import exact
from inorder.testing.ens_conformance import (
    EnsConformance,
    EnsMaker,
    Recorder,
    StoppableBroker,
    connected,
    ens_maker,
    unique,
)
from inorder.testing.services import Certificates, FaultProxy, Mosquitto
from inorder_adapters.mqtt import open_ens
from inorder_adapters.mqtt.barriers import MAX_BUSY, Answered, Barriers

PUBLISH, PUBREL, SUBSCRIBE, PINGREQ, DISCONNECT = 3, 6, 8, 12, 14


class TestMqtt5(EnsConformance):
    """MQTT 5."""

    options: ClassVar[dict[str, Any]] = {"protocol": 5}

    @pytest.fixture
    def make_ens(self, mosquitto: Mosquitto) -> EnsMaker:
        return ens_maker(open_ens, mosquitto.url, **self.options)

    @pytest.fixture
    def stoppable(self) -> Iterator[StoppableBroker]:
        with Mosquitto() as broker:
            yield StoppableBroker(
                ens_maker(open_ens, broker.url, **self.options),
                lambda: asyncio.to_thread(broker.kill),
                lambda: asyncio.to_thread(lambda: (broker.start(), None)[1]),
            )


class TestMqtt5PayloadForm(TestMqtt5):
    """MQTT 5 with stamps in front of the payload."""

    options: ClassVar[dict[str, Any]] = {"envelope": "payload"}


class TestMqtt311(TestMqtt5):
    """MQTT 3.1.1."""

    options: ClassVar[dict[str, Any]] = {"protocol": "3.1.1"}


@pytest.fixture
async def stub() -> Any:
    async with StubBroker() as broker:
        yield broker


def make_for(stub: StubBroker, **options: Any) -> Any:
    return open_ens(f"mqtt://127.0.0.1:{stub.port}", client_id="c", options={"close_timeout": 0.2, **options})


# -- options ---------------------------------------------------------------------------------------------------


def test_the_protocol_has_synonyms() -> None:
    for text in ("5", "5.0", "v5"):
        assert open_ens(f"mqtt://h?protocol={text}", client_id="c", options={}).capabilities.properties
    for value in ("3.1.1", "4", 4, "v3.1.1"):
        assert not open_ens("mqtt://h", client_id="c", options={"protocol": value}).capabilities.properties


def test_ports_and_spaces_have_defaults() -> None:
    assert open_ens("mqtt://h", client_id="c", options={}).address == "h:1883"
    assert open_ens("mqtts://h", client_id="c", options={}).address == "h:8883"
    assert open_ens("mqtt://[::1]:7", client_id="c", options={}).address == "[::1]:7"
    assert {open_ens(f"{scheme}://h", client_id="c", options={}).space for scheme in ("mqtt", "mqtts")} == {"mqtt"}


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("mqtt://h?protocol=3", "protocol"),
        ("mqtt://h?keepalive=-1", "keepalive"),
        ("mqtt://h?keepalive=soon", "whole seconds"),
        ("mqtt://h?clean_start=perhaps", "clean_start"),
        ("mqtt://h?protocol=4&session_expiry=5", "session_expiry"),
        ("mqtt://h?will_topic=a/%2B", "will_topic"),
        ("mqtt://h?barrier_topic=%23", "barrier_topic"),
        ("mqtt://h?will_qos=3", "will_qos"),
        ("mqtt://h?tls=1&tls_ca=/no/such/file", "tls_ca"),
        ("mqtt://h?max_inflight=0", "max_inflight"),
        ("mqtt://h?envelope=none", "envelope"),
        ("mqtt://h:port", "url"),
        ("mqtt://h:0", "port"),
        ("mqtt://[::1", "url"),
        ("mqtt://h/path", "path"),
        ("mqtt://", "url"),
        ("http://h", "scheme"),
        ("mqtt://h?a=1", "keepalive"),
        ("mqtt://h?qos=1", "known|one of"),
    ],
)
def test_bad_options(url: str, word: str) -> None:
    with pytest.raises(InvalidOption, match=word):
        open_ens(url, client_id="c", options={})


@pytest.mark.parametrize("scheme", ["mqtt", "redis", "memory"])
def test_bad_client_ids_and_urls_of_any_adapter(scheme: str) -> None:
    for client_id in ("a\0b", "a\nb", "\x7f", "\x85", "\ud800"):
        with pytest.raises(InvalidOption, match="client_id"):
            open_any(f"{scheme}://h", client_id=client_id, options={})
    with pytest.raises(InvalidOption, match="URL") as caught:
        open_any(f"{scheme}://user:secret@[::1", client_id="c", options={})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["mqtt", "redis", "memory"])
def test_properties_are_checked_before_anything_leaves(scheme: str) -> None:
    bad = [("inorder", "x"), ("a", "x" * 70_000), ("n" * 70_000, "x"), ("a", "\0"), ("\0", "a"), ("a", "\ud800")]
    ens = open_any(f"{scheme}://h", client_id="c", options={})
    for pair in bad:
        with pytest.raises(InvalidOption, match="properties") as caught:
            ens.check_properties((("good", "x"), pair))
        assert len(str(caught.value)) < 300
    assert ens.check_properties(()) == ()
    good = (("a", "x"), ("a", ""))
    if scheme != "redis":
        assert ens.check_properties(good) == good
    variants: dict[str, dict[str, Any]] = {"mqtt": {"protocol": "3.1.1"}, "memory": {"properties": False}, "redis": {}}
    with pytest.raises(InvalidOption, match="only MQTT 5"):
        open_any(f"{scheme}://h", client_id="c", options=variants[scheme]).check_properties(good)


@pytest.mark.parametrize("text", ["$share", "$share/", "$share/g/t"])
def test_shared_subscriptions_are_refused(text: str) -> None:
    with pytest.raises(InvalidFilter, match="shared"):
        open_ens("mqtt://h", client_id="c", options={}).parse_filter(text)
    assert open_ens("mqtt://h", client_id="c", options={}).parse_filter("$shared").text == "$shared"


async def test_secrets_are_in_no_repr_and_no_error(unused_port: int) -> None:
    ens = open_ens(f"mqtt://user:s3cret%40@127.0.0.1:{unused_port}", client_id="c", options={})
    with pytest.raises(BrokerUnreachable) as unreachable:
        await ens.connect(Recorder())
    with pytest.raises(InvalidOption) as invalid:
        open_ens("mqtt://user:s3cret@h:port", client_id="c", options={})
    with pytest.raises(InvalidOption) as wrong_type:
        open_ens(
            "mqtt://h",
            client_id="c",
            options={"password": 5353_5353_5353},
        )
    shown = f"{ens!r} {ens._target!r} {ens.address} {unreachable.value!r} {invalid.value!r} {wrong_type.value!r}"  # type: ignore[attr-defined]
    assert "s3cret" not in shown
    assert "535353535353" not in shown


# -- connecting ------------------------------------------------------------------------------------------------


async def test_user_and_password() -> None:
    with Mosquitto(users={"ann": "p@ss/w"}) as broker:
        url = f"mqtt://ann:p%40ss%2Fw@127.0.0.1:{broker.port}"
        async with connected(open_ens(url, client_id="c", options={})) as recorder:
            assert recorder.losses == []
        for protocol in ("5", "3.1.1"):
            for wrong in ({}, {"username": "ann", "password": "wr0ng"}):
                ens = open_ens(broker.url, client_id="c", options={"protocol": protocol, **wrong})
                with pytest.raises(Unauthorized) as caught:
                    await ens.connect(Recorder())
                assert "wr0ng" not in str(caught.value)


async def test_tls() -> None:
    with Certificates() as certificates, Mosquitto(tls=certificates) as broker:
        topic, options = unique(), {"tls_ca": str(certificates.ca)}
        for given in (options, {"tls_insecure": True}):
            ens = open_ens(broker.url, client_id="c", options=given)
            async with connected(ens) as recorder:
                await ens.subscribe(exact(topic))
                # Bigger than a TLS record and than one batch of reads: nothing may stay behind in TLS' buffers.
                for token in range(200):
                    ens.publish(Outgoing(topic, bytes(20_000), b"s"), token)
                await recorder.until_arrived(200)


async def test_an_untrusted_certificate_is_refused() -> None:
    """And the socket of the failed handshake is closed, which paho-mqtt leaves to the garbage collector."""
    with (
        Certificates() as certificates,
        Mosquitto(tls=certificates) as broker,
        pytest.raises(BrokerUnreachable, match="certificate is not trusted"),
    ):
        await open_ens(broker.url, client_id="c", options={}).connect(Recorder())
    gc.collect()


async def test_unreachable_brokers(unused_port: int) -> None:
    for host in (f"127.0.0.1:{unused_port}", "no-such-host.invalid"):
        with pytest.raises(BrokerUnreachable) as caught:
            await open_ens(f"mqtt://{host}", client_id="c", options={}).connect(Recorder())
        assert caught.value.address.startswith(host)


async def test_a_broker_that_does_not_answer(stub: StubBroker) -> None:
    stub.connack_code = -1
    sink = Recorder()
    ens = make_for(stub, connect_timeout=0.3)
    with pytest.raises(BrokerUnreachable, match="in time"):
        await ens.connect(sink)
    await ens.close()
    assert sink == Recorder()


async def test_closing_ends_an_attempt_to_connect(stub: StubBroker) -> None:
    stub.connack_code = -1
    ens = make_for(stub)
    attempt = asyncio.create_task(ens.connect(Recorder()))
    await stub.until(1, 1)
    await ens.close()
    with pytest.raises(LinkError):
        await attempt


async def test_cancelling_an_attempt_to_connect(stub: StubBroker) -> None:
    stub.connack_code = -1
    ens = make_for(stub)
    attempt = asyncio.create_task(ens.connect(Recorder()))
    await stub.until(1, 1)
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    stub.connack_code = 0
    async with connected(ens):
        pass


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (0x84, InvalidOption),
        (0x85, InvalidOption),
        (0x86, Unauthorized),
        (0x87, Unauthorized),
        (0x88, BrokerUnreachable),
        (0x01, InvalidOption),
    ],
)
async def test_a_refused_connect(stub: StubBroker, code: int, error: type[Exception]) -> None:
    stub.connack_code = code
    with pytest.raises(error):
        await make_for(stub).connect(Recorder())


async def test_a_broker_of_the_old_protocol_only() -> None:
    async with StubBroker(protocol=4) as old:
        old.connack_code = 1
        with pytest.raises((InvalidOption, BrokerUnreachable)):
            await make_for(old, protocol="3.1.1").connect(Recorder())


async def test_connecting_twice_is_a_mistake(mosquitto: Mosquitto) -> None:
    ens = open_ens(mosquitto.url, client_id=unique(), options={})
    async with connected(ens):
        with pytest.raises(UsageError):
            await ens.connect(Recorder())


async def test_what_the_broker_says_it_cannot_do_is_respected(stub: StubBroker) -> None:
    # Maximum QoS 1, retain unavailable, maximum packet size 1000, no subscription identifiers, receive maximum 2.
    stub.connack_properties = b"\x24\x01\x25\x00\x27\x00\x00\x03\xe8\x29\x00\x21\x00\x02"
    stub.puback_code = -1
    ens = make_for(stub)
    async with connected(ens) as recorder:
        capabilities = ens.capabilities
        assert (capabilities.qos, capabilities.retain, capabilities.max_payload_bytes) == ((0, 1), False, 984)
        await ens.subscribe(exact("t"))
        assert stub.received[-1][2][2] == 0
        for token in range(3):
            ens.publish(Outgoing("t", b"x", qos=2, retain=True), token)
        ens.publish(Outgoing("t", bytes(1_000)), 3)
        await stub.until(PUBLISH, 2)
        assert {flags for kind, flags, _ in stub.received if kind == PUBLISH} == {0b0010}
        for _, _, body in stub.received[-2:]:
            stub.send(packet(0x40, body[3:5]))
        await stub.until(PUBLISH, 3)
        stub.send(packet(0x40, stub.received[-1][2][3:5]))
        await recorder.until(lambda: bool(recorder.refusals))
        await recorder.until_accepted(3)
    assert [(token, type(error)) for token, error in recorder.refusals] == [(3, PayloadTooLarge)]


# -- publishing ------------------------------------------------------------------------------------------------


async def test_the_stamp_is_a_property_and_the_payload_untouched(mosquitto: Mosquitto) -> None:
    """B12: as a client without the plugin sees it."""
    seen: list[Any] = []
    done = asyncio.Event()
    topic, loop = unique(), asyncio.get_running_loop()
    plain = Client(CallbackAPIVersion.VERSION2, protocol=5)  # type: ignore[arg-type]
    subscribed = asyncio.Event()

    def on_subscribe(*_: Any) -> None:
        loop.call_soon_threadsafe(subscribed.set)

    def on_message(client: Any, userdata: Any, message: Any) -> None:
        seen.append(message)
        if len(seen) == 3:
            loop.call_soon_threadsafe(done.set)

    plain.on_message = on_message
    plain.on_subscribe = on_subscribe
    await asyncio.to_thread(plain.connect, "127.0.0.1", mosquitto.port)
    plain.loop_start()
    try:
        plain.subscribe(topic)
        await asyncio.wait_for(subscribed.wait(), 30)
        ens = open_ens(mosquitto.url, client_id=unique(), options={})
        async with connected(ens):
            ens.publish(Outgoing(topic, b"one", b"st-1", properties=(("k", "1"), ("k", "2"))), 0)
            ens.publish(Outgoing(topic, b"two", b"st-2", in_payload=True), 1)
            ens.publish(Outgoing(topic, b"three"), 2)
            await asyncio.wait_for(done.wait(), 30)
    finally:
        plain.disconnect()
        await asyncio.to_thread(plain.loop_stop)
    assert seen[0].payload == b"one"
    assert seen[0].properties.UserProperty == [("inorder", "st-1"), ("k", "1"), ("k", "2")]
    assert seen[1].payload.startswith(b"inorder/1 st-2 ")
    assert not hasattr(seen[1].properties, "UserProperty")
    assert seen[2].payload == b"three"


async def test_readers_of_either_version_read_both_forms(mosquitto: Mosquitto) -> None:
    """B12: only the property form is lost on the older version."""
    topic = unique()
    new = open_ens(mosquitto.url, client_id=unique(), options={})
    old = open_ens(mosquitto.url, client_id=unique(), options={"protocol": "3.1.1"})
    async with connected(new) as seen_new, connected(old) as seen_old:
        for ens in (new, old):
            await ens.subscribe(exact(topic))
        new.publish(Outgoing(topic, b"a", b"s1"), 0)
        new.publish(Outgoing(topic, b"b", b"s2", in_payload=True), 1)
        await seen_old.until_arrived(2)
        old.publish(Outgoing(topic, b"c", b"s3"), 0)
        await seen_new.until_arrived(3)
        await seen_old.until_arrived(3)
    assert [(one.payload, one.stamp) for one in seen_new.arrivals] == [(b"a", b"s1"), (b"b", b"s2"), (b"c", b"s3")]
    assert [(one.payload, one.stamp) for one in seen_old.arrivals] == [(b"a", None), (b"b", b"s2"), (b"c", b"s3")]


async def test_nothing_overtakes(mosquitto: Mosquitto) -> None:
    """B06: paho alone lets QoS 0 overtake QoS 1 publishes that wait for the window."""
    for window in (1, 20):
        topic = unique()
        publisher = open_ens(mosquitto.url, client_id=unique(), options={"max_inflight": window})
        subscriber = open_ens(mosquitto.url, client_id=unique(), options={})
        async with connected(publisher), connected(subscriber) as recorder:
            await subscriber.subscribe(exact(topic))  # QoS 0, so that the broker keeps the order as well
            for token in range(60):
                publisher.publish(Outgoing(topic, b"%d" % token, qos=1), token)
            publisher.publish(Outgoing(topic, b"60", qos=0), 60)
            await recorder.until_arrived(61)
        assert recorder.payloads == [b"%d" % token for token in range(61)]


async def test_overlapping_filters_of_different_quality(mosquitto: Mosquitto) -> None:
    """B08."""
    ens = open_ens(mosquitto.url, client_id=unique(), options={})
    base = unique()
    async with connected(ens) as recorder:
        await ens.subscribe(ens.parse_filter(f"{base}/#"), qos=0)
        await ens.subscribe(ens.parse_filter(f"{base}/a"), qos=1)
        ens.publish(Outgoing(f"{base}/a", b"x", b"s", qos=1), 0)
        await recorder.until(lambda: sum(len(one.via) for one in recorder.arrivals) == 2)
    assert {text for one in recorder.arrivals for text in one.via} == {f"{base}/#", f"{base}/a"}


async def test_refused_publishes(stub: StubBroker) -> None:
    stub.puback_code = stub.pubrec_code = 0x87
    ens = make_for(stub)
    async with connected(ens) as recorder:
        ens.publish(Outgoing("t", b"x", qos=1), 1)
        ens.publish(Outgoing("t", b"x", qos=2), 2)
        ens.publish(Outgoing("t", b"x", properties=(("inorder", "mine"),)), 3)
        ens.publish(Outgoing("t", b"x", properties=(("a", "nul\0"),)), 4)
        ens.publish(Outgoing("t", b"x"), 5)
        await recorder.until(lambda: len(recorder.refusals) == 4)
        await recorder.until_accepted(1)
    refused = {token: type(error) for token, error in recorder.refusals}
    assert refused == {1: Refused, 2: Refused, 3: InvalidOption, 4: InvalidOption}
    assert recorder.accepted_tokens == [5]


@pytest.mark.parametrize("code", [0x80, 0x91, 0x95, 0x97, 0xA2, 0xFF])
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_refusal_for_any_reason_is_no_loss(stub: StubBroker, code: int, qos: int) -> None:
    stub.puback_code = stub.pubrec_code = code
    ens = make_for(stub)
    async with connected(ens) as recorder:
        ens.publish(Outgoing("t", b"x", qos=qos), 1)
        await recorder.until(lambda: bool(recorder.refusals or recorder.losses))
        stub.puback_code = stub.pubrec_code = 0
        ens.publish(Outgoing("t", b"x", qos=qos), 2)
        await recorder.until_accepted(1)
    assert [(token, type(error)) for token, error in recorder.refusals] == [(1, Refused)]
    assert (recorder.accepted_tokens, recorder.losses) == ([2], [])


async def test_a_publish_over_the_brokers_message_limit() -> None:
    with Mosquitto(extra=["message_size_limit 2000"]) as broker:
        ens = open_ens(broker.url, client_id="c", options={})
        async with connected(ens) as recorder:
            for token, (size, qos) in enumerate([(3000, 1), (10, 1), (3000, 2), (10, 2)]):
                ens.publish(Outgoing("t", bytes(size), qos=qos), token)
            await recorder.until(
                lambda: bool(recorder.losses) or len(recorder.refusals) + len(recorder.accepted_tokens) == 4
            )
    assert [token for token, _ in recorder.refusals] == [0, 2]
    assert "Packet too large" in str(recorder.refusals[0][1])
    assert (sorted(recorder.accepted_tokens), recorder.losses) == ([1, 3], [])


class MosquittoWithAccessList(Mosquitto):
    """Only topics under ``open`` may be published to."""

    def config(self) -> str:
        return f"acl_file {self.folder / 'acl'}\n{super().config()}"

    def _prepare(self) -> None:
        super()._prepare()
        (self.folder / "acl").write_text("topic readwrite open/#\n")


async def test_a_publish_refused_by_an_access_list() -> None:
    with MosquittoWithAccessList() as broker:
        ens = open_ens(broker.url, client_id="c", options={})
        async with connected(ens) as recorder:
            for token, topic in enumerate(["open/a", "shut/a"]):
                ens.publish(Outgoing(topic, b"x", qos=1), token)
            await recorder.until(lambda: bool(recorder.refusals and recorder.accepted_tokens))
        assert recorder.accepted_tokens == [0]
        assert recorder.refusals[0][0] == 1
        assert "Not authorized" in str(recorder.refusals[0][1])


async def test_unanswered_publishes_leave_no_phantoms(stub: StubBroker) -> None:
    """B32: with acknowledgements blackholed a window's worth leaves; the loss forgets all of them."""
    stub.puback_code = -1
    ens, recorder = make_for(stub, max_inflight=2), Recorder()
    await ens.connect(recorder)
    for token in range(9):
        ens.publish(Outgoing("t", b"x", qos=1), token)
    await stub.until(PUBLISH, 2)
    stub.hang_up()
    await recorder.until(lambda: bool(recorder.losses))
    assert (recorder.accepted_tokens, recorder.refusals, stub.count(PUBLISH)) == ([], [], 2)
    stub.puback_code = 0
    await ens.connect(recorder)
    ens.publish(Outgoing("t", b"again", qos=1), 9)
    await recorder.until_accepted(1)
    assert (recorder.accepted_tokens, stub.count(PUBLISH)) == ([9], 3)
    await ens.close()


async def test_more_publishes_than_message_ids(mosquitto: Mosquitto) -> None:
    """B33: QoS 0 takes ids as well, so they come round while a QoS 1 publish still waits."""
    async with StubBroker() as stub:
        stub.puback_code = -1
        ens = make_for(stub)
        async with connected(ens) as recorder:
            ens.publish(Outgoing("t", b"slow", qos=1), 0)
            for start in range(0, 65_536, 4_096):
                for token in range(start + 1, start + 4_097):
                    ens.publish(Outgoing("t", b""), token)
                await recorder.until_accepted(start + 4_096)
            assert recorder.accepted_tokens == list(range(1, 65_537))
            stub.puback_code = 0
            ens.publish(Outgoing("t", b"next", qos=1), 65_537)
            await recorder.until_accepted(65_537)
            stub.send(packet(0x40, b"\0\x01"))
            await recorder.until_accepted(65_538)
        assert recorder.accepted_tokens[-2:] == [65_537, 0]
        assert recorder.refusals == []


# -- subscribing and receiving ---------------------------------------------------------------------------------


async def test_a_refused_publish_of_quality_2_has_one_outcome() -> None:
    """A negative PUBREC counts, not what the broker says to the PUBREL that paho sends all the same."""
    with MosquittoWithAccessList() as broker:
        ens = open_ens(broker.url, client_id="c", options={})
        async with connected(ens) as recorder:
            for token, topic in enumerate(["shut/a", "open/a", "shut/b", "open/b"]):
                ens.publish(Outgoing(topic, b"x", qos=2), token)
            await recorder.until(lambda: len(recorder.refusals) + len(recorder.accepted_tokens) == 4)
    assert [token for token, _ in recorder.refusals] == [0, 2]
    assert recorder.losses == []


@pytest.mark.parametrize("protocol", [5, 4])
async def test_a_refused_subscription(protocol: int) -> None:
    async with StubBroker(protocol) as stub:
        stub.suback_code = 0x87 if protocol == 5 else 0x80
        ens = make_for(stub, protocol=protocol)
        async with connected(ens):
            with pytest.raises(Refused, match="'some/filter'"):
                await ens.subscribe(exact("some/filter"))


async def test_a_subscription_without_an_answer(stub: StubBroker) -> None:
    stub.suback_code = -1
    ens = make_for(stub, ack_timeout=0.2)
    async with connected(ens):
        with pytest.raises(TimedOut):
            await ens.subscribe(exact("t"))


async def test_whoever_waits_hears_of_the_loss(stub: StubBroker) -> None:
    stub.suback_code = -1
    ens, recorder = make_for(stub), Recorder()
    await ens.connect(recorder)
    waiting = asyncio.create_task(ens.subscribe(exact("t")))
    await stub.until(SUBSCRIBE, 1)
    stub.hang_up()
    with pytest.raises(LinkError):
        await waiting
    await recorder.until(lambda: len(recorder.losses) == 1)
    await ens.close()


async def test_a_topic_that_is_not_utf8_is_dropped(stub: StubBroker) -> None:
    """B26: and what follows is received."""
    ens = make_for(stub)
    async with connected(ens) as recorder:
        stub.send(publish_packet(b"\xff\xfe", b"bad") + publish_packet(b"good", b"x"))
        await recorder.until_arrived(1)
    assert len(recorder.malformed_reasons) == 1
    assert recorder.arrivals[0].topic == "good"


async def test_a_stamp_that_is_no_stamp_goes_to_its_reader(stub: StubBroker) -> None:
    """B24: whether it can be read is for its reader to say."""
    value = "caf\u00e9".encode()
    text = b"\x26\x00\x07inorder" + struct.pack("!H", len(value)) + value
    ens = make_for(stub)
    async with connected(ens) as recorder:
        stub.send(publish_packet(b"t", b"x", text))
        await recorder.until_arrived(1)
    assert (recorder.arrivals[0].stamp, recorder.arrivals[0].payload) == (value, b"x")


async def test_a_failing_owner_does_not_stop_the_reader(stub: StubBroker, caplog: pytest.LogCaptureFixture) -> None:
    """B24."""

    class Failing(Recorder):
        def arrived(self, arrival: Any) -> None:
            super().arrived(arrival)
            if arrival.payload == b"1":
                raise RuntimeError("the owner's mistake")

    recorder, ens = Failing(), make_for(stub)
    await ens.connect(recorder)
    stub.send(b"".join(publish_packet(b"t", b"%d" % number) for number in range(3)))
    await recorder.until_arrived(3)
    await ens.close()
    assert recorder.payloads == [b"0", b"1", b"2"]
    assert "the owner's mistake" in caplog.text


async def test_disconnects_of_the_broker_give_their_reason(stub: StubBroker) -> None:
    ens, recorder = make_for(stub), Recorder()
    await ens.connect(recorder)
    stub.send(packet(0xE0, b"\x8b"))
    await recorder.until(lambda: bool(recorder.losses))
    assert "shutting down" in str(recorder.losses[0])
    assert len(recorder.losses) == 1
    await ens.close()


async def test_garbage_ends_the_connection(stub: StubBroker) -> None:
    ens, recorder = make_for(stub), Recorder()
    await ens.connect(recorder)
    stub.send(packet(0x30, b"\0\x01t\xff\xff\xff\xff\xff"))
    await recorder.until(lambda: bool(recorder.losses))
    await ens.close()
    assert len(recorder.losses) == 1


@pytest.mark.parametrize("protocol", [5, 4])
async def test_a_half_open_connection_is_noticed(mosquitto: Mosquitto, protocol: int) -> None:
    """The network carries nothing any more, and nobody says so."""
    async with FaultProxy(mosquitto.port) as proxy:
        options = {"keepalive": 1, "protocol": protocol, "close_timeout": 0.1}
        ens = open_ens(f"mqtt://127.0.0.1:{proxy.port}", client_id=unique(), options=options)
        recorder = Recorder()
        await ens.connect(recorder)
        proxy.stall()
        await recorder.until(lambda: bool(recorder.losses), timeout=10)
        with pytest.raises(BrokerUnreachable):
            await open_ens(
                f"mqtt://127.0.0.1:{proxy.port}", client_id=unique(), options={"connect_timeout": 0.3}
            ).connect(Recorder())
        await proxy.heal()
        await ens.connect(recorder)
        await ens.subscribe(exact("t"))
        await ens.close()
        assert len(recorder.losses) == 1


async def test_an_idle_connection_stays(stub: StubBroker) -> None:
    ens = make_for(stub, keepalive=1)
    async with connected(ens) as recorder:
        await stub.until(PINGREQ, 2)
    assert recorder.losses == []


@pytest.mark.parametrize("size", [1, 30], ids=["small messages", "a large one in pieces"])
async def test_a_broker_that_has_much_to_send_first_is_not_silent(
    stub: StubBroker, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Its answer to a ping comes behind that, later than keepalive allows; and it is pinged meanwhile, for it would end
    a connection of which it hears nothing."""
    stub.is_ponging, leap = False, 0.0
    monkeypatch.setattr(paho_client, "time_func", lambda: time.monotonic() + leap)
    ens = make_for(stub, keepalive=1)
    async with connected(ens) as recorder:
        connection: Any = ens._connection
        leap = 1.0
        connection._tick()
        await stub.until(PINGREQ, 1)
        data = publish_packet(b"t", b"x" * size) * (3 if size == 1 else 1)
        for part in (data[:10], data[10:15], data[15:]):
            stub.send(part)
            leap += 0.9
            connection._tick()
        await stub.until(PINGREQ, 2)
        await recorder.until_arrived(3 if size == 1 else 1)
        assert recorder.losses == []


async def test_a_process_that_stood_still_reads_before_it_takes_the_broker_for_silent(
    stub: StubBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every event loop looks at its sockets before its timers."""
    stub.is_ponging, leap = False, 0.0
    monkeypatch.setattr(paho_client, "time_func", lambda: time.monotonic() + leap)
    ens = make_for(stub, keepalive=1)
    async with connected(ens) as recorder:
        connection: Any = ens._connection
        leap = 1.0
        connection._tick()
        await stub.until(PINGREQ, 1)
        stub.send(packet(0xD0, b""))
        assert select.select([connection._client.socket()], [], [], 60)[0]
        leap += 9.0
        connection._tick()
        assert connection._is_attached
        assert recorder.losses == []


@pytest.mark.parametrize("qos", [1, 2])
async def test_where_something_always_comes_a_message_of_its_own_is_the_barrier(
    mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch, qos: int
) -> None:
    """R24: it stands behind what the broker queues beyond its window, and nobody is shown it."""

    async def is_passed(barriers: Barriers) -> bool:
        return False  # something has come during the ping

    monkeypatch.setattr(Barriers, "_is_passed", is_passed)
    topic, own = unique("t"), unique("own")
    ens = open_ens(mosquitto.url, client_id=unique(), options={"barrier_topic": own})
    publisher = open_ens(mosquitto.url, client_id=unique(), options={})
    async with connected(ens) as recorder, connected(publisher) as sent:
        await ens.subscribe(ens.parse_filter("#"), qos=qos)
        for number in range(300):
            publisher.publish(Outgoing(topic, b"%d" % number, qos=qos), number)
        await sent.until_accepted(300)
        for _ in (1, 2):
            await ens.barrier()  # type: ignore[attr-defined]
            assert len([each for each in recorder.arrivals if each.topic == topic]) == 300
    assert not [each for each in recorder.arrivals if each.topic == own]
    assert recorder.accepted_tokens == []


async def test_without_a_topic_for_it_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """R24: something comes during every ping."""
    asked, now = 0, 0.0
    barriers: Barriers

    def ping(answered: Answered) -> None:
        nonlocal asked, now
        asked, now = asked + 1, now + 1.0
        barriers.queued += 1
        answered(False)

    barriers = Barriers(ping)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(asyncio, "sleep", sleep)
    await barriers.passed()
    assert MAX_BUSY <= now < MAX_BUSY + 2.0
    assert asked > 30


async def test_a_client_of_the_same_id_takes_over(mosquitto: Mosquitto) -> None:
    """B21."""
    client_id = unique()
    first, second = (open_ens(mosquitto.url, client_id=client_id, options={}) for _ in range(2))
    async with connected(first) as seen:
        async with connected(second) as other:
            await seen.until(lambda: len(seen.losses) == 1)
        assert other.losses == []
        with pytest.raises(LinkError):
            await first.subscribe(exact("t"))


# -- wills and sessions ----------------------------------------------------------------------------------------


async def test_the_will_is_published_for_a_vanished_client_only(mosquitto: Mosquitto) -> None:
    topic = unique("will")
    options = {"will_topic": topic, "will_payload": "gone", "will_qos": 1}
    watcher = open_ens(mosquitto.url, client_id=unique(), options={})
    async with connected(watcher) as seen, FaultProxy(mosquitto.port) as proxy:
        await watcher.subscribe(exact(topic))
        async with connected(open_ens(mosquitto.url, client_id=unique(), options={**options, "will_payload": "no"})):
            pass
        vanishing = open_ens(f"mqtt://127.0.0.1:{proxy.port}", client_id=unique(), options=options)
        recorder = Recorder()
        await vanishing.connect(recorder)
        proxy.cut()
        await seen.until_arrived(1)
        await recorder.until(lambda: bool(recorder.losses))
        await vanishing.close()
    assert seen.payloads == [b"gone"]
    assert seen.arrivals[0].stamp is None


async def test_a_kept_session_receives_what_it_missed(mosquitto: Mosquitto) -> None:
    for options in ({"clean_start": False, "session_expiry": 60}, {"clean_start": False, "protocol": "3.1.1"}):
        client_id, topic = unique(), unique()
        away = open_ens(mosquitto.url, client_id=client_id, options=options)
        async with connected(away):
            await away.subscribe(exact(topic), qos=1)
        publisher = open_ens(mosquitto.url, client_id=unique(), options={})
        async with connected(publisher) as sent:
            publisher.publish(Outgoing(topic, b"missed", b"s", qos=1), 0)
            await sent.until_accepted(1)
        back = open_ens(mosquitto.url, client_id=client_id, options=options)
        async with connected(back) as recorder:
            await recorder.until_arrived(1)
        assert recorder.payloads == [b"missed"]


async def test_close_says_goodbye(stub: StubBroker) -> None:
    ens = make_for(stub)
    async with connected(ens):
        ens.publish(Outgoing("t", b"last words"), 0)
    await stub.until(DISCONNECT, 1)
    assert stub.received[-2][0] == PUBLISH


async def test_close_does_not_wait_for_a_stalled_broker(stub: StubBroker) -> None:
    stub.puback_code = -1
    ens = make_for(stub)
    async with connected(ens):
        ens.publish(Outgoing("t", b"x", qos=1), 0)
        started = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - started < 5
    with pytest.raises(Closed):
        ens.publish(Outgoing("t", b"x"), 1)
