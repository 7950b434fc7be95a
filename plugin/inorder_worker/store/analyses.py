"""Runs of analyses over traces: a queue in the store, and the outcome of each run.

``queued``, then ``running``, then ``done``, ``failed`` or ``cancelled``. A run has one owner at a time: only who has
claimed it writes to it, by updates that ask for that very owner. So of several control planes one gets a run, and an
owner that was given up meanwhile writes nothing any more.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, cast

import msgspec
import sqlalchemy as sa

from inorder.errors import StoreCorrupt
from inorder_worker.store import records
from inorder_worker.store.results import LOG_BYTES, RESULT_BYTES, last_lines, storable, summary_of
from inorder_worker.store.schema import analytics_runs
from inorder_worker.store.store import Store

Outcome = Literal["queued", "running", "done", "failed", "cancelled"]
OUTCOMES: Final = ("queued", "running", "done", "failed", "cancelled")
OPEN: Final = ("queued", "running")
Word = Literal["go on", "cancel", "lost"]
"""What an owner is told at a beat: ``cancel``: somebody wants the run to end; ``lost``: it is no longer the owner's."""

DEFAULT_WINDOW_S: Final = 60.0
DEFAULT_MAX_PAIRS: Final = 200
DEFAULT_MASTER: Final = "local[*]"

_own = analytics_runs.c
_BRIEF: Final = [column for column in analytics_runs.c if column.name not in ("result", "log", "seal")]


class Job(msgspec.Struct, frozen=True):
    """The task of an analysis.

    Attributes:
        source: folder or URL of the traces.
        out: folder or URL for the results as Parquet; ``None``: nowhere but the store.
        window_s: seconds of a time window.
        max_pairs: pairs of subscribers that are compared; of more a sample is.
        master: of Spark.
        kind: always ``analyze``.
    """

    source: str = ""
    out: str | None = None
    window_s: float = DEFAULT_WINDOW_S
    max_pairs: int = DEFAULT_MAX_PAIRS
    master: str = DEFAULT_MASTER
    kind: str = "analyze"

    def text(self) -> str:
        """Return the job in its stored form."""
        return msgspec.json.encode(self).decode()


class Progress(NamedTuple):
    """The progress of a run: step ``step`` of ``of``, and the step's name."""

    step: int
    of: int
    what: str


class Run(NamedTuple):
    """A run, without its result and log.

    Attributes:
        schedule: id of the schedule that was due; ``None``: somebody asked for it.
        by: who asked for it, or made the schedule.
        queued_ms, started_ms, ended_ms: ms since 1970.
        reason: why it failed or was cancelled, else empty.
        cancelled_by: who wants it to end.
        owner: the process that runs it (see identity); empty: none yet.
        beat: rises while the owner lives.
        summary: the figures of the result.
    """

    id: str
    job: Job
    schedule: str | None
    by: str
    queued_ms: int
    started_ms: int | None
    ended_ms: int | None
    outcome: Outcome
    reason: str
    cancelled_by: str | None
    owner: str
    beat: int
    progress: Progress | None
    summary: Mapping[str, Any] | None


class Analyses:
    """The runs of a store. All calls block, and raise StoreErrors."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- whoever asks ----------------------------------------------------------------------------------------------

    def queue(self, job: Job, by: str, *, schedule: str | None = None) -> Run:
        """Queue a run."""
        return self._store.write(lambda connection: add_run(connection, job, by, schedule=schedule))

    def list(self) -> list[Run]:
        """Return all runs, the newest first."""
        newest = sa.select(*_BRIEF).order_by(_own.queued_ms.desc(), _own.id)
        return [*self._runs(newest)]

    def open(self) -> Sequence[Run]:
        """Return the queued and running runs in the order of their start."""
        waiting = sa.select(*_BRIEF).where(_own.outcome.in_(OPEN)).order_by(_own.queued_ms, _own.id)
        return self._runs(waiting)

    def newest(self) -> Sequence[Run]:
        """Return the open runs, and the run that ended last."""
        last = sa.select(*_BRIEF).where(_own.ended_ms.is_not(None)).order_by(_own.ended_ms.desc(), _own.id).limit(1)
        return [*self.open(), *self._runs(last)]

    def get(self, id_: str) -> Run | None:
        """Return a run. Raises StoreCorrupt where its seal does not fit."""
        row = self._row(id_)
        return None if row is None else _run(row)

    def result(self, id_: str) -> dict[str, Any] | None:
        """Return the result of a run, or ``None`` while there is none."""
        row = self._row(id_)
        return None if row is None or row["result"] is None else cast("dict[str, Any]", json.loads(row["result"]))

    def log(self, id_: str) -> str | None:
        """Return the last lines of a run's log; ``None`` if there is no such run."""
        row = self._row(id_)
        return None if row is None else str(row["log"])

    def cancel(self, id_: str, by: str) -> Run | None:
        """Cancel a run: a queued one ends at once, else its owner is told. Return it, ``None`` if there is none; one
        that has ended is as it was."""

        def change(connection: sa.Connection) -> None:
            values = {"ended_ms": records.now_ms(), "outcome": "cancelled", "reason": "before it began"}
            if not records.change(
                connection, analytics_runs, id_, {**values, "cancelled_by": by}, _own.outcome == "queued"
            ):
                running = (_own.outcome == "running", _own.cancelled_by.is_(None))
                records.change(connection, analytics_runs, id_, {"cancelled_by": by}, *running)

        self._store.write(change)
        return self.get(id_)

    def remove(self, id_: str) -> bool:
        """Delete a run that has ended; return false if there is no such run."""
        ended = analytics_runs.delete().where(_own.id == id_, _own.outcome.not_in(OPEN))
        return bool(self._store.write(lambda connection: connection.execute(ended).rowcount))

    def trim(self, keep: int) -> int:
        """Delete the oldest ended runs except for the newest ``keep``; return how many."""
        newest = sa.select(_own.id).where(_own.outcome.not_in(OPEN)).order_by(_own.queued_ms.desc(), _own.id)

        def work(connection: sa.Connection) -> int:
            old = connection.execute(newest.offset(keep).limit(500)).scalars().all()
            connection.execute(analytics_runs.delete().where(_own.id.in_(old)))
            return len(old)

        return self._store.write(work)

    # -- the owner of a run ----------------------------------------------------------------------------------------

    def begin(self, job: Job, owner: str, by: str) -> Run:
        """Add a run that its owner has begun already."""
        return self._store.write(lambda connection: add_run(connection, job, by, owner=owner))

    def claim(self, id_: str, owner: str) -> Run | None:
        """Claim a queued run; return ``None`` if it is gone or another owner was faster."""
        values = {"outcome": "running", "owner": owner, "started_ms": records.now_ms()}
        is_ours = self._store.write(
            lambda connection: records.change(connection, analytics_runs, id_, values, _own.outcome == "queued")
        )
        return self.get(id_) if is_ours else None

    def claim_next(self, owner: str) -> Run | None:
        """Claim the run that has waited longest; return ``None`` if none waits."""
        waiting = sa.select(_own.id).where(_own.outcome == "queued").order_by(_own.queued_ms, _own.id)
        for id_ in self._store.run(lambda connection: connection.execute(waiting).scalars().all()):
            if run := self.claim(id_, owner):
                return run
        return None

    def beat(self, id_: str, owner: str, *, progress: Progress | None = None, log: str | None = None) -> Word:
        """Show that a run goes on, with its progress; return what its owner is to do."""
        values = _told(progress, log)

        def work(connection: sa.Connection) -> Word:
            now = sa.select(_own.beat, _own.cancelled_by).where(_own.id == id_, *_is_of(owner)).with_for_update()
            found = connection.execute(now).one_or_none()
            if found is None:
                return "lost"
            records.change(connection, analytics_runs, id_, {**values, "beat": found.beat + 1})
            return "go on" if found.cancelled_by is None else "cancel"

        return self._store.write(work)

    def end(
        self,
        id_: str,
        owner: str,
        outcome: Outcome,
        *,
        reason: str = "",
        result: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        log: str | None = None,
    ) -> bool:
        """Store the outcome of a run; return false, and store nothing, if the run has another owner now. Raises
        ValueError for a result that is too large."""
        values = {
            **_told(progress, log), "ended_ms": records.now_ms(), "outcome": outcome, "reason": storable(reason)[:2000]
        }  # fmt: skip
        if result is not None:
            values["result"] = json.dumps(result, allow_nan=False)
            values["summary"] = json.dumps(summary_of(result))
            if len(values["result"]) > RESULT_BYTES:
                raise ValueError(f"a result of {len(values['result'])} bytes is over the limit of {RESULT_BYTES}")
        return self._store.write(
            lambda connection: records.change(connection, analytics_runs, id_, values, *_is_of(owner))
        )

    # -- whoever finds that an owner is gone -----------------------------------------------------------------------

    def give_up(self, run: Run, reason: str) -> bool:
        """End a running run whose owner is gone; return false if the run has changed since it was read."""
        values = {
            "ended_ms": records.now_ms(), "reason": reason,
            "outcome": "failed" if run.cancelled_by is None else "cancelled",
        }  # fmt: skip
        as_seen = (*_is_of(run.owner), _own.beat == run.beat)
        return self._store.write(
            lambda connection: records.change(connection, analytics_runs, run.id, values, *as_seen)
        )

    # -- inside ----------------------------------------------------------------------------------------------------

    def _rows(self, statement: sa.Select[Any]) -> Sequence[sa.RowMapping]:
        return self._store.run(lambda connection: connection.execute(statement).mappings().all())

    def _row(self, id_: str) -> sa.RowMapping | None:
        found = self._rows(sa.select(analytics_runs).where(_own.id == id_))
        return next(records.read(self._store.url, analytics_runs, found, lambda row: row), None)

    def _runs(self, brief: sa.Select[Any]) -> Sequence[Run]:
        """Return runs by a part of their columns, which a seal does not cover. Raises StoreCorrupt."""
        rows = self._rows(brief)
        try:
            return [*map(_run, rows)]
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            reason = f"a row of {analytics_runs.name} is damaged ({error}); inorder verify names it"
            raise StoreCorrupt(self._store.url, reason) from None


def add_run(
    connection: sa.Connection, job: Job, by: str, *, schedule: str | None = None, owner: str | None = None
) -> Run:
    """Add a run, inside a transaction; it waits unless it has an owner already."""
    now = records.now_ms()
    values = {
        "id": secrets.token_hex(8), "kind": job.kind, "source": job.source, "job": job.text(), "schedule": schedule,
        "by": by, "queued_ms": now, "started_ms": None if owner is None else now, "ended_ms": None,
        "outcome": "queued" if owner is None else "running", "reason": "", "cancelled_by": None, "owner": owner or "",
        "beat": 0, "progress": None, "summary": None, "result": None, "log": "",
    }  # fmt: skip
    records.add(connection, analytics_runs, values)
    return _run(values)


def has_open(connection: sa.Connection, schedule: str) -> bool:
    """Tell, inside a transaction, whether a run of a schedule waits or goes on."""
    wanted = sa.select(_own.id).where(_own.schedule == schedule, _own.outcome.in_(OPEN)).limit(1)
    return connection.execute(wanted).first() is not None


def job_of(text: str) -> Job:
    """Return a stored job."""
    return msgspec.json.decode(text, type=Job, strict=False)


def _told(progress: Progress | None, log: str | None) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if progress is not None:
        values["progress"] = json.dumps({**progress._asdict(), "what": storable(progress.what)[:200]})
    if log is not None:
        values["log"] = last_lines(storable(log), LOG_BYTES)
    return values


def _is_of(owner: str) -> tuple[sa.ColumnElement[bool], ...]:
    return (_own.outcome == "running", _own.owner == owner)


def _run(row: Mapping[Any, Any]) -> Run:
    progress, summary = row["progress"], row["summary"]
    return Run(
        id=row["id"], job=job_of(row["job"]), schedule=row["schedule"], by=row["by"], queued_ms=row["queued_ms"],
        started_ms=row["started_ms"], ended_ms=row["ended_ms"], outcome=row["outcome"], reason=row["reason"],
        cancelled_by=row["cancelled_by"], owner=row["owner"], beat=row["beat"],
        progress=None if progress is None else Progress(**json.loads(progress)),
        summary=None if summary is None else json.loads(summary),
    )  # fmt: skip
