"""Bugs to run with, so that the chaos proves that it would see them. The product has no switch for any of them: the
processes of a run put something else in the place of a method before they begin.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.core import without

from inorder.errors import Fenced
from inorder.worker.sql_journal import SqlJournal

Patch = pytest.MonkeyPatch


def early_answers(patch: Patch) -> None:
    """A commit is answered when the one before it is written: whoever is killed has promised what it did not keep, and
    the next one gives the same numbers again."""
    append, close = SqlJournal.append, SqlJournal.close
    held: list[tuple[Any, ...]] = []

    def write(self: SqlJournal) -> None:
        while held:
            append(self, *held.pop())

    def append_later(self: SqlJournal, *given: Any) -> None:
        write(self)
        held.append(given)

    def close_later(self: SqlJournal) -> None:
        write(self)
        close(self)

    patch.setattr(SqlJournal, "append", append_later)
    patch.setattr(SqlJournal, "close", close_later)


def unfenced(patch: Patch) -> None:
    """A worker that lost its stages goes on: appends and beats of an old epoch are taken for done, and written
    nowhere."""

    def ignoring(whole: Callable[..., None]) -> Callable[..., None]:
        def call(self: SqlJournal, *given: Any) -> None:
            with contextlib.suppress(Fenced):
                whole(self, *given)

        return call

    for name in ("append", "beat"):
        patch.setattr(SqlJournal, name, ignoring(getattr(SqlJournal, name)))


IN_WORKERS: dict[str, Callable[[Patch], None]] = {each.__name__: each for each in (early_answers, unfenced)}
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
