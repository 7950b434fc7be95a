"""Clients on real brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.client.helpers import Notification, events_of, gaps_of, keys, times

from inorder import Client, ClientTimes, Event
from inorder.testing.services import WorkerServer

STAGES = 3
"""Where there are several workers, each has one."""
SHORT_ON_POSTGRESQL = pytest.mark.parametrize(
    "store", ["postgresql", pytest.param("sqlite", marks=pytest.mark.long)], indirect=True
)
"""For the longest tests: several workers are most often on PostgreSQL; on SQLite too, where there is time."""


def client(
    brokers: str | Mapping[str, str],
    worker: WorkerServer,
    client_id: str | None = None,
    *,
    mode: Any = "strict",
    clock: ClientTimes | None = None,
    space: str | None = None,
    **options: Any,
) -> Client:
    """Return a client with short timers; ``options`` are the adapter's."""
    return Client(
        brokers,
        workers=[worker.url],
        client_id=client_id,
        mode=mode,
        space=space,
        options=options,
        times=clock or times(gap_timeout=0.3, loss_timeout=1.0, heartbeat=1.0),
    )


def assert_one_order(*seen: Sequence[Notification]) -> list[Event]:
    """Check that subscribers saw the same, without a gap; return it."""
    for each in seen[1:]:
        assert keys(each) == keys(seen[0])
    assert not [gap for each in seen for gap in gaps_of(each)]
    return events_of(seen[0])
