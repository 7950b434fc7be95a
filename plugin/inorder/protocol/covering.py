"""Sets of filters: trying a topic costs time by the length of its name, not by the number of filters.

A set of filters is an ``int`` with a bit for each. MQTT filters are read level by level: those that agree with the
name so far stay in the set, so a level costs the same whether one filter is left or a thousand, and filters full of
``+`` cannot branch out, as they could in a tree of levels. Globs are read byte by byte, all together
(:mod:`inorder.protocol.globs`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from inorder.protocol.globs import Globs
from inorder.protocol.names import Filter, FilterKind
from inorder.protocol.wire import SpaceFilter


class _Topic(Protocol):
    """A topic's space and name."""

    @property
    def id(self) -> int: ...
    @property
    def space(self) -> str: ...
    @property
    def name(self) -> str: ...


class FilterSet:
    """Filters in their spaces, which tell whether any of them covers a topic.

    Args:
        filters: space and filter of each.
    """

    __slots__ = ("_spaces",)

    def __init__(self, filters: Iterable[tuple[str, Filter]]) -> None:
        spaces: dict[str, list[Filter]] = {}
        for space, filter in filters:
            spaces.setdefault(space, []).append(filter)
        self._spaces = {space: _InOneSpace(each) for space, each in spaces.items()}

    def covers(self, space: str, name: str) -> bool:
        """Tell whether a filter covers this topic, as :meth:`inorder.protocol.names.Filter.covers` says."""
        its = self._spaces.get(space)
        return its is not None and its.covers(name)

    def contains(self, space: str, wanted: Filter) -> bool:
        """Tell whether one of the filters covers every topic of another. Two Redis globs must be the same, or the wider
        one must be a text with ``*`` behind it, to be seen so."""
        its = self._spaces.get(space)
        return its is not None and its.contains(wanted)


def filter_set(filters: Iterable[SpaceFilter]) -> FilterSet:
    """Return the filters of a subscription as a set."""
    return FilterSet((each.space, each.filter) for each in filters)


class Coverage:
    """The topics that a subscription covers, and the topics among these whose stamps its reader must find in the
    payload, too (R13).

    Args:
        filters: of the subscription.
    """

    __slots__ = ("__weakref__", "_plain", "_rich")

    def __init__(self, filters: Iterable[SpaceFilter]) -> None:
        filters = list(filters)
        self._plain = filter_set(each for each in filters if not each.reads_properties)
        self._rich = filter_set(each for each in filters if each.reads_properties)

    def of(self, topics: Iterable[_Topic]) -> tuple[set[int], set[int]]:
        """Return the ids of the covered topics, and of the topics among them whose stamps must be in the payload."""
        covered, plain = set[int](), set[int]()
        for topic in topics:
            if self._plain.covers(topic.space, topic.name):
                plain.add(topic.id)
            elif self._rich.covers(topic.space, topic.name):
                covered.add(topic.id)
        return covered | plain, plain


class _InOneSpace:
    """The filters of one space, by kind."""

    __slots__ = ("_begun", "_globs", "_levels", "_names", "_texts")

    def __init__(self, filters: list[Filter]) -> None:
        self._names = frozenset(each.name for each in filters if each.kind is FilterKind.EXACT)
        # once each: clients may repeat themselves
        levels = dict.fromkeys(each.text for each in filters if each.kind is FilterKind.MQTT)
        globs = dict.fromkeys(each.text.encode() for each in filters if each.kind is FilterKind.REDIS)
        self._levels = _Levels(levels) if levels else None
        self._globs = Globs(globs) if globs else None
        self._texts = frozenset(each.text for each in filters if each.kind is FilterKind.REDIS)
        self._begun = frozenset(each[:-1] for each in self._texts if is_text_and_star(each))

    def contains(self, wanted: Filter) -> bool:
        if wanted.kind is FilterKind.EXACT:
            return self.covers(wanted.name)
        if wanted.kind is FilterKind.MQTT:
            return self._levels is not None and self._levels.contain(wanted.text)
        text = wanted.text  # a glob, which is short: there are no more beginnings of it than it has characters
        return text in self._texts or any(text[:end] in self._begun for end in range(len(text) + 1) if self._begun)

    def covers(self, name: str) -> bool:
        return (
            name in self._names
            or (self._levels is not None and self._levels.cover(name))
            or (self._globs is not None and self._globs.cover(name.encode()))
        )


def is_text_and_star(glob: str) -> bool:
    """Tell whether a glob covers just what begins with a text."""
    return glob.endswith("*") and not set("*?[\\") & set(glob[:-1])


class _Step:
    """One level of MQTT filters as bit sets: filters with a text, with ``+``, with ``#``, or without this level."""

    __slots__ = ("any", "end", "rest", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.any = self.rest = self.end = 0


class _Levels:
    """MQTT filters (MQTT 5, section 4.7), level by level."""

    __slots__ = ("_all", "_open", "_steps")

    def __init__(self, filters: Iterable[str]) -> None:
        self._steps = [_Step()]
        self._all = self._open = 0
        for at, filter in enumerate(filters):
            bit = 1 << at
            self._all |= bit
            self._open |= bit if filter[:1] not in ("+", "#") else 0
            self._add(filter.split("/"), bit)

    def _add(self, levels: list[str], bit: int) -> None:
        for depth, level in enumerate(levels):
            step = self._steps[depth]
            if level == "#":
                step.rest |= bit
                return
            if level == "+":
                step.any |= bit
            else:
                step.texts[level] = step.texts.get(level, 0) | bit
            if depth + 1 == len(self._steps):
                self._steps.append(_Step())
        self._steps[len(levels)].end |= bit

    def cover(self, name: str) -> bool:
        """Tell whether a filter covers a name. Only as many levels of it are read as the longest filter has."""
        steps = self._steps
        alive = self._open if name.startswith("$") else self._all  # wildcards never cover a leading $
        levels = name.split("/", len(steps) - 1)
        for step, level in zip(steps, levels, strict=False):
            if alive & step.rest:
                return True
            alive &= step.texts.get(level, 0) | step.any
            if not alive:
                return False
        # no filter wants a level at the last step, so the name was at its end before it
        last = steps[len(levels)]
        return bool(alive & (last.rest | last.end))  # `a/#` covers `a` too

    def contain(self, wanted: str) -> bool:
        """Tell whether one filter covers all of another, read as a name: ``+`` is wider than a text, ``#`` than all."""
        steps = self._steps
        alive = self._open if wanted.startswith("$") else self._all
        levels = wanted.split("/", len(steps) - 1)
        for step, level in zip(steps, levels, strict=False):
            if alive & step.rest:
                return True
            if level == "#":
                return False
            alive &= step.texts.get(level, 0) | step.any
            if not alive:
                return False
        last = steps[len(levels)]
        return bool(alive & (last.rest | last.end))
