"""A worker in a process of its own, where channels ``two-...`` have an event log; configurations for applications of
redis-py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inorder import ClientTimes
from inorder.client.configured import ClientConfiguration
from inorder.testing.services import WorkerServer

TIMES = ClientTimes(gap_timeout=0.3, loss_timeout=1.0, heartbeat=1.0, close_timeout=5.0)


@pytest.fixture(scope="session")
def worker() -> Iterator[WorkerServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INORDER_WORKER__HEADS_INTERVAL", "0.2")
        patch.setenv("INORDER_WORKER__LOG_TOPICS", "redis:two-*")
        with WorkerServer() as server:
            yield server


@pytest.fixture
def inorder_(worker: WorkerServer) -> ClientConfiguration:
    """With short timers."""
    return ClientConfiguration(workers=(worker.url,), times=TIMES, subscribe_timeout=60.0)
