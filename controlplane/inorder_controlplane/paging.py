"""Pagination of lists. A cursor names the last item that was seen, so a list that changes meanwhile skips and repeats
no item that stays."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import Annotated, Any, Final, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from inorder_controlplane.problems import Problem

T = TypeVar("T")
AnswerT = TypeVar("AnswerT")
Key = str | int | float | bool | None
"""What can be sorted by; ``None`` comes first."""

MAX_LIMIT: Final = 1000
MAX_PARTS: Final = 20_000
"""Parts of all items of a page, such as filters: an answer is made while nobody else is served."""


class Page(BaseModel, Generic[T]):
    """One page of a list."""

    items: list[T]
    next: str | None = Field(description="cursor of the next page; null on the last one")
    total: int = Field(description="items on all pages", ge=0)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The query parameters of a list; a route takes it as ``ListQueryDep``."""

    limit: int = 100
    cursor: str | None = None
    q: str | None = None
    sort: str | None = None


def list_query(
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT, description="items of a page")] = 100,
    cursor: Annotated[str | None, Query(max_length=4096, description="`next` of the page before")] = None,
    q: Annotated[str | None, Query(max_length=512, description="a text that the items must hold")] = None,
    sort: Annotated[str | None, Query(max_length=64, description="a field; with - in front the greatest first")] = None,
) -> ListQuery:
    """Return the query parameters of a list."""
    return ListQuery(limit, cursor, q, sort)


ListQueryDep = Annotated[ListQuery, Depends(list_query)]


def by(*names: str, **others: Callable[[Any], Key]) -> dict[str, Callable[[Any], Key]]:
    """Return what a list can be sorted by: attributes of its items, and under other names what functions return."""
    return {**{name: attrgetter(name) for name in names}, **others}


def page_of(
    items: Iterable[T],
    query: ListQuery,
    shown: Callable[[T], AnswerT],
    *,
    ident: Callable[[T], Key],
    sorts: Mapping[str, Callable[[T], Key]],
    default: str,
    text: Callable[[T], str],
    size: Callable[[T], int] = lambda _: 1,
) -> Page[AnswerT]:
    """Return one page. Raises Problem.

    Args:
        shown: an item in the API's form.
        ident: what no two items have in common.
        sorts: by name, what can be sorted by.
        default: the name that is sorted by where the query says none; - in front for the greatest first.
        text: where ``q`` is looked for, whatever the case.
        size: parts of an item; a page ends behind ``MAX_PARTS`` of them, with one item at least.
    """
    order = query.sort or default
    name = order.removeprefix("-")
    if name not in sorts:
        names = sorted(sorts)
        raise Problem(
            "invalid", f"sort: {name!r} cannot be sorted by", allowed=[*names, *(f"-{each}" for each in names)]
        )
    if query.q is not None:
        wanted = query.q.casefold()
        items = [item for item in items if wanted in text(item).casefold()]

    def key(item: T) -> list[Any]:
        return [_comparable(sorts[name](item)), _comparable(ident(item))]

    found = sorted(items, key=key, reverse=order.startswith("-"))
    rest = found
    if query.cursor is not None:
        after = _decoded(query.cursor, order)
        try:
            if order.startswith("-"):
                rest = [item for item in found if key(item) < after]
            else:
                rest = [item for item in found if key(item) > after]
        except TypeError:
            raise _bad_cursor() from None
    page = rest[: query.limit]
    through = [*accumulate(map(size, page))]
    page = page[: max(1, bisect_right(through, MAX_PARTS))]
    following = encoded([order, *key(page[-1])]) if len(rest) > len(page) else None
    return Page(items=[shown(item) for item in page], next=following, total=len(found))


def encoded(value: Any) -> str:
    """Return plain values as a cursor."""
    text = json.dumps(value, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decoded(cursor: str) -> Any:
    """Return the values of a cursor. Raises Problem."""
    try:
        return json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise _bad_cursor() from None


def _decoded(cursor: str, order: str) -> list[Any]:
    match decoded(cursor):
        case [str(made_for), [int(), _] as first, [int(), _] as second] if made_for == order:
            return [first, second]
    raise _bad_cursor()


def _bad_cursor() -> Problem:
    return Problem("invalid", "cursor: it is none of this list", allowed="`next` of a page with the same sort")


def _comparable(key: Key) -> list[Any]:
    return [0, 0] if key is None else [1, key]
