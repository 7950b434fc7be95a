"""Replays of a topic's event log, from a number or a time up to the present (R18)."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import AsyncIterator, Callable

from inorder.endpoint.notifications import Event, Gap, GapReason, Verdict
from inorder.errors import InorderError, InvalidOption, NotInLog, NotLogged, Refused
from inorder.protocol.wire import (
    MAX_NUMBER,
    Frame,
    LoggedEvent,
    LoggedEvents,
    Logs,
    ReadLog,
    ShowLogs,
    TopicInfo,
    decode_logged,
)

ASK_AGAIN = 2.0
"""Seconds after which an answer counts as lost."""

Named = Callable[[list[int]], tuple[tuple[str, int], ...]]


class Replaying:
    """All replays of a client.

    Args:
        send: sends a frame to the workers, or drops it while there is no connection.
        next_request: returns an id for a question.
        named: returns dependencies by topic name, where known.
    """

    def __init__(self, send: Callable[[Frame], None], next_request: Callable[[], int], named: Named) -> None:
        self._send, self._next_request, self._named = send, next_request, named
        self._asked: dict[int, asyncio.Future[LoggedEvents | Logs]] = {}
        self._error: InorderError | None = None
        self._domains = 0

    def answered(self, frame: LoggedEvents | Logs) -> bool:
        """Take an answer; return whether it belongs to a replay."""
        asked = self._asked.get(frame.request)
        if asked is None:
            return False
        del self._asked[frame.request]
        if not asked.done():
            asked.set_result(frame)
        return True

    def stop(self, error: InorderError) -> None:
        """Stop all replays, which raise the error."""
        self._error = error
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(error)

    def other_domain(self) -> None:
        """Stop all replays with Refused, as the workers serve another domain with other numbers."""
        self._domains += 1
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(_restored())

    async def replay(self, space: str, topic: str, begin: int | datetime.datetime | None) -> AsyncIterator[Event | Gap]:
        """Yield the events of a topic's log. See :meth:`inorder.Client.replay`."""
        first, since_ms = _beginning(begin)
        domains = self._domains
        page = await self._read(space, topic, first or 1, since_ms)
        if first is not None and first < page.first:
            raise NotInLog(topic, first, page.first - 1)
        end, at = page.last, first or page.first
        if since_ms:
            at = page.events[0].number if page.events else end + 1
        while True:
            for event in page.events:
                if event.number > end:
                    return
                if event.number > at:
                    yield Gap(space, topic, at, event.number - 1, GapReason.LOST)
                yield self._notification(space, topic, event)
                at = event.number + 1
            if page.through >= end or at > end:
                return
            if self._domains != domains:
                raise _restored()
            before, page = at, await self._read(space, topic, max(at, page.through + 1), since_ms)
            if page.first > before:  # the log was trimmed meanwhile
                raise NotInLog(topic, before, page.first - 1)

    async def _read(self, space: str, topic: str, first: int, since_ms: int) -> LoggedEvents:
        while True:
            info = await self._find(space, topic)
            request = self._next_request()
            answer = await self._ask(ReadLog(request, info.stage, info.id, [first, MAX_NUMBER], since_ms), request)
            if isinstance(answer, LoggedEvents) and not answer.refusal:
                return answer

    async def _find(self, space: str, topic: str) -> TopicInfo:
        """Return the place of the topic, asked anew each time, as it may move (R14). Raises NotLogged."""
        while True:
            request = self._next_request()
            answer = await self._ask(ShowLogs(request, names=[(space, topic)]), request)
            if isinstance(answer, Logs):
                if not answer.topics:
                    raise NotLogged(topic)
                return answer.topics[0]

    async def _ask(self, frame: Frame, request: int) -> LoggedEvents | Logs | None:
        """Ask once; return ``None`` if no answer comes in time."""
        if self._error is not None:
            raise self._error
        asked: asyncio.Future[LoggedEvents | Logs] = asyncio.get_running_loop().create_future()
        self._asked[request] = asked
        self._send(frame)
        try:
            async with asyncio.timeout(ASK_AGAIN):
                return await asked
        except TimeoutError:
            return None
        finally:
            self._asked.pop(request, None)

    def _notification(self, space: str, topic: str, event: LoggedEvent) -> Event | Gap:
        content = None if event.content is None else decode_logged(event.content)
        if content is None:
            return Gap(space, topic, event.number, event.number, GapReason.LOST)
        return Event(
            space, topic, content.payload, Verdict.REPLAYED, event.number, self._named(event.deps),
            qos=content.qos, properties=tuple(content.properties), repaired=True,
        )  # fmt: skip


def _restored() -> Refused:
    return Refused("the workers' store was restored meanwhile, and the topic's numbers are others now; replay it again")


def _beginning(begin: int | datetime.datetime | None) -> tuple[int | None, int]:
    """Return (first number or ``None``, earliest time in ms since 1970 or 0). Raises InvalidOption."""
    if begin is None:
        return None, 0
    if isinstance(begin, datetime.datetime) and begin.tzinfo is not None:
        return None, max(1, round(begin.timestamp() * 1000))
    if isinstance(begin, int) and not isinstance(begin, bool) and 0 < begin <= MAX_NUMBER:
        return begin, 0
    raise InvalidOption("from_", begin, "a number from 1, or a datetime with its time zone")
