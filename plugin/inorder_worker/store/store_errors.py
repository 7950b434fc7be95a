"""Conversion of errors of SQLAlchemy and its drivers into errors of this package."""

from __future__ import annotations

from typing import Final

from sqlalchemy.exc import NoResultFound

from inorder.errors import StoreCorrupt, StoreError, StoreFull, StoreReadOnly, StoreRefused, StoreUnreachable


class Busy(StoreUnreachable):
    """Another process holds the lock; nothing was done, so the work can be repeated."""


class Conflict(StoreError):
    """A row with this key exists already."""


_SQLITE_ERRORS: Final[dict[str, type[StoreError]]] = {
    "SQLITE_BUSY": Busy,
    "SQLITE_LOCKED": Busy,
    "SQLITE_READONLY": StoreReadOnly,
    "SQLITE_CORRUPT": StoreCorrupt,
    "SQLITE_NOTADB": StoreCorrupt,
    "SQLITE_CONSTRAINT": StoreRefused,
    "SQLITE_ERROR": StoreRefused,  # of a statement: there is no such table, or column
    "SQLITE_FULL": StoreFull,
}
_SQLITE_CONFLICTS: Final = ("SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_UNIQUE")
_POSTGRESQL_ERRORS: Final[dict[str, type[StoreError]]] = {
    "23505": Conflict,  # unique_violation
    "25006": StoreReadOnly,  # read_only_sql_transaction
    "42501": StoreReadOnly,  # insufficient_privilege
    "53100": StoreFull,  # disk_full
    "55P03": Busy,  # lock_not_available
    "40P01": Busy,  # deadlock_detected
    "40001": Busy,  # serialization_failure
    "XX001": StoreCorrupt,  # data_corrupted
    "XX002": StoreCorrupt,  # index_corrupted
    "42P05": StoreUnreachable,  # duplicate_prepared_statement: a pooler's; not on the next connection
    "26000": StoreUnreachable,  # invalid_sql_statement_name: the same
}
_POOLED: Final = ("42P05", "26000")
_UNPREPARED: Final = "a pooler is in between: leave prepare_threshold out of the URL, or let it be 0"
_REFUSED: Final = ("22", "23", "3F", "42", "P0")
"""Classes of SQLSTATE: data, a constraint, a schema, a statement or the code of a trigger is at fault."""


def translate(error: Exception, url: str) -> StoreError:
    """Return the error of this package for an error of SQLAlchemy or of a driver; unknown ones count as unreachable."""
    original, reason = getattr(error, "orig", None) or error, reason_of(error)
    sqlite_name = getattr(original, "sqlite_errorname", None)
    if sqlite_name is not None:
        if sqlite_name in _SQLITE_CONFLICTS:
            return Conflict(url, reason)
        primary = "_".join(str(sqlite_name).split("_")[:2])
        return _SQLITE_ERRORS.get(primary, StoreUnreachable)(url, reason)
    state = str(getattr(original, "sqlstate", None))
    reason = f"{reason} ({_UNPREPARED})" if state in _POOLED else reason
    otherwise = StoreRefused if state.startswith(_REFUSED) else StoreUnreachable
    return _POSTGRESQL_ERRORS.get(state, otherwise)(url, reason)


def reason_of(error: Exception) -> str:
    """Return the first line of a driver's error text."""
    if isinstance(error, NoResultFound):
        return "the table meta has no row; was it changed by hand?"  # the only one that always has its row
    return str(getattr(error, "orig", None) or error).strip().partition("\n")[0]


def is_not_opened(error: Exception) -> bool:
    """Tell whether SQLite could not open, or make, a file."""
    return str(getattr(getattr(error, "orig", None), "sqlite_errorname", "")).startswith("SQLITE_CANTOPEN")
