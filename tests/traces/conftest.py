"""Fixtures of the recorder's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.client.helpers import Site, new_site


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """A broker and a worker of this test's own."""
    async with new_site(tmp_path) as made:
        yield made
