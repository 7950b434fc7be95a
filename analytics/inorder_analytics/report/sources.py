"""The sources of a report: a result, the folder of an analysis, or traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from inorder.errors import InvalidOption
from inorder_analytics.reading import Traces
from inorder_analytics.results import Result, decode

RESULT_FILE: Final = "result.json"
"""In the folder that an analysis wrote to."""


def result_of(path: str, measure: Callable[[Traces], Result]) -> Result:
    """Return the result at a path or URL, or the one that ``measure`` makes of the traces there.

    A file that is not called ``*.parquet`` is a result as JSON; a folder with RESULT_FILE is what an analysis wrote.

    Raises:
        UsageError: the file is no result (InvalidOption: there is no such path).
    """
    traces = Traces(path)
    written = _written(traces)
    if written is None:
        return measure(traces)
    with written.filesystem.open(written.files[0].file, "rb") as opened:
        return decode(opened.read(), path)


def _written(traces: Traces) -> Traces | None:
    """Return the one file with a result."""
    if len(traces.files) == 1 and not traces.files[0].name.endswith(".parquet"):
        return traces
    try:
        return Traces(f"{traces.path.rstrip('/')}/{RESULT_FILE}")
    except InvalidOption:
        return None
