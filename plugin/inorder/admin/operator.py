"""An operator's connection to the worker that has the bottom stage, where the topic order (R14), event logs and durable
subscriptions (R18) are shown and changed.

One connection for one command: no session that others would notice, no retries.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

from inorder.core.wire import (
    PROTOCOL_VERSIONS,
    ChangeLog,
    ChangeOrder,
    Done,
    EndSubscription,
    Failure,
    Frame,
    FrameSplitter,
    Hello,
    KnownSubscription,
    LogRule,
    Logs,
    OrderChanged,
    PinTopics,
    Reports,
    SeenLife,
    ShowLogs,
    ShowOrder,
    ShowReports,
    ShowSubscriptions,
    StageInfo,
    Subscriptions,
    TopicOrder,
    Welcome,
    WorkerFrame,
    decode_worker_frame,
    encode_frame,
)
from inorder.errors import Forbidden, ProtocolError, Refused, Unauthorized, VersionMismatch, WorkerUnreachable

FrameT = TypeVar("FrameT", bound=Frame)
AnswerT = TypeVar("AnswerT", Done, OrderChanged)


class Operator:
    """Use it as ``async with Operator(...) as operator``.

    Args:
        addresses: ``host:port`` of workers, tried in turn.
        token: what they ask for, or an empty text.
        tls: ``None`` for plain TCP.
    """

    def __init__(self, addresses: Sequence[str], token: str, tls: ssl.SSLContext | None) -> None:
        self._addresses, self._tls = addresses, tls
        name = f"inorder-order-{secrets.token_hex(4)}"
        self._hello = Hello(*PROTOCOL_VERSIONS, token, name, secrets.randbits(63), "inorder order")
        self._writer: asyncio.StreamWriter | None = None
        self._splitter = FrameSplitter()
        self._frames: list[WorkerFrame] = []

    async def __aenter__(self) -> Self:
        """Connect. Raises WorkerUnreachable, Unauthorized, VersionMismatch, Refused."""
        try:
            bottom = _bottom(await self._connect_to_any())
            if bottom.address:
                await self._close()
                if _bottom(await self._connect(bottom.address)).address:
                    raise WorkerUnreachable([bottom.address], "the bottom stage is moving to another worker")
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self._close()

    # -- the topic order ---------------------------------------------------------------------------------------

    async def show(self) -> TopicOrder:
        """Return the topic order, whole."""
        self._send(ShowOrder(1))
        whole = part = await self._next(TopicOrder)
        while part.more:
            part = await self._next(TopicOrder)
            whole.topics += part.topics
        return whole

    async def change(self, order_epoch: int, stages: list[list[int]]) -> int:
        """Change the topic order; return its new epoch, once the bottom stage is in it. Raises Refused."""
        return (await self._accepted(ChangeOrder(2, order_epoch, stages), OrderChanged)).order_epoch

    async def pin(self, topics: list[int], *, is_pinned: bool) -> int:
        """Pin topics to their stages or let them go; return the order epoch. Raises Refused."""
        return (await self._accepted(PinTopics(3, topics, is_pinned), OrderChanged)).order_epoch

    # -- event logs (R18) --------------------------------------------------------------------------------------

    async def logs(self) -> Logs:
        """Return which topics have an event log."""
        self._send(ShowLogs(4))
        return await self._next(Logs)

    async def change_log(self, rule: LogRule, *, is_on: bool) -> None:
        """Give topics a log or take it from them. Raises Refused."""
        await self._accepted(ChangeLog(5, rule, is_on), Done)

    # -- subscriptions (R12, R18) ------------------------------------------------------------------------------

    async def subscriptions(self) -> list[KnownSubscription]:
        """Return all subscriptions with total order, by client id."""
        self._send(ShowSubscriptions(6))
        part = await self._next(Subscriptions)
        found = list(part.subscriptions)
        while part.more:
            part = await self._next(Subscriptions)
            found += part.subscriptions
        return found

    async def end_subscription(self, client_id: str) -> None:
        """End the subscription of a client that is gone. Raises Refused."""
        await self._accepted(EndSubscription(7, client_id), Done)

    # -- what clients report -----------------------------------------------------------------------------------

    async def reports(self, since_us: int = 0) -> Reports:
        """Return what clients have reported, with the lives of events that were told after ``since_us`` (µs since 1970,
        by the worker's clock)."""
        self._send(ShowReports(8, since_us))
        return await self._next(Reports)

    async def lives(self, topic: int, number: int) -> list[SeenLife]:
        """Return what clients have told of one event."""
        self._send(ShowReports(9, 0, topic, number))
        return (await self._next(Reports)).lives

    async def _accepted(self, frame: Frame, kind: type[AnswerT]) -> AnswerT:
        """Ask for a change; return the answer. Raises Refused."""
        self._send(frame)
        answer = await self._next(kind)
        if answer.refusal:
            raise Refused(answer.refusal)
        return answer

    # -- frames ------------------------------------------------------------------------------------------------

    async def _connect_to_any(self) -> Welcome:
        last: WorkerUnreachable | None = None
        for address in self._addresses:
            try:
                return await self._connect(address)
            except WorkerUnreachable as error:
                await self._close()
                last = error
        raise WorkerUnreachable(list(self._addresses), last.reason if last else "no address")

    async def _connect(self, address: str) -> Welcome:
        self._address = address
        host, _, port = address.rpartition(":")
        try:
            self._reader, self._writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=self._tls)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise WorkerUnreachable([address], reason) from None
        self._splitter, self._frames = FrameSplitter(), []
        self._send(self._hello)
        return await self._next(Welcome)

    async def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _send(self, frame: Frame) -> None:
        assert self._writer is not None
        self._writer.write(encode_frame(frame))

    async def _next(self, kind: type[FrameT]) -> FrameT:
        """Return the next frame of a kind; what else a worker says does not concern an operator."""
        while True:
            while not self._frames:
                try:
                    data = await self._reader.read(2**16)
                except OSError as error:
                    raise WorkerUnreachable([self._address], str(error)) from None
                if not data:
                    raise WorkerUnreachable([self._address], "it closed the connection")
                self._frames += [decode_worker_frame(body) for body in self._splitter.feed(data)]
            frame = self._frames.pop(0)
            if isinstance(frame, kind):
                return frame
            if isinstance(frame, Failure):
                raise _error_of(frame)


def _bottom(welcome: Welcome) -> StageInfo:
    return max(welcome.stages, key=lambda each: each.stage)


def _error_of(failure: Failure) -> Exception:
    match failure:
        case Failure(code="unauthorized"):
            return Unauthorized(f"the worker refused the connection: {failure.message}", peer="worker")
        case Failure(code="forbidden"):
            return Forbidden(f"the worker refused: {failure.message}")
        case Failure(code="version", facts=[lowest, highest]):
            return VersionMismatch(PROTOCOL_VERSIONS, (lowest, highest))
        case Failure(code="protocol"):
            return ProtocolError(failure.message)
    return Refused(failure.message)
