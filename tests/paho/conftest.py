"""Fixtures of the drop-in tests: a real mosquitto (see tests/conftest.py) and a worker in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.paho.helpers import configuration, until

import inorder.paho as mqtt
from inorder.paho.session import closing
from inorder.testing.services import WorkerServer

Make = Callable[..., Any]


@pytest.fixture(scope="session")
def worker() -> Iterator[WorkerServer]:
    """A worker for tests that leave it alone; topics are each test's own, and have an event log below ``logged``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INORDER_WORKER__HEADS_INTERVAL", "0.2")
        patch.setenv("INORDER_WORKER__LOG_TOPICS", "mqtt:logged/#")
        with WorkerServer() as server:
            yield server


@pytest.fixture
def make(worker: WorkerServer) -> Iterator[Make]:
    """Make clients; what is left running after the test is stopped."""
    made: list[Any] = []

    def make(client_id: str = "", *, protocol: int = mqtt.MQTTv5, kind: Any = mqtt.Client, **given: Any) -> Any:
        settings = given.pop("inorder", None) or configuration(worker)
        client = kind(mqtt.CallbackAPIVersion.VERSION2, client_id, protocol=protocol, inorder=settings, **given)
        made.append(client)
        return client

    yield make
    for client in made:
        with suppress(Exception):
            client.disconnect()
        client.loop_stop()
        if client._ordering is not None:
            client._ordering.end()
    until(lambda: all(each.done() for each in list(closing)), "the end of all clients")
