"""The paths that every event takes through the core and the adapters, each alone.

``python -m inorder_bench.costs.hot_paths NAME N`` runs one with ``N`` events. They are what
:mod:`inorder_bench.costs.check` counts the instructions of. What a path is made of must not depend on time, chance or
the machine, and an event must cost the same at ``N`` events and at twice as many.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Callable
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from redis.asyncio import Connection

from inorder.endpoint.publisher import Publisher
from inorder.ports import Arrival, EnsCapabilities, Outgoing
from inorder.protocol.names import exact
from inorder.protocol.stamp import PlainStamp, decode_stamp, encode_stamp
from inorder.protocol.wire import (
    CreateTimestamps,
    NewEvent,
    Settled,
    SpaceFilter,
    StampedEvent,
    Timestamps,
    TopicInfo,
    decode_client_frame,
    decode_worker_frame,
    encode_frame,
)
from inorder_adapters.mqtt.outbox import Outbox
from inorder_adapters.mqtt.packets import read_publishes
from inorder_adapters.payload_form import split, wire_payload
from inorder_adapters.redis.link import pack
from inorder_adapters.redis.publishing import Publishing
from inorder_adapters.redis.replies import read_replies
from inorder_adapters.redis.subscribing import Subscribing
from inorder_bench.costs.stages import Sequencer
from inorder_bench.ordering import Arrived, arrivals, ordering_module
from inorder_worker.sequencer.commands import (
    ChangeSubscription,
    Create,
    CreateTopics,
    OpenSession,
    Reply,
    SettleNumbers,
)
from inorder_worker.sequencer.stage import Stage

FRAME = 256
"""Events in one frame."""
HEADER_BYTES = 4
PAYLOAD = b"x" * 100


def in_order(count: int) -> None:
    """Every event is ready when it arrives."""
    _receive_all(arrivals(count))


def out_of_order(count: int) -> None:
    """One event in ten changed places; most have to wait."""
    _receive_all(arrivals(count, disorder=0.1))


def _receive_all(events: list[Arrived]) -> None:
    module = ordering_module(2)
    notified = sum(len(module.receive(*event, PAYLOAD, 100, 0.0)) for event in events)
    assert notified == len(events)


def released(count: int) -> None:
    """All events wait for one, and go when it arrives."""
    module = ordering_module(2)
    for number in range(1, count):
        module.receive(2, number, [1, 1], PAYLOAD, 100, 0.0)
    assert len(module.receive(1, 1, [], PAYLOAD, 100, 0.0)) == count


def stage_with(topics: int, subscribers: int = 2) -> Stage:
    """Return a single stage with topics 1 to ``topics`` and clients that subscribe to all of them."""
    stage = Stage(0, 1)
    stage.step(OpenSession("publisher", 1), 0)
    names = [f"t{topic}" for topic in range(1, topics + 1)]
    stage.step(CreateTopics("publisher", 1, 1, [("s", name) for name in names]), 0)
    for each in range(subscribers):
        stage.step(OpenSession(f"subscriber-{each}", 1), 0)
        filters = [SpaceFilter("s", exact(name)) for name in names]
        stage.step(ChangeSubscription(f"subscriber-{each}", 1, 1, filters, bounded=False), 0)
    return stage


def timestamps(count: int) -> None:
    """A stage numbers frames of events on four topics, and is told that they were accepted."""
    stage = stage_with(4)
    for request, first in enumerate(range(1, count + 1, FRAME), 1):
        events = [NewEvent(counter, counter % 4 + 1) for counter in range(first, first + FRAME)]
        effects = stage.step(Create("publisher", 1, first, events), first)
        frame = next(each.frame for each in effects if isinstance(each, Reply))
        assert isinstance(frame, Timestamps)
        numbers = {event.topic: event.number for event in frame.events}
        confirmed = [part for topic, last in numbers.items() for part in (topic, last - FRAME // 4 + 1, last)]
        stage.step(SettleNumbers("publisher", 1, request, confirmed, []), first)


def one_at_a_time(count: int) -> None:
    """The same with a frame for each event, and for each confirmation."""
    stage = stage_with(4)
    for counter in range(1, count + 1):
        (effect,) = stage.step(Create("publisher", 1, counter, [NewEvent(counter, counter % 4 + 1)]), counter)
        assert isinstance(effect, Reply)
        assert isinstance(effect.frame, Timestamps)
        (event,) = effect.frame.events
        stage.step(SettleNumbers("publisher", 1, counter, [event.topic, event.number, event.number], []), counter)


def belt(count: int) -> None:
    """Events of six topics that all overlap go up three stages, and their completions come back."""
    sequencer = Sequencer(3, 6, [range(1, 7)] * 2)
    for _ in range(0, count, FRAME):
        sequencer.publish([at % 6 + 1 for at in range(FRAME)])


def frames(count: int) -> None:
    """Requests and answers are encoded and decoded."""
    for first in range(1, count + 1, FRAME):
        asked = CreateTimestamps(0, first, [NewEvent(counter, 1) for counter in range(first, first + FRAME)])
        decode_client_frame(encode_frame(asked)[HEADER_BYTES:])
        made = [StampedEvent(counter, 1, counter, [2, counter]) for counter in range(first, first + FRAME)]
        decode_worker_frame(encode_frame(Timestamps(0, 1, made))[HEADER_BYTES:])


def stamps(count: int) -> None:
    """Stamps are made, put in front of a payload, taken off and read."""
    for number in range(1, count + 1):
        stamp = encode_stamp(PlainStamp(2**31, 1, number, [2, number]))
        text, payload = split(wire_payload(stamp, PAYLOAD, retain=False))
        assert payload == PAYLOAD
        assert text is not None
        assert decode_stamp(text) is not None


def publisher(count: int) -> None:
    """A publisher asks, hands over, confirms and hears of it."""
    machine = Publisher()
    machine.named([TopicInfo(topic, "s", f"t{topic}", 0) for topic in (1, 2)])
    number = 0
    for first in range(1, count + 1, FRAME):
        for counter in range(first, first + FRAME):
            machine.publish(("s", f"t{counter % 2 + 1}"), None)
        for frame in machine.requests():
            events = []
            for each in frame.events:
                number += 1
                events.append(StampedEvent(each.counter, each.topic, number, []))
            for publication in machine.answered(Timestamps(0, 1, events)).ready:
                machine.accepted(publication)
        for settle in machine.settlements():
            machine.settled(Settled(0, 1, settle.request))
    assert not machine.pending


STAMP = encode_stamp(PlainStamp(2**31, 1, 1_000, [2, 999]))
BATCH = 64
"""Packets in one system call."""


def mqtt_packets(count: int) -> None:
    """Publishes of QoS 0 with the stamp in a property are written to a socket, and read from it."""
    outbox = Outbox(Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5), 5, window=20)
    outbox.open(EnsCapabilities(properties=True, retain=True, qos=(0, 1, 2), max_topic_bytes=65_535), is_direct=True)
    message = Outgoing("plant/line/1", PAYLOAD, stamp=STAMP)
    writing, reading = socket.socketpair()
    with writing, reading:
        for first in range(0, count, BATCH):
            for token in range(first, first + BATCH):
                outbox.put(message, token)
            outbox.fill()
            outbox.direct.write(writing)
            accepted, _ = outbox.outcomes()
            arrivals, _ = read_publishes(reading.recv(1 << 20), True, lambda ids: ())
            assert len(arrivals) == len(accepted) == BATCH
            assert arrivals[0].stamp == STAMP


def _failed(error: Exception) -> None:
    raise error


class _Counted:
    """Where a connection tells what came of publishes, and what arrived."""

    def __init__(self) -> None:
        self.done = self.came = 0

    def accepted(self, tokens: list[int]) -> None:
        self.done += len(tokens)

    def arrived(self, arrival: Arrival) -> None:
        assert arrival.stamp == STAMP
        self.came += 1


def redis_commands(count: int) -> None:
    """Publishes of Redis are packed and answered, and messages taken in, as they are on the wire."""
    asyncio.run(_redis_commands(count))


async def _redis_commands(count: int) -> None:
    sink: Any = _Counted()
    # no turn of the loop, so their tasks do not begin, and nothing is connected
    publishing = Publishing(Connection(), 60.0, sink, _failed)
    subscribing = Subscribing(Connection(), 60.0, 60.0, sink, _failed)
    message, payload = Outgoing("plant:line:1", PAYLOAD, stamp=STAMP), wire_payload(STAMP, PAYLOAD, retain=False)
    arrived = pack(b"message", b"plant:line:1", payload) * BATCH
    for first in range(0, count, BATCH):
        for token in range(first, first + BATCH):
            publishing.put(message, token)
        for answers, replied in ((b":2\r\n" * BATCH, publishing._replied), (arrived, subscribing._replied)):
            replies, at = read_replies(answers, BATCH)
            assert at == len(answers)
            for reply in replies:
                replied(reply)
        publishing.report()
    assert sink.done == sink.came == count
    publishing.stop()
    subscribing.link.stop()


HOT_PATHS: dict[str, Callable[[int], None]] = {
    each.__name__: each
    for each in (
        in_order,
        out_of_order,
        released,
        timestamps,
        one_at_a_time,
        belt,
        frames,
        stamps,
        publisher,
        mqtt_packets,
        redis_commands,
    )
}


if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # else a path would cost more with each module that is imported beside it
    HOT_PATHS[sys.argv[1]](int(sys.argv[2]))
