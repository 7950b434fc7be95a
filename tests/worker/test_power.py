"""The power is cut at every single write and sync of SQLite's: what was acknowledged is on the disk, and the store
opens. With ``synchronous=NORMAL`` the same test loses acknowledged rows, so it can see what it is for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.worker.power import Disk, driver, lucky

from inorder_worker.store.journal import Batch
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.verification import verify

APPENDS, SNAPSHOT_EVERY = 7, 3
_names = itertools.count(1)


class Cuts:
    """Fills a store, and keeps what the disk would hold after a cut at each moment, with what was acknowledged then."""

    def __init__(self, folder: Path, synchronous: str | None = None) -> None:
        self.folder = folder
        self.acknowledged = 0
        self.taken: list[tuple[Path, int]] = []
        self.disk = Disk(f"disk-{next(_names)}", self.take)
        self.run(synchronous)

    def take(self) -> None:
        """Twice: once nothing that was not synced survives, once half of it does."""
        for survives in (lambda: False, lucky(len(self.taken))):
            place = self.folder / f"cut-{len(self.taken)}"
            self.disk.cut(place, survives)
            self.taken.append((place, self.acknowledged))

    def run(self, synchronous: str | None) -> None:
        (self.folder / "real").mkdir()
        module = driver(self.disk, synchronous)
        journal = SqlJournal(f"sqlite:///{self.folder}/real/inorder.db", driver=module)
        journal.open(1)
        epoch = journal.claim(0, "a")
        for seq in range(1, APPENDS + 1):
            journal.append([Batch(0, epoch, seq, b"row %d " % seq * 150)])
            self.acknowledged = seq
            self.take()
            if seq % SNAPSHOT_EVERY == 0:
                journal.save_snapshot(0, epoch, seq, b"state %d " % seq * 600)
        journal.close()
        self.disk.unregister()

    def recovered(self, taken: Iterable[tuple[Path, int]]) -> Iterator[tuple[int, int]]:
        """Yield what was acknowledged at each of these cuts, and the last row that is there after it. The store must
        open. (Of disks that hold the same one is opened.)"""
        found: dict[tuple[tuple[str, bytes], ...], int] = {}
        for place, acknowledged in taken:
            held = tuple(sorted((each.name, each.read_bytes()) for each in place.iterdir()))
            if held not in found:
                found[held] = _recover(place)
            yield acknowledged, found[held]


def _recover(place: Path) -> int:
    """Return the last row of the store in a folder; it is opened, goes on, and is whole."""
    url = f"sqlite:///{place}/inorder.db"
    journal = SqlJournal(url)
    journal.open(1)
    epoch = journal.claim(0, "b")
    snapshot = journal.load_snapshot(0)
    last = snapshot.seq if snapshot else 0
    last = max([last, *(row.seq for row in journal.replay(0, last))])
    journal.append([Batch(0, epoch, last + 1, b"and on")])
    journal.close()
    assert verify(url).problems == [], place
    return last


@pytest.mark.parametrize("of_creation", [pytest.param(1, marks=pytest.mark.long), 7], ids=["all cuts", "most cuts"])
def test_what_was_acknowledged_survives_a_power_cut_at_any_moment(tmp_path: Path, of_creation: int) -> None:
    """Of the cuts while the store is made, before anything is acknowledged, one of so many is looked at."""
    cuts = Cuts(tmp_path)
    made = [each for each in cuts.taken if each[1]]
    outcomes = list(cuts.recovered([*cuts.taken[: -len(made) : of_creation], *made]))
    assert len(outcomes) > 10 * APPENDS
    assert cuts.disk.syncs > APPENDS
    assert [(kept, last) for kept, last in outcomes if last < kept] == []
    # A row that was being written may be there, too: it was asked for, and asked again it is found.
    assert {last - kept for kept, last in outcomes} == {0, 1}


def test_the_same_test_sees_what_a_weaker_setting_loses(tmp_path: Path) -> None:
    cuts = Cuts(tmp_path, "NORMAL")
    assert any(last < kept for kept, last in cuts.recovered(each for each in cuts.taken if each[1]))
