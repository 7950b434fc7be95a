"""How long timestamps are on the wire: read by a bare client beside the subscribers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inorder.protocol.stamp import TotalStamp, decode_stamp
from inorder_adapters.mqtt.properties import STAMP_KEY
from inorder_bench.clients.paho_common import connect, make_client
from inorder_bench.job import Job
from inorder_bench.processes import TIMEOUT_S, RunFailed, run


@dataclass(frozen=True, slots=True)
class Stamps:
    """The timestamps of a run.

    Attributes:
        lengths: bytes of each, as it is on the wire, in the order of the broker.
        entries: mean over all events, the event's own number among them.
    """

    lengths: Sequence[int]
    entries: float

    @property
    def bytes(self) -> float:
        """Mean over all events."""
        return sum(self.lengths) / len(self.lengths)

    @property
    def bytes_an_entry(self) -> float:
        """Bytes of all timestamps by entries of all timestamps."""
        return self.bytes / self.entries


def observe(job: Job) -> Stamps:
    """Run a job of inorder over MQTT 5, and read all timestamps. Raises RunFailed."""
    stamps: list[bytes] = []
    subscribed, done = threading.Event(), threading.Event()

    def took(client: Any, data: Any, message: Any) -> None:
        stamps.extend(value.encode() for key, value in message.properties.UserProperty if key == STAMP_KEY.decode())
        if len(stamps) >= job.expected:
            done.set()

    client = make_client(job, "observer")
    client.on_connect = lambda client, *_: client.subscribe("bench/#")
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = took
    connect(client, job)
    client.loop_start()
    try:
        if not subscribed.wait(TIMEOUT_S):
            raise RunFailed("the broker did not answer the client that reads timestamps")
        run(job)
        if not done.wait(TIMEOUT_S):
            raise RunFailed(f"{len(stamps)} timestamps of {job.expected} events were read")
    finally:
        client.disconnect()
        client.loop_stop()
    decoded = [stamp for stamp in map(decode_stamp, stamps) if isinstance(stamp, TotalStamp)]
    if len(decoded) != job.expected:
        raise RunFailed(f"{len(decoded)} timestamps were read of {job.expected} events")
    entries = sum(1 + len(stamp.deps) // 2 for stamp in decoded)
    return Stamps([*map(len, stamps)], entries / len(stamps))
