"""Bare paho-mqtt clients, connected."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from paho.mqtt.client import Client, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from inorder_bench.clocks import Payloads, due_turns, turns_of, within
from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES, Turn


def make_client(job: Job, name: str) -> Client:
    """Make an unconnected client."""
    protocol = MQTTProtocolVersion(job.protocol)
    client = Client(CallbackAPIVersion.VERSION2, client_id=f"{job.name}-{name}", protocol=protocol)
    client.max_inflight_messages_set(job.window)
    return client


def connect(client: Client, job: Job) -> None:
    """Open the connection; the answer is not waited for."""
    address = urlsplit(job.url)
    client.connect(address.hostname or "localhost", address.port or 1883)


def publish_one(client: Client, job: Job, topic: str, payload: bytes) -> MQTTMessageInfo:
    """Publish as an application would: a new property object for each message, where it sends one."""
    if not job.property_value:
        return client.publish(topic, payload, job.qos)
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = ("inorder", job.property_value)
    return client.publish(topic, payload, job.qos, properties=properties)


KeepUp = Callable[[Client, MQTTMessageInfo], None]
"""Called with a message that was published a window ago: returns when it was written (QoS 1: acknowledged)."""


def publish_events(job: Job, clients: list[Client], keep_up: KeepUp) -> Answer:
    """Publish from one thread, in turn; at most a window of messages of each client open."""
    if job.rate:
        return _paced(job, clients)
    warm_up, measured = turns_of(job)
    _fast(job, clients, warm_up, keep_up)
    answer, cpu = Answer(began=time.monotonic(), events=len(measured)), time.process_time()
    _fast(job, clients, measured, keep_up)
    answer.ended, answer.cpu_s = time.monotonic(), time.process_time() - cpu
    return answer


def _fast(job: Job, clients: list[Client], turns: Sequence[Turn], keep_up: KeepUp) -> None:
    topics, payloads = SHAPES[job.shape].topics, Payloads(job)

    def publish(turn: Turn) -> tuple[Client, MQTTMessageInfo]:
        client = clients[turn.publisher]
        return client, publish_one(client, job, topics[turn.topic], payloads.make(turn.number))

    for client, info in within(job.window * len(clients), map(publish, turns)):
        keep_up(client, info)


def _paced(job: Job, clients: list[Client]) -> Answer:
    answer = Answer(began=time.monotonic(), events=job.events)
    topics, payloads = SHAPES[job.shape].topics, Payloads(job)
    for turn, due in due_turns(job, answer.began):
        if (pause := due - time.monotonic()) > 0:
            time.sleep(pause)
        publish_one(clients[turn.publisher], job, topics[turn.topic], payloads.make(turn.number))
    answer.ended = time.monotonic()
    return answer
