"""Repeated observation of the cluster by a control plane, for the overview, live data and alarms.

One look serves everybody who asks within a second. While nobody asks, looks are rare: they only keep the figures of the
last minutes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from inorder.errors import InorderError, StoreError
from inorder.logs import logger
from inorder.protocol.wire import ClientCounts, KnownSubscription, Reports, SeenLife
from inorder_controlplane.alarms import Alarm, AlarmBook, Limits, Seen, alarms
from inorder_controlplane.context import Context
from inorder_controlplane.lives import Latencies, latencies
from inorder_controlplane.series import Sample, Series
from inorder_worker.admin import StuckNumber, TopicState
from inorder_worker.store.analyses import Analyses, Run
from inorder_worker.store.overview import Overview, StoreWatcher
from inorder_worker.store.sqlite_file import Room
from inorder_worker.store.store import Store

FRESH_SECONDS: Final = 0.9
"""A look that is younger than this is good enough."""
BUSY_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 5.0
"""Between two looks, while somebody looks on and while nobody does."""
WATCHED_SECONDS: Final = 30.0
"""How long after the last question somebody counts as looking on."""
LIFE_SECONDS: Final = 60.0
MAX_LIVES: Final = 20_000
"""How long, and how many, reported lives of events count for latencies."""

log = logger("inorder.controlplane")


@dataclass(frozen=True, slots=True)
class Picture:
    """One observation of the cluster.

    Attributes:
        at_ms: when, ms since 1970.
        store: what is in the store; ``None`` while it does not answer, and ``store_error`` says why.
        room: see Seen.
        runs: of analyses, those that are open and the one that ended last.
        topics, order_epoch, subscriptions, stuck, reports: what the workers say; ``None`` or nothing while they do not
            answer, and ``workers_error`` says why.
        totals: by name, what was counted; ``None`` where nobody reports it.
        alarms: those of now, each with when it began (ms since 1970).
        latencies: of events of the last minute.
        sample: the newest figures.
    """

    at_ms: int
    store: Overview | None = None
    runs: Sequence[Run] = ()
    room: Room | None = None
    store_error: str | None = None
    workers_error: str | None = None
    topics: Sequence[TopicState] = ()
    order_epoch: int | None = None
    subscriptions: Sequence[KnownSubscription] = ()
    stuck: Sequence[StuckNumber] = ()
    reports: Reports | None = None
    totals: dict[str, int | None] = field(default_factory=dict)
    alarms: Sequence[tuple[Alarm, int]] = ()
    latencies: Latencies | None = None
    sample: Sample | None = None

    @property
    def state(self) -> Literal["ok", "degraded", "down"]:
        """The overall state: ``down`` if no events can be ordered, ``degraded`` if something is wrong, else ``ok``."""
        stages = self.store.stages if self.store is not None else []
        is_down = bool(self.store_error or self.workers_error)
        if is_down or any(each.state in ("free", "dead") for each in stages):
            return "down"
        return "degraded" if self.alarms else "ok"


class Watching:
    """Observes the store and the workers.

    Args:
        context: of the app.

    Attributes:
        series: the figures of the last minutes.
        limits: from which point on something is an alarm.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._watcher = StoreWatcher(context.settings.lease, BUSY_SECONDS)
        self.series = Series()
        self.limits = Limits()
        self._book = AlarmBook()
        self._lock = asyncio.Lock()
        self._last: Picture | None = None
        self._looked = float("-inf")
        self._asked = float("-inf")
        self._lives: deque[tuple[float, SeenLife]] = deque(maxlen=MAX_LIVES)
        self._lives_us = 0
        self._losses: dict[str, deque[tuple[float, int]]] = {}
        self._order_change: float | None = None

    async def run(self) -> None:
        """Observe for ever."""
        while True:
            now = time.monotonic()
            is_watched = now - self._asked < WATCHED_SECONDS
            due = self._looked + (BUSY_SECONDS if is_watched else IDLE_SECONDS)
            if now < due:
                await asyncio.sleep(min(due - now, BUSY_SECONDS))
                continue
            pause = BUSY_SECONDS  # a store whose looks take long gets its rest, too
            try:
                await self._fresh(now - FRESH_SECONDS)
            except Exception as error:  # whoever asks gets it too, and the next look may do
                log.error("event=look_failed error=%s", type(error).__name__, exc_info=error)
                pause = IDLE_SECONDS
            await asyncio.sleep(pause)

    async def picture(self, *, is_new: bool = False) -> Picture:
        """Return an observation that is at most a second old, or with ``is_new`` one that begins after this call."""
        self._asked = time.monotonic()
        return await self._fresh(self._asked if is_new else self._asked - FRESH_SECONDS)

    @contextmanager
    def order_change(self) -> Iterator[None]:
        """Mark a block in which the topic order changes."""
        self._order_change = time.monotonic()
        try:
            yield
        finally:
            self._order_change = None

    async def _fresh(self, since: float) -> Picture:
        async with self._lock:
            if self._last is None or self._looked < since:
                began = time.monotonic()
                self._last = await self._look()
                self._looked = began  # what happens during a look may be missing from the picture
            return self._last

    # -- one look --------------------------------------------------------------------------------------------------

    async def _look(self) -> Picture:
        found, said = await asyncio.gather(self._look_at_store(), self._ask_workers())
        at_ms, now = self._context.now_ms(), time.monotonic()
        self._remember(said.get("reports"), now)
        totals, sources = _counted(said)
        recent = latencies([seen for _, seen in self._lives])
        sample = None
        if "workers_error" not in said:
            sample = self.series.add(at_ms, now, sources, {"total_ms_p50": recent.total.p50 if recent.total else None})
        seen = self._seen(at_ms, now, found, said)
        return Picture(
            at_ms,
            **found,
            **said,
            totals=totals,
            alarms=self._book.since(alarms(seen, self.limits), at_ms),
            latencies=recent,
            sample=sample,
        )

    async def _look_at_store(self) -> dict[str, Any]:
        def look(store: Store) -> dict[str, Any]:
            return {
                "store": self._watcher.look(store, time.monotonic()),
                "runs": Analyses(store).newest(),
                "room": store.measure_room(),
            }

        try:
            return await self._context.database.call(look)
        except StoreError as error:
            return {"store_error": str(error)}

    async def _ask_workers(self) -> dict[str, Any]:
        try:
            async with self._context.cluster_factory() as cluster:
                order, topics, subscriptions, stuck, reports = await asyncio.gather(
                    cluster.order(), cluster.topics(groups=False), cluster.subscriptions(), cluster.stuck(),
                    cluster.reports(self._lives_us),
                )  # fmt: skip
        except InorderError as error:
            return {"workers_error": str(error)}
        return {
            "order_epoch": order.order_epoch,
            "topics": topics,
            "subscriptions": subscriptions,
            "stuck": stuck,
            "reports": reports,
        }

    def _remember(self, reports: Reports | None, now: float) -> None:
        """Keep the lives of the last minute's reported events."""
        if reports is not None:
            self._lives_us = reports.at_us
            self._lives += ((now, seen) for seen in reports.lives)
        while self._lives and self._lives[0][0] < now - LIFE_SECONDS:
            self._lives.popleft()

    def _seen(self, at_ms: int, now: float, found: dict[str, Any], said: dict[str, Any]) -> Seen:
        store: Overview | None = found.get("store")
        return Seen(
            at_ms,
            store_error=found.get("store_error"),
            workers_error=said.get("workers_error"),
            outdated=store.outdated if store else "",
            stages=store.stages if store else (),
            workers=store.workers if store else (),
            stuck=said.get("stuck", ()),
            labels={each.id: each.label for each in said.get("topics", ())},
            order_change_s=None if self._order_change is None else now - self._order_change,
            lost=self._lost(said.get("reports"), now),
            room=found.get("room"),
        )

    def _lost(self, reports: Reports | None, now: float) -> dict[str, int]:
        """Return how many numbers each connected client lost in the last minute."""
        before, self._losses = self._losses, {}
        found: dict[str, int] = {}
        for each in reports.clients if reports is not None else ():
            seen = self._losses[each.client_id] = before.get(each.client_id, deque())
            if seen and seen[-1][1] > each.counts.missed:
                seen.clear()  # another process of the same name
            seen.append((now, each.counts.missed))
            while seen[0][0] < now - LIFE_SECONDS:
                seen.popleft()
            found[each.client_id] = each.counts.missed - seen[0][1]
        return found


def _counted(said: dict[str, Any]) -> tuple[dict[str, int | None], dict[str, dict[str, int | None]]]:
    """Return the totals by name, and by source, for rates."""
    topics, reports = said.get("topics", ()), said.get("reports")
    sources: dict[str, dict[str, int | None]] = {
        f"topic {each.id}": {"timestamps": each.number, "void": each.void, "abandoned": each.abandoned}
        for each in topics
        if each.is_reached
    }
    sources["clients"] = _reported(None if reports is None or not reports.clients else reports.totals)
    totals: dict[str, int | None] = {
        name: sum(its[name] or 0 for source, its in sources.items() if source != "clients")
        for name in ("timestamps", "void", "abandoned")
    }
    return {**totals, **sources["clients"]}, sources


def _reported(counts: ClientCounts | None) -> dict[str, int | None]:
    if counts is None:
        return dict.fromkeys(("delivered", "in_order", "late", "gaps", "lost", "duplicates"))
    return {
        "delivered": counts.in_order + counts.late + counts.other,
        "in_order": counts.in_order,
        "late": counts.late,
        "gaps": counts.gaps,
        "lost": counts.missed,
        "duplicates": counts.duplicates,
    }


@asynccontextmanager
async def watching(context: Context) -> AsyncIterator[None]:
    """Observe during the app's life."""
    part = watching_of(context)
    task = asyncio.create_task(part.run(), name="inorder-controlplane-watching")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def watching_of(context: Context) -> Watching:
    """Return the app's own observer."""
    found: Watching = context.parts.get("watching") or context.parts.setdefault("watching", Watching(context))
    return found
