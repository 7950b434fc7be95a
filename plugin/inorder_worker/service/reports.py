"""Clients' reports, kept for operators: sums, the last report of each client, and the lives of some events.

All of it is in memory and of the worker that has the bottom stage: after a take-over it begins anew.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final

import msgspec

from inorder.protocol.portions import fitting
from inorder.protocol.wire import (
    MAX_NUMBER,
    ClientCounts,
    ClientReport,
    EventLife,
    Report,
    Reports,
    SeenLife,
    ShowReports,
)
from inorder_worker.service.work import Session

MAX_EVENTS: Final = 20_000
"""Events whose lives are kept; the one that was heard of first is forgotten first."""
MAX_LIVES: Final = 200
"""Lives that are kept of one event: its publisher's and of so many subscribers."""
MAX_SEEN: Final = 100_000
"""Lives that are kept of all events."""
GAUGES: Final = ("waiting", "waiting_bytes", "undelivered", "pending")
"""Counts of now: of a client that is gone nothing remains of them."""
MAX_TOLD: Final = 2**53
"""Counts, and times in us, are no higher: nobody has counted that far since 1970, and sums of them stay numbers that
everybody can read."""
MAX_LIVES_TOLD: Final = 1_000
"""Lives in one report."""
MAX_WAITS_TOLD: Final = 64
"""Waits in one report."""
MAX_WORD: Final = 32
"""Characters of a verdict."""
MAX_GONE: Final = 10_000
"""Clients whose counts are remembered for when they come back."""
_COUNTERS: Final = tuple(each for each in ClientCounts.__struct_fields__ if each not in GAUGES)


Told = tuple[Session, tuple[int, Report, str]]
"""The last report of a session: when, what, and whose."""


class ClientReports:
    """Reports of all clients that say them here.

    Args:
        now_us: the clock when this begins, µs since 1970.
    """

    def __init__(self, now_us: int) -> None:
        self._since_us = now_us
        self._sums = dict.fromkeys(_COUNTERS, 0)
        self._last: dict[Session, tuple[int, Report, str]] = {}  # see ``Told``
        self._gone: OrderedDict[Session, ClientCounts] = OrderedDict()
        self._lives: OrderedDict[tuple[int, int], list[tuple[int, SeenLife]]] = OrderedDict()
        self._told = 0  # lives in it

    def take(self, session: Session, report: Report, now_us: int, owner: str = "") -> None:
        """A client reports; ``owner``: the name of its token, empty without one. What it counted before its first
        report here, unless that is the first one of all, was told to another worker."""
        gone = self._gone.pop(session, ClientCounts() if report.first else report.counts)
        before = self._last[session][1].counts if session in self._last else gone
        for name in _COUNTERS:
            self._sums[name] += max(0, getattr(report.counts, name) - getattr(before, name))
        for life in report.lives:
            self._keep(SeenLife(session[0], report.offset_us, report.error_us, life), now_us)
        self._last[session] = now_us, msgspec.structs.replace(report, lives=[]), owner

    def _keep(self, seen: SeenLife, now_us: int) -> None:
        key = seen.life.topic, seen.life.number
        known = self._lives.setdefault(key, [])
        if len(known) < MAX_LIVES:
            known.append((now_us, seen))
            self._told += 1
        while len(self._lives) > MAX_EVENTS or self._told > MAX_SEEN:
            self._told -= len(self._lives.popitem(last=False)[1])

    def left(self, session: Session) -> None:
        """A client is gone; its process may come back."""
        if (last := self._last.pop(session, None)) is not None:
            self._gone[session] = last[1].counts
        if len(self._gone) > MAX_GONE:
            self._gone.popitem(last=False)

    def all_left(self) -> None:
        """All connections have ended."""
        for session in list(self._last):
            self.left(session)

    @property
    def totals(self) -> ClientCounts:
        """The sums, and what all clients have now of what is counted as of now."""
        now = {name: sum(getattr(report.counts, name) for _, report, _ in self._last.values()) for name in GAUGES}
        return ClientCounts(**{name: min(count, MAX_NUMBER) for name, count in (self._sums | now).items()})

    def show(self, asked: ShowReports, now_us: int) -> Reports:
        """Return what an operator asks for."""
        clients = [
            ClientReport(
                session[0], max(0, now_us - at) // 1000, report.counts, report.offset_us, report.error_us, report.waits
            )
            for session, (at, report, _) in self._in_turns()
        ]
        lives = fitting(reversed(self._chosen(asked)))[::-1]
        return Reports(asked.request, now_us, self._since_us, self.totals, fitting(clients), lives)

    def _in_turns(self) -> list[Told]:
        """Return the last reports: one of each owner, then the next one of each, and so on; of its own the one that
        waits for longest is the first. So what an owner's clients say leaves room for those of others."""
        counts, turns = Counter[Session](), list[tuple[int, Told]]()
        for each in sorted(self._last.items(), key=_longest_wait, reverse=True):
            whose = (each[1][2], 0) if each[1][2] else each[0]
            turns.append((counts[whose], each))
            counts[whose] += 1
        return [each for _, each in sorted(turns, key=lambda turn: turn[0])]

    def _chosen(self, asked: ShowReports) -> list[SeenLife]:
        if asked.topic:
            return [seen for _, seen in self._lives.get((asked.topic, asked.number), ())]
        since = asked.since_us
        found = [(at, seen) for lives in self._lives.values() for at, seen in lives if at > since]
        return [seen for _, seen in sorted(found, key=lambda each: each[0])]


def well_formed(report: Report) -> bool:
    """Tell whether a client can have seen that."""
    return (
        all(0 <= count <= MAX_TOLD for count in msgspec.structs.astuple(report.counts))
        and -MAX_TOLD <= report.offset_us <= MAX_TOLD
        and -1 <= report.error_us <= MAX_TOLD
        and len(report.lives) <= MAX_LIVES_TOLD
        and all(map(_is_life, report.lives))
        and len(report.waits) <= MAX_WAITS_TOLD
        and all(0 <= part <= MAX_NUMBER for each in report.waits for part in msgspec.structs.astuple(each))
        and all(each.for_ms * 1000 <= MAX_TOLD for each in report.waits)
    )


def _longest_wait(told: Told) -> int:
    _, (_, report, _) = told
    return max((wait.for_ms for wait in report.waits), default=0)


def _is_life(life: EventLife) -> bool:
    """Tell whether a life can be one: a topic, a number, and times of a publisher or of a subscriber."""
    times, numbers = life.times, (life.topic, life.number, life.waited_topic, life.waited_number)
    return (
        life.topic > 0
        and life.number > 0
        and 0 <= min(numbers) <= max(numbers) <= MAX_NUMBER
        and len(life.verdict) <= MAX_WORD
        and len(times) == (2 if life.verdict else 3)
        and 0 <= min(times) <= max(times) <= MAX_TOLD
    )
