"""Results for browsers and spreadsheets: numbers that both would round become texts, lists become CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from inorder_controlplane.problems import Problem

MAX_EXACT: Final = 2**53 - 1
ALWAYS_TEXT: Final = frozenset(("number", "seed"))
"""What is a text whatever its value: sequence numbers, as everywhere in the API."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def exact(value: Any, name: str = "") -> Any:
    """Return plain values in which numbers that a browser would round, and sequence numbers, are texts."""
    if isinstance(value, Mapping):
        return {key: exact(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [exact(each, name) for each in value]
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_whole and (name in ALWAYS_TEXT or abs(value) > MAX_EXACT) else value


def csv_of(result: Mapping[str, Any], name: str) -> str:
    """Return a list of a result as CSV: one line for each item, one column for each figure. Raises Problem."""
    lists = {key: value for key, value in result.items() if isinstance(value, list)}
    if name not in lists:
        raise Problem("not-found", f"list: the result has no list {name!r}", allowed=sorted(lists))
    rows = [dict(_cells(item)) for item in lists[name]]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\r\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _cells(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (column, cell) of an item; nested objects become columns with a dot."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _cells(each, f"{prefix}.{key}" if prefix else key)
    elif isinstance(value, list):
        yield prefix, _shown(json.dumps(value, ensure_ascii=False))
    else:
        yield prefix or "value", _shown(value)


def _shown(value: Any) -> Any:
    """Return the text of a cell. A spreadsheet would run a text that begins like a formula; a number is none."""
    if isinstance(value, str) and value.startswith(_FORMULA) and not value.removeprefix("-").isdigit():
        return f"'{value}"
    return value
