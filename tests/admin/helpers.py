"""A cluster as operators see it, once it is whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.client.helpers import PATIENCE

from inorder_worker.admin import Cluster


@asynccontextmanager
async def cluster_at(*addresses: str) -> AsyncIterator[Cluster]:
    """Give a cluster of which a worker of these knows all owners: one that started earlier hears of later ones."""
    async with Cluster(addresses) as cluster:
        async with asyncio.timeout(PATIENCE):
            while not all(each.epoch for each in await cluster.stages()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        yield cluster
