"""The store for code that must not block: a few threads have a connection each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from inorder_worker.store.store import Store

T = TypeVar("T")


class Database:
    """The store's tables. Opened when first used.

    Args:
        url: SQLAlchemy URL of the store. Raises InvalidOption or MissingExtra where it cannot be used.
        timeout: seconds that the store may be locked.
        threads: how many requests may use it at a time.
    """

    def __init__(self, url: str, *, timeout: float = 5.0, threads: int = 4) -> None:
        self._make: Callable[[], Store] = lambda: Store(url, timeout=timeout, is_there=True)
        self._first: Store | None = self._make()
        self.url = self._first.url
        """The store's URL with its password masked."""
        self._own = threading.local()
        self._stores: list[Store] = [self._first]
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="inorder-store")

    async def call(self, work: Callable[[Store], T]) -> T:
        """Run ``work`` with a connection on one of the threads. Raises what it raises, StoreErrors among them."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._call, work)

    async def check_place(self) -> None:
        """Refuse a place where no store can be, whether there is one yet or not. Raises StoreUnreachable."""
        await asyncio.to_thread(self._stores[0].check_place)

    async def close(self) -> None:
        """Stop waiting for locks, and close all connections. No error."""
        for store in self._stores:
            store.interrupt()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        for store in self._stores:
            store.close()

    def _call(self, work: Callable[[Store], T]) -> T:
        store: Store | None = getattr(self._own, "store", None)
        if store is None:
            store = self._own.store = self._taken()
        if not getattr(self._own, "is_checked", False):
            store.run(store.require_current)
            self._own.is_checked = True
        return work(store)

    def _taken(self) -> Store:
        first, self._first = self._first, None
        if first is not None:
            return first
        store = self._make()
        self._stores.append(store)
        return store
