"""The stored schedules of analyses. When a schedule is due is for the control plane to say; here only one of several
that say so gets to make the run."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from inorder_worker.store import records
from inorder_worker.store.analyses import Job, Run, add_run, has_open, job_of
from inorder_worker.store.schema import schedules
from inorder_worker.store.store import Store
from inorder_worker.store.store_errors import Conflict

_own = schedules.c


class Schedule(NamedTuple):
    """A schedule.

    Attributes:
        name: for people; no two have the same.
        cron, timezone: when it is due: five fields, meant in a zone of the IANA's.
        by: who made it.
        after_ms: it is due at the first time after this one (ms since 1970).
        fired_ms: when it last made a run; ``None``: never.
        seal: of the row that was read.
    """

    id: str
    name: str
    cron: str
    timezone: str
    job: Job
    is_on: bool
    created_ms: int
    by: str
    after_ms: int
    fired_ms: int | None
    seal: str


class Schedules:
    """The schedules of a store. All calls block, and raise StoreErrors: Conflict for a name that is taken."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> list[Schedule]:
        """Return all schedules, by name."""
        found = self._store.run(
            lambda connection: connection.execute(sa.select(schedules).order_by(_own.name)).mappings().all()
        )
        return [*records.read(self._store.url, schedules, found, _schedule)]

    def get(self, id_: str) -> Schedule | None:
        """Return a schedule. Raises StoreCorrupt where its seal does not fit."""
        return self._first(_own.id == id_)

    def find(self, text: str) -> Schedule | None:
        """Return a schedule by its id or name."""
        return self._first(_own.id == text) or self._first(_own.name == text)

    def add(self, name: str, cron: str, timezone: str, job: Job, *, is_on: bool, by: str) -> Schedule:
        """Add a schedule; times from now on count."""
        now = records.now_ms()
        values = {
            "id": secrets.token_hex(8), "name": name, "cron": cron, "timezone": timezone, "job": job.text(),
            "is_on": is_on, "created_ms": now, "by": by, "after_ms": now, "fired_ms": None,
        }  # fmt: skip
        self._store.write(lambda connection: records.add(connection, schedules, values))
        return _schedule({**values, "seal": records.record_seal(schedules, values)})

    def change(self, seen: Schedule, *, name: str, cron: str, timezone: str, job: Job, is_on: bool) -> Schedule | None:
        """Change a schedule; return ``None`` if it was changed, or was due, since it was seen. Where it is due at other
        times from now on, times that were missed before do not count."""
        values: dict[str, Any] = {
            "name": name, "cron": cron, "timezone": timezone, "job": job.text(), "is_on": is_on
        }  # fmt: skip
        if (cron, timezone, is_on) != (seen.cron, seen.timezone, seen.is_on):
            values["after_ms"] = records.now_ms()
        is_made = self._store.write(
            lambda connection: records.change(connection, schedules, seen.id, values, _own.seal == seen.seal)
        )
        return self.get(seen.id) if is_made else None

    def remove(self, id_: str) -> bool:
        """Delete a schedule; its runs stay. False if there is none."""
        gone = schedules.delete().where(_own.id == id_)
        return bool(self._store.write(lambda connection: connection.execute(gone).rowcount))

    def fire(self, seen: Schedule, now_ms: int) -> Run | None:
        """Start a due schedule's run, for all times up to ``now_ms``; return ``None`` if another control plane did, the
        schedule was changed, or its last run has not ended: then this time is passed over."""

        def work(connection: sa.Connection) -> Run | None:
            is_passed = has_open(connection, seen.id)
            values = {"after_ms": now_ms} if is_passed else {"after_ms": now_ms, "fired_ms": now_ms}
            is_ours = records.change(connection, schedules, seen.id, values, _own.seal == seen.seal)
            if not is_ours or is_passed:
                return None
            return add_run(connection, seen.job, seen.by, schedule=seen.id)

        return self._store.write(work)

    def _first(self, condition: sa.ColumnElement[bool]) -> Schedule | None:
        one = sa.select(schedules).where(condition)
        found = self._store.run(lambda connection: connection.execute(one).mappings().all())
        return next(records.read(self._store.url, schedules, found, _schedule), None)


def _schedule(row: Mapping[Any, Any]) -> Schedule:
    return Schedule(
        id=row["id"], name=row["name"], cron=row["cron"], timezone=row["timezone"], job=job_of(row["job"]),
        is_on=bool(row["is_on"]), created_ms=row["created_ms"], by=row["by"], after_ms=row["after_ms"],
        fired_ms=row["fired_ms"], seal=row["seal"],
    )  # fmt: skip


__all__ = ["Conflict", "Schedule", "Schedules"]
