"""Bare paho-mqtt clients, connected."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from urllib.parse import urlsplit

from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from benchmarks.clocks import PLAIN, due_times, timed_payload
from benchmarks.job import TOPICS, WINDOW, Answer, Job


def make_client(job: Job, name: str) -> Client:
    """Make an unconnected client."""
    protocol = MQTTProtocolVersion(job.protocol)
    return Client(CallbackAPIVersion.VERSION2, client_id=f"{job.name}-{name}", protocol=protocol)


def connect(client: Client, job: Job) -> None:
    """Open the connection; the answer is not waited for."""
    address = urlsplit(job.url)
    client.connect(address.hostname or "localhost", address.port or 1883)


def publish_one(client: Client, job: Job, topic: str, payload: bytes) -> MQTTMessageInfo:
    """Publish as an application would: a new property object for each message, where it sends one."""
    if not job.property_value:
        return client.publish(topic, payload)
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = ("inorder", job.property_value)
    return client.publish(topic, payload, properties=properties)


KeepUp = Callable[[Client, MQTTMessageInfo], None]
"""Called with a message that was published a window ago: returns when it was written."""


def publish_events(job: Job, clients: list[Client], keep_up: KeepUp) -> Answer:
    """Publish from one thread, round robin; at most a window of messages of each client unwritten."""
    if job.rate:
        return _paced(job, clients)
    _fast(job, clients, job.warm_up, keep_up)
    answer, cpu = Answer(began=time.monotonic()), time.process_time()
    _fast(job, clients, job.events, keep_up)
    answer.ended, answer.cpu_s = time.monotonic(), time.process_time() - cpu
    return answer


def _fast(job: Job, clients: list[Client], count: int, keep_up: KeepUp) -> None:
    opened: deque[tuple[Client, MQTTMessageInfo]] = deque()
    for number in range(count):
        which = number % len(clients)
        if len(opened) >= WINDOW * len(clients):
            keep_up(*opened.popleft())
        opened.append((clients[which], publish_one(clients[which], job, TOPICS[which], PLAIN)))
    for client, info in opened:
        keep_up(client, info)


def _paced(job: Job, clients: list[Client]) -> Answer:
    answer = Answer(began=time.monotonic())
    for number, due in enumerate(due_times(job, answer.began)):
        if (pause := due - time.monotonic()) > 0:
            time.sleep(pause)
        which = number % len(clients)
        publish_one(clients[which], job, TOPICS[which], timed_payload())
    answer.ended = time.monotonic()
    return answer
