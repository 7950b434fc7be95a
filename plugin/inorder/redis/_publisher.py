"""The inner side of publishing: it gets timestamps for the library's publishes. On the event loop's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from redis import exceptions

from inorder.client.configured import ClientConfiguration
from inorder.client.ens_link import refusal_of
from inorder.endpoint.notifications import Receipt
from inorder.errors import InorderError, Refused
from inorder.redis._ens import Payload, RedisPyEns, engine_of

REPLY_WAIT = 0.005
"""How long the word of what became of a publish may wait for others, s: a thread that publishes one after the other
would else wake the event loop for it as often as for its timestamps."""


class StampedPayload(bytes):
    """A payload with its stamp, as it is published."""

    was_sent: bool
    """It may have reached the server."""


class Ticket:
    """One publish, from the library's call to its outcome.

    Attributes:
        wire: what to publish, once there is a timestamp.
        error: why there is none.
    """

    def __init__(self, channel: str, payload: bytes) -> None:
        self.channel = channel
        self.payload = Payload(payload)
        self.wire: StampedPayload | None = None
        self.error: Exception | None = None
        self.token = 0
        self.publish: asyncio.Future[Receipt] | None = None
        self.is_given_up = False

    @property
    def is_done(self) -> bool:
        """Tell whether the publish has its timestamp or has failed."""
        return self.wire is not None or self.error is not None


class Publisher:
    """One publisher of the domain: all publishes of one connection pool, in all threads.

    Args:
        configuration: of the client.
        address: the server's, for logs.
    """

    def __init__(self, configuration: ClientConfiguration, address: str) -> None:
        self._ens = RedisPyEns(address)
        self._client = engine_of(configuration, self._ens)

    @property
    def is_closed(self) -> bool:
        """Tell whether the publisher was closed or refused for good, and publishes nothing any more."""
        return self._ens.is_closed

    async def open(self) -> None:
        """Connect to the workers. Raises WorkerUnreachable, Unauthorized, VersionMismatch."""
        self._ens.attach(asyncio.get_running_loop())
        self._ens.up()
        await self._client.__aenter__()

    async def close(self) -> None:
        """Let open work finish."""
        await self._client.close()

    def stamp(self, tickets: Sequence[Ticket], done: Callable[[], None]) -> None:
        """Request timestamps and call ``done`` once when every ticket has a timestamp or an error. Never raises."""
        open_tickets = len(tickets)

        def one_done() -> None:
            nonlocal open_tickets
            open_tickets -= 1
            if not open_tickets:
                done()

        self._ens.flush()  # what was accepted before is confirmed together with these requests
        for ticket in tickets:
            self._stamp(ticket, one_done)
        self._client.send_now()

    def _stamp(self, ticket: Ticket, done: Callable[[], None]) -> None:
        def stamped(token: int, wire: bytes) -> None:
            if ticket.is_done:  # handed over again: the library has not said yet what became of it
                return
            ticket.token, ticket.wire = token, StampedPayload(wire)
            ticket.wire.was_sent = False
            if ticket.is_given_up:
                self.refused(ticket)
            self._ens.look_within(REPLY_WAIT)
            done()

        def ended(publish: asyncio.Future[Receipt]) -> None:
            if publish.cancelled():
                return
            error = publish.exception()
            if error is not None and not ticket.is_done:
                ticket.error = refusal_of(error) if isinstance(error, Exception) else InorderError(repr(error))
                done()

        ticket.payload.on_stamped = stamped
        try:
            ticket.publish = self._client.publish(ticket.channel, ticket.payload)
        except Exception as error:
            ticket.error = refusal_of(error)
            done()
        else:
            ticket.publish.add_done_callback(ended)

    def give_up(self, ticket: Ticket) -> None:
        """Give a publish up for which nobody waits any more: its number, if it has one, becomes void (R16)."""
        ticket.is_given_up = True
        if ticket.wire is not None:
            self.refused(ticket)
        elif ticket.publish is not None:
            ticket.publish.cancel()

    # -- what became of it: any thread -------------------------------------------------------------------------

    def accepted(self, ticket: Ticket) -> None:
        """Confirm a publish after the server's reply (R16)."""
        self._ens.accepted(ticket.token)

    def refused(self, ticket: Ticket) -> None:
        """Void the number of a publish that certainly did not happen."""
        self._ens.refused(ticket.token, Refused("the publish was refused"))

    def failed(self, ticket: Ticket, error: BaseException) -> None:
        """Decide on a publish for which the library raised an error. A refusal makes the number void. Else nobody
        knows: the number counts, so whoever has the event delivers it, and the others report it as lost (R17)."""
        wire = ticket.wire
        if wire is None:
            self.give_up(ticket)
        elif isinstance(error, exceptions.ResponseError) or not wire.was_sent:
            self.refused(ticket)
        else:
            self.accepted(ticket)


def is_publish(args: tuple[Any, ...]) -> bool:
    """Tell whether a command is a complete PUBLISH."""
    name = args[0] if args else None
    if isinstance(name, bytes):
        return len(args) == 3 and name.upper() == b"PUBLISH"
    return len(args) == 3 and isinstance(name, str) and name.upper() == "PUBLISH"
