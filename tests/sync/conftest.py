"""A worker in a process of its own: blocking tests have no event loop to run one on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from inorder.sync import Client
from inorder.testing.services import Mosquitto, WorkerServer

Make = Callable[..., Client]


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INORDER_WORKER__LOG_TOPICS", "mqtt:logged/#")
        with WorkerServer() as server:
            yield server


@pytest.fixture
def make(mosquitto: Mosquitto, worker: WorkerServer) -> Make:
    """Makes clients of the test's broker and worker."""

    def made(**options: Any) -> Client:
        return Client(mosquitto.url, **{"workers": worker.url, **options})

    return made
