"""Bare paho-mqtt at its best: no threads; publishes are written at once, both sockets are read by one loop."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

from paho.mqtt.client import Client, MQTTMessageInfo

from inorder_bench.clients.paho_common import connect, make_client, publish_events
from inorder_bench.clocks import Arrivals
from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES

Ready = Callable[[], None]
_READ_BATCH = 64


def publish(job: Job, ready: Ready) -> Answer:
    """Publish from all clients. ``publish`` writes to the socket itself, as no thread does."""
    publishers = range(len(SHAPES[job.shape].publishers))
    clients = [_connected(make_client(job, f"publisher-{each}"), job) for each in publishers]
    ready()
    answer = publish_events(job, clients, _written)
    for client in clients:
        client.disconnect()
    return answer


def receive(job: Job, ready: Ready) -> Answer:
    """Receive with all clients and one ``select``."""
    shape, arrivals = SHAPES[job.shape], Arrivals(job)

    def took(client: Client, data: int, message: Any) -> None:
        arrivals.took(data, message.payload)

    clients = []
    for number in range(len(shape.subscribers)):
        client = _connected(make_client(job, f"subscriber-{number}"), job)
        client.user_data_set(number)
        client.on_message = took
        answered: list[bool] = []
        client.on_subscribe = lambda *_, answered=answered: answered.append(True)
        client.subscribe([(topic, job.qos) for topic in shape.names(number)])
        while not answered:
            client.loop()
        clients.append(client)
    ready()
    _read_all(clients, arrivals)
    for client in clients:
        client.disconnect()
    return arrivals.judged()


def _read_all(clients: list[Client], arrivals: Arrivals) -> None:
    by_socket: dict[Any, Client] = {client.socket(): client for client in clients}
    while arrivals.left:
        readable, _, _ = select.select(list(by_socket), [], [], 1.0)
        for sock in readable:
            for _ in range(_READ_BATCH):
                before = arrivals.left
                by_socket[sock].loop_read()
                if arrivals.left == before:
                    break
        if not readable:
            for client in clients:
                client.loop_misc()


def _connected(client: Client, job: Job) -> Client:
    connect(client, job)
    while not client.is_connected():
        client.loop()
    return client


def _written(client: Client, info: MQTTMessageInfo) -> None:
    """Write what the socket did not take at once."""
    sock: Any = client.socket()
    while not info.is_published():
        select.select([], [sock], [], 1.0)
        client.loop_write()
