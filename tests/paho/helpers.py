"""Drop-in clients for tests, and waiting for what they tell."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import inorder.paho as mqtt
from inorder import ClientTimes
from inorder.testing.services import Mosquitto, WorkerServer

PATIENCE = 60.0


def configuration(worker: WorkerServer, **given: Any) -> mqtt.ClientConfiguration:
    """Return a configuration with short timers."""
    times = ClientTimes(gap_timeout=0.3, loss_timeout=1.0, heartbeat=1.0)
    return mqtt.ClientConfiguration(**{"workers": (worker.url,), "times": times, **given})


def until(condition: Callable[[], bool], what: str = "the condition") -> None:
    """Wait for a condition that nothing announces."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.002)


class Log:
    """What a client tells, in its order.

    Attributes:
        messages: those that came; gaps: those reported; told: the kinds of other callbacks.
        threads: on which thread ``on_message`` was called.
    """

    def __init__(self, client: Any) -> None:
        self.messages: list[mqtt.MQTTMessage] = []
        self.gaps: list[mqtt.Gap] = []
        self.told: list[Any] = []
        self.threads: set[str] = set()
        self.subscribed = threading.Event()
        client.on_message = self._on_message
        client.on_subscribe = self._on_subscribe
        client.on_publish = lambda c, u, mid, *rest: self.told.append(("published", mid))
        if isinstance(client, mqtt.Client):
            client.on_gap = lambda c, u, gap: self.gaps.append(gap)

    def _on_message(self, client: Any, userdata: Any, message: mqtt.MQTTMessage) -> None:
        self.messages.append(message)
        self.threads.add(threading.current_thread().name)

    def _on_subscribe(self, client: Any, userdata: Any, mid: int, codes: Any, properties: Any) -> None:
        self.told.append(("subscribed", mid, [each.value for each in codes]))
        self.subscribed.set()

    @property
    def payloads(self) -> list[bytes]:
        return [bytes(each.payload) for each in self.messages]

    @property
    def published(self) -> list[int]:
        return [each[1] for each in self.told if each[0] == "published"]


def connect(client: Any, broker: Mosquitto, port: int | None = None, **how: Any) -> None:
    """Connect, with a network loop in a thread, and wait for the broker's word."""
    client.connect("127.0.0.1", port or broker.port, **how)
    client.loop_start()
    until(client.is_connected, "the connection")


def subscribed(client: Any, broker: Mosquitto, *filters: str, qos: int = 0, port: int | None = None) -> Log:
    """Connect a client, with a network loop in a thread, and subscribe."""
    log = Log(client)
    connect(client, broker, port)
    client.subscribe([(each, qos) for each in filters])
    assert log.subscribed.wait(PATIENCE)
    return log
