"""Runs one client once: a process with both publishers, a process with both subscribers."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from benchmarks.job import Answer, Job

TIMEOUT_S = 120.0


class RunFailed(Exception):
    """A process of a run ended without an answer, or took too long."""


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

    @property
    def publish_us(self) -> float:
        """Processor time of the publishing process per event."""
        return self.publishers.cpu_s / self.events * 1e6

    @property
    def receive_us(self) -> float:
        """Processor time of the receiving process per event, for both subscribers together."""
        return self.subscribers.cpu_s / self.events * 1e6


class _Process:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.role", msgspec.json.encode(job).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RunFailed(f"{self._job.client}: the process that should {self._job.role} ended or took too long")
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
        """Wait for what it measured."""
        return msgspec.json.decode(self._line(), type=Answer)

    def kill(self) -> None:
        """End it if it has not ended."""
        self._process.kill()

    def close(self) -> None:
        """Let it end, and forget it."""
        self._process.communicate()


def _kill(processes: list[_Process]) -> None:
    for process in processes:
        process.kill()


def run(job: Job) -> Run:
    """Run a job in both roles, subscribers first. Raises RunFailed."""
    subscribers, publishers = _run(job, ("receive", "publish"))
    return Run(publishers, subscribers, job.events)


def alternate(job: Job) -> Answer:
    """Run the bursts of a job, in one process. Raises RunFailed."""
    (answer,) = _run(job, ("alternate",))
    return answer


def _run(job: Job, roles: Sequence[str]) -> list[Answer]:
    """Run a job in these roles, each in a process; answers are waited for in the opposite order."""
    processes: list[_Process] = []
    watchdog = threading.Timer(TIMEOUT_S, _kill, [processes])
    watchdog.start()
    try:
        for role in roles:
            processes.append(_Process(msgspec.structs.replace(job, role=role)))
            processes[-1].until_ready()
        for process in processes:
            process.start()
        answers = [process.answer() for process in reversed(processes)]
    except BaseException:
        _kill(processes)
        raise
    finally:
        watchdog.cancel()
        for process in processes:
            process.close()
    return answers[::-1]
