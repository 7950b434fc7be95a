"""Traces for pages to show, and runs of analyses over them, put into a site's store as a control plane would."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from tests.analytics.traces import EPOCH_US, Trace
from tests.webui.site import UpServer

from inorder_analytics.plain import measure_rows
from inorder_analytics.reading import Row
from inorder_analytics.results import Damaged, EventName, Files, PairFigures, Result, Witness, to_plain
from inorder_worker.store.analyses import Analyses, Job, Outcome, Progress
from inorder_worker.store.identity import new_owner
from inorder_worker.store.schedules import Schedule, Schedules
from inorder_worker.store.store import Store

EVIL = "<img src=x onerror=alert(1)>"
"""As a topic, a client, a run, a file: text, never markup."""
HUGE = 2**53 + 1
"""A number that JavaScript's own numbers cannot hold."""

CLIENTS = ("desk-1", "desk-2", "desk-3", EVIL)
_TOPICS = {"a": "stocks/ACME", "b": "orders/eu", "c": EVIL}
_MADE_AT = datetime.fromtimestamp(EPOCH_US / 1e6, UTC)


def trace(seed: int, *, disorder_ms: float = 60, run: str = "default", events: int = 600) -> Trace:
    """Return a run of some minutes in which the broker gets out of order what was published within ``disorder_ms``,
    and everybody delivers in one order."""
    chance = random.Random(seed)
    made = Trace(run=run)
    numbers = dict.fromkeys(_TOPICS, 0)
    arrivals: dict[str, list[tuple[float, str, int, float]]] = {client: [] for client in CLIENTS}
    for client in CLIENTS:
        made.opened(client)
        made.clock(client, 0.4, 0.2)
    made.clock("feed", 0.0, 0.3)
    for at in (index * 700.0 for index in range(events // 30)):
        for step in range(30):
            topic = chance.choices("abc", (6, 3, 1))[0]
            numbers[topic] += 1
            published = at * 1.4 + step * 25
            stage, entries = ("abc".index(topic), 1 + chance.randrange(3))
            stamped = published + chance.expovariate(1) + 0.3
            made.published(
                "feed", topic, numbers[topic], at=published, stamped=stamped, entries=entries, payload_size=64,
                stamp_bytes=11 + 9 * entries, stage=stage, entry_stage=stage, top_stage=chance.randrange(stage + 1),
            )  # fmt: skip
            for client in CLIENTS:
                arrived = stamped + 1 + chance.random() * disorder_ms
                arrivals[client].append((arrived, topic, numbers[topic], published))
    for client, arrived_events in arrivals.items():
        _deliver(made, client, arrived_events)
    made.gap("desk-1", "a", 9001, 9003, "lost")
    return made


def _deliver(made: Trace, client: str, events: list[tuple[float, str, int, float]]) -> None:
    """Deliver in the order of publication: an event waits for those that were published before it."""
    ranks = {each: rank for rank, each in enumerate(sorted(events), start=1)}
    delivered = 0.0
    for each in sorted(events, key=lambda each: each[3]):
        arrived, topic, number, _ = each
        delivered = max(delivered, arrived + 0.05)
        row = made.notified(client, topic, number, at=delivered, arrived=arrived)
        row["arrival_index"] = ranks[each]


def sample(seed: int = 1, *, disorder_ms: float = 60, broken: bool = False, runs: int = 1) -> Result:
    """Return the result of an analysis of such traces.

    Args:
        broken: with a violation in what was delivered, and numbers of 64 bits.
    """
    rows = [row for at in range(runs) for row in trace(seed + at, disorder_ms=disorder_ms, run=_run_name(at)).rows]
    for row in rows:
        row["topic"] = _TOPICS.get(row["topic"], row["topic"])
    result = measure_rows((Row(**row) for row in rows), path="/srv/traces", window_s=2, made_at=_MADE_AT)
    damaged = [Damaged(file=f"/srv/traces/{EVIL}.parquet", reason="it is empty (zero bytes)")]
    result = replace(result, files=Files(read=6, bytes=482_113, damaged=damaged), dropped_rows=17)
    return _with_violation(result) if broken else result


def _run_name(at: int) -> str:
    return "default" if at == 0 else f"{EVIL} {at}"


def _with_violation(result: Result) -> Result:
    first, second = EventName(topic=f"mqtt:{EVIL}", number=HUGE), EventName(topic="mqtt:orders/eu", number=7)
    pair = PairFigures(
        run="default", a="desk-1", b=EVIL, length=600, length_raw=600, ordering_degree_raw=0.97,
        ordering_degree_delivered=0.9999999, tno_violations_raw=HUGE, tno_violations_delivered=1,
        witness=Witness(first=first, second=second),
    )  # fmt: skip
    return replace(
        result, tno_violations_delivered=1, ordering_degree_delivered=0.9999999, worst_pairs=[pair, *result.worst_pairs]
    )


class Seeds:
    """Puts runs and schedules into a store."""

    def __init__(self, store: Store) -> None:
        self._runs, self._schedules = Analyses(store), Schedules(store)
        self._owner = new_owner("tests")  # of a process that lives: ours

    def ended(
        self, source: str, outcome: Outcome = "done", *, result: Result | None = None, reason: str = "", log: str = ""
    ) -> str:
        """Add a run that has ended; return its id."""
        run = self._runs.begin(Job(source=source, window_s=2), self._owner, "ann")
        given: dict[str, Any] | None = None if result is None else to_plain(result)
        assert self._runs.end(run.id, self._owner, outcome, reason=reason, result=given, log=log)
        return run.id

    def running(self, source: str, progress: Progress | None = None, log: str = "") -> str:
        """Add a run that goes on; return its id."""
        run = self._runs.begin(Job(source=source), self._owner, "ann")
        self._runs.beat(run.id, self._owner, progress=progress, log=log)
        return run.id

    def goes_on(self, run: str, progress: Progress, log: str) -> str:
        """Let a run get on; return what its owner is told."""
        return self._runs.beat(run, self._owner, progress=progress, log=log)

    def ends(self, run: str, outcome: Outcome, *, reason: str = "") -> None:
        """Let a run end."""
        assert self._runs.end(run, self._owner, outcome, reason=reason)

    def schedule(self, name: str, cron: str, source: str, *, is_on: bool = True) -> Schedule:
        """Add a schedule."""
        return self._schedules.add(name, cron, "UTC", Job(source=source), is_on=is_on, by="ann")


@contextmanager
def seeds(site: UpServer) -> Iterator[Seeds]:
    """Write into a site's store beside the site itself."""
    store = Store(site.store)
    try:
        yield Seeds(store)
    finally:
        store.close()
