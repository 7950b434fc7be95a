"""The rules of event logs (R18), found by topic: there may be one for each of ten thousand topics."""

from __future__ import annotations

from collections.abc import Iterable

from inorder.protocol.names import FilterKind
from inorder.protocol.wire import LogRule


class LogRules:
    """Finds the bounds of topics. Only rules with wildcards are tried one by one."""

    def __init__(self, rules: Iterable[LogRule]) -> None:
        self._exact: dict[tuple[str, str], list[LogRule]] = {}
        self._wild: list[LogRule] = []
        for each in rules:
            if each.filter.kind is FilterKind.EXACT:
                self._exact.setdefault((each.space, each.filter.name), []).append(each)
            else:
                self._wild.append(each)

    def widest(self, space: str, name: str) -> LogRule | None:
        """Return the widest bounds of a topic's rules, with the filter of one of them; ``None`` without a rule."""
        rules = [*self._exact.get((space, name), ()), *(each for each in self._wild if each.covers(space, name))]
        if not rules:
            return None
        bounds = zip(*((each.max_age_ms, each.max_count, each.max_bytes) for each in rules), strict=True)
        return LogRule(space, rules[0].filter, *(0 if 0 in values else max(values) for values in bounds))
