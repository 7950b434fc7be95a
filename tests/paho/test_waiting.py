"""Messages that wait for their turn: when they are acknowledged, and what becomes of those that have none."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.paho.conftest import Make
from tests.paho.helpers import PATIENCE, Log, configuration, connect, subscribed, until
from tests.paho.test_cuts import kept, persistent

import inorder.paho as mqtt
from inorder import ClientTimes
from inorder.errors import Refused
from inorder.paho.ordering import Arrived
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, Mosquitto, WorkerServer


async def test_what_waits_does_not_fill_the_window(mosquitto: Mosquitto, make: Make, worker: WorkerServer) -> None:
    """QoS 1 over a window of one message: what the first waits for comes behind it, so the broker gets its PUBACK while
    it waits. Nothing is given up meanwhile."""
    root = unique("t")
    topics = [(f"{root}/slow", 1), (f"{root}/fast", 1)]
    patient = configuration(worker, times=ClientTimes(gap_timeout=5.0, loss_timeout=500.0))
    window: Any = mqtt.Properties(1)  # type: ignore[no-untyped-call]
    window.ReceiveMaximum = 1

    def reader() -> Log:
        client = make(inorder=patient)
        log = Log(client)
        connect(client, mosquitto, properties=window)
        client.subscribe(topics)
        assert log.subscribed.wait(PATIENCE)
        return log

    logs = [await asyncio.to_thread(reader) for _ in range(2)]  # so that these topics are ordered with each other
    async with FaultProxy(mosquitto.port) as proxy:
        slow, fast = make(), make()
        await asyncio.to_thread(connect, slow, mosquitto, proxy.port)
        await asyncio.to_thread(connect, fast, mosquitto)
        proxy.stall("up")
        slow.publish(f"{root}/slow", "0", 1)
        await asyncio.to_thread(until, lambda: not slow._ordering.outgoing.is_waiting, "its number")
        for at in range(1, 4):
            info = fast.publish(f"{root}/fast", str(at), 1)
            await asyncio.to_thread(info.wait_for_publish, PATIENCE)
        await proxy.heal()
        for log in logs:
            await asyncio.to_thread(until, partial(_has, log, 4), "all messages")
        await asyncio.to_thread(slow.disconnect)
    for log in logs:
        assert log.payloads == [b"0", b"1", b"2", b"3"]
        assert log.gaps == []


def _has(log: Log, count: int) -> bool:
    return len(log.messages) == count


@pytest.mark.parametrize("protocol", [mqtt.MQTTv5, mqtt.MQTTv311])
def test_a_new_process_gets_what_its_session_kept(mosquitto: Mosquitto, make: Make, protocol: int) -> None:
    """What the broker kept came before the new subscription: it is delivered as paho has it, and tagged."""
    topic = unique("t")
    first = persistent(make, topic, protocol)
    log = Log(first)
    kept(first, mosquitto.port)
    first.subscribe(topic, 1)
    assert log.subscribed.wait(PATIENCE)
    first.disconnect()
    first.loop_stop()
    publisher = make()
    connect(publisher, mosquitto)
    for at in range(5):
        publisher.publish(topic, str(at), 1).wait_for_publish(PATIENCE)
    second = persistent(make, topic, protocol)
    again = Log(second)
    second.on_connect = lambda *_: second.subscribe(topic, 1)
    kept(second, mosquitto.port)
    assert again.subscribed.wait(PATIENCE)
    publisher.publish(topic, "live", 1).wait_for_publish(PATIENCE)
    until(lambda: len(again.messages) == 6, "all messages")
    assert again.payloads == [*(str(at).encode() for at in range(5)), b"live"]
    assert again.messages[-1].inorder.verdict == mqtt.Verdict.IN_ORDER
    assert {each.inorder.verdict for each in again.messages[:-1]} <= {mqtt.Verdict.LATE, None}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages wait for their handlers as long as a test may take."""
    monkeypatch.setattr("inorder.paho.client.UNHEARD_SECONDS", 10 * PATIENCE)


def kept_without_handlers(mosquitto: Mosquitto, make: Make, root: str) -> Any:
    """Return a client that gets three messages of its session before any handler is set."""
    first = persistent(make, root, mqtt.MQTTv311)
    log = Log(first)
    kept(first, mosquitto.port)
    first.subscribe(f"{root}/#", 1)
    assert log.subscribed.wait(PATIENCE)
    first.disconnect()
    first.loop_stop()
    publisher = make()
    connect(publisher, mosquitto)
    for at in range(3):
        publisher.publish(f"{root}/{at % 2}", str(at), 1).wait_for_publish(PATIENCE)
    client = persistent(make, root, mqtt.MQTTv311)
    kept(client, mosquitto.port)
    until(lambda: len(client._unheard) == 3, "what the session has")
    assert len(client._acks) == 3, "it is not acknowledged"
    return client


@pytest.mark.usefixtures("patient")
def test_handlers_that_are_set_late_get_what_the_session_kept(mosquitto: Mosquitto, make: Make) -> None:
    """paho acknowledges and drops it, without a word."""
    client = kept_without_handlers(mosquitto, make, root := unique("t"))
    told = list[bytes]()
    client.message_callback_add(f"{root}/1", lambda c, u, message: told.append(message.payload))
    until(lambda: told == [b"1"], "what has a handler")
    client.on_message = lambda c, u, message: told.append(message.payload)
    until(lambda: told == [b"1", b"0", b"2"], "the others")
    until(lambda: not client._acks, "the acknowledgements")
    client.on_message = None
    client.publish(f"{root}/0", "nobody wants it", 1).wait_for_publish(PATIENCE)
    client.publish(f"{root}/1", "the end", 1)
    until(lambda: told[-1:] == [b"the end"], "the next one")


@pytest.mark.parametrize("is_passed", [False, True])
def test_what_waited_for_its_handler_is_late_behind_others(is_passed: bool) -> None:
    client: Any = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, inorder=mqtt.ClientConfiguration(workers=("w:1",)))
    client._unheard_until = float("inf")
    told: list[Any] = []

    def arrive(topic: bytes, number: int) -> None:
        message = mqtt.MQTTMessage(0, topic)
        message.inorder = mqtt.InOrder(mqtt.Verdict.IN_ORDER, number)
        client._ordering.put(lambda client: client._tell(Arrived(message, 0.0)))

    def tell(client: Any, userdata: Any, message: mqtt.MQTTMessage) -> None:
        told.append((message.inorder.sequence, str(message.inorder.verdict)))

    for number in (1, 2):
        arrive(b"a", number)
    client._run_due()
    client.message_callback_add("b", tell)
    if is_passed:
        arrive(b"b", 1)
        client._run_due()
        told.clear()
    client.on_message = tell
    arrive(b"a", 3)
    client._run_due()
    verdict = "late" if is_passed else "in_order"
    assert told == [(1, verdict), (2, verdict), (3, "in_order")]


@pytest.mark.usefixtures("patient")
def test_what_has_no_handler_after_all_is_said(
    mosquitto: Mosquitto, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    client = kept_without_handlers(mosquitto, make, root := unique("t"))
    client._unheard_until = 0.0
    until(lambda: not client._acks, "the acknowledgements")
    (record,) = [each for each in caplog.records if "message_unheard" in each.getMessage()]
    assert f"{root}/0" in record.getMessage()
    assert len(client._unheard) == 0


def test_a_worker_that_restarts_is_a_pause(mosquitto: Mosquitto, make: Make) -> None:
    """Publishes wait, and leave in the order of the calls when it is back; nothing is lost."""
    topic = unique("t")
    with WorkerServer() as worker:
        settings = configuration(worker)
        log = subscribed(make(inorder=settings), mosquitto, topic, qos=1)
        publisher = make(inorder=settings)
        connect(publisher, mosquitto)
        for at in range(50):
            publisher.publish(topic, str(at), at % 2)
        worker.kill()
        infos = [publisher.publish(topic, str(at), at % 2) for at in range(50, 100)]
        worker.start()
        for info in infos:
            info.wait_for_publish(PATIENCE)
        until(lambda: len(log.messages) == 100, "all messages")
        assert log.payloads == [str(at).encode() for at in range(100)]
        assert log.gaps == []


def test_an_order_that_is_refused_is_a_subscription_refused(mosquitto: Mosquitto, make: Make) -> None:
    """What the workers do not allow is told by ``on_subscribe`` as what the broker does not allow."""
    topic, client = unique("t"), make()
    log = Log(client)
    connect(client, mosquitto)

    async def refused(*filters: str, **how: Any) -> None:
        raise Refused("not allowed")

    client._ordering.session.engine.subscribe = refused
    _, mid = client.subscribe(topic)
    assert log.subscribed.wait(PATIENCE)
    assert log.told == [("subscribed", mid, [0x87])]
