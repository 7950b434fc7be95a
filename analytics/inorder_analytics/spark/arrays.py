"""Functions on Arrow arrays as columns and aggregates: what PySpark offers without pandas."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column


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
