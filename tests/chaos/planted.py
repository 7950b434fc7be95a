"""Bugs to run with, so that the chaos proves that it would see them. The product has no switch for any of them: the
processes of a run put something else in the place of a method before they begin.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.core import without

from inorder.endpoint.arrivals import Arrivals
from inorder.endpoint.subscriber import Subscriber
from inorder.errors import Fenced
from inorder.protocol.wire import Subscribed, TopicStart
from inorder_worker.sequencer.commands import SaveNumbers
from inorder_worker.sequencer.durable import DurableSubscriptions
from inorder_worker.service.host import StageHost
from inorder_worker.service.tenure import Tenure
from inorder_worker.store.sql_journal import SqlJournal

Patch = pytest.MonkeyPatch
AHEAD = 3
"""Numbers that a saved clock is too high."""
OWED = 30
"""Commits that are answered and not written yet: a stage has about as many in a second."""


def early_answers(patch: Patch) -> None:
    """What was answered is written when so many more commits were answered: whoever is killed has promised what it did
    not keep, whatever the moment is, and the next one gives the same numbers again. To workers that is a store that was
    put back as an older copy, and they would stop it all first: nobody is shown or looks how far the journals were."""
    append, close = SqlJournal.append, SqlJournal.close
    held: deque[tuple[SqlJournal, Any]] = deque()

    def write(left: int) -> None:
        while len(held) > left:
            journal, given = held.popleft()
            append(journal, *given)

    def append_later(self: SqlJournal, *given: Any) -> None:
        held.append((self, given))
        write(OWED)

    def close_later(self: SqlJournal) -> None:
        write(0)
        close(self)

    patch.setattr(SqlJournal, "append", append_later)
    patch.setattr(SqlJournal, "close", close_later)
    patch.setattr(StageHost, "standings", property(lambda self: {}))
    patch.setattr(Tenure, "_check_end", lambda self, hosted: asyncio.sleep(0))


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


def saved_too_high(patch: Patch) -> None:
    """R18: the saved clock goes ahead of what the application is done with."""
    save = DurableSubscriptions.save

    def save_more(self: DurableSubscriptions, command: SaveNumbers) -> None:
        numbers = [part + AHEAD * (at % 2) for at, part in enumerate(command.numbers)]
        save(self, replace(command, numbers=numbers))

    patch.setattr(DurableSubscriptions, "save", save_more)


def live_only(patch: Patch) -> None:
    """R18: a subscription that resumes goes on with what comes now; what it missed it does not merge, nor name."""
    completed = Subscriber.completed

    def completed_now(self: Subscriber, frame: Subscribed) -> list[TopicStart] | None:
        starts = completed(self, frame)
        return starts and [TopicStart(each.topic, max(each.start, each.reached), []) for each in starts]

    patch.setattr(Subscriber, "completed", completed_now)


def unmarked_repeats(patch: Patch) -> None:
    """R18: what is notified again after a resume does not say so."""
    patch.setattr(Arrivals, "note_repeats", lambda self, starts: None)


def _by_name(*bugs: Callable[[Patch], None]) -> dict[str, Callable[[Patch], None]]:
    return {each.__name__: each for each in bugs}


IN_WORKERS = _by_name(early_answers, unfenced, saved_too_high)
IN_CLIENTS = {**without.RULES, **_by_name(live_only, unmarked_repeats)}
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
