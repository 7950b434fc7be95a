"""Serves the event logs of this worker's stages (R18); ``log_bounds`` keeps them within their bounds.

Reading has a thread and a connection of its own, so no commit waits for it. What it finds is durable, so answers leave
at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from msgspec.structs import replace

from inorder.errors import StoreError
from inorder.logs import SELDOM, logger
from inorder.protocol.wire import LoggedEvent, LoggedEvents, ReadLog
from inorder_worker.service.commits import CommitLoop
from inorder_worker.service.context import HostContext
from inorder_worker.service.log_bounds import LogBounds
from inorder_worker.service.turns import Turns
from inorder_worker.service.work import Session
from inorder_worker.store.log_rows import MAX_RANGES, LogReader

T = TypeVar("T")
log = logger("inorder.worker")

MAX_ROWS: Final = 1_000
MAX_BYTES: Final = 1024 * 1024
"""Events in one answer; a single one may be larger."""
ROW_BYTES: Final = 1_000
"""Of a row that are as dear as another row."""
MAX_QUEUED: Final = 1_000
"""Questions that may wait. Beyond that the last one of whoever has the most is dropped, and asked again."""


class EventLogs:
    """One for each worker.

    Args:
        context: of the host whose logs these are.
        commits: takes what trims them.
    """

    def __init__(self, context: HostContext, commits: CommitLoop) -> None:
        self._journal, self._clients = context.journal, context.clients
        self._bounds = LogBounds(context, commits, self._read)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inorder-logs")
        self._reader: LogReader | None = None
        self._questions = Turns[tuple[Session, str, ReadLog]]()
        self._are_there = asyncio.Event()
        self.events_read = self.damaged = 0

    def ask(self, session: Session, frame: ReadLog, owner: str = "") -> None:
        """Answer a question when its turn comes. What is not looked at for one answer is not kept until then.
        ``owner``: whose client it is, see Turns."""
        client_id, questions = session[0], self._questions
        if len(questions) < MAX_QUEUED or questions.make_room(client_id, owner):
            looked_at = replace(frame, ranges=frame.ranges[: 2 * MAX_RANGES])
            questions.put(client_id, (session, owner, looked_at), owner)
            self._are_there.set()

    async def run(self) -> None:
        """Answer and trim until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._answer_all(), name="inorder-log-answers")
                group.create_task(self._bounds.run(), name="inorder-log-bounds")
        finally:
            await self._close()

    async def _close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, reader.close))
        self._thread.shutdown(wait=False)

    async def _read(self, call: Callable[[LogReader], T]) -> T:
        def run() -> T:
            if self._reader is None:
                self._reader = self._journal.log_reader()
            return call(self._reader)

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    # -- questions ---------------------------------------------------------------------------------------------

    async def _answer_all(self) -> None:
        while True:
            await self._are_there.wait()
            while self._questions:
                session, owner, frame = self._questions.take()
                answer = await self._answer(frame)
                self._questions.charge(session[0], _cost(answer), owner)
                self._clients.answer(session, [answer])
            self._are_there.clear()

    async def _answer(self, frame: ReadLog) -> LoggedEvents:
        try:
            page = await self._read(
                lambda reader: reader.read(frame.topic, frame.ranges, frame.since_ms, MAX_ROWS, MAX_BYTES)
            )
        except StoreError as error:
            log.warning("event=log_not_read topic=%d error=%s", frame.topic, error, extra=SELDOM)
            return LoggedEvents(frame.request, frame.topic, frame.ranges, 0, [], 0, 0, "the store cannot be read now")
        for number in page.damaged:
            self.damaged += 1
            log.error("event=log_damaged topic=%d number=%d", frame.topic, number, extra=SELDOM)
        events = [LoggedEvent(row.number, row.stored_ms, row.deps or [], row.content, row.ticks) for row in page.rows]
        self.events_read += len(events)
        return LoggedEvents(frame.request, frame.topic, frame.ranges, page.through, events, page.first, page.last)


def _cost(answer: LoggedEvents) -> int:
    """Return the cost of an answer in turns: one for each row, for each range and for each ``ROW_BYTES``."""
    size = sum(len(event.content or b"") + 8 * len(event.deps) for event in answer.events)
    return 1 + len(answer.ranges) // 2 + len(answer.events) + size // ROW_BYTES
