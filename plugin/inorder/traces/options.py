"""Options for what a client records, and where."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Final

from inorder.errors import InvalidOption, MissingExtra

RUN_VARIABLE: Final = "INORDER_RUN"
DEFAULT_RUN: Final = "default"
MAX_RUN: Final = 128
MAX_NAME: Final = 120
"""Characters of a file's name for its run or client; a longer one is cut, with a hash at its end."""
MIN_BUFFERED: Final = 1_000
_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~-")


@dataclass(frozen=True, slots=True)
class Traces:
    """The place and manner of a client's traces (docs/TRACES.md). Payloads and tokens are never recorded.

    Attributes:
        url: a folder, or a URL of fsspec (``s3://bucket/traces``, ``memory://traces``, ``file:///var/traces``).
        run: which run this belongs to, 1 to 128 characters or empty; ``None``: what the environment variable
            ``INORDER_RUN`` says, else ``default``. Clients of one run in one place are looked at together.
        rows_per_file: a file is closed at this many rows.
        flush_interval: how often what is new is written, s: into the file before, where that is small, else into one of
            its own.
        max_buffered_rows: what may wait to be written; rows beyond are dropped, counted, and the count recorded.
        close_timeout: how long closing the client waits for the rest to be written, beyond its own time, s.

    Raises:
        InvalidOption: a value is not allowed.
        MissingExtra: pyarrow or fsspec is not installed.
    """

    url: str | Path
    run: str | None = None
    rows_per_file: int = 250_000
    flush_interval: float = 10.0
    max_buffered_rows: int = 500_000
    close_timeout: float = 10.0

    def __post_init__(self) -> None:
        """Check the values."""
        if not isinstance(self.url, (str, Path)) or not str(self.url) or "\0" in str(self.url):
            raise InvalidOption("traces", self.url, "a folder, or a URL of fsspec")
        if self.run is not None:
            _check_run("run", self.run)
        _check_whole("rows_per_file", self.rows_per_file, 1)
        _check_whole("max_buffered_rows", self.max_buffered_rows, MIN_BUFFERED)
        _check_seconds("flush_interval", self.flush_interval)
        _check_seconds("close_timeout", self.close_timeout)
        for library in ("pyarrow", "fsspec"):
            if find_spec(library) is None:
                raise MissingExtra("recording traces", "traces")

    @property
    def run_id(self) -> str:
        """The id of the run: the given one, else the environment's. Raises InvalidOption."""
        if self.run is not None:
            return self.run
        run = os.environ.get(RUN_VARIABLE, DEFAULT_RUN)
        _check_run(RUN_VARIABLE, run)
        return run

    def check(self) -> None:
        """Check that the place can be written. Raises InvalidOption where it cannot."""
        from inorder.traces.folder import open_folder

        open_folder(self.url, self.run_id)


def traces_of(given: object) -> Traces:
    """Return the options for a client's ``traces`` argument. Raises what :class:`Traces` does."""
    if isinstance(given, Traces):
        return given
    if isinstance(given, (str, Path)):
        return Traces(given)
    raise InvalidOption("traces", given, "a folder, a URL of fsspec, or Traces(...)")


def safe_name(text: str) -> str:
    """Return a text as the name of a file or folder, always the same. Characters other than ``A-Z a-z 0-9 _ . ~ -``
    become ``%`` and hex digits; no dot or underscore is at the front (readers pass over those)."""
    coded = "".join(chr(each) if each in _PLAIN else f"%{each:02X}" for each in text.encode())
    if coded[:1] in (".", "_"):
        coded = f"%{ord(coded[0]):02X}{coded[1:]}"
    if len(coded) > MAX_NAME:
        coded = f"{coded[: MAX_NAME - 17]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return coded or "~"


def _check_run(name: str, run: object) -> None:
    is_text = isinstance(run, str) and not any("\ud800" <= each <= "\udfff" for each in run)
    if not is_text or len(str(run)) > MAX_RUN:
        raise InvalidOption(name, run, f"a text of at most {MAX_RUN} characters")


def _check_whole(name: str, value: object, lowest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise InvalidOption(name, value, f"a whole number from {lowest}")


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value <= 0:
        raise InvalidOption(name, value, "a number of seconds above 0")
