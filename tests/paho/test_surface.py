"""What paho's module and class offer, ours do: forms of the constructor, callbacks, subscriptions, refusals."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from typing import Any

import paho.mqtt.client as stock
import pytest
from paho.mqtt.subscribeoptions import SubscribeOptions
from tests.paho.conftest import Make
from tests.paho.helpers import PATIENCE, Log, configuration, connect, subscribed, until

import inorder.paho as mqtt
from inorder.client.clock import ReadingTime
from inorder.paho import library, publish, subscribe
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto, WorkerServer

ALONE = mqtt.ClientConfiguration(workers=())


def test_the_module_offers_what_pahos_does() -> None:
    for name in vars(stock):
        if not name.startswith("__"):
            assert hasattr(mqtt, name), name
    ours = {"Client", "MQTTMessage"}
    assert all(getattr(mqtt, name) is getattr(stock, name) for name in dir(mqtt) if name in vars(stock).keys() - ours)
    assert issubclass(mqtt.Client, stock.Client)
    assert issubclass(mqtt.MQTTMessage, stock.MQTTMessage)
    with pytest.raises(AttributeError, match=r"inorder\.paho.*no attribute 'nothing'"):
        mqtt.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_installed_paho_has_what_is_used_of_its_inside() -> None:
    assert library.missing(stock.Client(mqtt.CallbackAPIVersion.VERSION2)) == []
    bare: Any = object()
    assert library.missing(bare) == [*library.OVERRIDDEN, *library.READ]
    assert all(getattr(mqtt.Client, name) is not getattr(stock.Client, name) for name in library.OVERRIDDEN)


@pytest.mark.parametrize(
    "args",
    [
        ("id",),
        (mqtt.CallbackAPIVersion.VERSION2, "id", True, None, mqtt.MQTTv5),
        (mqtt.CallbackAPIVersion.VERSION2, "", False),
    ],
)
def test_the_constructor_refuses_what_pahos_does(args: tuple[Any, ...]) -> None:
    """B38: the same error with the same text."""
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        stock.Client(*args)
    with pytest.raises(type(theirs.value)) as ours:
        mqtt.Client(*args, inorder=ALONE)
    assert str(ours.value) == str(theirs.value)


def test_the_constructor_takes_what_pahos_does() -> None:
    """B38: both versions of callbacks; the warning about the older one is about the caller."""
    with pytest.warns(DeprecationWarning, match="Callback API version 1") as warned:
        client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION1, "id", inorder=ALONE)
    assert warned[0].filename == __file__
    assert isinstance(client, stock.Client)
    for form in ({"client_id": "id"}, {"userdata": 1, "transport": "websockets"}, {"protocol": mqtt.MQTTv5}):
        assert mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, inorder=ALONE, **form)


def test_a_subclass_overrides_callbacks_as_methods(mosquitto: Mosquitto, make: Make) -> None:
    """B38."""

    class Application(mqtt.Client):
        seen: Any = None

        def on_connect(self, client: Any, *_: Any) -> None:
            self.subscribe(self.topic)

        def on_subscribe(self, client: Any, *_: Any) -> None:
            self.publish(self.topic, "x")

        def on_message(self, client: Any, userdata: Any, message: Any) -> None:
            self.seen = (client is self, userdata, bytes(message.payload))

        topic = unique("t")

    client = make(kind=Application, userdata="mine")
    connect(client, mosquitto)
    until(lambda: client.seen is not None, "the message")
    assert client.seen == (True, "mine", b"x")


def test_without_workers_it_is_pahos_client(mosquitto: Mosquitto, make: Make) -> None:
    """Pass-through: nothing is stamped, nothing is ordered, messages say so."""
    topic, client = unique("t"), make(inorder=ALONE)
    log = subscribed(client, mosquitto, topic)
    client.publish(topic, "x").wait_for_publish(PATIENCE)
    until(lambda: log.messages != [], "the message")
    assert log.messages[0].inorder == mqtt.InOrder(None, None, ())
    properties = log.messages[0].properties
    assert properties is None or not hasattr(properties, "UserProperty")


def test_workers_that_are_not_there_are_named(mosquitto: Mosquitto, make: Make, unused_port: int) -> None:
    """The error is also what paho's users catch where the broker cannot be reached."""
    client = make(inorder=mqtt.ClientConfiguration(workers=(f"127.0.0.1:{unused_port}",)))
    with pytest.raises(mqtt.WorkersUnreachable, match=rf"{unused_port}.*INORDER_CLIENT__WORKERS") as caught:
        client.connect("127.0.0.1", mosquitto.port)
    assert isinstance(caught.value, OSError)
    failed = threading.Event()
    client.on_connect_fail = lambda *_: failed.set()
    client.connect_async("127.0.0.1", mosquitto.port)
    client.loop_start()
    assert failed.wait(PATIENCE)


def test_several_callbacks_match_one_message(mosquitto: Mosquitto, make: Make) -> None:
    """B09: each of those that match, once; ``on_message`` for what none matches."""
    root, client = unique("ov"), make()
    called: list[tuple[str, bytes]] = []

    def callback(name: str) -> Any:
        return lambda c, u, message: called.append((name, message.payload))

    log = subscribed(client, mosquitto, f"{root}/#")
    client.on_message = callback("h")
    client.message_callback_add(f"{root}/#", callback("f"))
    client.message_callback_add(f"{root}/+", callback("g"))
    client.publish(f"{root}/a", "1")
    until(lambda: len(called) == 2, "both callbacks")
    client.message_callback_remove(f"{root}/#")
    client.message_callback_remove(f"{root}/+")
    client.publish(f"{root}/a", "2")
    until(lambda: len(called) == 3, "on_message")
    assert sorted(called) == [("f", b"1"), ("g", b"1"), ("h", b"2")]
    assert log.gaps == []


@pytest.mark.parametrize("filter", ["$share/g/{}/#", "$SYS/broker/uptime"])
def test_what_cannot_be_ordered_is_pahos(mosquitto: Mosquitto, make: Make, filter: str) -> None:
    """B36: members of a shared subscription get what the broker deals them, no gap is reported, messages say so."""
    root = unique("sh")
    logs = [subscribed(make(), mosquitto, filter.format(root)) for _ in range(2)]
    publisher = make()
    connect(publisher, mosquitto)
    for at in range(20):
        publisher.publish(f"{root}/a", str(at)).wait_for_publish(PATIENCE)
    count = 20 if "$share" in filter else 2
    until(lambda: sum(len(log.messages) for log in logs) >= count, "all messages")
    if "$share" in filter:
        assert sorted(int(each) for log in logs for each in log.payloads) == list(range(20))
        assert all(log.messages for log in logs)
    assert {each.inorder.verdict for log in logs for each in log.messages} == {None}
    assert logs[0].gaps + logs[1].gaps == []


def test_forms_of_subscribe_and_its_refusals(mosquitto: Mosquitto, make: Make) -> None:
    topic, client = unique("logged/t"), make()
    log = Log(client)
    assert client.subscribe("x") == (mqtt.MQTT_ERR_NO_CONN, None)
    connect(client, mosquitto)
    options = mqtt.SubscribeOptions(qos=1)
    mids = [
        client.subscribe(f"{topic}/1", 1)[1],
        client.subscribe((f"{topic}/2", options))[1],
        client.subscribe(f"{topic}/3", options=options)[1],
        client.subscribe([(f"{topic}/4", options), (f"{topic}/5", mqtt.SubscribeOptions(qos=2))])[1],
    ]
    until(lambda: len(log.told) == 4, "all confirmations")
    assert log.told == [("subscribed", mid, [1] if at < 3 else [1, 2]) for at, mid in enumerate(mids)]
    refused: list[Any] = ["", "a/#/b", None, []]
    for wrong in refused:
        with pytest.raises(ValueError):  # noqa: PT011 (paho's own)
            client.subscribe(wrong)
    done = threading.Event()
    client.on_unsubscribe = lambda *_: done.set()
    client.unsubscribe([f"{topic}/1", f"{topic}/2", f"{topic}/4", f"{topic}/5"])
    client.subscribe(f"{topic}/1")  # at once: it is subscribed to in the end
    assert done.wait(PATIENCE)
    until(lambda: len(log.told) == 5, "the confirmation")
    for at in (1, 2, 3):
        client.publish(f"{topic}/{at}", str(at))
    until(lambda: log.payloads == [b"1", b"3"], "messages")
    for at in (1, 3):
        client.publish(f"{topic}/{at}", f"again {at}")
    until(lambda: len(log.messages) == 4, "messages")
    assert [each.inorder.verdict for each in log.messages[2:]] == [mqtt.Verdict.IN_ORDER] * 2


def test_what_publish_refuses_takes_no_number(mosquitto: Mosquitto, make: Make) -> None:
    topic, client = unique("logged/t"), make()
    log = subscribed(client, mosquitto, topic)
    refused: list[dict[str, Any]] = [{"topic": "a/#"}, {"topic": topic, "qos": 3}]
    for wrong in refused:
        with pytest.raises(ValueError):  # noqa: PT011 (paho's own)
            client.publish(**wrong)
    with pytest.raises(TypeError):
        client.publish(topic, {"a": 1})
    reserved: Any = mqtt.Properties(3)  # type: ignore[no-untyped-call]
    reserved.UserProperty = ("inorder", "x")
    with pytest.raises(ValueError, match="reserved"):
        client.publish(topic, "x", properties=reserved)
    client.publish(topic, "x")
    until(lambda: log.messages != [], "the message")
    assert log.messages[0].inorder.sequence == 1


def test_properties_and_retained_messages_come_as_they_were_given(mosquitto: Mosquitto, make: Make) -> None:
    topic, client = unique("t"), make()
    connect(client, mosquitto)
    properties: Any = mqtt.Properties(3)  # type: ignore[no-untyped-call]
    properties.UserProperty = ("k", "1")
    properties.UserProperty = ("k", "2")
    properties.ContentType = "text/plain"
    client.publish(topic, "kept", 1, True, properties).wait_for_publish(PATIENCE)
    assert properties.UserProperty == [("k", "1"), ("k", "2")]
    log = subscribed(make(), mosquitto, topic)
    until(lambda: log.messages != [], "the retained message")
    message: Any = log.messages[0]
    assert (message.payload, bool(message.retain), message.inorder.verdict) == (b"kept", True, mqtt.Verdict.RETAINED)
    assert message.properties.UserProperty == [("k", "1"), ("k", "2")]
    assert message.properties.ContentType == "text/plain"
    client.publish(topic, None, 1, True).wait_for_publish(PATIENCE)  # clears it
    empty = subscribed(make(), mosquitto, topic)
    client.publish(topic, "live").wait_for_publish(PATIENCE)
    until(lambda: empty.messages != [], "the live message")
    assert empty.payloads == [b"live"]


def test_one_client_id_twice_does_not_throw_out_the_order(mosquitto: Mosquitto, make: Make) -> None:
    """B21: the broker throws the older connection out; the sessions at the workers are each client's own."""
    topic = unique("t")
    first, second = make(topic), make(topic)
    first.on_disconnect = lambda *_: None
    log = subscribed(first, mosquitto, topic)
    first.reconnect_delay_set(100, 100)
    connect(second, mosquitto)
    until(lambda: not first.is_connected(), "the older connection to end")
    names = {each._ordering.session.engine.client_id for each in (first, second)}
    assert len(names) == 2
    assert topic not in names
    assert all(each._ordering.session.engine._state == "open" for each in (first, second))
    again = Log(second)
    second.subscribe(topic)
    assert again.subscribed.wait(PATIENCE)
    second.publish(topic, "x")
    until(lambda: again.payloads == [b"x"], "the message")
    assert log.messages == []


def test_a_callback_that_raises_ends_the_loop_as_pahos_does(mosquitto: Mosquitto, make: Make) -> None:
    """B24: by default the exception leaves the loop, and the message is not acknowledged; with
    ``suppress_exceptions`` the next one comes."""
    topic, client, publisher = unique("logged/t"), make(), make()
    log = Log(client)
    connect(publisher, mosquitto)

    def on_message(client: Any, userdata: Any, message: Any) -> None:
        log.messages.append(message)
        if message.payload == b"bad":
            raise RuntimeError("of the application")

    client.on_message = on_message
    client.connect("127.0.0.1", mosquitto.port)
    while not client.is_connected():
        client.loop(0.05)
    client.subscribe(topic, 1)
    while not log.subscribed.is_set():
        client.loop(0.05)
    for payload in ("good", "bad", "after"):
        publisher.publish(topic, payload, 1).wait_for_publish(PATIENCE)

    def loop() -> bool:
        client.loop(0.05)
        return False

    with pytest.raises(RuntimeError, match="of the application"):
        until(loop)
    client.suppress_exceptions = True
    publisher.publish(topic, "bad", 1)
    until(lambda: loop() or len(log.messages) == 4, "the rest")
    assert log.payloads == [b"good", b"bad", b"after", b"bad"]


@pytest.mark.parametrize("is_ours", [pytest.param(False, marks=pytest.mark.long), True], ids=["paho", "inorder"])
def test_slow_callbacks_are_pahos_affair(mosquitto: Mosquitto, make: Make, is_ours: bool) -> None:
    """B22: callbacks run on the network thread, so the broker misses the keepalive of a client with a slow one and ends
    its connection. The session at the workers does not suffer, and all come in order."""
    topic = unique("t")
    will = subscribed(make(), mosquitto, f"{topic}/will")
    client: Any = (
        make(topic) if is_ours else stock.Client(mqtt.CallbackAPIVersion.VERSION2, topic, protocol=mqtt.MQTTv5)
    )
    log = Log(client)
    client.reconnect_delay_set(0.05, 0.1)
    client.will_set(f"{topic}/will", "gone")
    entered = threading.Event()

    def on_message(client: Any, userdata: Any, message: Any) -> None:
        entered.set()
        until(lambda: will.messages != [], "the end of the connection by the broker")
        log._on_message(client, userdata, message)

    client.on_message = on_message
    session: Any = mqtt.Properties(1)  # type: ignore[no-untyped-call]
    session.SessionExpiryInterval = 300
    publisher = make()
    connect(publisher, mosquitto)
    try:
        connect(client, mosquitto, keepalive=1, clean_start=False, properties=session)
        client.subscribe(topic, 1)
        assert log.subscribed.wait(PATIENCE)
        for payload in "123":
            publisher.publish(topic, payload, 1).wait_for_publish(PATIENCE)
        assert entered.wait(PATIENCE)
        until(lambda: log.payloads[-1:] == [b"3"], "all messages")
        if is_ours:
            assert client._ordering.session.engine.stats().worker_reconnects == 0
    finally:
        client.disconnect()
        client.loop_stop()
    # what was not acknowledged comes again; paho hands it on, and a numbered event is not told twice
    assert list(dict.fromkeys(log.payloads)) == [b"1", b"2", b"3"]
    assert not is_ours or log.payloads == [b"1", b"2", b"3"]
    assert log.gaps == []


def test_what_a_slow_callback_keeps_from_being_read_is_not_missing(mosquitto: Mosquitto, make: Make) -> None:
    """R17, B22: the time by which missing events are waited for stands still while no loop reads."""
    topic, client, publisher = unique("t"), make(), make()
    passed: list[float] = []

    def on_message(client: Any, userdata: Any, message: Any) -> None:
        now, since = client._ordering.session.engine._clock.now, time.monotonic()
        before = now()
        until(lambda: time.monotonic() - since > 2 * ReadingTime.PATIENCE)
        passed.append(now() - before)

    subscribed(client, mosquitto, topic)
    client.on_message = on_message
    connect(publisher, mosquitto)
    publisher.publish(topic, "slow")
    until(lambda: passed != [])
    assert passed[0] <= ReadingTime.PATIENCE


def test_the_application_acknowledges_itself(mosquitto: Mosquitto, make: Make) -> None:
    topic, client, publisher = unique("t"), make(manual_ack=True), make()
    log = subscribed(client, mosquitto, topic, qos=2)
    connect(publisher, mosquitto)
    infos = [publisher.publish(topic, str(at), 1 + at % 2) for at in range(60)]
    for at in range(60):  # more than the broker's window
        until(lambda at=at: len(log.messages) > at, "the next message")  # type: ignore[misc]
        message = log.messages[at]
        assert client.ack(message.mid, message.qos) == mqtt.MQTT_ERR_SUCCESS
    assert log.payloads == [str(at).encode() for at in range(60)]
    for info in infos:
        info.wait_for_publish(PATIENCE)


def test_one_shot_helpers(
    mosquitto: Mosquitto, make: Make, worker: WorkerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INORDER_CLIENT__WORKERS", worker.url)
    topic = unique("logged/t")
    log = subscribed(make(), mosquitto, topic)
    publish.single(topic, "1", port=mosquitto.port)
    publish.multiple([{"topic": topic, "payload": "2", "qos": 1}, (topic, "3", 2, False)], port=mosquitto.port)
    until(lambda: len(log.messages) == 3, "all messages")
    assert [each.inorder.sequence for each in log.messages] == [1, 2, 3]
    publish.single(topic, "kept", retain=True, port=mosquitto.port)
    message = subscribe.simple(topic, port=mosquitto.port)  # type: ignore[no-untyped-call]
    assert (message.payload, message.inorder.verdict) == (b"kept", mqtt.Verdict.RETAINED)
    assert configuration(worker).workers == (worker.url,)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_no_connection_until_it_connects(mosquitto: Mosquitto, make: Make) -> None:
    """It is told so, instead of rc 0 for what nobody sends; the parent's goes on."""
    topic, client = unique("t"), make()
    log = subscribed(client, mosquitto, topic, qos=1)
    client._out_message_mutex.acquire()
    client._send_lock.acquire()  # as a thread of the parent's may at that moment
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            codes = [client.publish(topic, "kept until then", qos).rc for qos in (0, 1)]
            was = f"{codes == [mqtt.MQTT_ERR_NO_CONN] * 2} {client.is_connected()} {client.subscribe(topic)[0]:d}"
            client.on_message = None
            connect(client, mosquitto)
            client.publish(topic, f"child {was}", 1).wait_for_publish(PATIENCE)
            client.disconnect()
            os.write(write, b"done")
        except BaseException as error:
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    client._out_message_mutex.release()
    client._send_lock.release()
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        is_told = bool(select.select([pipe], [], [], PATIENCE)[0])
        if not is_told:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert is_told, "the child stands"
        assert pipe.read() == b"done"
    client.publish(topic, "parent", 1)
    until(lambda: len(log.messages) == 3, "all messages")
    assert log.payloads == [b"kept until then", b"child True False 4", b"parent"]
    assert {each.inorder.verdict for each in log.messages} == {mqtt.Verdict.IN_ORDER}


def test_messages_published_with_the_retain_flag_are_live(mosquitto: Mosquitto, make: Make) -> None:
    """R5, MQTT 5: *Retain As Published*, over two filters; only what a subscription asked the broker's store for is
    retained."""
    topic, client, publisher = unique("t"), make(protocol=mqtt.MQTTv5), make()
    log = subscribed(client, mosquitto, unique("first"))
    for text in (topic, f"{topic}/#"):
        log.subscribed.clear()
        client.subscribe(text, options=SubscribeOptions(qos=1, retainAsPublished=True))
        assert log.subscribed.wait(PATIENCE)
    connect(publisher, mosquitto)
    for number in range(20):
        publisher.publish(topic, str(number), 1, True).wait_for_publish(PATIENCE)
    until(lambda: len(log.messages) >= 20 and log.payloads[-1] == b"19", "the last message")
    client.subscribe(topic, options=SubscribeOptions(qos=1))
    until(lambda: log.messages[-1].inorder.verdict is mqtt.Verdict.RETAINED, "the copy of the store")
    *live, kept = log.messages
    assert {(each.inorder.verdict, each.retain) for each in live} == {(mqtt.Verdict.IN_ORDER, True)}
    assert [each.payload for each in live] == sorted((each.payload for each in live), key=int)
    assert kept.payload == b"19"
    publisher.publish(topic, None, 1, True).wait_for_publish(PATIENCE)  # clears it
