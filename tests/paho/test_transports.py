"""paho's transports: what is out of order on the wire is in order at ``on_message`` over TLS and WebSockets, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import paho.mqtt.client as stock
import pytest
from tests.paho.conftest import Make
from tests.paho.helpers import PATIENCE, Log, connect, subscribed, until
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

import inorder.paho as mqtt
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Certificates, FaultProxy, Mosquitto


async def _relay(port: int, connection: ServerConnection) -> None:
    """Pass bytes on between a WebSocket and a broker, until one of them ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def down() -> None:
        while data := await reader.read(65_536):
            await connection.send(data)
        await connection.close()

    passing = asyncio.create_task(down())
    try:
        async for data in connection:
            assert isinstance(data, bytes)
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()
        passing.cancel()
        await asyncio.gather(passing, return_exceptions=True)


@asynccontextmanager
async def over(transport: str) -> AsyncIterator[tuple[Mosquitto, int, Any]]:
    """Have a broker behind a transport; yield it, the port, and what prepares a client."""
    if transport == "tls":
        with Certificates() as certificates, Mosquitto(tls=certificates) as broker:
            yield broker, broker.port, lambda client: client.tls_set(str(certificates.ca))
        return
    with Mosquitto() as broker:
        async with serve(partial(_relay, broker.port), "127.0.0.1", 0, subprotocols=[Subprotocol("mqtt")]) as server:
            yield broker, next(iter(server.sockets)).getsockname()[1], lambda client: None


def _has(log: Log, count: int) -> bool:
    return len(log.messages) == count


@pytest.mark.parametrize("protocol", [mqtt.MQTTv5, mqtt.MQTTv311])
@pytest.mark.parametrize("transport", ["tls", "websockets"])
async def test_disorder_on_the_wire_is_order_at_on_message(make: Make, transport: str, protocol: int) -> None:
    """A publisher whose bytes are stuck on their way is overtaken by another one; paho's own client shows that."""
    topic = unique("t")
    kind: Any = "tcp" if transport == "tls" else transport
    bare: Any = stock.Client(
        mqtt.CallbackAPIVersion.VERSION2, transport=kind, protocol=mqtt.MQTTProtocolVersion(protocol)
    )
    run = asyncio.to_thread
    async with over(transport) as (broker, port, prepare), FaultProxy(port) as proxy:
        reader, slow, fast = clients = [make(transport=kind, protocol=protocol) for _ in range(3)]
        for each in (bare, *clients):
            prepare(each)
        try:
            raw = await run(lambda: subscribed(bare, broker, topic, qos=1, port=port))
            log = await run(lambda: subscribed(reader, broker, topic, qos=1, port=port))
            await run(connect, slow, broker, proxy.port)
            await run(connect, fast, broker, port)
            proxy.stall("up")
            late = slow.publish(topic, "0", 1)
            await run(until, lambda: not slow._ordering.outgoing.is_waiting, "its number")
            for at in range(1, 4):
                await run(fast.publish(topic, str(at), 1).wait_for_publish, PATIENCE)
            await run(until, partial(_has, raw, 3), "those that overtook it")
            assert log.messages == [], "the order was not kept"
            await proxy.heal()
            await run(late.wait_for_publish, PATIENCE)
            for each in (raw, log):
                await run(until, partial(_has, each, 4), "all messages")
        finally:
            for each in (bare, *clients):
                await run(each.disconnect)
                await run(each.loop_stop)
    # in the payload form of MQTT 3.1.1 paho's own client sees the stamp in front
    assert [each[-1:] for each in raw.payloads] == [b"1", b"2", b"3", b"0"]
    assert log.payloads == [b"0", b"1", b"2", b"3"]
    assert {each.inorder.verdict for each in log.messages} == {mqtt.Verdict.IN_ORDER}
    assert log.gaps == []
