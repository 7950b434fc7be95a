"""Snapshots of a worker's stages are written between commits."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.worker.helpers import TestJournal, settings
from tests.worker.raw_client import RawClient

from inorder_worker.sequencer import picture
from inorder_worker.service import Worker
from inorder_worker.store.journal import MemoryStore


async def test_a_snapshot_is_saved_when_all_of_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile the stage goes on; a crash before that leaves the one before, and what follows it."""
    monkeypatch.setattr(picture, "SLICE_BYTES", 1)
    store = MemoryStore()
    journal = TestJournal(store)
    async with Worker(settings(snapshot_rows=20), journal=journal) as worker, RawClient(worker.address) as client:
        topics = await client.resolve(*(f"t{at}" for at in range(200)))
        counter = 0
        while not store.snapshots[0]:
            counter += 1
            await client.create(topics[counter % 200], counter)
        (saved,) = store.snapshots[0]
        assert saved.seq < journal.last_row(0), "rows were written while it was"
        await client.create(topics[0], counter + 1)
        while not worker._host.hosted[0].has_image:
            counter += 1
            await client.create(topics[counter % 200], counter + 1)
        unfinished = MemoryStore(**{each.name: getattr(store, each.name) for each in fields(store)})
        unfinished.rows = {0: list(store.rows[0])}
        unfinished.snapshots = {0: list(store.snapshots[0])}
        (known,) = await client.create(topics[1], 10**6)
    assert unfinished.snapshots[0] == [saved]
    async with Worker(settings(), journal=TestJournal(unfinished)) as worker, RawClient(worker.address, "b") as client:
        assert [each.number for each in await client.create(topics[1], 1)] == [known.number]
