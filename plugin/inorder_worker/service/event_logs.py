"""Serves the event logs of this worker's stages, and keeps them within their bounds (R18).

Reading has a thread and a connection of its own, so no commit waits for it. What it finds is durable, so answers leave
at once. A log that is over its bounds is trimmed by a command of its stage, in whose commit the rows go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from msgspec.structs import replace

from inorder.errors import StoreError
from inorder.logs import logger
from inorder.protocol.pairs import flat, raise_to
from inorder.protocol.wire import LoggedEvent, LoggedEvents, LogRule, ReadLog
from inorder_worker.sequencer.commands import TrimLog
from inorder_worker.service.commits import CommitLoop
from inorder_worker.service.complaint import Complaint
from inorder_worker.service.context import HostContext
from inorder_worker.service.turns import Turns
from inorder_worker.service.work import Session, Work
from inorder_worker.store.log_rows import MAX_RANGES, LogReader, LogTotals, Oldest
from inorder_worker.store.records import now_ms

T = TypeVar("T")
log = logger("inorder.worker")

MAX_ROWS: Final = 1_000
MAX_BYTES: Final = 1024 * 1024
"""Events in one answer; a single one may be larger."""
ROW_BYTES: Final = 1_000
"""Of a row that are as dear as another row."""
MAX_QUEUED: Final = 1_000
"""Questions that may wait. Beyond that the last one of whoever has the most is dropped, and asked again."""
TRIM_ROWS: Final = 2_000
"""Rows that one command forgets at most; the rest follows at once."""


class EventLogs:
    """One for each worker.

    Args:
        context: of the host whose logs these are.
        commits: takes what trims them.
    """

    def __init__(self, context: HostContext, commits: CommitLoop) -> None:
        self._journal, self._clients, self._stages = context.journal, context.clients, context.stages
        self._commits = commits
        self._interval = context.settings.log_trim_interval
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
                group.create_task(self._keep_bounds(), name="inorder-log-bounds")
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
            log.warning("event=log_not_read topic=%d error=%s", frame.topic, error)
            return LoggedEvents(frame.request, frame.topic, frame.ranges, 0, [], 0, 0, "the store cannot be read now")
        for number in page.damaged:
            self.damaged += 1
            log.error("event=log_damaged topic=%d number=%d", frame.topic, number)
        events = [LoggedEvent(row.number, row.stored_ms, row.deps or [], row.content) for row in page.rows]
        self.events_read += len(events)
        return LoggedEvents(frame.request, frame.topic, frame.ranges, page.through, events, page.first, page.last)

    # -- bounds ------------------------------------------------------------------------------------------------

    async def _keep_bounds(self) -> None:
        complaint = Complaint()
        while True:
            await asyncio.sleep(self._interval)
            if self._stages.are_ready and self._stages.have_logs:
                try:
                    await self._trim_all()
                    complaint.clear()
                except StoreError as error:
                    if complaint.is_news(error):
                        log.warning("event=log_not_trimmed error=%s", error)

    async def _trim_all(self) -> None:
        now = now_ms()  # as the rows have it; the order does not depend on it
        for totals in await self._read(lambda reader: reader.totals()):
            rule = self._stages.log_bounds(totals.topic)
            if rule is None or not _is_over(rule, totals.events, totals.size, totals.oldest_ms, now):
                continue
            oldest = await self._read(lambda reader, topic=totals.topic: reader.oldest(topic, TRIM_ROWS))  # type: ignore[misc]
            through, base = excess(rule, totals, oldest, now)
            if through:
                self._submit(TrimLog(totals.topic, through, flat(base)))

    def _submit(self, command: TrimLog) -> None:
        def trim() -> None:
            home = self._stages.home_of(command.topic)
            if home is not None:
                self._commits.step(home, command)

        self._commits.submit(Work(None, 0, trim))


def _cost(answer: LoggedEvents) -> int:
    """Return the cost of an answer in turns: one for each row, for each range and for each ``ROW_BYTES``."""
    size = sum(len(event.content or b"") + 8 * len(event.deps) for event in answer.events)
    return 1 + len(answer.ranges) // 2 + len(answer.events) + size // ROW_BYTES


def _is_over(rule: LogRule, count: int, size: int, oldest_ms: int, now_ms: int) -> bool:
    """Tell whether a log of so many events and bytes, the oldest one stored then, is over its bounds."""
    return 0 < rule.max_count < count or 0 < rule.max_bytes < size or 0 < rule.max_age_ms < now_ms - oldest_ms


def excess(rule: LogRule, totals: LogTotals, oldest: list[Oldest], now_ms: int) -> tuple[int, dict[int, int]]:
    """Return the number up to which a log is to be forgotten (0: nothing), and the dependencies of these numbers."""
    base: dict[int, int] = {}
    through, count, size = 0, totals.events, totals.size
    for row in oldest:
        if row.deps is None or not _is_over(rule, count, size, row.stored_ms, now_ms):
            break
        raise_to(base, row.deps)
        through, count, size = row.number, count - 1, size - row.size
    return through, base
