"""The columns of traces as Spark types; Spark is never left to guess any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from inorder.traces.schema import COLUMNS, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES: Final[dict[Type, DataType]] = {
    "integer": LongType(),
    "text": StringType(),
    "boolean": BooleanType(),
    "instant": TimestampType(),
    "integers": ArrayType(LongType()),
}

SCHEMA: Final = StructType([StructField(each.name, _TYPES[each.type]) for each in COLUMNS])
"""All columns, in their order; any may be null."""


def read_rows(session: SparkSession, files: Sequence[Path]) -> DataFrame:
    """Return the rows of ingested files as :func:`prepared` does; without files an empty table with all columns."""
    if not files:
        return prepared(session.createDataFrame([], SCHEMA))
    return prepared(session.read.schema(SCHEMA).parquet(*map(str, files)))


def prepared(rows: DataFrame) -> DataFrame:
    """Return the rows with a client and a kind, with instants as microseconds since 1970 in UTC, which no time zone can
    change. A row without a run belongs to the run of the empty name."""
    instants = {each.name: F.unix_micros(each.name) for each in COLUMNS if each.type == "instant"}
    known = rows.where(F.col("client").isNotNull() & F.col("kind").isNotNull())
    return known.withColumns(
        instants | {"run": F.coalesce("run", F.lit("")), "incarnation": F.coalesce("incarnation", F.lit(0))}
    )
