"""Admission of connections: their token is looked up, each frame is checked against its rights, and operators' changes
are written into the audit log, before each change and with its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from math import inf
from typing import Any, Final

from msgspec.structs import replace

from inorder.errors import Forbidden, ProtocolError, StoreError, Unauthorized
from inorder.listening import Abortable, BoundedConnections, places
from inorder.logs import SELDOM, logger
from inorder.protocol.access import CHANGES
from inorder.protocol.pairs import firsts
from inorder.protocol.wire import (
    AskNumbers,
    ChangeOrder,
    ClientFrame,
    CreateTimestamps,
    Done,
    Frame,
    NameTopics,
    OrderChanged,
    ReadLog,
    Released,
    Report,
    Resolve,
    Subscribe,
    TopicInfo,
)
from inorder_worker.sequencer.sessions import Holder
from inorder_worker.service.connection import Connection
from inorder_worker.service.gate import SHARED, Gate
from inorder_worker.service.host import StageHost
from inorder_worker.service.router import check_filters
from inorder_worker.store.audit import described, request_of

SHARE: Final = 0.75
"""Of what this process may have open, for connections to a worker; the rest is for the control plane beside it."""
SPARE: Final = 16
"""Places that clients leave to other workers, control planes and those who are about to say who they are."""
FEW: Final = 100
"""Places below which it is said at the start that they are few."""
_OF_FILES: Final = "as many as its limit of open files allows: ulimit -Hn, LimitNOFILE"
ANSWERS: Final = (Done, OrderChanged, Released)
"""What a change is answered with."""
REFUSALS_NOTED: Final = 60.0
"""Seconds between two refusals of one token, for the same kind of change, in the audit log."""
log = logger("inorder.worker")


class Admission:
    """One for each worker.

    Args:
        gate: knows the tokens, and keeps the audit log.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._host: StageHost
        self._tasks: set[asyncio.Task[None]] = set()
        self._noted: dict[tuple[str, type[Frame]], float] = {}
        self._open: BoundedConnections[Abortable] = BoundedConnections(places(SHARE), SPARE)

    def serve(self, host: StageHost) -> None:
        """Comes before everything else."""
        self._host = host
        if self._open.room < FEW:
            log.warning("event=few_places places=%d hint=%s", self._open.room, _OF_FILES)

    async def close(self, timeout: float) -> None:
        """Let what is under way come to an end, within ``timeout`` seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine, name="inorder-admission")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- coming in ---------------------------------------------------------------------------------------------

    def came(self, guest: Abortable) -> None:
        """A connection is there, or its TLS handshake. Where there is no place for it, the oldest that has not said
        hello is cut."""
        oldest = self._open.add(guest)
        if oldest is not None:
            log.warning("event=connections_full places=%d action=cut_without_hello", self._open.room, extra=SELDOM)
            oldest.abort()

    def admit(self, connection: Connection, token: str, then: Callable[[], None]) -> None:
        """Go on with a hello if its token is good, else fail the connection."""
        try:
            known = self._gate.known(token)
        except Unauthorized as error:
            connection.fail("unauthorized", str(error))
            return
        if known is None:
            connection.wait()
            self._start(self._look_up(connection, token, then))
        else:
            connection.passed = known
            self._let_in(connection, then)

    def _let_in(self, connection: Connection, then: Callable[[], None]) -> None:
        is_needed = connection.is_link or connection.passed.is_internal
        if self._open.mark_known(connection, is_needed=is_needed):
            then()
        else:
            room = f"the worker has {self._open.room} places ({_OF_FILES})"
            connection.fail("full", f"{room}, and keeps the last ones for operators")

    async def _look_up(self, connection: Connection, token: str, then: Callable[[], None]) -> None:
        try:
            connection.passed = await self._gate.look_up(token)
        except Unauthorized as error:
            connection.fail("unauthorized", str(error))
        except StoreError as error:
            connection.fail("store", f"the worker cannot use its store: {error}")
        else:
            if connection.is_current:
                self._let_in(connection, then)
        connection.go_on()

    def may_be(self, connection: Connection, client_id: str, older: Connection | None) -> bool:
        """Tell whether a client may come by this id; else fail its connection. Whoever has an id keeps it, with its
        subscription, from tokens of another name; what nobody's token has made is for those that may read all of it."""
        passed = connection.passed
        if passed.access.role == "admin":
            return True
        holders = [each.holder_of(client_id) for each in self._host.stages.values()]
        is_shared = older is not None and older.passed is SHARED
        if older is not None:
            holders.append(Holder(older.passed.owner, []))
        for holder in holders:
            if holder is None or holder.owner == passed.owner:
                continue
            try:
                if holder.owner or is_shared:
                    whose = "another token's" if holder.owner else "connected by the workers' own token"
                    raise Forbidden(f"the client id {client_id!r} is {whose}", "connect")
                passed.permissions.check_filters(holder.filters)
            except Forbidden as error:
                connection.fail("forbidden", f"{error} (token: {passed.who}); tokens of one name share client ids")
                return False
        return True

    async def watch(self, connections: Collection[Connection]) -> None:
        """Throw out whose token is no good any more, for ever."""
        tokens = lambda: [each.passed.token for each in connections if each.passed.token is not None]  # noqa: E731

        def throw_out(token_id: str, reason: str) -> None:
            for each in list(connections):
                if each.passed.token is not None and each.passed.token.id == token_id:
                    each.fail("unauthorized", reason)

        await self._gate.watch(tokens, throw_out)

    # -- each frame --------------------------------------------------------------------------------------------

    def ask(self, connection: Connection, frame: ClientFrame, then: Callable[[], None]) -> None:
        """Go on with a frame that the token allows, else fail the connection, as a client knows its rights. Raises the
        errors of ``then``."""
        try:
            self._check(connection, frame)
        except Forbidden as error:
            connection.fail("forbidden", f"{error} (token: {connection.passed.who})")
            if type(frame) in CHANGES and self._gate.keeps_audit and self._may_note(connection, frame):
                self._start(self._audit_refusal(connection, frame, str(error)))
            return
        if isinstance(frame, ChangeOrder) and not (frame.by and connection.passed.is_internal):
            frame.by = connection.passed.who
        if type(frame) in CHANGES and self._gate.keeps_audit and not connection.passed.is_internal:
            connection.wait()
            self._start(self._ask_audited(connection, frame, then))
        else:
            then()

    def _check(self, connection: Connection, frame: ClientFrame) -> None:
        permissions = connection.passed.permissions
        permissions.check_frame(type(frame))
        match frame:
            case Resolve() if permissions.has_publish_limits:
                for space, name in frame.topics:
                    permissions.check_publish(space, name)
            case CreateTimestamps() if permissions.has_publish_limits:
                self._check_topics(connection, frame)
            case Subscribe() if self._host.has(self._host.count - 1):  # else it is told where that is
                assert connection.session is not None, "only clients subscribe"
                check_filters(frame, connection.session, self._host)
                permissions.check_filters(frame.filters)
            case ReadLog() | AskNumbers() if permissions.access.subscribe is not None:
                infos = self._named(frame.stage, {frame.topic})
                for info in infos:
                    _check_known_by_id("read", permissions.check_read, info)
                # its rows may be in the store before its name has come up to this stage
                if isinstance(frame, ReadLog) and not infos and self._host.has(frame.stage):
                    raise Forbidden("the token does not allow to read topics that the stage does not know", "read")

    def _check_topics(self, connection: Connection, frame: CreateTimestamps) -> None:
        new = {event.topic for event in frame.events}.union(*(firsts(event.after) for event in frame.events))
        new -= connection.permitted
        for info in self._named(frame.stage, new):
            _check_known_by_id("publish to", connection.passed.permissions.check_publish, info)
            connection.permitted.add(info.id)
        if new - connection.permitted and self._host.has(frame.stage):
            raise Forbidden("the token does not allow to publish to topics that the stage does not know", "publish")

    def _named(self, stage: int, topics: set[int]) -> list[TopicInfo]:
        """Return what a stage here knows of topics; nothing where the stage is elsewhere."""
        if not (topics and self._host.has(stage)):
            return []
        return self._host.stage(stage).name_topics(NameTopics(0, sorted(topics))).topics

    def seen(self, connection: Connection, report: Report) -> Report:
        """Return a client's report without parts beyond its token's rights, as operators see it beside other
        reports."""
        permissions, stage = connection.passed.permissions, next(iter(self._host.stages.values()), None)
        if permissions.allows_all or stage is None:
            return report
        told = {0}.union(*((each.topic, each.waited_topic) for each in report.lives))
        told = told.union(*((each.topic, each.first_topic) for each in report.waits))
        infos = stage.name_topics(NameTopics(0, sorted(told))).topics
        published = {each.id for each in infos if permissions.publishes(each.space, each.name)}
        read = {each.id for each in infos if permissions.subscribes(each.space, each.name)}
        lives = [
            each for each in report.lives
            if each.topic in (read if each.verdict else published) and each.waited_topic in {0, *read}
        ]  # fmt: skip
        # of a topic without a name it is not known yet whether it is one that it reads
        waits = [each for each in report.waits if each.first_topic in read and (each.topic in read or not each.number)]
        return replace(report, lives=lives, waits=waits)

    # -- the audit log -----------------------------------------------------------------------------------------

    def _may_note(self, connection: Connection, frame: Frame) -> bool:
        """Tell whether a refusal goes into the audit log, which nobody empties: of each token and kind one a minute."""
        what, now = (connection.passed.who, type(frame)), asyncio.get_running_loop().time()
        if now < self._noted.get(what, -inf) + REFUSALS_NOTED:
            return False
        self._noted[what] = now
        return True

    async def _audit_refusal(self, connection: Connection, frame: ClientFrame, refusal: str) -> None:
        action, target, detail = described(frame)
        detail |= {"client": connection.name, "peer": connection.peer, "refusal": refusal}
        try:
            await self._gate.begin_audit(connection.passed, action, target, detail, "refused")
        except StoreError as error:
            log.error("event=audit_not_written action=%s error=%s", action, error)

    async def _ask_audited(self, connection: Connection, frame: ClientFrame, then: Callable[[], None]) -> None:
        refusal, entry = await self._ask_when_written(connection, frame, then)
        connection.go_on()
        if refusal and entry:
            await self._gate.end_audit(entry, "refused", {"refusal": refusal})

    async def _ask_when_written(
        self, connection: Connection, frame: ClientFrame, then: Callable[[], None]
    ) -> tuple[str, int]:
        """Return why it was not asked for (an empty text: it was), and the entry of the audit log."""
        if request_of(frame) in connection.audits:  # its answer would be taken for that of the one before
            text = f"request {request_of(frame)} is not answered yet; a change has a number of its own"
            connection.fail("protocol", text)
            return text, 0
        action, target, detail = described(frame)
        detail |= {"client": connection.name, "peer": connection.peer}
        try:
            entry = await self._gate.begin_audit(connection.passed, action, target, detail, "started")
        except StoreError as error:
            connection.fail("store", f"the worker cannot write its audit log: {error}")
            return str(error), 0
        if not connection.is_current:
            return "the connection ended before it was done", entry
        connection.audits[request_of(frame)] = entry
        try:
            then()
        except ProtocolError as error:
            del connection.audits[request_of(frame)]
            connection.fail("protocol", str(error))
            return str(error), entry
        return "", entry

    def answered(self, connection: Connection, frames: list[Frame]) -> list[Frame]:
        """Answers leave: what they say goes into the audit log. Return them as the token allows to see them."""
        for frame in frames if connection.audits else ():
            is_of_change = isinstance(frame, ANSWERS)  # a question may have the same number
            entry = connection.audits.pop(request_of(frame), None) if is_of_change else None
            if entry is not None:
                refusal = getattr(frame, "refusal", "")
                detail = {"refusal": refusal} if refusal else {}
                self._start(self._gate.end_audit(entry, "refused" if refusal else "done", detail))
        permissions = connection.passed.permissions
        return [permissions.visible(frame) for frame in frames] if permissions.has_limits else frames

    def left(self, guest: Abortable) -> None:
        """A connection, or a TLS handshake, has ended."""
        self._open.remove(guest)

    def closed(self, connection: Connection) -> None:
        """A connection has ended: what became of its open changes it is not told, nor do we know."""
        self.left(connection)
        for entry in connection.audits.values():
            self._start(self._gate.end_audit(entry, "unknown", {}))
        connection.audits.clear()


def _check_known_by_id(action: str, check: Callable[[str, str], None], info: TopicInfo) -> None:
    """Raise Forbidden for a topic known by its id alone, whose name may be forbidden."""
    try:
        check(info.space, info.name)
    except Forbidden as error:
        those = ", ".join(error.allowed) or "no topics"
        text = f"the token does not allow to {action} topic {info.id}; it allows {those}"
        raise Forbidden(text, error.action, str(info.id), error.allowed) from None
