"""URLs of stores: the allowed forms, their files, and their display."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import exc

from inorder.errors import InvalidOption
from inorder.masking import masked_url

_ALLOWED_URLS: Final = (
    "sqlite:///file or postgresql://user@host/database; several hosts: "
    "postgresql://user@/database?host=a:5432&host=b:5432"
)


def parsed_url(url: str) -> sa.URL:
    """Return the URL of a store with its driver. Raises InvalidOption."""
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError):  # the latter: a port that is no number, as of several hosts
        raise InvalidOption("store", masked_url(url), _ALLOWED_URLS) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise InvalidOption("store", masked_url(url), _ALLOWED_URLS)
    return parsed


def file_of(url: str) -> Path | None:
    """Return the file of an SQLite store, or ``None`` for a store on a server. Raises InvalidOption."""
    parsed = parsed_url(url)
    return sqlite_path(parsed) if parsed.get_backend_name() == "sqlite" else None


def sqlite_path(url: sa.URL) -> Path:
    """Return the file that the URL of an SQLite store names. Raises InvalidOption for one in memory."""
    name = url.database
    if not name or name == ":memory:" or "mode=memory" in name or url.query.get("mode") == "memory":
        raise InvalidOption("store", masked_url(str(url)), "a file: numbers must survive the process")
    return Path(name.removeprefix("file:"))


def url_of_file(url: sa.URL, path: Path, mode: str, *, is_fixed: bool = False) -> sa.URL:
    """Return an SQLite URL that does not create the file; the mode ``ro`` gives no right to write either. ``is_fixed``:
    nobody writes to the file, so SQLite needs no files beside it."""
    query = {**url.query, "mode": mode, "uri": "true", **({"immutable": "1"} if is_fixed else {})}
    return url.set(database=f"file:{quote(str(path))}", query=query)
