"""One order at ``on_message``, over both forms of the stamp and all qualities, as paho's users write it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.paho.conftest import Make
from tests.paho.helpers import PATIENCE, Log, connect, subscribed, until

import inorder.paho as mqtt
from inorder.sync._thread import THREAD
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto


@pytest.mark.parametrize("protocol", [mqtt.MQTTv5, mqtt.MQTTv311, mqtt.MQTTv31])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_what_is_published_arrives_in_order_once(mosquitto: Mosquitto, make: Make, protocol: int, qos: int) -> None:
    """B33: every publish has its ``on_publish`` once, with its own mid, and nothing else has any."""
    topic = unique("logged/t")
    reader, publisher = make("reader" + topic, protocol=protocol), make("pub" + topic, protocol=protocol)
    seen = subscribed(reader, mosquitto, f"{topic}/#", qos=2)
    told = Log(publisher)
    connect(publisher, mosquitto)
    infos = [publisher.publish(f"{topic}/{at % 3}", str(at), qos) for at in range(200)]
    for info in infos:
        info.wait_for_publish(PATIENCE)
        assert info.is_published()
        assert info.rc == mqtt.MQTT_ERR_SUCCESS
    until(lambda: len(seen.messages) == 200, "all messages")
    until(lambda: len(told.told) == 200, "all confirmations")
    assert seen.payloads == [str(at).encode() for at in range(200)]
    assert {each.inorder.verdict for each in seen.messages} == {mqtt.Verdict.IN_ORDER}
    assert [each.inorder.sequence for each in seen.messages] == [1 + at // 3 for at in range(200)]
    assert sorted(told.published) == [info.mid for info in infos]
    assert not seen.gaps


@pytest.mark.parametrize(("qos", "manual_ack"), [(0, False), (1, False), (1, True)], ids=["0", "1", "1 by hand"])
def test_a_barrier_comes_back_behind_what_the_library_has_read(
    mosquitto: Mosquitto, make: Make, qos: int, manual_ack: bool
) -> None:
    """R24: whatever keeps the library from reading, as here a slow callback; more than a broker's window waits."""
    topic, gate = unique("logged/t"), threading.Event()
    reader, publisher = make(manual_ack=manual_ack), make()
    seen = subscribed(reader, mosquitto, topic, qos=qos)

    def handle(client: mqtt.Client, userdata: object, message: mqtt.MQTTMessage) -> None:
        seen.messages.append(message)
        gate.wait(PATIENCE)
        if manual_ack:
            client.ack(message.mid, message.qos)

    reader.on_message = handle
    connect(publisher, mosquitto)
    publisher.publish(topic, "first", qos).wait_for_publish(PATIENCE)
    until(lambda: seen.messages != [], "the callback")
    infos = [publisher.publish(topic, str(at), qos) for at in range(100)]
    publisher.publish(unique("last"), "", 1).wait_for_publish(PATIENCE)  # the broker has dealt with all of them
    assert all(each.is_published() for each in infos)
    ordering: Any = reader._ordering

    async def numbers() -> int:
        await ordering.session.ens.barrier()
        return int(ordering.session.engine.stats().delivered["in_order"])

    counted = THREAD.submit(numbers())
    assert not counted.done()
    gate.set()
    assert counted.result(PATIENCE) == 101
