"""Log lines of workers and clients in logfmt: one fact per field, so that programs can split them safely.

Every call names its fields in its text (``event=slow_client client=%s``), and a value that holds blanks, quotes,
equals signs or control characters is quoted as JSON quotes it. That is done where the line is made, so it holds for
every handler that an application sets up; no topic, client id or error text can forge a line or a field.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from math import inf
from typing import Any, Final

LINE_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
"""How a worker's log looks for people."""

CERTIFICATES: Final = "inorder.certificates"
"""The logger that says that certificates were read again: what an operator waits for after a SIGHUP."""

SELDOM: Final = {"seldom": ""}
"""``extra`` of a line that strangers can cause as often as they like; in place of the empty text stands what tells such
lines of one text apart, which is one of a few, and nothing that a stranger says."""
WRITTEN_AGAIN: Final = 10.0
"""Seconds for which such lines are only counted after one was written."""
_FIELD: Final = re.compile(r'([a-z_0-9]+)=("(?:[^"\\]|\\.)*"|[^ ]*)(?: |$)')


def logger(name: str) -> logging.Logger:
    """Return the logger of this name, which quotes the arguments of its texts where necessary."""
    found = logging.getLogger(name)
    if _quoting not in found.filters:
        found.addFilter(_quoting)
        found.addFilter(seldom)
    return found


def bound(name: str) -> None:
    """Have each line of another library's logger written seldom."""
    logging.getLogger(name).addFilter(_always_seldom)


def set_up(form: str = "text", level: int = logging.INFO, text: str = LINE_FORMAT) -> None:
    """Make this process log to stderr, as ``text`` or as ``json``; an earlier setup stays."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else logging.Formatter(text))
    logging.basicConfig(level=level, handlers=[handler])


def quoted(value: object) -> str:
    """Return a value in logfmt."""
    text = str(value)
    if text and text.isprintable() and not any(each in ' "=\\' for each in text):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def fields_of(line: str) -> dict[str, str] | None:
    """Return the fields of a line, in order; ``None`` for a text without fields."""
    fields: dict[str, str] = {}
    at = 0
    while at < len(line):
        found = _FIELD.match(line, at)
        if found is None:
            return None
        key, value = found.groups()
        fields[key] = json.loads(value) if value.startswith('"') else value
        at = found.end()
    return fields or None


class _Quoting(logging.Filter):
    """Quotes the arguments of a text; numbers stay numbers."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(each if isinstance(each, int | float) else quoted(each) for each in record.args)
        return True


class Seldom(logging.Filter):
    """Lets one line of a kind pass in ``WRITTEN_AGAIN`` seconds, with the number of those left out since the last one,
    so that nobody fills a disk from outside.

    Args:
        kind: of lines that do not say theirs (see ``SELDOM``); ``None``: these all pass.
    """

    def __init__(self, kind: str | None = None) -> None:
        super().__init__()
        self._kind = kind
        self._written: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        kind: str | None = getattr(record, "seldom", self._kind)
        if kind is None:
            return True
        now, key = time.monotonic(), (str(record.msg), kind)
        at, left_out = self._written.get(key, (-inf, 0))
        is_due = now >= at + WRITTEN_AGAIN
        self._written[key] = (now, 0) if is_due else (at, left_out + 1)
        if is_due and left_out:
            record.msg = f"{str(record.msg).rstrip()} left_out={left_out}"
        return is_due

    def clear(self) -> None:
        """Forget what was written."""
        self._written.clear()


_quoting: Final = _Quoting()
seldom: Final = Seldom()
_always_seldom: Final = Seldom("")


class JsonFormatter(logging.Formatter):
    """Formats one JSON object a line: ``time`` (UTC), ``level``, ``logger``, then the line's own fields (those of other
    libraries: ``message``), and ``traceback`` where there is one."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line."""
        message = record.getMessage()
        when = f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z"
        line: dict[str, Any] = {"time": when, "level": record.levelname.lower(), "logger": record.name}
        for key, value in (fields_of(message) or {"message": message}).items():
            line[f"{key}_" if key in line else key] = value
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
