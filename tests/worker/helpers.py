"""Journals that tests hold back or make fail, and settings with timers short enough to wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from inorder.errors import StoreError, StoreUnreachable
from inorder_worker.sequencer.commands import AnyCommand
from inorder_worker.service import WorkerSettings
from inorder_worker.store.journal import Batch, Member, MemoryJournal, MemoryStore
from inorder_worker.store.log_rows import LogWrite

PATIENCE = 60.0
"""Seconds after which a test that waits for a condition fails."""


def settings(**changes: Any) -> WorkerSettings:
    """Return settings for a free port; timers that a test does not mention are far away."""
    defaults: dict[str, Any] = {
        "port": 0, "name": "test", "heads_interval": 60.0, "publisher_grace": 60.0, "beat_interval": 0.0,
        "store": "sqlite:///never-used.db", "retry_max": 0.05, "hello_timeout": 60.0,
    }  # fmt: skip
    given = {**defaults, **changes}
    return WorkerSettings(**{"lease": max(0.2, 10 * given["beat_interval"]), **given})


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that nothing announces."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


class TestJournal(MemoryJournal):
    """A journal in memory whose appends can be held or made to fail.

    Attributes:
        error: raised by every append while it is set (and by claims, if ``claims_fail``).
        waiting: appends that are held now.
        is_frozen: beats have no effect.
        batches: the batches of each append that succeeded.
    """

    __test__ = False

    def __init__(self, store: MemoryStore | None = None) -> None:
        super().__init__(store)
        self.error: StoreError | None = None
        self.claims_fail = self.is_frozen = False
        self.waiting = 0
        self.batches: list[list[Batch]] = []
        self._gate = threading.Event()
        self._gate.set()

    def freeze(self) -> None:
        """Hold appends, and show no sign of life, as if the worker was cut from its store; ``let_go`` ends it."""
        self.is_frozen = True
        self.hold()

    def beat(self, owned: Sequence[tuple[int, int]], member: Member | None = None) -> None:
        if not self.is_frozen:
            super().beat(owned, member)

    def hold(self) -> None:
        self._gate.clear()

    def let_go(self) -> None:
        self.is_frozen = False
        self._gate.set()

    def claim(self, stage: int, owner: str, seen: int | None = None, address: str = "", beat: int | None = None) -> int:
        if self.claims_fail and self.error is not None:
            raise self.error
        return super().claim(stage, owner, seen, address, beat)

    def append(self, batches: Sequence[Batch], log: Sequence[LogWrite] = ()) -> None:
        self.waiting += 1
        assert self._gate.wait(PATIENCE)
        self.waiting -= 1
        if self.error is not None:
            raise self.error
        super().append(batches, log)
        self.batches.append(list(batches))

    def interrupt(self) -> None:
        self.let_go()


def disk_full() -> StoreError:
    return StoreUnreachable("memory", "database or disk is full")


_entries = msgspec.msgpack.Decoder(list[tuple[int, list[AnyCommand]]])


def commands_in(journal: MemoryJournal, stage: int = 0) -> list[list[AnyCommand]]:
    """Return the commands of each row."""
    rows = journal.store.rows[stage]
    return [[command for _, group in _entries.decode(row.entries) for command in group] for row in rows]


def kinds(journal: MemoryJournal, stage: int = 0) -> list[str]:
    return [type(command).__name__ for row in commands_in(journal, stage) for command in row]
