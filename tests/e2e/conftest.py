"""Fixtures of the end-to-end tests: real brokers (see tests/conftest.py) and a worker in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from inorder.testing.services import WorkerServer


@pytest.fixture(scope="session")
def worker() -> Iterator[WorkerServer]:
    """A worker for tests that leave it alone; topics are each test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INORDER_WORKER__HEADS_INTERVAL", "0.2")
        with WorkerServer() as server:
            yield server
