"""Arrow between Spark and Python: functions on arrays as columns and aggregates, and small tables for the driver."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SIDE_BY_SIDE: Final = 4
"""How many small tables are computed at once: most of their time goes into planning, and into waiting for stages."""


def over_arrays(function: Callable[..., Any], returns: str) -> Callable[..., Column]:
    """Return a function of columns that runs in Python.

    Args:
        function: of arrays, annotated: to an array of the same length, or, to be used as an aggregate over groups, to
            one value. Each group is in memory as a whole.
        returns: the type of what it returns, in words of SQL.
    """
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    wrapped: Callable[..., Column] = arrow_udf(function, returns)
    return wrapped


def collected(*tables: DataFrame) -> list[list[dict[str, Any]]]:
    """Bring small tables to the driver, computed side by side; Arrow knows no process's time zone."""
    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="collect") as pool:
        return [table.to_pylist() for table in pool.map(lambda each: each.toArrow(), tables)]
