"""What the models of all areas share."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,19})$", examples=["9007199254740993"])]
"""A whole number of up to 64 bits, as a text: browsers would round it."""
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-03-01T09:30:00.125Z"])]
"""A time, RFC 3339 in UTC with milliseconds."""


class Answer(BaseModel):
    """Base of what is answered."""

    model_config = ConfigDict(frozen=True)


class Body(BaseModel):
    """Base of what is sent to the API: nothing but the fields there are, each of its own type. Of a list that may be
    long only the first wrong item is told (FailFast): a body could else cost as many errors as it has items."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def moment(ms: int) -> str:
    """Return a time (ms since 1970) as the API shows it."""
    seconds, milliseconds = divmod(ms, 1000)
    found = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return f"{found:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def moment_or_none(ms: int | None) -> str | None:
    """Return the same, ``None`` for none."""
    return None if ms is None else moment(ms)


def example(value: dict[str, Any]) -> ConfigDict:
    """Return the configuration of an answer with an example: ``model_config = example({...})``."""
    return ConfigDict(frozen=True, json_schema_extra={"examples": [value]})


def body_example(value: dict[str, Any]) -> ConfigDict:
    """Return the same for a body."""
    return ConfigDict(frozen=True, extra="forbid", strict=True, json_schema_extra={"examples": [value]})
