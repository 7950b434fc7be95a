"""Fixtures of the end-to-end tests: real brokers (see tests/conftest.py) and a worker in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.helpers import STAGES

from inorder.testing.ens_recorder import unique
from inorder.testing.services import PostgresServer, WorkerServer


@pytest.fixture(scope="session")
def worker() -> Iterator[WorkerServer]:
    """A worker for tests that leave it alone; topics are each test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INORDER_WORKER__HEADS_INTERVAL", "0.2")
        with WorkerServer() as server:
            yield server


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.long), "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/inorder.db"
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.database()


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two topics on each stage, from the top."""
    names = [unique(f"stage{at // 2}") for at in range(2 * STAGES)]
    order = [[f"mqtt:{name}" for name in names[2 * stage : 2 * stage + 2]] for stage in range(STAGES)]
    monkeypatch.setenv("INORDER_WORKER__TOPIC_ORDER", json.dumps(order))
    monkeypatch.setenv("INORDER_WORKER__HEADS_INTERVAL", "0.2")
    monkeypatch.setenv("INORDER_WORKER__BEAT_INTERVAL", "0.2")
    monkeypatch.setenv("INORDER_WORKER__SNAPSHOT_ROWS", "50")
    return names
