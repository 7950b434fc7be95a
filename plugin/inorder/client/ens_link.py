"""The connection to one broker: subscriptions and hand-overs that survive reconnection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from inorder.backoff import pause
from inorder.client.barriers import Barriers
from inorder.client.embedded import EmbeddedEns
from inorder.client.options import ClientTimes
from inorder.errors import InorderError, LinkError, Refused
from inorder.logs import logger
from inorder.ports import Arrival, Ens, Outgoing
from inorder.protocol.names import Filter

_log = logger("inorder.client")

MAX_LOSSES = 3
"""Connections that one message may break before it is given up."""

Outcome = Callable[[Exception | None], None]


def refusal_of(error: Exception) -> InorderError:
    """Return the error with which a single publish fails, for any exception."""
    return error if isinstance(error, InorderError) else Refused(f"the publish has failed: {error!r}")


class EnsEvents(Protocol):
    """The reports of a broker link, on the event loop's thread."""

    def on_ens_arrived(self, link: EnsLink, arrival: Arrival) -> None:
        """Take a message that arrived."""

    def on_ens_malformed(self, link: EnsLink, reason: str) -> None:
        """Note an arrival that is no message."""

    def on_ens_asked(self, link: EnsLink, filter: Filter) -> None:
        """Note that the broker is asked to subscribe to a filter, and so for its retained copies (R5)."""

    def on_ens_caught_up(self, link: EnsLink, is_caught_up: bool) -> None:
        """Take the outcome of a barrier (R24): it has come back, or will not."""

    def on_ens_reconnected(self, link: EnsLink) -> None:
        """Note that the connection is back, before anything arrives on it."""

    def on_ens_restored(self, link: EnsLink) -> None:
        """Note that all subscriptions are acknowledged again."""


class EnsLink:
    """One broker's :class:`~inorder.ports.Ens`, its subscriptions and the messages on their way to it.

    Args:
        ens: the adapter's connection.
        space: the space of its topics.
        events: who is told.
    """

    def __init__(self, ens: Ens, space: str, events: EnsEvents, times: ClientTimes) -> None:
        self.ens, self.space = ens, space
        self._events, self._times = events, times
        self._filters: dict[Filter, int] = {}
        self._outcomes: dict[int, tuple[Outgoing, Outcome]] = {}
        self._last_answered = 0
        self._suspect: Outgoing | None = None
        self._suspicions = 0
        self._next_token = 1
        self._lost = asyncio.Event()
        self._restored: asyncio.Future[None] | None = None
        self._refusals: dict[Filter, Refused] = {}
        self._connects = 0
        self._connected_at = 0.0
        self._is_back_untold = False
        self._barriers = Barriers(ens)
        self._barrier: asyncio.Task[None] | None = None
        self.is_connected = False
        self.is_restored = False
        if isinstance(ens, EmbeddedEns):  # the library asks the broker
            ens.kept_wanted = self._asked

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"<EnsLink {self.space} at {self.ens.address}: {state}>"

    # -- the adapter's sink ------------------------------------------------------------------------------------

    def arrived(self, arrival: Arrival) -> None:
        """See :class:`~inorder.ports.EnsSink`."""
        if self._is_back_untold:
            self._tell_back()
        self._barriers.arrived += 1
        self._events.on_ens_arrived(self, arrival)

    def malformed(self, reason: str) -> None:
        """See :class:`~inorder.ports.EnsSink`."""
        self._events.on_ens_malformed(self, reason)

    def accepted(self, tokens: list[int]) -> None:
        """See :class:`~inorder.ports.EnsSink`."""
        outcomes = self._outcomes
        for token in tokens:
            handed = outcomes.pop(token, None)
            if handed is not None:
                message, outcome = handed
                if message.qos and token > self._last_answered:
                    self._last_answered = token
                outcome(None)

    def refused(self, token: int, error: Exception) -> None:
        """See :class:`~inorder.ports.EnsSink`."""
        handed = self._outcomes.pop(token, None)
        if handed is not None:
            handed[1](error)

    def connection_lost(self, error: Exception) -> None:
        """See :class:`~inorder.ports.EnsSink`."""
        _log.warning("event=broker_lost space=%s error=%s", self.space, error)
        self.is_connected = self.is_restored = False
        culprit = self._culprit()
        self._outcomes.clear()
        self._lost.set()
        if self._barrier is not None:
            self._barrier.cancel()
        if culprit is not None:
            culprit(
                Refused(f"the connection to the broker broke {MAX_LOSSES} times in a row over this publish: {error}")
            )

    def _culprit(self) -> Outcome | None:
        """Return the outcome of the message that breaks every connection, or ``None``: each time it was the oldest
        unanswered message, and no later one was answered (QoS 0 needs no answer)."""
        if not self._outcomes or isinstance(self.ens, EmbeddedEns):  # there the library decides how often it tries
            return None
        token, (message, outcome) = next(iter(self._outcomes.items()))
        if message is not self._suspect or self._last_answered > token:
            self._suspect, self._suspicions = message, 0
        if self._last_answered < token:
            self._suspicions += 1
        if self._suspicions < MAX_LOSSES:
            return None
        self._suspect, self._suspicions = None, 0
        return outcome

    # -- use ---------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect for the first time. Raises what :meth:`~inorder.ports.Ens.connect` does."""
        await self._connect()
        self.is_restored = self.is_connected

    async def _connect(self) -> None:
        self._lost.clear()
        await self.ens.connect(self)
        self._connects += 1
        self._connected_at = asyncio.get_running_loop().time()
        self.is_connected = not self._lost.is_set()

    def _tell_back(self) -> None:
        """Report a reconnection once, before anything that arrives on it."""
        if self._is_back_untold:
            self._is_back_untold = False
            self._events.on_ens_reconnected(self)

    def hand_over(self, message: Outgoing, outcome: Outcome) -> bool:
        """Hand a message to the broker; ``outcome`` is called once, unless the connection is lost first. Return whether
        it was given: not while there is no connection, nor before :meth:`EnsEvents.on_ens_restored`, which hands over
        first what waits longer. A message that breaks the connection :data:`MAX_LOSSES` times in a row is Refused,
        though an earlier hand-over of it may have succeeded."""
        if not self.is_restored:
            return False
        token = self._next_token
        self._next_token += 1
        self._outcomes[token] = message, outcome
        try:
            self.ens.publish(message, token)
        except Exception as error:  # the link to the worker, where this came from, is not to suffer
            self._outcomes.pop(token, None)
            outcome(refusal_of(error))
        return True

    # -- barriers (R24) ----------------------------------------------------------------------------------------

    def begin_barrier(self) -> None:
        """Begin a barrier, of which :meth:`EnsEvents.on_ens_caught_up` reports the outcome. One at a time."""
        self._barrier = asyncio.create_task(self._pass_barrier(), name=f"inorder: barrier of {self.space}")

    async def _pass_barrier(self) -> None:
        is_caught_up = False
        try:
            is_caught_up = self.is_restored and await self._barriers.passed()
        finally:
            self._barrier = None
            self._events.on_ens_caught_up(self, is_caught_up)

    def end_barrier(self) -> None:
        """End the open barrier, as the link is closed."""
        if self._barrier is not None:
            self._barrier.cancel()

    async def subscribe(self, filter: Filter, qos: int) -> None:
        """Subscribe now, or as soon as there is a connection. Raises Refused, and TimedOut if the broker is there and
        does not answer; then everything is as before."""
        before = self._filters.get(filter)
        self._filters[filter] = qos
        try:
            await self._subscribe(filter, qos)
        except BaseException:
            if before is None:
                self._filters.pop(filter, None)
            else:
                self._filters[filter] = before
            raise

    async def _subscribe(self, filter: Filter, qos: int) -> None:
        connection = self._connects
        if self.is_connected:
            try:
                self._asking(filter)
                await self.ens.subscribe(filter, qos=qos)
                return
            except LinkError:
                if self.is_connected and self._connects == connection:
                    raise  # not the connection: the broker did not answer
        if not self.is_restored:
            self._restored = self._restored or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._restored)
        refusal = self._refusals.get(filter)
        if refusal is not None:
            raise refusal

    async def unsubscribe(self, filter: Filter) -> None:
        """Unsubscribe; do nothing without a connection."""
        if self._filters.pop(filter, None) is not None and self.is_connected:
            try:
                await self.ens.unsubscribe(filter)
            except LinkError:
                _log.info(
                    "event=not_unsubscribed space=%s filter=%s hint=%s",
                    self.space,
                    filter.text,
                    "the broker is gone, and it too",
                )

    async def run(self) -> None:
        """Connect again whenever the connection is lost, until cancelled."""
        loop, times, failures = asyncio.get_running_loop(), self._times, 0
        while True:
            await self._lost.wait()
            # a broker that takes us in and throws us out again (two clients of one id) must not be asked without a rest
            if loop.time() - self._connected_at >= times.heartbeat:
                failures = 0
            self._is_back_untold = is_back = False
            while not is_back:
                await asyncio.sleep(pause(times.backoff_first, times.backoff_max, failures))
                failures += 1
                is_back = await self._reconnect()

    async def _reconnect(self) -> bool:
        """Connect, if necessary, and restore all subscriptions; return whether both succeeded."""
        try:
            if not self.is_connected:
                self._is_back_untold = True
                await self._connect()
                self._tell_back()
            for filter, qos in list(self._filters.items()):
                await self._subscribe_again(filter, qos)
        except InorderError as error:
            self._is_back_untold = False
            _log.info("event=broker_unreachable space=%s address=%s error=%s", self.space, self.ens.address, error)
            return False
        if self._lost.is_set():
            return False
        self.is_restored = True
        if self._restored is not None and not self._restored.done():
            self._restored.set_result(None)
        self._restored = None
        self._events.on_ens_restored(self)
        return True

    def _asking(self, filter: Filter) -> None:
        if not isinstance(self.ens, EmbeddedEns):
            self._asked(filter)

    def _asked(self, filter: Filter) -> None:
        self._events.on_ens_asked(self, filter)

    async def _subscribe_again(self, filter: Filter, qos: int) -> None:
        self._refusals.pop(filter, None)
        try:
            self._asking(filter)
            await self.ens.subscribe(filter, qos=qos)
        except Refused as error:
            self._refusals[filter] = error
            # the others must not suffer; it is tried again at the next reconnection
            _log.error("event=filter_refused space=%s filter=%s error=%s", self.space, filter.text, error)
