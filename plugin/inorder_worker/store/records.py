"""Rows of the control plane's tables: each has a seal, so that ``verify`` finds damaged ones.

Whoever writes to a table of ``schema.RECORDS`` does it here, inside a transaction of :class:`Store`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import sqlalchemy as sa

from inorder_worker.store import schema
from inorder_worker.store.chain import Problem, seal

T = TypeVar("T")


def now_ms() -> int:
    """Return the present time in the rows' unit: ms since 1970, by the clock of this machine."""
    return time.time_ns() // 1_000_000


def add(connection: sa.Connection, table: sa.Table, values: Mapping[str, Any]) -> Any:
    """Insert a row, with null for missing columns. Return its key (the first column). Raises Conflict for a known
    key."""
    row = {column.name: values.get(column.name) for column in table.c if column.name != "seal"}
    if table.autoincrement_column is None:
        connection.execute(table.insert(), {**row, "seal": record_seal(table, row)})
        return next(iter(row.values()))
    # The seal covers the key, which only the database can give.
    del row[table.autoincrement_column.name]
    made = connection.execute(table.insert(), {**row, "seal": ""}).inserted_primary_key
    assert made is not None, "the database has given a key"
    key = made[0]
    change(connection, table, key, {})
    return key


def change(
    connection: sa.Connection,
    table: sa.Table,
    key: Any,
    values: Mapping[str, Any],
    *conditions: sa.ColumnElement[bool],
) -> bool:
    """Change a row with a single-column key and seal it again; return false if it is missing or does not meet the
    conditions. The row is locked before it is looked at, so of several that want the same change one makes it."""
    (column,) = table.primary_key
    wanted = sa.select(table).where(column == key, *conditions).with_for_update()
    found = connection.execute(wanted).mappings().one_or_none()
    if found is None:
        return False
    row = {**found, **values}
    connection.execute(table.update().where(column == key), {**values, "seal": record_seal(table, row)})
    return True


def record_seal(table: sa.Table, row: Mapping[Any, Any]) -> str:
    """Return the seal of a row."""
    return seal(str(table.name), *(row[column.name] for column in table.c if column.name != "seal"))


def record_problem(table: sa.Table, row: Mapping[Any, Any]) -> Problem | None:
    """Return the fault of a stored row, or ``None``."""
    if row["seal"] == record_seal(table, row):
        return None
    key = ", ".join(f"{column.name} {row[column.name]}" for column in table.primary_key)
    name: Any = str(table.name)
    return Problem(name, row.get("stage"), None, f"{table.name}: the row of {key} is damaged (its seal does not fit)")


def read(url: str, table: sa.Table, rows: Iterable[sa.RowMapping], make: Callable[[sa.RowMapping], T]) -> Iterator[T]:
    """Yield what rows say. Raises StoreCorrupt at a damaged one, before ``make`` sees it."""
    for row in rows:
        if problem := record_problem(table, row):
            raise problem.error(url)
        yield make(row)


def count_on(connection: sa.Connection) -> None:
    """Set the database's key counter behind the keys of inserted rows."""
    if connection.dialect.name != "postgresql":
        return  # SQLite looks for the highest by itself
    for table in schema.RECORDS:
        column = table.autoincrement_column
        if column is not None:
            last = sa.select(sa.func.coalesce(sa.func.max(column), 0) + 1).scalar_subquery()
            sequence = sa.func.pg_get_serial_sequence(table.name, column.name)
            connection.execute(sa.select(sa.func.setval(sequence, last, sa.false())))
