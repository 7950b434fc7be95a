"""Tokens of connections, looked up beside the commits, on a thread and a store connection of their own.

What a token was found to be counts for a second. Open connections are looked at again as often, so a token that is
revoked or has expired is of no use to anybody soon after. While the store cannot be asked, who is in stays: nothing can
be committed meanwhile either.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from inorder.errors import StoreError, Unauthorized
from inorder.logs import logger
from inorder.protocol.access import UNLIMITED, Permissions
from inorder.protocol.wire import Access
from inorder_worker.service.complaint import Complaint
from inorder_worker.service.settings import WorkerSettings
from inorder_worker.store.audit import AuditLog
from inorder_worker.store.records import now_ms
from inorder_worker.store.store import Store
from inorder_worker.store.tokens import PREFIX, Token, TokenStore, hash_of

T = TypeVar("T")
log = logger("inorder.worker")

REMEMBERED: Final = 1.0
"""Seconds for which an answer of the store counts."""
ANYBODYS: Final = 10
"""Times what the tokens of one name may make and have, all clients without a token may, together."""
LOOK_INTERVAL: Final = 0.5
"""Seconds between two looks at the tokens of open connections."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The rights and the token of a connection.

    Attributes:
        who: the token's name; of the worker's own token, and of none, a description.
        token: ``None`` where it is none of the store.
        permissions: what it allows.
    """

    who: str
    token: Token | None = None
    permissions: Permissions = field(default_factory=lambda: Permissions(UNLIMITED))

    @property
    def access(self) -> Access:
        """The token's rights in the form for clients."""
        return self.permissions.access

    @property
    def owner(self) -> str:
        """The owner of client ids and of their state: all tokens of a name; empty for a token outside of the store."""
        return "" if self.token is None else self.token.name

    @property
    def is_internal(self) -> bool:
        """A control plane's, which keeps the audit log itself."""
        return self.token is not None and self.token.is_internal


SHARED: Final = Pass("the worker's token")
NOBODY: Final = Pass("no token")


class Gate:
    """Looks at what is presented.

    Args:
        settings: ``token`` and ``require_token``.
        store: has the tokens; ``None`` for a worker without an SQL store, which knows its own token only.
    """

    def __init__(self, settings: WorkerSettings, store: Store | None) -> None:
        self._settings, self._store = settings, store
        self._tokens = None if store is None else TokenStore(store)
        self._audit = None if store is None else AuditLog(store)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="inorder-tokens")
        self._known: dict[str, tuple[float, Token | None]] = {}
        self._complaint = Complaint()
        each = settings.max_token_topics, settings.max_token_subscriptions, settings.max_token_unconfirmed
        most = [ANYBODYS * most for most in each]
        self._anybody = replace(NOBODY, permissions=Permissions(Access(UNLIMITED.role, None, None, 0, *most)))

    # -- coming in ---------------------------------------------------------------------------------------------

    def known(self, presented: str) -> Pass | None:
        """Return what can be said without the store, ``None`` where it must be asked. Raises Unauthorized."""
        own = self._settings.token
        if own is not None and hmac.compare_digest(presented.encode(), own.encode()):
            return SHARED
        may_be_one = presented.startswith(PREFIX) and self._tokens is not None
        if not may_be_one:
            if own is None and not self._settings.require_token:
                return self._anybody
            raise Unauthorized(_MISSING if not presented else _WRONG, peer="worker")
        at, token = self._known.get(hash_of(presented), (-REMEMBERED, None))
        return self._pass_of(token) if time.monotonic() < at + REMEMBERED else None

    async def look_up(self, presented: str) -> Pass:
        """Ask the store. Raises Unauthorized and StoreErrors."""
        assert self._tokens is not None, "known() has said so"
        token = await self._in_thread(partial(self._tokens.find_any, presented))
        now = time.monotonic()
        self._known = {key: each for key, each in self._known.items() if now < each[0] + REMEMBERED}
        self._known[hash_of(presented)] = now, token
        return self._pass_of(token)

    def _pass_of(self, token: Token | None) -> Pass:
        reason = _reason(token)
        if token is None or reason:
            raise Unauthorized(reason, peer="worker")
        access = Access(
            token.role,
            None if token.publish is None else list(token.publish),
            None if token.subscribe is None else list(token.subscribe),
            token.max_unconfirmed or 0,
            self._most(token, token.max_topics, self._settings.max_token_topics),
            self._most(token, token.max_subscriptions, self._settings.max_token_subscriptions),
            self._most(token, None, self._settings.max_token_unconfirmed),
        )
        return Pass(token.name, token, Permissions(access))

    @staticmethod
    def _most(token: Token, its: int | None, as_set: int) -> int:
        """Return the bound of a token: its own, else as the workers are set, and none for an admin; 0: none."""
        if its is not None:
            return its
        return 0 if token.role == "admin" else as_set

    # -- staying in --------------------------------------------------------------------------------------------

    async def watch(self, held: Callable[[], Iterable[Token]], throw_out: Callable[[str, str], None]) -> None:
        """Check for ever the tokens in use; invalid ones are reported by id and reason, so that their connections are
        closed."""
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            tokens = {each.id: each for each in held()}
            if tokens:
                for id_, reason in (await self._no_good(tokens)).items():
                    throw_out(id_, reason)

    async def _no_good(self, tokens: dict[str, Token]) -> dict[str, str]:
        assert self._tokens is not None
        now: dict[str, Token | None] = dict(tokens)
        try:
            found = await self._in_thread(partial(self._tokens.of, list(tokens)))
            now = {id_: found.get(id_) for id_ in tokens}
            self._complaint.clear()
        except StoreError as error:
            if self._complaint.is_news(error):
                log.warning("event=tokens_not_read error=%s", error)
        reasons = {id_: _reason(token) for id_, token in now.items()}
        return {id_: reason for id_, reason in reasons.items() if reason}

    # -- the audit log -----------------------------------------------------------------------------------------

    @property
    def keeps_audit(self) -> bool:
        """Tell whether there is an audit log."""
        return self._audit is not None

    async def begin_audit(self, passed: Pass, action: str, target: str, detail: dict[str, Any], outcome: str) -> int:
        """Write that somebody asks for a change; return the entry's id. Raises StoreErrors."""
        assert self._audit is not None
        role = passed.access.role
        call = partial(self._audit.begin, passed.who, role, "worker", action, target, detail, outcome=outcome)
        return await self._in_thread(call)

    async def end_audit(self, entry: int, outcome: str, detail: dict[str, Any]) -> None:
        """Write what became of it. A failure leaves the entry as it was, and is logged."""
        assert self._audit is not None
        try:
            await self._in_thread(partial(self._audit.end, entry, outcome, detail))
        except StoreError as error:
            log.error("event=audit_not_written entry=%d outcome=%s error=%s", entry, outcome, error)

    # -- the thread --------------------------------------------------------------------------------------------

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def close(self) -> None:
        """Let go of the store and the thread. No error."""
        if self._store is not None:
            self._store.interrupt()
            await asyncio.shield(self._in_thread(self._store.close))
        self._thread.shutdown(wait=False)


_MISSING: Final = "a token is needed here, and none was given"
_WRONG: Final = "the token is wrong"
_TIME: Final = "%Y-%m-%d %H:%M:%SZ"


def _reason(token: Token | None) -> str:
    """Return why a token is no good, an empty text where it is."""
    if token is None:
        return _WRONG
    if token.revoked_ms is not None:
        return f"the token {token.name!r} was revoked"
    now = now_ms()
    if token.is_valid(now):
        return ""
    expired, clock = (datetime.fromtimestamp((each or 0) / 1000, UTC) for each in (token.expires_ms, now))
    return f"the token {token.name!r} has expired at {expired:{_TIME}}, and the worker's clock says {clock:{_TIME}}"
