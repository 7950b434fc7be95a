"""Libraries that import paho-mqtt themselves get our class by ``install()``: aiomqtt, in an event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiomqtt
import paho.mqtt.client as stock
import pytest
from tests.paho.helpers import PATIENCE
from tests.paho.test_refused import Token

import inorder.paho
from inorder.paho.session import closing
from inorder.testing.ens_recorder import unique
from inorder.testing.services import Mosquitto, WorkerServer

TOO_LATE = """
import inorder.paho
from paho.mqtt.client import Client
try:
    inorder.paho.install()
except inorder.errors.UsageError as error:
    print(error)
import paho.mqtt.client as paho
print(paho.Client is Client)
del Client
inorder.paho.install()
inorder.paho.install()
print(paho.Client is inorder.paho.Client)
"""


def test_who_was_earlier_is_named() -> None:
    run = subprocess.run([sys.executable, "-c", TOO_LATE], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    error, *rest = run.stdout.splitlines()
    assert "too late: __main__ has paho.mqtt.client.Client already" in error
    assert rest == ["True", "True"]


@pytest.fixture
async def installed(worker: WorkerServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setenv("INORDER_CLIENT__WORKERS", worker.url)
    monkeypatch.setattr(stock, "Client", stock.Client)  # so that it is that again
    inorder.paho.install(force=True)
    yield
    async with asyncio.timeout(PATIENCE):
        while closing:
            await asyncio.wrap_future(next(iter(closing)))


async def take(messages: Any, count: int) -> list[bytes]:
    return [bytes((await anext(messages)).payload) for _ in range(count)]


@pytest.mark.usefixtures("installed")
async def test_aiomqtt(mosquitto: Mosquitto, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages in order; a token that is revoked is an error of its own, and when it is valid again it goes on."""
    topic, token = unique("t"), Token(monkeypatch)
    client = aiomqtt.Client("127.0.0.1", mosquitto.port, timeout=PATIENCE)
    inner: Any = client._client
    assert type(inner) is inorder.paho.Client
    async with asyncio.timeout(PATIENCE):
        async with client:
            await client.subscribe(f"{topic}/#", 1)
            await asyncio.gather(*(client.publish(f"{topic}/{at % 2}", str(at), at % 3) for at in range(30)))
            assert await take(client.messages, 30) == [str(at).encode() for at in range(30)]
            token.revoke(inner)
            with pytest.raises(aiomqtt.MqttError):
                await take(client.messages, 1)
            with pytest.raises(aiomqtt.MqttError):
                await client.publish(topic, "nobody sends it")
        for _ in range(2):
            with pytest.raises(aiomqtt.MqttError, match="the token was revoked"):
                await client.__aenter__()
        token.is_valid = True
        async with client:
            await client.subscribe(topic, 1)
            await client.publish(topic, "again", 1)
            assert await take(client.messages, 1) == [b"again"]
