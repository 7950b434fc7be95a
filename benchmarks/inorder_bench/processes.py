"""Runs one client once: a process with all publishers, a process with all subscribers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from inorder.errors import InorderError
from inorder_bench.job import Answer, Job
from inorder_bench.rows import percentile

TIMEOUT_S = 120.0
SLOWEST = 50.0
"""Events per second; a run that is slower is given up."""


class RunFailed(InorderError):
    """A process of a run ended without an answer or took too long, or its events did not come as they should."""


@dataclass(frozen=True, slots=True)
class Run:
    """What the two processes of a run measured."""

    publishers: Answer
    subscribers: Answer
    events: int

    @property
    def events_per_s(self) -> float:
        """From the first publish to the last notification."""
        return self.events / (self.subscribers.ended - self.publishers.began)

    def percentile_ms(self, percent: float) -> float:
        """Return a percentile of the latencies."""
        return percentile(self.subscribers.latencies_us, percent) / 1e3

    @property
    def publish_us(self) -> float:
        """Processor time of the publishing process per event."""
        return self.publishers.cpu_s / self.events * 1e6

    @property
    def receive_us(self) -> float:
        """Processor time of the receiving process per event, for all subscribers together."""
        return self.subscribers.cpu_s / self.events * 1e6


class _Process:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._process = subprocess.Popen(
            [sys.executable, "-m", "inorder_bench.role", msgspec.json.encode(job).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RunFailed(f"{_named(self._job)}: the process that should {self._job.role} ended or took too long")
        return line

    def until_ready(self) -> None:
        """Wait until it is connected."""
        self._line()

    def start(self) -> None:
        """Let it do its part."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def answer(self) -> Answer:
        """Wait for what it measured. Raises RunFailed, also where that is worth nothing."""
        answer = msgspec.json.decode(self._line(), type=Answer)
        if answer.problem:
            raise RunFailed(f"{_named(self._job)}: {answer.problem}")
        return answer

    def kill(self) -> None:
        """End it if it has not ended."""
        self._process.kill()

    def close(self) -> None:
        """Let it end, and forget it."""
        self._process.communicate()


def _named(job: Job) -> str:
    return job.client.rpartition(".")[2]


def _kill(processes: list[_Process]) -> None:
    for process in processes:
        process.kill()


def run(job: Job, started: Callable[[], None] = lambda: None) -> Run:
    """Run a job in both roles, subscribers first; ``started`` is called when it begins. Raises RunFailed."""
    subscribers, publishers = run_roles(job, ("receive", "publish"), started)
    if publishers.events != job.events:
        raise RunFailed(f"{_named(job)}: {publishers.events} of {job.events} events were published")
    return Run(publishers, subscribers, job.events)


def run_roles(job: Job, roles: Sequence[str], started: Callable[[], None] = lambda: None) -> list[Answer]:
    """Run a job in these roles, each in a process; answers are waited for in the opposite order. Raises RunFailed."""
    processes: list[_Process] = []
    watchdog = threading.Timer(TIMEOUT_S + job.expected / SLOWEST, _kill, [processes])
    watchdog.start()
    try:
        for role in roles:
            processes.append(_Process(msgspec.structs.replace(job, role=role)))
            processes[-1].until_ready()
        for process in processes:
            process.start()
        started()
        answers = [process.answer() for process in reversed(processes)]
    except BaseException:
        _kill(processes)
        raise
    finally:
        watchdog.cancel()
        for process in processes:
            process.close()
    return answers[::-1]
