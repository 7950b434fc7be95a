"""What one process of a run is told, and what it answers."""

from __future__ import annotations

import msgspec

TOPICS = ("bench/one", "bench/two")
"""Publisher ``i`` publishes to topic ``i``; each subscriber subscribes to all."""
SUBSCRIBERS = 2
PAYLOAD_BYTES = 100
WINDOW = 1_000
"""Publishes of one publisher that may be open."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One process: all publishers or all subscribers of a run.

    Attributes:
        client: ``inorder``, or how the bare client is used (see ``ROLES`` in :mod:`benchmarks.role`).
        role: ``publish`` or ``receive``; ``inorder`` also ``together``: both in one process.
        url: the broker's.
        workers: for ``inorder``.
        protocol: MQTT 5 or 4 (3.1.1).
        events: of all publishers together, without the warm-up.
        warm_up: events before them, which are not measured.
        rate: events per second of all publishers together; 0: as fast as the window allows.
        property_value: the value of the user property that bare MQTT 5 publishers send; empty for none.
        name: makes client ids of different runs differ.
        traces: inorder's clients record here; empty: nowhere.
        profile: write the process's profile to this file.
    """

    client: str
    role: str
    url: str
    workers: list[str] = []
    protocol: int = 5
    events: int
    warm_up: int
    rate: float = 0.0
    property_value: str = ""
    name: str
    traces: str = ""
    profile: str = ""

    @property
    def expected(self) -> int:
        """What each subscriber will get."""
        return self.events + self.warm_up


class Answer(msgspec.Struct):
    """What a process measured.

    Attributes:
        began, ended: of the measured part (s, monotonic, comparable between processes of one machine).
        cpu_s: processor time of the measured part.
        latencies_us: of each measured notification, where the payloads carry their time.
    """

    began: float = 0.0
    ended: float = 0.0
    cpu_s: float = 0.0
    latencies_us: list[float] = []
