"""Libraries that import redis-py themselves get our classes by ``install()``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.redis_py.helpers import PATIENCE

from inorder.client.installing import install
from inorder.errors import UsageError
from inorder.testing.services import RedisServer, WorkerServer

OURS = object()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    library: Any = ModuleType("stocklibrary")
    library.Class = type("Stock", (), {"__module__": "stocklibrary"})
    monkeypatch.setitem(sys.modules, "stocklibrary", library)
    return library


def test_names_are_replaced_once(library: Any) -> None:
    for _ in range(2):
        install({"stocklibrary": {"Class": OURS}}, force=False)
        assert library.Class is OURS


@pytest.mark.parametrize("derives", [False, True])
def test_who_was_earlier_is_named_before_anything_is_replaced(
    library: Any, monkeypatch: pytest.MonkeyPatch, derives: bool
) -> None:
    user: Any = ModuleType("early_user")
    stock = library.Class
    user.Taken = type("Derived", (stock,), {"__module__": "early_user"}) if derives else stock
    monkeypatch.setitem(sys.modules, "early_user", user)
    with pytest.raises(UsageError, match=r"install\(\) comes too late: early_user has .*(Stock|Derived) already"):
        install({"stocklibrary": {"Class": OURS}}, force=False)
    assert library.Class is stock
    install({"stocklibrary": {"Class": OURS}}, force=True)
    assert library.Class is OURS


def test_celery_and_socket_io(redis_server: RedisServer, worker: WorkerServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers, results, what is told to all workers; emits to several servers."""
    monkeypatch.setenv("INORDER_CLIENT__WORKERS", worker.url)
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("third_party.py")), f"{redis_server.url}/5"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3 * PATIENCE, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        f"results {[2 * number for number in range(10)]}",
        "workers [[{'ok': 'pong'}]]",
        f"emitted {[[0, 1, 2]] * 2}",
    ]
