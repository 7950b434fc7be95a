"""What a store's commits take, by themselves: the journal alone, one row in each."""

from __future__ import annotations

import time

from inorder_worker.store.journal import Batch
from inorder_worker.store.sql_journal import SqlJournal

ROW_BYTES = 100


def commit_times(url: str, count: int, *, pause: float = 0.0) -> list[float]:
    """Return the seconds that each of ``count`` appends of one row took, ``pause`` seconds apart, in a new store."""
    journal = SqlJournal(url)
    try:
        journal.open(1)
        epoch, times = journal.claim(0, "benchmark"), []
        for seq in range(1, count + 1):
            time.sleep(pause)
            began = time.perf_counter()
            journal.append([Batch(0, epoch, seq, bytes(ROW_BYTES))])
            times.append(time.perf_counter() - began)
    finally:
        journal.close()
    return times
