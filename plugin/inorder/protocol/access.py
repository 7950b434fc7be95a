"""The rights of a token: the frames of its role, and the topics open to publishing and subscribing.

The worker enforces it; the client, which is told with the welcome, refuses a call before anything is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from inorder.errors import Forbidden
from inorder.protocol.covering import FilterSet
from inorder.protocol.filters import filter_of
from inorder.protocol.names import Filter
from inorder.protocol.wire import (
    Access,
    AskDurable,
    AskHeads,
    AskNumbers,
    ChangeAutomatic,
    ChangeLog,
    ChangeOrder,
    CreateTimestamps,
    DrainWorker,
    EndSubscription,
    Failure,
    FindEvent,
    FindNumber,
    Frame,
    Hello,
    LogRule,
    Logs,
    MoveStage,
    NameTopics,
    Ping,
    PinTopics,
    Pong,
    ReadLog,
    ReleaseNumbers,
    Renew,
    Report,
    Resolve,
    SaveClock,
    Settle,
    ShowAutomatic,
    ShowLogs,
    ShowOpenNumbers,
    ShowOrder,
    ShowReports,
    ShowSubscriptions,
    ShowTopics,
    ShowWorker,
    SpaceFilter,
    Subscribe,
    TopicInfo,
    Topics,
)

ROLES: Final = ("client", "viewer", "operator", "admin")
"""``client`` publishes and subscribes, ``viewer`` looks, ``operator`` changes the topic order, logs, subscriptions and
workers as well, ``admin`` may do all of it."""

_ALL = frozenset(ROLES)
_CLIENTS = frozenset(("client", "admin"))
_LOOKING = frozenset(("viewer", "operator", "admin"))
_CHANGING = frozenset(("operator", "admin"))
_ADMINS = frozenset(("admin",))

MAY_SEND: Final[Mapping[type, frozenset[str]]] = {
    Ping: _ALL,
    Pong: _ALL,
    Failure: _ALL,
    Hello: _ALL,
    Renew: _ALL,
    NameTopics: _ALL,
    AskNumbers: _ALL,
    ReadLog: _ALL,
    ShowLogs: _ALL,
    Report: _ALL,
    AskHeads: _CLIENTS,
    AskDurable: _CLIENTS,
    CreateTimestamps: _CLIENTS,
    Settle: _CLIENTS,
    Subscribe: _CLIENTS,
    SaveClock: _CLIENTS,
    Resolve: _CLIENTS | _CHANGING,
    ShowOrder: _LOOKING,
    ShowSubscriptions: _LOOKING,
    ShowReports: _LOOKING,
    ShowTopics: _LOOKING,
    ShowOpenNumbers: _LOOKING,
    FindNumber: _LOOKING,
    FindEvent: _LOOKING,
    ShowAutomatic: _LOOKING,
    ShowWorker: _LOOKING,
    ChangeOrder: _CHANGING,
    PinTopics: _CHANGING,
    ChangeLog: _CHANGING,
    EndSubscription: _CHANGING,
    ReleaseNumbers: _CHANGING,
    ChangeAutomatic: _CHANGING,
    DrainWorker: _CHANGING,
    MoveStage: _CHANGING,
}
"""Frame -> the roles that may send it."""
CHANGES: Final = frozenset(frame for frame, roles in MAY_SEND.items() if roles == _CHANGING)
"""What operators change: it is in the audit log."""

UNLIMITED: Final = Access()
_HIDDEN, _SEEN = 1, 2
RULES_KEPT: Final = 1_000
"""Rules of event logs of which a connection's permissions remember whether they concern it."""


class Permissions:
    """The rights of one connection.

    Args:
        access: as the worker told it.
    """

    def __init__(self, access: Access = UNLIMITED) -> None:
        self.access = access
        self._publish = _parsed(access.publish)
        self._subscribe = _parsed(access.subscribe)
        self._may_publish, self._may_read = _as_set(self._publish), _as_set(self._subscribe)
        # what was looked at once, of topics by id: names, and what a token allows, do not change
        self._known = bytearray()
        self._concerned: dict[tuple[str, Filter], bool] = {}

    def __repr__(self) -> str:
        return f"<Permissions of {self.access}>"

    @property
    def has_limits(self) -> bool:
        """Tell whether some topics may neither be published to nor read."""
        return self._publish is not None and self._subscribe is not None

    @property
    def has_publish_limits(self) -> bool:
        """Tell whether some topics may not be published to."""
        return self._publish is not None

    @property
    def allows_all(self) -> bool:
        """Tell whether all topics may be published to and subscribed to."""
        return self.access.role in _CLIENTS and self._publish is None and self._subscribe is None

    def publishes(self, space: str, name: str) -> bool:
        """Tell whether a topic may be published to."""
        return self._uses(self._may_publish, space, name)

    def subscribes(self, space: str, name: str) -> bool:
        """Tell whether a topic may be subscribed to."""
        return self._uses(self._may_read, space, name)

    def _uses(self, allowed: FilterSet | None, space: str, name: str) -> bool:
        return self.access.role in _CLIENTS and (allowed is None or allowed.covers(space, name))

    def check_frame(self, kind: type) -> None:
        """Raise Forbidden for a kind of frame that the role may not send."""
        allowed = MAY_SEND.get(kind, _ADMINS)
        if self.access.role not in allowed:
            roles = " or ".join(each for each in ROLES if each in allowed)
            raise Forbidden(
                f"role {self.access.role} may not send {kind.__name__}, a token with role {roles} may", kind.__name__
            )

    def check_publish(self, space: str, name: str) -> None:
        """Raise Forbidden for a topic that may not be published to."""
        self._check_role("publish", f"{space}:{name}", CreateTimestamps)
        if self._may_publish is not None and not self._may_publish.covers(space, name):
            raise _forbidden("publish", f"{space}:{name}", self.access.publish)

    def check_read(self, space: str, name: str) -> None:
        """Raise Forbidden for a topic whose events may not be read."""
        if self._may_read is not None and not self._may_read.covers(space, name):
            raise _forbidden("read", f"{space}:{name}", self.access.subscribe)

    def check_subscribe(self, space: str, filter: Filter) -> None:
        """Raise Forbidden for a filter with topics that may not be subscribed to."""
        self._check_role("subscribe", f"{space}:{filter.text}", Subscribe)
        if self._may_read is not None and not self._may_read.contains(space, filter):
            raise _forbidden("subscribe", f"{space}:{filter.text}", self.access.subscribe)

    def check_filters(self, filters: Iterable[SpaceFilter]) -> None:
        """Raise Forbidden for the first filter of a subscription that is not allowed."""
        for each in filters:
            self.check_subscribe(each.space, each.filter)

    def visible(self, frame: Frame) -> Frame:
        """Return an answer without topics beyond the limits, and without rules for such topics. Their ids are no
        secret: timestamps are made of them."""
        if isinstance(frame, Topics):
            return replace(frame, topics=[each for each in frame.topics if self._knows(each)])
        if isinstance(frame, Logs):
            rules = [each for each in frame.rules if self._concerns(each)]
            return replace(frame, rules=rules, topics=[each for each in frame.topics if self._knows(each)])
        return frame

    def _knows(self, info: TopicInfo) -> bool:
        known = self._known
        if info.id >= len(known):
            known.extend(bytes(info.id + 1 - len(known)))
        if not known[info.id]:
            sets = (self._may_publish, self._may_read)
            known[info.id] = _SEEN if any(its is None or its.covers(info.space, info.name) for its in sets) else _HIDDEN
        return known[info.id] == _SEEN

    def _concerns(self, rule: LogRule) -> bool:
        what = rule.space, rule.filter
        if what not in self._concerned:
            if len(self._concerned) == RULES_KEPT:
                self._concerned.clear()
            self._concerned[what] = self._meets(*what)
        return self._concerned[what]

    def _meets(self, space: str, filter: Filter) -> bool:
        """Tell whether some of a filter's topics are within the limits: as far as ``FilterSet.contains`` sees it."""
        limits = (self._publish, self._may_publish), (self._subscribe, self._may_read)
        rule = FilterSet([(space, filter)])
        return any(
            its is None or its.contains(space, filter) or any(rule.contains(*each) for each in pairs or ())
            for pairs, its in limits
        )

    def _check_role(self, action: str, topic: str, frame: type) -> None:
        if self.access.role not in MAY_SEND[frame]:
            text = f"role {self.access.role} may not {action}; a token with role client or admin may"
            raise Forbidden(text, action, topic)


def _parsed(patterns: list[str] | None) -> list[tuple[str, Filter]] | None:
    if patterns is None:
        return None
    pairs = [text.partition(":") for text in patterns]
    return [(space, filter_of(space, name)) for space, _, name in pairs]


def _as_set(patterns: list[tuple[str, Filter]] | None) -> FilterSet | None:
    return None if patterns is None else FilterSet(patterns)


def _forbidden(action: str, topic: str, allowed: list[str] | None) -> Forbidden:
    those = ", ".join(allowed or []) or "no topics"
    return Forbidden(f"the token does not allow to {action} {topic!r}; it allows {those}", action, topic, allowed or [])
