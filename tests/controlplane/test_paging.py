"""Lists in pages: a walk sees every item that stays once, in order; cursors of another list are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from inorder_controlplane import paging
from inorder_controlplane.paging import Key, ListQuery, encoded, page_of
from inorder_controlplane.problems import Problem

ITEMS: list[tuple[str, int | None]] = [*((name, rate) for rate, name in enumerate("cabdefgh")), ("none", None)]


def walk(items: list[tuple[str, int | None]], sort: str, limit: int = 2) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page, cursor, total = listed(items, ListQuery(limit, cursor, sort=sort))
        found += [name for name, _ in page]
        assert total == len(items)
        if cursor is None:
            return found


def listed(
    items: list[tuple[str, int | None]], query: ListQuery
) -> tuple[list[tuple[str, int | None]], str | None, int]:
    sorts: dict[str, Callable[[tuple[str, int | None]], Key]] = {
        "name": lambda item: item[0],
        "rate": lambda item: item[1],
    }
    page = page_of(
        items,
        query,
        lambda item: item,
        ident=lambda item: item[0],
        sorts=sorts,
        default="name",
        text=lambda item: str(item[0]),
    )
    return page.items, page.next, page.total


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("name", ["a", "b", "c", "d", "e", "f", "g", "h", "none"]),
        ("-name", ["none", "h", "g", "f", "e", "d", "c", "b", "a"]),
        ("rate", ["none", "c", "a", "b", "d", "e", "f", "g", "h"]),
        ("-rate", ["h", "g", "f", "e", "d", "b", "a", "c", "none"]),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 9, 1000])
def test_a_walk_sees_all_in_order(sort: str, expected: list[str], limit: int) -> None:
    assert walk(ITEMS, sort, limit) == expected


@pytest.mark.parametrize(
    ("limit", "pages"), [(1000, [[1, 2, 1], [9], [3, 1], [1, 1, 1]]), (2, [[1, 2], [1], [9], [3, 1], [1, 1], [1]])]
)
def test_a_page_has_so_many_parts_and_one_item_at_least(
    monkeypatch: pytest.MonkeyPatch, limit: int, pages: list[list[int]]
) -> None:
    """A client may have tens of thousands of filters; a thousand such items would hold everybody up."""
    monkeypatch.setattr(paging, "MAX_PARTS", 4)
    items, cursor, found = [*enumerate([1, 2, 1, 9, 3, 1, 1, 1, 1])], None, list[list[int]]()
    while not found or cursor is not None:
        page = page_of(
            items,
            ListQuery(limit, cursor),
            lambda each: each,
            ident=lambda each: each[0],
            sorts={"at": lambda each: each[0]},
            default="at",
            text=str,
            size=lambda each: each[1],
        )
        found.append([size for _, size in page.items])
        cursor = page.next
    assert found == pages


def test_items_that_come_and_go_move_no_other() -> None:
    _, cursor, _ = listed(ITEMS, ListQuery(3))
    changed = [item for item in ITEMS if item[0] not in ("a", "c")] + [("aa", 1), ("dd", 1)]
    assert [name for name, _ in listed([*changed], ListQuery(3, cursor))[0]] == ["d", "dd", "e"]


def test_a_text_is_looked_for_whatever_its_case() -> None:
    page, following, total = listed(ITEMS, ListQuery(q="NO"))
    assert ([name for name, _ in page], following, total) == (["none"], None, 1)


@pytest.mark.parametrize(
    "query",
    [
        ListQuery(sort="nothing"),
        ListQuery(sort="--name"),
        ListQuery(cursor="?"),
        ListQuery(cursor="é"),
        ListQuery(cursor=encoded(["-name", [1, "a"], [1, "a"]])),
        ListQuery(cursor=encoded(["name", [1, 5], [1, "a"]])),
        ListQuery(cursor=encoded(["name", [1, {}], [1, "a"]])),
        ListQuery(cursor=encoded("name")),
    ],
)
def test_what_is_no_query_of_this_list_is_refused(query: ListQuery) -> None:
    with pytest.raises(Problem, match="invalid"):
        listed(ITEMS, query)
