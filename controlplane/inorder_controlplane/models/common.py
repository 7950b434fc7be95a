"""Base classes and helpers of all models."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_FIRST, _LAST = (int(datetime.datetime(year, 1, 1, tzinfo=datetime.UTC).timestamp() * 1000) for year in (1000, 9999))
"""Times whose year has four digits (ms since 1970)."""


def moment(ms: int) -> str:
    """Return a time (ms since 1970) in the API's form; one before or behind all that the form has as the nearest."""
    seconds, milliseconds = divmod(min(max(ms, _FIRST), _LAST), 1000)
    found = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return f"{found:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def _text(number: object) -> object:
    return str(number) if isinstance(number, int) else number


def _time(ms: object) -> object:
    return moment(ms) if isinstance(ms, int) else ms


Number = Annotated[str, BeforeValidator(_text), Field(pattern=r"^(0|[1-9][0-9]{0,19})$", examples=["9007199254740993"])]
"""A whole number of up to 64 bits, as a text: browsers would round it. Made of an ``int``, too."""
Moment = Annotated[
    str, BeforeValidator(_time), Field(json_schema_extra={"format": "date-time"}, examples=["2026-03-01T09:30:00.125Z"])
]
"""A time, RFC 3339 in UTC with milliseconds. Made of milliseconds since 1970, too."""


class Answer(BaseModel):
    """Base class of answers."""

    model_config = ConfigDict(frozen=True)


class Body(BaseModel):
    """Base class of request bodies: they have no unknown fields, and each field has its own type. Of a list that may be
    long only the first wrong item is told (FailFast): a body could else cost as many errors as it has items."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


AnswerT = TypeVar("AnswerT", bound=Answer)


def answer(model: type[AnswerT], found: object, **others: Any) -> AnswerT:
    """Return an answer with the values that an object has under the same names.

    Args:
        others: the values of fields that the object has not, or has in another form.
    """
    values = {name: getattr(found, name) for name in model.model_fields if name not in others}
    return model.model_validate(values | others)


def moment_or_none(ms: int | None) -> str | None:
    """Return a time in the API's form, ``None`` for ``None``."""
    return None if ms is None else moment(ms)


def example(value: dict[str, Any]) -> ConfigDict:
    """Return the configuration of an answer with an example: ``model_config = example({...})``."""
    return ConfigDict(frozen=True, json_schema_extra={"examples": [value]})


def body_example(value: dict[str, Any]) -> ConfigDict:
    """Return the configuration of a body with an example."""
    return ConfigDict(frozen=True, extra="forbid", strict=True, json_schema_extra={"examples": [value]})
