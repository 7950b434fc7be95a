"""Fixtures of the client's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.client.helpers import Site, new_site

from inorder import backoff


@pytest.fixture
def full_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause before an attempt to reconnect is as long as it may be."""
    monkeypatch.setattr(backoff, "_chance", SimpleNamespace(random=lambda: 1.0))


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A broker and a worker of this test's own."""
    async with new_site(tmp_path) as made:
        yield made
