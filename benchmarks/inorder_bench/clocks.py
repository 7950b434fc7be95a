"""Payloads that say which event they are and when it was made, publishing at a pace or within a window, and what came
to whom."""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TypeVar

from inorder_bench.job import Answer, Job
from inorder_bench.shapes import SHAPES, Turn

_HEAD = struct.Struct("!Id")
"""An event's number in its run, and when it was made."""
_NUMBER = struct.Struct("!I")
T = TypeVar("T")
_time_in = struct.Struct("!d").unpack_from


class Payloads:
    """Makes the payloads of a job; in a fast one the time is left out."""

    def __init__(self, job: Job) -> None:
        self._filler = b"x" * (job.payload_bytes - _HEAD.size)
        self._is_timed = job.rate > 0

    def make(self, number: int) -> bytes:
        """Return the payload of an event that is published now."""
        return _HEAD.pack(number, time.monotonic() if self._is_timed else 0.0) + self._filler


def turns_of(job: Job) -> tuple[list[Turn], list[Turn]]:
    """Return the events of the warm-up, and those that are measured."""
    turns = list(SHAPES[job.shape].turns(job.expected))
    return turns[: job.warm_up], turns[job.warm_up :]


def by_publisher(job: Job, turns: Sequence[Turn]) -> list[list[Turn]]:
    """Return what each publisher publishes of these."""
    parts: list[list[Turn]] = [[] for _ in SHAPES[job.shape].publishers]
    for turn in turns:
        parts[turn.publisher].append(turn)
    return parts


def due_turns(job: Job, started: float) -> Iterator[tuple[Turn, float]]:
    """Yield each event and when it is due, evenly spaced."""
    return ((turn, started + turn.number / job.rate) for turn in SHAPES[job.shape].turns(job.expected))


async def at_pace(job: Job, started: float) -> AsyncIterator[Turn]:
    """Yield each event when it is due."""
    for turn, due in due_turns(job, started):
        if (pause := due - time.monotonic()) > 0:
            await asyncio.sleep(pause)
        yield turn


def within(window: int, publishes: Iterable[T]) -> Iterator[T]:
    """Begin publishes, and yield the oldest to be waited for whenever ``window`` are open; in the end all others."""
    opened = deque[T]()
    for publish in publishes:
        opened.append(publish)
        if len(opened) >= window:
            yield opened.popleft()
    yield from opened


class Arrivals:
    """Notes what the subscribers of a process get; knows when everything came, and judges it."""

    def __init__(self, job: Job) -> None:
        shape = SHAPES[job.shape]
        turns = list(shape.turns(job.expected))
        self._expected = [
            [turn.number for turn in turns if turn.topic in topics] for topics in map(set, shape.subscribers)
        ]
        self._seen: list[list[bytes]] = [[] for _ in shape.subscribers]
        self._job = job
        self.left = sum(map(len, self._expected))
        self._warm_up = sum(number < job.warm_up for numbers in self._expected for number in numbers)
        self._cpu = 0.0
        self._is_timed = job.rate > 0
        self.answer = Answer(events=self.left - self._warm_up)

    def count(self, subscriber: int) -> int:
        """Return how many events a subscriber gets in all."""
        return len(self._expected[subscriber])

    def took(self, subscriber: int, payload: bytes) -> None:
        """One arrived."""
        self.left -= 1
        self._seen[subscriber].append(payload[:4])
        if self._warm_up:
            self._warm_up -= 1
            if not self._warm_up:
                self._cpu = time.process_time()
        elif self._is_timed:
            self.answer.latencies_us.append((time.monotonic() - _time_in(payload, 4)[0]) * 1e6)
        if not self.left:
            self.answer.ended = time.monotonic()
            self.answer.cpu_s = time.process_time() - self._cpu

    def judged(self) -> Answer:
        """Return what was measured, and what is wrong with it."""
        seen = [[_NUMBER.unpack(each)[0] for each in its] for its in self._seen]
        self.answer.problem = judge(seen, self._expected, is_ordered=self._job.is_ordered)
        return self.answer


def judge(seen: Sequence[Sequence[int]], expected: Sequence[Sequence[int]], *, is_ordered: bool) -> str:
    """Return why a run is worth nothing, in words, or nothing: each subscriber must have got what is expected, once,
    and any two of them what they share in one order."""
    for at, (its, wanted) in enumerate(zip(seen, expected, strict=True)):
        if sorted(its) != sorted(wanted):
            missing, more = set(wanted) - set(its), len(its) - len(set(its) & set(wanted))
            return f"subscriber {at} did not get {len(missing)} of {len(wanted)} events, and {more} that it should not"
    if not is_ordered:
        return ""
    sets = [set(its) for its in seen]
    for one in range(len(seen)):
        for two in range(one):
            common = sets[one] & sets[two]
            if [each for each in seen[one] if each in common] != [each for each in seen[two] if each in common]:
                return f"subscribers {two} and {one} got what they share in different orders"
    return ""
