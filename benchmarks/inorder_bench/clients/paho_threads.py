"""Bare paho-mqtt as most applications use it: ``loop_start``, one network thread for each client."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from paho.mqtt.client import Client

from inorder_bench.clients.paho_common import connect, make_client, publish_events
from inorder_bench.clocks import Arrivals
from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES

Ready = Callable[[], None]


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from all clients."""
    publishers = range(len(SHAPES[job.shape].publishers))
    clients = [_connected(make_client(job, f"publisher-{each}"), job) for each in publishers]
    ready()
    answer = publish_events(job, clients, lambda client, info: info.wait_for_publish())
    _stop(clients)
    return answer


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with all clients; their threads count under one lock."""
    shape, arrivals, done, lock = SHAPES[job.shape], Arrivals(job), threading.Event(), threading.Lock()

    def took(client: Client, data: int, message: Any) -> None:
        with lock:
            arrivals.took(data, message.payload)
        if not arrivals.left:
            done.set()

    clients = []
    for number in range(len(shape.subscribers)):
        client, subscribed = make_client(job, f"subscriber-{number}"), threading.Event()
        client.user_data_set(number)
        client.on_message = took
        client.on_subscribe = lambda *_, subscribed=subscribed: subscribed.set()
        _connected(client, job).subscribe([(topic, job.qos) for topic in shape.names(number)])
        subscribed.wait()
        clients.append(client)
    ready()
    done.wait()
    _stop(clients)
    return arrivals.judged()


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
