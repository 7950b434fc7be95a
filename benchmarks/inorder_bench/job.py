"""What one process of a run is told, and what it answers."""

from __future__ import annotations

import msgspec

SUBSCRIBERS = 2
PAYLOAD_BYTES = 100
WINDOW = 1_000
"""Publishes of one publisher that may be open."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One process: all publishers or all subscribers of a run.

    Attributes:
        client: the module of the client: it has a function for each role.
        role: ``publish`` or ``receive``; other modules have others.
        url: the broker's.
        workers: for inorder.
        shape: topics, publishers and subscribers (:mod:`inorder_bench.shapes`).
        protocol: MQTT 5 or 4 (3.1.1).
        qos: of MQTT, for bare clients.
        events: of all publishers together, without the warm-up.
        warm_up: events before them, which are not measured.
        pairs: of bursts, each of ``events``, where a process does several.
        rate: events per second of all publishers together; 0: as fast as the window allows.
        window: publishes of one publisher that may be open; 1: each is waited for.
        payload_bytes: of each event.
        property_value: the value of the user property that bare MQTT 5 publishers send; empty for none.
        is_ordered: subscribers must get what they share in one order; a broker's own order is no promise.
        name: makes client ids of different runs differ.
        traces: inorder's clients record here; empty: nowhere. ``flush_interval``: of these, s.
        profile: write the process's profile to this file.
    """

    client: str
    role: str = ""
    url: str
    workers: list[str] = []
    shape: str = "pair"
    protocol: int = 5
    qos: int = 0
    events: int
    warm_up: int
    pairs: int = 0
    rate: float = 0.0
    window: int = WINDOW
    payload_bytes: int = PAYLOAD_BYTES
    property_value: str = ""
    is_ordered: bool = False
    name: str
    traces: str = ""
    flush_interval: float = 10.0
    profile: str = ""

    @property
    def expected(self) -> int:
        """How many events are published, the warm-up among them."""
        return self.events + self.warm_up


class Burst(msgspec.Struct, frozen=True):
    """Events as fast as the window allows: processor time of the event loop's thread, and the time that passed."""

    cpu_s: float
    wall_s: float


class Answer(msgspec.Struct):
    """What a process measured.

    Attributes:
        began, ended: of the measured part (s, monotonic, comparable between processes of one machine).
        cpu_s: processor time of the measured part.
        events: publishers: published; subscribers: notified, all together; of the measured part.
        latencies_us: of each measured notification, where the payloads carry their time.
        problem: why the run is worth nothing, in words; empty: it is not.
        plain, recorded: the bursts of a process that does several, without recording and with it, pair by pair.
        writing_s: processor time of recording that is in no burst: of all other threads, up to the last file.
    """

    began: float = 0.0
    ended: float = 0.0
    cpu_s: float = 0.0
    events: int = 0
    latencies_us: list[float] = []
    problem: str = ""
    plain: list[Burst] = []
    recorded: list[Burst] = []
    writing_s: float = 0.0
