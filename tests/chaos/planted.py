"""Bugs to run with, so that the chaos proves that it would see them. The product has no switch for any of them: the
processes of a run put something else in the place of a method before they begin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import pytest
import sqlalchemy as sa
from tests.core import without

from inorder.errors import Fenced
from inorder.worker.schema import journal, snapshots
from inorder.worker.sql_journal import SqlJournal

Patch = pytest.MonkeyPatch


def lost_rows(patch: Patch) -> None:
    """Whoever recovers a stage does not find its last two commits: their numbers are given again."""
    whole = SqlJournal.claim

    def claim(self: SqlJournal, stage: int, owner: str, seen: int | None = None, address: str = "") -> int:
        def forget(connection: sa.Connection) -> None:
            of_stage = journal.c.stage == stage
            last = connection.execute(sa.select(sa.func.max(journal.c.seq)).where(of_stage)).scalar() or 0
            connection.execute(journal.delete().where(of_stage, journal.c.seq > max(last - 2, 1)))
            connection.execute(snapshots.delete().where(snapshots.c.stage == stage, snapshots.c.seq > max(last - 2, 1)))

        self._store.write(forget)
        return whole(self, stage, owner, seen, address)

    patch.setattr(SqlJournal, "claim", claim)


def unfenced(patch: Patch) -> None:
    """A worker that lost its stages goes on: appends and beats of an old epoch are taken for done, and written
    nowhere."""

    def ignoring(whole: Callable[..., None]) -> Callable[..., None]:
        def call(self: SqlJournal, given: Sequence[object]) -> None:
            with contextlib.suppress(Fenced):
                whole(self, given)

        return call

    for name in ("append", "beat"):
        patch.setattr(SqlJournal, name, ignoring(getattr(SqlJournal, name)))


IN_WORKERS: dict[str, Callable[[Patch], None]] = {each.__name__: each for each in (lost_rows, unfenced)}
IN_CLIENTS: dict[str, Callable[[Patch], None]] = dict(without.RULES)
BUGS = sorted({*IN_WORKERS, *IN_CLIENTS})


def plant_in_worker(name: str) -> None:
    """Plant a bug in this process, for good, if it is one of workers. The rules that clients share with stages go here,
    too."""
    bug = IN_WORKERS.get(name) or IN_CLIENTS.get(name)
    if bug is not None:
        bug(Patch())


def plant_in_client(name: str) -> None:
    """Plant a bug in this process, for good, if it is one of the core."""
    if name in IN_CLIENTS:
        IN_CLIENTS[name](Patch())
