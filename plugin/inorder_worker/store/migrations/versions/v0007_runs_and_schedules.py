"""What it takes to run analyses: a queue, who runs what, and when a schedule was due last."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

from inorder_worker.store.chain import seal

revision = "0007"
down_revision = "0006"

_OLD_RUN = ("id", "kind", "source", "started_ms", "ended_ms", "outcome", "detail", "log", "by")
_OLD_SCHEDULE = ("id", "name", "cron", "job", "is_on", "created_ms", "by")


def upgrade() -> None:
    """Make both tables anew, with the rows that they have: SQLite changes no column that is there."""
    runs = [_run(row) for row in _read("analytics_runs", _OLD_RUN)]
    schedules = [_schedule(row) for row in _read("schedules", _OLD_SCHEDULE)]
    op.drop_table("analytics_runs")
    op.drop_table("schedules")
    made_runs = op.create_table(
        "analytics_runs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("schedule", sa.Text, nullable=True),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("queued_ms", sa.BigInteger, nullable=False),
        sa.Column("started_ms", sa.BigInteger, nullable=True),
        sa.Column("ended_ms", sa.BigInteger, nullable=True),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("cancelled_by", sa.Text, nullable=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("progress", sa.Text, nullable=True),
        sa.Column("summary", sa.Text, nullable=True),
        sa.Column("result", sa.Text, nullable=True),
        sa.Column("log", sa.Text, nullable=False),
        sa.Column("seal", sa.Text, nullable=False),
    )
    made_schedules = op.create_table(
        "schedules",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("timezone", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("is_on", sa.Boolean, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("after_ms", sa.BigInteger, nullable=False),
        sa.Column("fired_ms", sa.BigInteger, nullable=True),
        sa.Column("seal", sa.Text, nullable=False),
        sa.UniqueConstraint("name", name="schedules_name"),
    )
    _write("analytics_runs", made_runs, runs)
    _write("schedules", made_schedules, schedules)


def _read(table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows; ``is_whole``: its seal fits."""
    types = {"is_on": sa.Boolean}
    source = sa.table(table, *(sa.column(name, types.get(name)) for name in (*columns, "seal")))
    found = op.get_bind().execute(sa.select(source)).mappings().all()
    return [{**row, "is_whole": row["seal"] == seal(table, *(row[name] for name in columns))} for row in found]


def _write(name: str, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows with the seal that their new columns need; one that was damaged stays so."""
    for row in rows:
        values = [row[column.name] for column in table.c if column.name != "seal"]
        sealed = seal(name, *values) if row.pop("is_whole") else row["seal"]
        op.get_bind().execute(table.insert(), {**row, "seal": sealed})


def _run(row: dict[str, Any]) -> dict[str, Any]:
    result = row.pop("detail")
    added = {"job": "{}", "schedule": None, "queued_ms": row["started_ms"], "reason": "", "cancelled_by": None}
    return {**row, **added, "owner": "", "beat": 0, "progress": None, "summary": None, "result": result}


def _schedule(row: dict[str, Any]) -> dict[str, Any]:
    """Names were not bound to be different: here the id makes them so. Off, as no release ever ran one."""
    name = f"{row['name']} ({row['id']})"
    return {**row, "name": name, "timezone": "UTC", "is_on": False, "after_ms": row["created_ms"], "fired_ms": None}
