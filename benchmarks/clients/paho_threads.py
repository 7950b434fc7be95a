"""Bare paho-mqtt as most applications use it: ``loop_start``, one network thread for each client."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from paho.mqtt.client import Client

from benchmarks.clients.paho_common import connect, make_client, publish_events
from benchmarks.clocks import Arrivals
from benchmarks.job import SUBSCRIBERS, TOPICS, Answer, Job

Ready = Callable[[], None]


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from two clients."""
    clients = [_connected(make_client(job, f"publisher-{topic[-3:]}"), job) for topic in TOPICS]
    ready()
    answer = publish_events(job, clients, lambda client, info: info.wait_for_publish())
    _stop(clients)
    return answer


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with two clients; both threads count under the interpreter's lock."""
    arrivals, done, lock = Arrivals(job, SUBSCRIBERS), threading.Event(), threading.Lock()

    def took(client: Client, data: Any, message: Any) -> None:
        with lock:
            arrivals.took(message.payload)
        if not arrivals.left:
            done.set()

    clients = []
    for number in range(SUBSCRIBERS):
        client, subscribed = make_client(job, f"subscriber-{number}"), threading.Event()
        client.on_message = took
        client.on_subscribe = lambda *_, subscribed=subscribed: subscribed.set()
        _connected(client, job).subscribe([(topic, 0) for topic in TOPICS])
        subscribed.wait()
        clients.append(client)
    ready()
    done.wait()
    _stop(clients)
    return arrivals.answer


def _connected(client: Client, job: Job) -> Client:
    connected = threading.Event()
    client.on_connect = lambda *_: connected.set()
    connect(client, job)
    client.loop_start()
    connected.wait()
    return client


def _stop(clients: list[Client]) -> None:
    for client in clients:
        client.disconnect()
        client.loop_stop()
