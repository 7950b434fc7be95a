"""Alarms for operators, derived from observations of the cluster.

An alarm is not stored and needs no acknowledgement: it is there while its reason is. Its id is the same as long as it
is, also in other replicas, and ``since`` is when this replica saw it first, or when it began where that is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from inorder_worker.admin import StuckNumber
from inorder_worker.store.overview import StageView, WorkerView
from inorder_worker.store.sqlite_file import LONG_LOG, Room

Severity = Literal["warning", "critical"]

MAX_OF_A_KIND: Final = 50
"""Alarms of one kind; of more only the number is told."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm.

    Attributes:
        id: names it as long as it is there.
        severity: critical where events may not get on.
        title: in a few words.
        detail: what is the matter, and what helps.
        page: the page of the dashboard that shows more, as a path.
        began_ms: when it began (ms since 1970), where that is known.
    """

    id: str
    severity: Severity
    title: str
    detail: str
    page: str
    began_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The observations of the cluster at a time.

    Attributes:
        store_error, workers_error: why the store or the workers do not answer, ``None`` while they do.
        outdated: how the store was found to be an older copy of itself; empty while it was not.
        room: what the log of an SQLite store has, and what is free beside it; ``None`` for other stores.
        labels: the topics of ``stuck`` by id, as people write them.
        lost: how many numbers each client gave its application as gaps in the last minute, by its id.
        order_change_s: for how long a change of the topic order runs, ``None`` while none does.
    """

    at_ms: int
    store_error: str | None = None
    workers_error: str | None = None
    outdated: str = ""
    stages: Sequence[StageView] = ()
    workers: Sequence[WorkerView] = ()
    stuck: Sequence[StuckNumber] = ()
    labels: Mapping[int, str] = field(default_factory=dict)
    order_change_s: float | None = None
    lost: Mapping[str, int] = field(default_factory=dict)
    room: Room | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds of alarms.

    Attributes:
        stuck_s: seconds that a number may be waited for; ten times that is critical.
        order_change_s: seconds that a change of the topic order may take.
        lag_rows: rows of a journal that a standby may be behind.
        log_bytes: that SQLite's log may have.
    """

    stuck_s: float = 5.0
    order_change_s: float = 5.0
    lag_rows: int = 10_000
    log_bytes: int = LONG_LOG


def alarms(seen: Seen, limits: Limits) -> list[Alarm]:
    """Return the alarms for observations, critical ones first."""
    is_outdated = bool(seen.outdated)  # then no worker can have a stage, or show that it lives: that is said once
    found = [
        *_unreachable(seen),
        *_room(seen, limits),
        *_bounded("stages", [] if is_outdated else [*_stages(seen)]),
        *_bounded("workers", [] if is_outdated else [*_workers(seen, limits)]),
        *_bounded("stuck", [*_stuck(seen, limits)]),
        *_order(seen, limits),
        *_bounded("clients", [*_clients(seen)]),
    ]
    return sorted(found, key=lambda each: each.severity != "critical")


class AlarmBook:
    """Remembers since when each alarm has lasted."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}

    def since(self, found: Sequence[Alarm], now_ms: int) -> list[tuple[Alarm, int]]:
        """Return the present alarms, each with its beginning (ms since 1970); alarms that are missing here are over."""
        before = self._since
        self._since = {
            each.id: before.get(each.id, now_ms if each.began_ms is None else each.began_ms) for each in found
        }
        return [(each, self._since[each.id]) for each in found]


def _unreachable(seen: Seen) -> Iterator[Alarm]:
    if seen.store_error is not None:
        detail = f"{seen.store_error}. Workers commit nothing without it, so no timestamps are made."
        yield Alarm("store", "critical", "The store does not answer", detail, "/workers")
    if seen.outdated:
        detail = f"{seen.outdated}. Nothing is numbered: stop all workers, run inorder renew, and start them again."
        yield Alarm("outdated", "critical", "The store is an older copy of itself", detail, "/workers")
    if seen.workers_error is not None:
        detail = f"{seen.workers_error}. Publishers and strict subscribers wait."
        yield Alarm("workers", "critical", "The workers do not answer", detail, "/workers")


def _room(seen: Seen, limits: Limits) -> Iterator[Alarm]:
    if seen.room is None:
        return
    log, free = (f"{size / 2**20:.0f} MiB" for size in seen.room)
    if seen.room.is_short():
        detail = (
            f"Its log (-wal) has {log}, {free} are free: workers give no numbers until there is room to take it up."
        )
        yield Alarm("store-room", "critical", "The store's disk is full", detail, "/workers")
    elif seen.room.log >= limits.log_bytes:
        detail = f"It has {log}, {free} are free. A backup, a shell or a process that stands still reads for long."
        yield Alarm("store-log", "warning", "A reader holds the store's log (-wal) up", detail, "/workers")


def _stages(seen: Seen) -> Iterator[Alarm]:
    for each in seen.stages:
        name = f"Stage {each.stage}"
        if not each.owner:
            detail = "Its topics get no timestamps until a worker takes it. Start one, or see why none may have it."
            yield Alarm(f"stage-{each.stage}", "critical", f"{name} has no worker", detail, "/workers")
        elif each.state == "dead":
            detail = f"{each.owner} is gone and no standby has taken over. Start a worker."
            yield Alarm(
                f"stage-{each.stage}", "critical", f"The worker of stage {each.stage} is gone", detail, "/workers"
            )


def _workers(seen: Seen, limits: Limits) -> Iterator[Alarm]:
    for each in seen.workers:
        name = f"{each.owner} ({each.address})"
        if each.state == "suspect":
            detail = (
                f"{name} has shown no sign of life for a lease; a standby takes its stages over where there is one."
            )
            yield Alarm(f"worker-{each.owner}", "warning", "A worker is silent", detail, "/workers")
        elif each.state == "dead":
            detail = f"{name} ended without saying so, and will be forgotten soon."
            yield Alarm(f"worker-{each.owner}", "warning", "A worker is gone", detail, "/workers")
        for stage, rows in sorted(each.lag.items()):
            if rows > limits.lag_rows and each.state == "standby":
                detail = f"{name} has {rows} rows of stage {stage} still to read; a take-over would take that long."
                yield Alarm(f"lag-{stage}-{each.owner}", "warning", "A standby is behind", detail, "/workers")


def _stuck(seen: Seen, limits: Limits) -> Iterator[Alarm]:
    told = set[int]()
    for each in sorted(seen.stuck, key=lambda stuck: -stuck.age_ms):
        age_s = each.age_ms / 1000
        if age_s < limits.stuck_s or each.topic in told:
            continue
        told.add(each.topic)  # its longest: the page shows the others
        severity: Severity = "critical" if age_s >= 10 * limits.stuck_s else "warning"
        numbers = _numbers(each.last - each.first + 1)
        label = seen.labels.get(each.topic, str(each.topic))
        detail = f"{label}: {numbers} for {age_s:.0f} s ({each.reason}). Strict subscribers wait for them."
        yield Alarm(f"stuck-{each.topic}", severity, "The order is stuck", detail, "/gaps", seen.at_ms - each.age_ms)


def _numbers(count: int) -> str:
    return "a number" if count == 1 else f"{count} numbers"


def _order(seen: Seen, limits: Limits) -> Iterator[Alarm]:
    if seen.order_change_s is not None and seen.order_change_s >= limits.order_change_s:
        detail = f"For {seen.order_change_s:.0f} s publishers have been waiting for every stage to be in the new order."
        began = seen.at_ms - round(seen.order_change_s * 1000)
        yield Alarm("order-change", "warning", "A change of the topic order takes long", detail, "/topics", began)


def _clients(seen: Seen) -> Iterator[Alarm]:
    for client_id, lost in sorted(seen.lost.items(), key=lambda each: -each[1]):
        if lost:
            detail = (
                f"{client_id} reported gaps of {_numbers(lost)} in the last minute; no event log could repair them."
            )
            yield Alarm(f"loss-{client_id}", "warning", "Events are lost", detail, "/events")


def _bounded(kind: str, found: list[Alarm]) -> list[Alarm]:
    if len(found) <= MAX_OF_A_KIND:
        return found
    shown, rest = found[:MAX_OF_A_KIND], found[MAX_OF_A_KIND:]
    severity: Severity = "critical" if any(each.severity == "critical" for each in rest) else "warning"
    more = Alarm(f"more-{kind}", severity, f"{len(rest)} more like that", f"See {rest[0].page}.", rest[0].page)
    return [*shown, more]
