"""A worker that has logged for long is as small as one that has not, and its logs are within their bounds (R18)."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from tests.worker.processes import WorkerProcess, connected
from tests.worker.raw_client import RawClient

from inorder.protocol.pairs import joined
from inorder.protocol.wire import CreateTimestamps, NewEvent, Settle, Settled, TopicInfo
from inorder.protocol.wire.parts import MAX_EVENTS
from inorder_bench.machine import resident_bytes
from inorder_worker.store.verification import verify

EVENTS, TOPICS, FRAME = 1_000_000, 4, MAX_EVENTS
KEPT = 10_000
"""Events that the log of a topic may have."""
UNTRIMMED = 5_000
"""More than that, while it is written as fast as it can be: those that make a trim due, its slice, and what comes
meanwhile."""


async def publish(client: RawClient, topics: list[TopicInfo], first: int) -> None:
    """Have a frame of events logged, and confirm them; the worker has forgotten all before."""
    events = [NewEvent(first + at, topics[at % TOPICS].id, content=b"x" * 100) for at in range(FRAME)]
    client.send(CreateTimestamps(0, first, events))
    stamped = await client.stamped(*range(first, first + FRAME))
    confirmed = joined((event.topic, event.number, event.number) for event in stamped)
    client.send(Settle(0, first, confirmed))
    await client.next(Settled)
    client.skipped.clear()


@pytest.mark.long
async def test_a_million_logged_events_leave_their_last_ones(tmp_path: Path) -> None:
    store, sizes, longest = f"sqlite:///{tmp_path / 'inorder.db'}", list[int](), 0
    quarter = EVENTS // FRAME // 4
    with WorkerProcess(store, log_topics=["s:#"], log_max_count=KEPT, log_max_age=0.0) as worker:
        async with connected(worker) as client:
            topics = await client.resolve(*(f"t{each}" for each in range(TOPICS)))
            for turn in count(1):
                await publish(client, topics, turn * FRAME)
                if turn % (quarter // 2) == 0:
                    longest = max(longest, *verify(store).logs.values())
                if turn % quarter == 0:
                    sizes.append(resident_bytes(worker.pid))
                if turn == 4 * quarter:
                    break
        report = verify(store)
    assert report.problems == []
    assert longest < KEPT + UNTRIMMED
    assert min(report.logs.values()) >= KEPT
    assert max(sizes[1:]) < 1.1 * sizes[0]
