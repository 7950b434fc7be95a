"""Callbacks that raise (B24): the loop ends as paho's does, operators see that nobody reads, and it can go on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import paho.mqtt.client as stock
import pytest
from tests.paho.conftest import Make
from tests.paho.helpers import PATIENCE, Log, configuration, connect, subscribed, until

import inorder.paho as mqtt
from inorder import ClientTimes
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, Mosquitto, WorkerServer
from inorder_worker.admin import Cluster

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # paho leaves a pair to a second loop_start
]


def shown(worker: WorkerServer) -> set[str]:
    """Return what operators see: the clients that report, by the names that they were given."""

    async def ask() -> set[str]:
        async with Cluster([worker.url]) as cluster:
            return {each.client_id.split("#")[0] for each in (await cluster.reports()).clients}

    return asyncio.run(ask())


def _is_shown(worker: WorkerServer, name: str) -> bool:
    return name in shown(worker)


def _has_left(client: Any, worker: WorkerServer, name: str) -> bool:
    return client._ordering.session is None and name not in shown(worker)  # not only not shown yet


def _thread_ended(client: Any) -> bool:
    return client._thread is None


class Failing(Log):
    """Raises at the message ``bad``, once."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.failures = 0

    def _on_message(self, client: Any, userdata: Any, message: mqtt.MQTTMessage) -> None:
        if message.payload == b"bad":
            self.failures += 1
            raise RuntimeError("of the application")
        super()._on_message(client, userdata, message)


def times_of(heartbeat: float) -> ClientTimes:
    return ClientTimes(gap_timeout=0.3, loss_timeout=1.0, heartbeat=heartbeat, report_interval=0.05)


def reader(make: Make, mosquitto: Mosquitto, worker: WorkerServer, name: str, seconds: float = 0.2) -> Any:
    """Return a client whose callback will raise, which has read one message, and what it has seen."""
    client = make(name, inorder=configuration(worker, times=times_of(seconds)))
    log = Failing(client)
    connect(client, mosquitto)
    client.subscribe(name, 1)
    assert log.subscribed.wait(PATIENCE)
    return client, log


def publishing(make: Make, mosquitto: Mosquitto, topic: str) -> Callable[[str], None]:
    publisher = make()
    connect(publisher, mosquitto)
    return lambda text: publisher.publish(topic, text, 1).wait_for_publish(PATIENCE)


@pytest.mark.parametrize("again", ["loop_start", "reconnect", "loop"])
def test_operators_see_that_nobody_reads(
    mosquitto: Mosquitto, make: Make, worker: WorkerServer, caplog: pytest.LogCaptureFixture, again: str
) -> None:
    topic = unique("t")
    client, log = reader(make, mosquitto, worker, topic)
    publish = publishing(make, mosquitto, topic)
    publish("1")
    until(partial(_is_shown, worker, topic), "the report of the client")
    publish("bad")
    until(partial(_thread_ended, client), "the end of the loop")
    until(partial(_has_left, client, worker, topic), "the end of its session")
    (record,) = [each for each in caplog.records if "loop_failed" in each.getMessage()]
    assert record.levelno == logging.ERROR
    assert "of the application" in record.getMessage()
    for text in "23":
        publish(text)
    if again == "reconnect":
        client.on_connect = lambda *_: client.subscribe(topic, 1)
        log.subscribed.clear()
        client.reconnect()
    if again == "loop":
        until(lambda: client.loop(0.05) == 0 and log.payloads[-1:] == [b"3"], "what came meanwhile")
    else:
        client.loop_start()
    if again == "reconnect":
        assert log.subscribed.wait(PATIENCE)  # without a session the broker has kept nothing
        expected = [b"1"]
    else:
        until(lambda: log.payloads[-1:] == [b"3"], "what came meanwhile")
        expected = [b"1", b"2", b"3"]
    assert log.payloads == expected
    threading.Thread(target=_publish_all, args=(publish, "45")).start()
    until(lambda: (again != "loop" or client.loop(0.05) == 0) and log.payloads[-1:] == [b"5"], "the rest")
    assert log.payloads == [*expected, b"4", b"5"]
    assert log.failures == 1
    until(partial(_is_shown, worker, topic), "the report of the client")


def _publish_all(publish: Callable[[str], None], texts: Iterable[str]) -> None:
    for each in texts:
        publish(each)


def test_a_loop_that_begins_again_at_once_goes_on(mosquitto: Mosquitto, make: Make, worker: WorkerServer) -> None:
    """``while True`` around ``loop_forever()``: the same session at the workers, and the order holds."""
    topic = unique("t")
    client, log = reader(make, mosquitto, worker, topic, 100.0)
    life = client._ordering.session
    publish = publishing(make, mosquitto, topic)
    _publish_all(publish, ["1", "bad"])
    until(partial(_thread_ended, client), "the end of the loop")
    client.loop_start()
    publish("2")
    until(lambda: log.payloads == [b"1", b"2"], "the rest")
    assert client._ordering.session is life
    assert {each.inorder.verdict for each in log.messages} == {mqtt.Verdict.IN_ORDER}
    assert [each.inorder.sequence for each in log.messages] == [1, 3]


def test_loop_forever_raises_and_the_message_is_not_acknowledged(
    mosquitto: Mosquitto, make: Make, worker: WorkerServer
) -> None:
    """With a session the broker sends it again; then it is handled."""
    topic = unique("t")
    client = make(topic, inorder=configuration(worker, times=times_of(0.2)))
    log = Failing(client)
    properties: Any = mqtt.Properties(1)  # type: ignore[no-untyped-call]
    properties.SessionExpiryInterval = 300
    client.on_connect = lambda *_: client.subscribe(topic, 1)
    client.connect("127.0.0.1", mosquitto.port, clean_start=False, properties=properties)
    publish = publishing(make, mosquitto, topic)
    helper = threading.Thread(target=lambda: log.subscribed.wait(PATIENCE) and publish("bad"))
    helper.start()
    with pytest.raises(RuntimeError, match="of the application"):
        client.loop_forever()
    helper.join()
    until(partial(_has_left, client, worker, topic), "the end of its session")
    told: list[bytes] = []
    client.on_message = lambda c, u, message: told.append(message.payload)
    client.reconnect()
    client.loop_start()
    until(lambda: told == [b"bad"], "the message again")
    publish("after")
    until(lambda: told == [b"bad", b"after"], "the rest")


def test_it_may_still_publish(mosquitto: Mosquitto, make: Make, worker: WorkerServer) -> None:
    """A program whose reading thread has ended goes on publishing, as with paho: in order."""
    topic = unique("t")
    client, _ = reader(make, mosquitto, worker, topic)
    other = subscribed(make(), mosquitto, f"{topic}/out", qos=1)
    client.publish(f"{topic}/out", "0", 1)
    publishing(make, mosquitto, topic)("bad")
    until(partial(_thread_ended, client), "the end of the loop")
    until(partial(_has_left, client, worker, topic), "the end of its session")
    for at in range(1, 6):
        assert client.publish(f"{topic}/out", str(at), at % 2).rc == mqtt.MQTT_ERR_SUCCESS
    until(lambda: len(other.messages) == 6, "all messages")
    assert other.payloads == [str(at).encode() for at in range(6)]
    client.loop_start()
    until(lambda: not client._ordering.outgoing.by_mid, "the acknowledgements")


async def test_what_waited_for_its_turn_is_not_lost(mosquitto: Mosquitto, make: Make, worker: WorkerServer) -> None:
    """An event that waits when the client leaves the workers has been acknowledged, maybe: it comes, as late."""
    topic, run = unique("t"), asyncio.to_thread
    client, log = await run(reader, make, mosquitto, worker, topic)
    bare: Any = stock.Client(mqtt.CallbackAPIVersion.VERSION2)
    async with FaultProxy(mosquitto.port) as proxy:
        slow, fast = make(), make()
        try:
            await run(connect, bare, mosquitto)
            await run(connect, slow, mosquitto, proxy.port)
            await run(connect, fast, mosquitto)
            proxy.stall("up")
            slow.publish(topic, "1", 1)
            await run(until, lambda: not slow._ordering.outgoing.is_waiting, "its number")
            await run(fast.publish(topic, "2", 1).wait_for_publish, PATIENCE)
            await run(until, lambda: client._ordering.session.engine.stats().waiting == 1, "the event that waits")
            await run(bare.publish(topic, "bad", 1).wait_for_publish, PATIENCE)
            await run(until, partial(_thread_ended, client), "the end of the loop")
            await run(until, partial(_has_left, client, worker, topic), "the end of its session")
            client.loop_start()
            await run(until, lambda: log.payloads == [b"2"], "what waited")
            await proxy.heal()
            await run(until, lambda: log.payloads == [b"2", b"1"], "the other one")
            await run(fast.publish(topic, "3", 1).wait_for_publish, PATIENCE)
            await run(until, lambda: log.payloads == [b"2", b"1", b"3"], "the rest")
        finally:
            await run(slow.disconnect)
            await run(bare.disconnect)
            await run(bare.loop_stop)
    assert log.messages[0].inorder.verdict == mqtt.Verdict.LATE
    assert log.messages[2].inorder.verdict == mqtt.Verdict.IN_ORDER
    assert log.gaps == []


def test_with_suppress_exceptions_nothing_ends(mosquitto: Mosquitto, make: Make, worker: WorkerServer) -> None:
    topic = unique("t")
    client, log = reader(make, mosquitto, worker, topic)
    client.suppress_exceptions = True
    life = client._ordering.session
    _publish_all(publishing(make, mosquitto, topic), ["bad", "after"])
    until(lambda: log.payloads == [b"after"], "the rest")
    assert client._leaving is None
    assert client._ordering.session is life
    assert log.failures == 1
