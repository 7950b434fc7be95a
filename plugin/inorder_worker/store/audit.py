"""The audit log: who changed what, recorded before the change and again with its outcome."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from inorder.protocol.wire import ChangeLog, EndSubscription, Frame, PinTopics
from inorder_worker.store import records
from inorder_worker.store.schema import audit
from inorder_worker.store.store import Store

OUTCOMES: Final = ("started", "done", "refused", "unknown")
MAX_DETAIL: Final = 4096
"""Characters of what was asked for that are kept."""
MAX_TARGET: Final = 1024
"""Characters of what it is about that are kept: whoever is refused may have named anything."""
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change. ``via``: ``rest`` or ``worker``; ``detail``: what was asked for, and why it was refused;
    ``outcome``: one of OUTCOMES."""

    id: int
    at_ms: int
    who: str
    role: str
    via: str
    action: str
    target: str
    detail: Mapping[str, Any]
    outcome: str


class AuditLog:
    """The audit log of a store. All calls block, and raise StoreErrors."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(
        self,
        who: str,
        role: str,
        via: str,
        action: str,
        target: str,
        detail: Mapping[str, Any] | None = None,
        *,
        outcome: str = "started",
    ) -> int:
        """Record a request for a change; return the entry's id."""
        entry = (who, role, via, action, target, detail or {}, outcome)
        return int(self._store.write(lambda connection: _add(connection, *entry)))

    def end(self, id_: int, outcome: str, detail: Mapping[str, Any] | None = None) -> None:
        """Record the outcome of a change; ``detail`` is added to the entry's own."""

        def change(connection: sa.Connection) -> None:
            found = connection.execute(sa.select(audit.c.detail).where(audit.c.id == id_)).scalar_one_or_none()
            merged = json.dumps({**json.loads(found or "{}"), **(detail or {})})
            records.change(connection, audit, id_, {"outcome": outcome, "detail": merged})

        self._store.write(change)

    def page(self, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Return entries, the newest first; with ``before`` only older ones."""
        statement = sa.select(audit).order_by(audit.c.id.desc()).limit(limit)
        if before is not None:
            statement = statement.where(audit.c.id < before)
        found = self._store.run(lambda connection: connection.execute(statement).mappings().all())
        return [*records.read(self._store.url, audit, found, _entry)]

    def count(self) -> int:
        """Return how many entries there are."""
        total = sa.select(sa.func.count()).select_from(audit)
        return int(self._store.run(lambda connection: connection.execute(total).scalar_one()))


def record_done(connection: sa.Connection, who: str, action: str, target: str, detail: Mapping[str, Any]) -> None:
    """Record a change by somebody who can write to the store as done, inside the transaction that makes the change."""
    _add(connection, who, "admin", "store", action, target, detail, "done")


def _add(
    connection: sa.Connection,
    who: str,
    role: str,
    via: str,
    action: str,
    target: str,
    detail: Mapping[str, Any],
    outcome: str,
) -> Any:
    values = {
        "at_ms": records.now_ms(), "who": who, "role": role, "via": via, "action": action, "target": _kept(target),
        "detail": json.dumps(dict(detail)), "outcome": outcome,
    }  # fmt: skip
    return records.add(connection, audit, values)


def described(frame: Frame) -> tuple[str, str, dict[str, Any]]:
    """Return an operator's frame for the audit log: the action, its object and the fields."""
    fields = msgspec.to_builtins({name: getattr(frame, name) for name in frame.__struct_fields__ if name != "request"})
    text = json.dumps(fields)
    detail = fields if len(text) <= MAX_DETAIL else {"fields": f"{text[:MAX_DETAIL]}..."}
    return _WORDS.sub("_", type(frame).__name__).lower(), _target(frame), detail


def request_of(frame: Frame) -> int:
    """Return the request number of a question or an answer; -1 without one."""
    return int(getattr(frame, "request", -1))


def _kept(target: str) -> str:
    """Return a text in a form that stores can hold: PostgreSQL has no NUL in texts."""
    text = target if len(target) <= MAX_TARGET else f"{target[:MAX_TARGET]}..."
    return text.replace("\0", "\\0")


def _target(frame: Frame) -> str:
    match frame:
        case ChangeLog():
            return f"{frame.rule.space}:{frame.rule.filter.text}"
        case EndSubscription():
            return frame.client_id
        case PinTopics():
            return f"topics {', '.join(map(str, frame.topics[:20]))}"
    topic = getattr(frame, "topic", None)
    return "order" if topic is None else f"topic {topic}"


def _entry(row: sa.RowMapping) -> AuditEntry:
    return AuditEntry(
        row["id"], row["at_ms"], row["who"], row["role"], row["via"], row["action"], row["target"],
        json.loads(row["detail"]), row["outcome"],
    )  # fmt: skip
