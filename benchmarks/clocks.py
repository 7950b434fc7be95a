"""Payloads that carry their time, publishing at a pace, and measuring arrivals."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

from benchmarks.job import PAYLOAD_BYTES, Answer, Job

_stamp = struct.Struct("!d")
_FILLER = b"x" * (PAYLOAD_BYTES - _stamp.size)
PLAIN = b"x" * PAYLOAD_BYTES
SLEEP_ABOVE_S = 0.0005


def timed_payload() -> bytes:
    """Return a payload that says when it was made."""
    return _stamp.pack(time.monotonic()) + _FILLER


def due_times(job: Job, started: float) -> Iterator[float]:
    """Yield when each event is due, evenly spaced."""
    return (started + number / job.rate for number in range(job.expected))


class Arrivals:
    """Counts what all subscribers of a process get; knows when everything came."""

    def __init__(self, job: Job, subscribers: int) -> None:
        self.left = job.expected * subscribers
        self.is_timed = job.rate > 0
        self.answer = Answer()
        self._warm_up = job.warm_up * subscribers
        self._cpu = 0.0

    def took(self, payload: bytes) -> None:
        """One arrived."""
        self.left -= 1
        if self._warm_up:
            self._warm_up -= 1
            if not self._warm_up:
                self._cpu = time.process_time()
        elif self.is_timed:
            sent: float = _stamp.unpack_from(payload)[0]
            self.answer.latencies_us.append((time.monotonic() - sent) * 1e6)
        if not self.left:
            self.answer.ended = time.monotonic()
            self.answer.cpu_s = time.process_time() - self._cpu
