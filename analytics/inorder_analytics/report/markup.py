"""HTML and SVG that no content can break: all text is escaped where it is inserted."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

VOID: Final = frozenset(("meta", "br", "line", "rect", "path", "circle", "polyline"))
"""Elements without content."""


class Markup(str):
    """A text that is markup already. Only :func:`tag` and :func:`joined` make it."""

    __slots__ = ()


Child = Markup | str | int | None


def tag(element: str, /, *children: Child, **attributes: str | float | None) -> Markup:
    """Return an element. ``None`` among children and attributes stands for nothing; ``class_`` is the attribute class,
    and other underscores in names of attributes are hyphens."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_text(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in VOID:
        return Markup(f"<{element}{shown}/>")
    return Markup(f"<{element}{shown}>{joined(children)}</{element}>")


def joined(children: Iterable[Child]) -> Markup:
    """Return elements and texts joined."""
    return Markup("".join(each if isinstance(each, Markup) else _text(each) for each in children if each is not None))


def name(text: str) -> Markup:
    """Return a user's name as it is, isolated in its direction of writing, with invisible characters escaped."""
    return tag("bdi", text)


def _text(value: str | int) -> str:
    return escape(_visible(str(value)))


def _visible(text: str) -> str:
    """Return a text with control characters, marks of the writing direction and lone surrogates escaped."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "backslashreplace").decode() for each in text
    )


def _plain(value: str | float) -> str:
    """Return an attribute's value; coordinates are rounded to visible digits."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
