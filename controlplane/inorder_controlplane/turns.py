"""A limit on one token's simultaneous requests to the workers."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from inorder_controlplane.problems import Problem

AT_ONCE: Final = 4
"""What is told of ten thousand topics takes megabytes, and tenths of a second in which nobody else is served."""
MOST: Final = 100
"""That go on or wait: whoever asked them may be gone."""


class Turns:
    """Lets a few requests of one token run at a time, and others wait."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}

    @contextlib.asynccontextmanager
    async def taken(self, token_id: str) -> AsyncIterator[None]:
        """Run one request in this block. Raises Problem where too many wait."""
        if self._asked[token_id] >= MOST:
            detail = f"{MOST} requests of this token wait for the workers already"
            raise Problem("too-many-requests", detail, headers={"Retry-After": "1"})
        self._asked[token_id] += 1
        turn = self._turns.setdefault(token_id, asyncio.Semaphore(AT_ONCE))
        try:
            async with turn:
                yield
        finally:
            self._asked[token_id] -= 1
            if not self._asked[token_id]:
                del self._asked[token_id], self._turns[token_id]
