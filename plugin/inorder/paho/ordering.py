"""The inorder session of a paho client, between paho's threads and the event loop's."""

from __future__ import annotations

import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from inorder.client.clock import ReadingTime
from inorder.client.configured import ClientConfiguration
from inorder.client.copies import Copies
from inorder.client.notification_sink import PassedOver
from inorder.endpoint.notifications import Event, Gap, Verdict
from inorder.errors import Abandoned, Closed, Forgotten, InorderError
from inorder.logs import logger
from inorder.paho.ens import PahoEns
from inorder.paho.message import InOrder, MQTTMessage, repaired
from inorder.paho.publication import Outgoing, Publication
from inorder.paho.session import Session, leave_to_parent
from inorder.ports import Arrival
from inorder.protocol.names import Filter
from inorder.sync._thread import THREAD
from inorder_adapters.mqtt.barriers import Answered

_log = logger("inorder.paho")

Item = Callable[[Any], None]
"""Something that paho's thread is to do with its client."""

MAX_UNDIGESTED: Final = 1000
"""Arrivals that the event loop's thread has not looked at, from which on paho's waits for it."""


class Arrived:
    """A message of paho's on its way through the order.

    Attributes:
        message: as the application will get it.
        at: when it came, by the caller's clock.
        is_due: its turn has come; is_done: the application was told, or never will be.
    """

    __slots__ = ("__weakref__", "at", "is_done", "is_due", "message")

    def __init__(self, message: MQTTMessage, at: float) -> None:
        self.message, self.at = message, at
        self.is_due = self.is_done = False


class Ordering:
    """The inorder side of a paho client: its session, open work in both directions, and tasks for paho's threads.

    Args:
        client_id: the application's, may be empty.
        wake: tells the library's network loop that something is due (any thread).

    Attributes:
        time: by which missing events are waited for; it goes on while a loop of the library reads.
        due: what the library's thread is to do, in order. is_woken: it was told so.
        outgoing: what is published.
        numbering: held while publications are added and their timestamps requested, once each, by the application's
            threads and paho's.
    """

    def __init__(self, configuration: ClientConfiguration, wake: Callable[[], None]) -> None:
        times = replace(configuration.times, max_pending=2**62)  # paho has limits of its own
        self._configuration = replace(configuration, client_id=None, times=times)
        self._name = configuration.client_id
        self._wake = wake
        self.session: Session | None = None
        self.time = ReadingTime()
        self.due: deque[Item] = deque()
        self.is_woken = False
        self.outgoing = Outgoing()
        self.numbering = threading.RLock()
        self.given = self.digested = 0
        self._copies = Copies[Arrived]()
        self._given = InOrder()  # how the last event stands to the order
        self.unhandled: set[tuple[str, int]] = set()
        self._under_way = weakref.WeakValueDictionary[int, Arrived]()
        self._left: set[Filter] = set()
        self._left_unordered: set[Filter] = set()
        self._left_sent: list[Publication] = []
        self._protocol = 4

    # -- session: the library's threads ---------------------------------------------------------------------------

    def begin(self, address: str, client_id: str, protocol: int, *, goes_on: bool = False) -> None:
        """Provide an inorder client, a new one if there is none. Raises what :meth:`Session.open` does.

        Args:
            goes_on: over the connection that the library has: what was sent on it is not sent anew.
        """
        self._protocol = protocol
        if self.session is not None:
            if not goes_on:
                self._submit(self._left_sent)
                self._left_sent = []
            return
        name = self._name or client_id or "paho"
        name = "".join(each for each in name if each.isprintable())[:100]
        times = self._configuration.times
        ens = PahoEns(address, properties=protocol == 5, ready=self._ready, ping=self._ping, times=times)
        session = Session(self._configuration, f"{name}#{secrets.token_hex(3)}", ens, self)
        session.open()
        self._copies.clear()
        with self.numbering:
            self.session = session
            publications = list(self.outgoing.all())
            self._left_sent = [each for each in publications if goes_on and each.is_sent]
            for each in self._left_sent:
                each.token, each.stamp = 0, None
            self._submit(each for each in publications if not (goes_on and each.is_sent))
        if not goes_on and not self._left:
            self.due.clear()

    def _ping(self, answered: Answered) -> None:
        """Make the library's thread ping, and report the answer behind everything that was read before."""
        session = self.session
        if session is not None:
            ens = session.ens
            self.put(lambda client: client.ping(lambda is_open: ens.report_soon(answered, is_open)))

    def _submit(self, publications: Iterable[Publication]) -> None:
        """Request new timestamps for publications that were not accepted."""
        for publication in publications:
            if (
                self.session is not None
                and publication.is_total
                and not publication.is_accepted
                and not publication.error
            ):
                publication.token, publication.stamp = 0, None
                self.session.submit(publication)

    def patience(self, most: float) -> float:
        """Return for how many seconds the workers may take a failed client for well: less than a heartbeat."""
        return min(most, self._configuration.times.heartbeat / 2)

    def leave(self) -> None:
        """Disconnect from the workers while nobody reads. Messages that wait for their turn are due, as late."""
        if self.session is not None:
            with suppress(Closed):
                THREAD.call(self._leave, self.session)
            self.end()

    def _leave(self, session: Session) -> None:
        """Close a session on the event loop's thread, so that nothing arrives or gets a timestamp meanwhile."""
        session.ens.is_left = True
        self._left, self._left_unordered = session.ens.filters()
        for publication in self.outgoing.all():
            if publication.is_total and not publication.is_sent:
                publication.is_ready = False
        for arrived in [each for _, each in sorted(self._under_way.items())]:
            if not (arrived.is_due or arrived.is_done):
                self._deliver(arrived, InOrder(Verdict.LATE))
        self._copies.clear()  # they were among these

    def restore(self) -> None:
        """Tell the workers, when reading begins again, of the subscriptions that the broker has kept."""
        filters, self._left = list(self._left), set()
        unordered, self._left_unordered = self._left_unordered, set()
        session = self.session
        if session is not None and (filters or unordered):
            session.ens.report_soon(session.ens.unordered, unordered, [])
            session.ens.report_soon(session.ens.expect, filters)
            session.ens.report_soon(session.subscribed, filters, lambda error: None)

    def left_to_parent(self) -> ClientConfiguration:
        """Leave all sessions to the parent process after a fork. Return what another one is made with."""
        session, self.session = self.session, None
        leave_to_parent(session)
        return replace(self._configuration, client_id=self._name)

    def end(self) -> None:
        """End the session."""
        session, self.session = self.session, None
        if session is not None:
            for publication in self.outgoing.all():
                if publication.token and not (publication.is_sent or publication.is_accepted):
                    session.ens.refused(publication.token, Closed("the session ended before it was sent"))
            session.end()

    def publish(self, publication: Publication) -> None:
        """Request a timestamp for a publication."""
        if self.session is not None and publication.is_total:
            self.session.submit(publication)

    def arrived(self, arrival: Arrival, *, is_last: bool = True) -> None:
        """Take a message that came in. ``is_last``: else others may be there, and :meth:`wake` follows."""
        if self.session is not None:
            self.given += 1
            if isinstance(arrival.source, Arrived):
                self._under_way[self.given] = arrival.source
            self.session.ens.arrived(arrival, wakes=is_last)
            if self.given - self.digested > MAX_UNDIGESTED:
                self.settle()

    def wake(self) -> None:
        """Make the event loop's thread look at the messages that came in."""
        if self.session is not None:
            self.session.ens.wake()

    def settle(self) -> None:
        """Wait until the event loop's thread has looked at every message that came in."""
        if self.given != self.digested:
            self.wake()
            with suppress(Closed):
                THREAD.call(_nothing)
            self.digested = self.given

    def put(self, item: Item) -> None:
        """Queue a function for the library's thread."""
        self.due.append(item)
        self.ask_for_turn()

    def _ready(self) -> None:
        self.outgoing.tell()
        self.ask_for_turn()

    def ask_for_turn(self) -> None:
        """Make the library's loop look at its due work (any thread)."""
        if not self.is_woken:
            self.is_woken = True
            self._wake()

    # -- what the inorder client tells: the event loop's thread ------------------------------------------------

    def on_event(self, event: Event, arrival: Arrival) -> None:
        """See :class:`~inorder.client.notification_sink.NotificationSink`."""
        arrived = arrival.source
        if not isinstance(arrived, Arrived):
            arrived = Arrived(repaired(event, self._protocol), 0.0)
        self._given = told = InOrder(event.verdict, event.number, event.deps)
        self._deliver(arrived, told)
        for copy in self._copies.turn(event.topic, event.number):
            self._deliver(copy, told)

    def on_gap(self, gap: Gap) -> None:
        """See :class:`~inorder.client.notification_sink.NotificationSink`."""
        self._copies.interrupted()
        for copy in self._copies.skipped(gap.topic, gap.first, gap.last):
            self._drop(copy)
        self.put(lambda client: client._tell_gap(gap))

    def on_passed_over(self, arrival: Arrival, topic: int, number: int, why: PassedOver) -> None:
        """Deliver messages from before the subscription's start, and further copies beside their twin."""
        arrived = arrival.source
        if not isinstance(arrived, Arrived):
            return
        name = arrival.topic
        if why == "before":
            self._deliver_alone(arrived, InOrder(Verdict.LATE, number))
        elif arrival.redelivered:
            if (name, number) in self.unhandled:
                self.unhandled.discard((name, number))
                self._deliver_alone(arrived, InOrder(Verdict.LATE, number))
            else:
                self._drop(arrived)
        elif why == "twin_waits":
            for copy in self._copies.keep(name, number, arrived, self._copies_allowed(name)):
                self._drop(copy)
        elif self._copies.follows(name, number, self._copies_allowed(name)):
            self._deliver(arrived, self._given)
        else:
            self._drop(arrived)

    def on_unrouted(self, arrival: Arrival) -> None:
        """See :class:`~inorder.client.notification_sink.NotificationSink`: the library's own behaviour."""
        if isinstance(arrival.source, Arrived):
            self._deliver_alone(arrival.source, InOrder())

    def on_failed(self, error: InorderError) -> None:
        """See :class:`~inorder.client.notification_sink.NotificationSink`."""
        self.put(lambda client: client._order_failed(error))

    def publish_failed(self, publication: Publication, error: InorderError) -> None:
        """Report a publication that gets no timestamp. One whose number was given up gets another one: the library's
        application is told of a publish that was accepted or refused, and this was neither."""
        if isinstance(error, Abandoned | Forgotten) and self.session is not None:
            _log.warning("event=published_anew topic=%s reason=%s", publication.topic, error)
            publication.is_ready, publication.stamp, publication.token = False, None, 0
            self.session.submit(publication)
        elif not isinstance(error, Closed):
            publication.error = error
            self.put(lambda client: client._publish_failed(publication, error))

    def _copies_allowed(self, topic: str) -> int:
        """Return how many copies of one event the broker may send beside the first."""
        return 0 if self.session is None else self.session.ens.copies_of(topic) - 1

    def _deliver_alone(self, arrived: Arrived, told: InOrder) -> None:
        """Deliver a message that has no place in the order, and so ends the copies of the event before."""
        self._copies.interrupted()
        self._deliver(arrived, told)

    def _deliver(self, arrived: Arrived, told: InOrder) -> None:
        arrived.message.inorder = told
        arrived.is_due = True
        self.put(lambda client: client._tell(arrived))

    def _drop(self, arrived: Arrived) -> None:
        arrived.is_done = True
        self.put(_nothing_to_do)


def _nothing() -> None:
    """Do nothing."""


def _nothing_to_do(client: object) -> None:
    """Do nothing."""
