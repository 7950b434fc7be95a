"""The shared state of a stage host's parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from inorder.errors import StoreReplaced, StoreVersionMismatch
from inorder_worker.service.hosted_stages import HostedStages
from inorder_worker.service.metrics import HostMetrics
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.service.work import ClientSink, HostSink, RideSink
from inorder_worker.store.journal import Journal
from inorder_worker.store.store_thread import StoreThread

T = TypeVar("T")

VOID: Final = (StoreReplaced, StoreVersionMismatch)
"""What this process has read of the store, or can write to it, is of no use any more: it has to be started again."""


@dataclass(frozen=True, slots=True)
class HostContext:
    """One for each stage host; its parts share it.

    Attributes:
        journal: used on ``thread`` only.
        settings: see WorkerSettings.
        owner: what this process is called in the store; unique to its start.
        sink: where news go.
        clients: where answers go.
        links: told of rides for stages of other workers.
        stages: those that are here.
        metrics: what is counted.
        thread: where all calls of the journal run, one after the other.
        wake: set when the loop that commits has something to do.
        stop: set when that loop is to end once everything is committed and answered; never cleared.
    """

    journal: Journal
    settings: WorkerSettings
    owner: str
    sink: HostSink
    clients: ClientSink
    links: RideSink
    stages: HostedStages
    metrics: HostMetrics = field(default_factory=HostMetrics)
    thread: StoreThread = field(default_factory=lambda: StoreThread("inorder-store"))
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def in_store(self, call: Callable[[], T]) -> T:
        """Have the store's thread call a function, and return its result. Raises what it does."""
        return await self.thread.call(call)
