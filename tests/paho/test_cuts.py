"""Connections that break: nothing is lost or doubled beyond what MQTT itself allows."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.paho.conftest import Make
from tests.paho.helpers import Log, connect, subscribed, until

import inorder.paho as mqtt
from inorder.testing.ens_recorder import unique
from inorder.testing.services import FaultProxy, Mosquitto

COUNT = 300


async def run(function: Any, *args: Any) -> Any:
    return await asyncio.to_thread(function, *args)


def _was_accepted(proxy: FaultProxy, before: int) -> bool:
    return proxy.accepted > before


def persistent(make: Make, name: str, protocol: int) -> Any:
    """Return a client with a session at the broker, that connects again at once."""
    given = {} if protocol == mqtt.MQTTv5 else {"clean_session": False}
    client = make(name, protocol=protocol, **given)
    client.reconnect_delay_set(0.01, 0.1)
    return client


def kept(client: Any, port: int) -> None:
    """Connect with a session that outlives connections."""
    how: dict[str, Any] = {}
    if client.protocol == mqtt.MQTTv5:
        properties = mqtt.Properties(1)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 300
        how = {"properties": properties, "clean_start": False}
    client.connect("127.0.0.1", port, **how)
    client.loop_start()
    until(client.is_connected, "the connection")


@pytest.mark.parametrize("protocol", [mqtt.MQTTv5, mqtt.MQTTv311])
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_publisher_is_cut_off(mosquitto: Mosquitto, make: Make, protocol: int, qos: int) -> None:
    """QoS 1 at least once (and, since copies are known by their numbers, once); QoS 2 once: the broker's window is kept
    over reconnections, above which mosquitto refuses messages of MQTT 5, and drops those of 3.1.1 and confirms them."""
    topic = unique("t")
    log = await run(lambda: subscribed(make(protocol=protocol), mosquitto, topic, qos=2))
    async with FaultProxy(mosquitto.port) as proxy:
        client = persistent(make, topic, protocol)
        told = Log(client)
        await run(kept, client, proxy.port)
        for at in range(COUNT):
            client.publish(topic, str(at), qos)
            if at % 60 == 30:
                before = proxy.accepted
                proxy.cut()
                await run(until, partial(_was_accepted, proxy, before))
        await run(until, lambda: len(log.messages) >= COUNT, "all messages")
        await run(until, lambda: len(told.published) == COUNT, "all confirmations")
        await run(client.disconnect)
    assert log.payloads == [str(at).encode() for at in range(COUNT)]
    assert not log.gaps


@pytest.mark.parametrize("protocol", [mqtt.MQTTv5, mqtt.MQTTv311])
@pytest.mark.parametrize("qos", [1, 2])
async def test_a_subscriber_is_cut_off(mosquitto: Mosquitto, make: Make, protocol: int, qos: int) -> None:
    """The broker keeps its session: all come once, in order, without subscribing again."""
    topic = unique("t")
    async with FaultProxy(mosquitto.port) as proxy:
        client = persistent(make, topic, protocol)
        log = Log(client)
        await run(kept, client, proxy.port)
        client.subscribe([(f"{topic}/#", qos)])
        await run(log.subscribed.wait)
        publisher = make(protocol=protocol)
        await run(connect, publisher, mosquitto)
        for at in range(COUNT):
            publisher.publish(f"{topic}/{at % 3}", str(at), qos)
            if at % 60 == 30:
                before = proxy.accepted
                proxy.cut()
                await run(until, partial(_was_accepted, proxy, before))
        await run(until, lambda: len(log.messages) >= COUNT, "all messages")
        await run(client.disconnect)
    assert log.payloads == [str(at).encode() for at in range(COUNT)]
    assert not log.gaps


async def test_qos_0_is_lost_with_the_connection_and_told_of(mosquitto: Mosquitto, make: Make) -> None:
    """What MQTT loses is a gap, or was never sent; what comes is in order."""
    topic = unique("t")
    async with FaultProxy(mosquitto.port) as proxy:
        client = make()
        client.reconnect_delay_set(0.01, 0.1)
        log = Log(client)
        client.on_connect = lambda *_: client.subscribe(topic)
        await run(connect, client, mosquitto, proxy.port)
        await run(log.subscribed.wait)
        publisher = make()
        await run(connect, publisher, mosquitto)
        for at in range(COUNT):
            publisher.publish(topic, str(at))
            if at == 150:
                log.subscribed.clear()
                proxy.cut()
                await run(log.subscribed.wait)
        publisher.publish(topic, "end")
        await run(until, lambda: log.payloads[-1:] == [b"end"] and _whole(log), "everything or its gap")
        await run(client.disconnect)
    told = [each.inorder for each in log.messages if each.inorder.verdict == mqtt.Verdict.IN_ORDER]
    numbers = [each.sequence or 0 for each in told]
    assert numbers == sorted(set(numbers))


def _whole(log: Log) -> bool:
    """Every number is a message or in a gap."""
    seen = {each.inorder.sequence for each in log.messages}
    for gap in log.gaps:
        seen |= set(range(gap.first, gap.last + 1))
    return seen >= set(range(1, COUNT + 2))


async def test_published_while_disconnected(mosquitto: Mosquitto, make: Make) -> None:
    """QoS 0 is refused by paho and takes no number; QoS 1 and 2 are kept and leave in the order of the calls."""
    topic, client = unique("t"), make()
    log = await run(lambda: subscribed(make(), mosquitto, topic, qos=2))
    assert client.publish(topic, "lost").rc == mqtt.MQTT_ERR_NO_CONN
    kept_infos = [client.publish(topic, str(at), 1 + at % 2) for at in range(30)]
    assert {info.rc for info in kept_infos} == {mqtt.MQTT_ERR_NO_CONN}
    client.on_connect = lambda *_: client.publish(topic, "last")
    await run(connect, client, mosquitto)
    await run(until, lambda: len(log.messages) == 31, "all messages")
    assert log.payloads == [*(str(at).encode() for at in range(30)), b"last"]
    assert [each.inorder.sequence for each in log.messages] == list(range(1, 32))
    await run(until, lambda: all(info._published for info in kept_infos))
