"""Keeps the event logs of this worker's stages within their bounds (R18).

A log that is over its bounds is trimmed by commands of its stage, in whose commits the rows go: a slice at a time, so
that no commit is long, and the next slice right behind it, so that a log gets no longer than its bounds and a slice
however fast it is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final

from inorder.errors import StoreError
from inorder.logs import logger
from inorder.protocol.pairs import flat, raise_to
from inorder.protocol.wire import LogRule
from inorder_worker.sequencer.commands import TrimLog
from inorder_worker.service.commits import CommitLoop
from inorder_worker.service.complaint import Complaint
from inorder_worker.service.context import HostContext
from inorder_worker.service.hosted import HostedStage
from inorder_worker.service.log_sizes import Cut, LogSize, LogSizes
from inorder_worker.service.work import Work
from inorder_worker.store.log_rows import LogReader, LogWrite, Oldest
from inorder_worker.store.records import now_ms

log = logger("inorder.worker")

TRIM_ROWS: Final = 2_000
"""Rows that one command forgets at most, and"""
TRIM_BYTES: Final = 8 * 1024 * 1024
"""bytes, if it is not a single row."""
COUNTED_AT_ONCE: Final = 100
"""Logs that are counted with one question to the store."""
LOOKED_AT: Final = 500
"""Logs that are looked at before others have a turn."""


Read = Callable[[Callable[[LogReader], Any]], Awaitable[Any]]


class LogBounds:
    """One for each worker.

    Args:
        context: of the host whose logs these are.
        commits: takes what trims them, and tells what was written.
        read: reads logs beside the commits.
    """

    def __init__(self, context: HostContext, commits: CommitLoop, read: Read) -> None:
        self._stages, self._commits, self._read = context.stages, commits, read
        self._interval = context.settings.log_trim_interval
        self._sizes = LogSizes()
        self._seen: dict[int, tuple[HostedStage, int]] = {}
        """The stages whose logs are known, with the order epoch in which they were looked for."""
        self._is_due = asyncio.Event()
        commits.wrote = self._wrote

    def _wrote(self, changes: Iterable[LogWrite]) -> None:
        self._sizes.wrote(changes)
        if self._sizes.due:
            self._is_due.set()

    async def run(self) -> None:
        """Trim until cancelled: what has grown soon, and each log after a time."""
        complaint, loop = Complaint(), asyncio.get_running_loop()
        again_at = loop.time() + self._interval
        while True:
            try:
                async with asyncio.timeout_at(again_at):
                    await self._is_due.wait()
            except TimeoutError:
                pass
            self._is_due.clear()
            if is_time := loop.time() >= again_at:
                again_at = loop.time() + self._interval
            if not (self._stages.are_ready and self._stages.have_logs):
                continue
            try:
                await self._look(of_all=is_time)
                complaint.clear()
            except StoreError as error:
                if complaint.is_news(error):
                    log.warning("event=log_not_trimmed error=%s", error)

    async def _look(self, *, of_all: bool) -> None:
        """Trim a slice of each grown log over its bounds. ``of_all``: also of logs that have hardly grown. Not while a
        trim of a log is under way: its size is known when that has come, and rows within the bounds would go."""
        self._find_logs()
        while asked := self._sizes.uncounted(COUNTED_AT_ONCE):
            found = await self._read(lambda reader: reader.totals(list(asked)))
            self._sizes.counted(asked, found)
        due, self._sizes.due = self._sizes.due, set()
        now = now_ms()  # as the rows have it; the order does not depend on it
        for at, topic in enumerate(list(self._sizes) if of_all else due, start=1):
            size, rule = self._sizes.get(topic), self._stages.log_bounds(topic)
            if size is None or rule is None:
                self._sizes.forget(topic)
            else:
                size.new_events = size.new_size = 0
                if size.cut is None and _is_over(rule, size.events, size.size, size.oldest_ms, now):
                    await self._trim(topic, size, rule, now)
            if at % LOOKED_AT == 0:
                await asyncio.sleep(0)

    def _find_logs(self) -> None:
        """Have the logs counted of stages that came here, and of topics that came to stages here (R14)."""
        seen: dict[int, tuple[HostedStage, int]] = {}
        for index, hosted in self._stages.items():
            before = self._seen.get(index)
            since = before[1] if before is not None and before[0] is hosted else -1
            epoch, topics = hosted.stage.log.since(since)
            self._sizes.recount(topics)
            seen[index] = hosted, epoch
        self._seen = seen

    async def _trim(self, topic: int, size: LogSize, rule: LogRule, now: int) -> None:
        numbers = self._stages.log_settled(topic, TRIM_ROWS)
        if not numbers:
            return
        first, count = numbers.start, len(numbers)
        rows = await self._read(lambda reader: reader.oldest(topic, first, count + 1))
        if self._sizes.get(topic) is not size or not rows:
            return
        size.oldest_ms = rows[0].stored_ms
        rows = [row._replace(deps=self._stages.log_deps(topic, row.number, row.deps)) for row in rows]
        cut, base = excess(rule, size, rows, count, now)
        if cut is not None:
            size.cut = cut
            behind = rows[cut.events] if cut.events < len(rows) else None
            trim = TrimLog(topic, cut.through, flat(base), behind is None or behind.has_ticks)
            self._submit(trim, partial(size.end, cut))

    def _submit(self, command: TrimLog, end: Callable[[], None]) -> None:
        def trim() -> None:
            home = self._stages.home_of(command.topic)
            if home is not None:
                self._commits.step(home, command)
            self._commits.after_commit(end)

        self._commits.submit(Work(None, 0, trim))


def _is_over(rule: LogRule, count: int, size: int, oldest_ms: int, now_ms: int) -> bool:
    """Tell whether a log of so many events and bytes, the oldest one stored then, is over its bounds."""
    return 0 < rule.max_count < count or 0 < rule.max_bytes < size or 0 < rule.max_age_ms < now_ms - oldest_ms


def excess(
    rule: LogRule, log: LogSize, oldest: list[Oldest], most: int, now_ms: int
) -> tuple[Cut | None, dict[int, int]]:
    """Return the oldest rows of a log that are too much (``None``: there are none), and their dependencies together.
    These are ``most`` rows and ``TRIM_BYTES`` of them, no more."""
    base: dict[int, int] = {}
    count = size = 0
    for row in oldest[:most]:
        is_over = _is_over(rule, log.events - count, log.size - size, row.stored_ms, now_ms)
        if row.deps is None or not is_over or (count and size + row.size > TRIM_BYTES):
            break
        raise_to(base, row.deps)
        count, size = count + 1, size + row.size
    if not count:
        return None, base
    next_ms = oldest[count].stored_ms if count < len(oldest) else now_ms
    return Cut(oldest[count - 1].number, count, size, next_ms), base
