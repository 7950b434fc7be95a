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
        role: ``publish`` or ``receive``; ``inorder`` also, all in one process, ``alternate``: bursts of clients that
            record and of others that do not, and ``bursts``: of the one or the other.
        url: the broker's.
        workers: for ``inorder``.
        protocol: MQTT 5 or 4 (3.1.1).
        events: of all publishers together, without the warm-up.
        warm_up: events before them, which are not measured.
        pairs: of bursts, each of ``events``, for ``alternate``; bursts, for ``bursts``.
        rate: events per second of all publishers together; 0: as fast as the window allows.
        property_value: the value of the user property that bare MQTT 5 publishers send; empty for none.
        name: makes client ids of different runs differ.
        traces: inorder's clients record here; empty: nowhere. ``flush_interval``: of these, s.
        profile: write the process's profile to this file.
    """

    client: str
    role: str
    url: str
    workers: list[str] = []
    protocol: int = 5
    events: int
    warm_up: int
    pairs: int = 0
    rate: float = 0.0
    property_value: str = ""
    name: str
    traces: str = ""
    flush_interval: float = 10.0
    profile: str = ""

    @property
    def expected(self) -> int:
        """What each subscriber will get."""
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
        latencies_us: of each measured notification, where the payloads carry their time.
        plain, recorded: the bursts of ``alternate``, without recording and with it, pair by pair.
        writing_s: processor time of recording that is in no burst: of all other threads, up to the last file.
    """

    began: float = 0.0
    ended: float = 0.0
    cpu_s: float = 0.0
    latencies_us: list[float] = []
    plain: list[Burst] = []
    recorded: list[Burst] = []
    writing_s: float = 0.0
