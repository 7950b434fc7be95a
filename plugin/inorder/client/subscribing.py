"""Changing subscriptions: broker first, then the topic managers; one change at a time (R7, R11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from inorder.client import clock
from inorder.client.arrivals import Arrivals
from inorder.client.ens_link import EnsLink
from inorder.client.routing import Ordering, Routes
from inorder.client.routing import Subscribed as Subscription
from inorder.endpoint.lease import Lease
from inorder.endpoint.ordering import OrderingModule
from inorder.endpoint.subscriber import Subscriber
from inorder.errors import InorderError, InvalidFilter, InvalidOption
from inorder.logs import logger
from inorder.protocol.filters import number_problem
from inorder.protocol.names import Filter, FilterKind
from inorder.protocol.wire import Frame, Opened, SpaceFilter, Subscribed

_log = logger("inorder.client")


class Subscribing:
    """A client's subscription changes.

    Args:
        lease: is told what a change needs and proves (R12).
        send: sends a frame to the workers, or drops it while there is no connection.
        wake: there may be something to ask the workers.
        now: the time by which missing events are waited for, s.
    """

    def __init__(
        self,
        subscriber: Subscriber,
        ordering: OrderingModule,
        routes: Routes,
        arrivals: Arrivals,
        lease: Lease,
        send: Callable[[Frame], None],
        wake: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._subscriber, self._ordering, self._routes = subscriber, ordering, routes
        self._arrivals, self._lease, self._send, self._wake = arrivals, lease, send, wake
        self._now = now
        self._began = 0.0
        self._is_anew_due = False
        self._lock = asyncio.Lock()
        self._done: asyncio.Future[None] | None = None
        self._links: dict[str, EnsLink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: InorderError | None = None
        self.is_holding = False
        """A subscribe is outstanding: which topics it has is not known yet, so nothing is foreign (R9)."""

    @property
    def is_changing(self) -> bool:
        """A change is on its way to the topic managers."""
        return self._subscriber.change is not None

    # -- calls -------------------------------------------------------------------------------------------------

    async def subscribe(self, link: EnsLink, filters: list[Filter], ordering: Ordering, qos: int) -> None:
        """Subscribe. A caller that is cancelled leaves a change that is on its way to complete."""
        self._links[link.space] = link
        await self._whole(self._subscribe(link, filters, ordering, qos))

    async def unsubscribe(self, link: EnsLink, filters: list[Filter]) -> None:
        """Unsubscribe. Raises InvalidFilter for what is not subscribed, before anything is changed."""
        for filter in filters:
            if self._routes.get(link.space, filter) is None:
                raise InvalidFilter(filter.text, "not subscribed")
        await self._whole(self._unsubscribe(link, filters))

    async def resume(self, filters: list[SpaceFilter], links: Mapping[str, EnsLink]) -> None:
        """Go on with a durable subscription, all of it at once: what its topics had while the client was away comes in
        one order (R18). Raises InvalidOption for one with a space that this client does not have."""
        for each in filters:
            if each.space not in links:
                allowed = f"a broker for each space of the durable subscription, {each.space!r} too"
                raise InvalidOption("brokers", sorted(links), allowed)
        self._links.update(links)
        await self._whole(self._resume(filters))

    async def _resume(self, filters: list[SpaceFilter]) -> None:
        async with self._lock:
            for each in filters:
                self._routes.add(Subscription(each.space, each.filter, "total", each.qos))
            self.is_holding = True
            self._ordering.subscribing()
            for each in filters:
                await self._links[each.space].subscribe(each.filter, each.qos)
            await self._change()

    async def _whole(self, change: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(change, name="inorder: subscription change")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if self._error is None or (caller is not None and caller.cancelling()):
                raise
            raise self._error from None

    async def _subscribe(self, link: EnsLink, filters: list[Filter], ordering: Ordering, qos: int) -> None:
        async with self._lock:
            before = {filter: self._routes.get(link.space, filter) for filter in filters}
            if ordering == "total":
                self._check_count(
                    [each for each, known in before.items() if known is None or known.ordering != "total"]
                )
            for filter in filters:
                self._routes.add(Subscription(link.space, filter, ordering, qos))
            changes = self._wanted() != self._subscriber.filters
            if changes:
                self.is_holding = True
                self._ordering.subscribing()  # R9: from here on, until the clock is known
            try:
                for filter in filters:
                    await link.subscribe(filter, qos)
            except InorderError:
                await self._take_back(link, before, changes)
                raise
            if changes:
                self._drop(self._wanted())  # what this call made weaker than total
                await self._change()

    def _check_count(self, more: list[Filter]) -> None:
        """Raise InvalidFilter, before anything is changed, for more wildcards than workers take."""
        new = [each for each in more if each.kind is not FilterKind.EXACT]
        problem = number_problem([*new, *(each.filter for each in self._subscriber.filters)]) if new else None
        if problem is not None:
            raise InvalidFilter(new[-1].text, problem)

    def _drop(self, wanted: list[SpaceFilter]) -> None:
        dropped = self._subscriber.dropped(wanted)
        if dropped:
            now = self._now()
            self._arrivals.check_lease(now)  # what waited for these topics may go out (R12)
            self._arrivals.deliver(self._ordering.unsubscribed(dropped, now))

    async def _take_back(self, link: EnsLink, before: dict[Filter, Subscription | None], changes: bool) -> None:
        """The broker refused one: all of the call is undone."""
        for filter, earlier in before.items():
            if earlier is None:
                self._routes.remove(link.space, filter)
                await link.unsubscribe(filter)
            else:
                self._routes.add(earlier)
        if changes and not self._is_anew_due:
            now = self._now()
            wildcards = self._subscriber.has_wildcards
            self.is_holding = False
            self._arrivals.check_lease(now)
            self._arrivals.deliver(self._ordering.subscribed([], now, filters=wildcards))
            self._wake()

    async def _unsubscribe(self, link: EnsLink, filters: Iterable[Filter]) -> None:
        async with self._lock:
            for filter in filters:
                self._routes.remove(link.space, filter)
                self._arrivals.kept.dropped(link.space, filter)
            wanted = self._wanted()
            if wanted != self._subscriber.filters:
                self._drop(wanted)
                self._wake()
            for filter in filters:
                await link.unsubscribe(filter)
            if wanted != self._subscriber.filters:
                await self._change()

    # -- the topic managers ------------------------------------------------------------------------------------

    def _wanted(self) -> list[SpaceFilter]:
        """The whole subscription with total order, as the application wants it."""
        return [
            SpaceFilter(
                each.space,
                each.filter,
                self._links[each.space].ens.capabilities.properties,
                each.qos if self._subscriber.is_durable else 0,
            )
            for each in self._routes.all()
            if each.ordering == "total"
        ]

    async def _change(self) -> None:
        self._began = clock.waking_or_sleeping()
        self._subscriber.begin(self._wanted(), anew=self._is_anew_due)
        self._done = asyncio.get_running_loop().create_future()
        self.request()
        await self._done

    def request(self) -> None:
        """Ask for the change on its way; again after each reconnection."""
        frame = self._subscriber.request()
        if frame is not None:
            self._send(frame)

    def completed(self, frame: Subscribed, now: float) -> None:
        """The clock arrived (R7)."""
        self._arrivals.learn(each.topic for each in frame.topics)
        starts = self._subscriber.completed(frame)
        if starts is None:
            return
        self._arrivals.note_repeats(starts)
        self.is_holding = self._is_anew_due = False
        self.need_stages()
        self._lease.completed(self._began)
        self._arrivals.check_lease(now)
        outputs = self._ordering.subscribed(starts, now, filters=self._subscriber.has_wildcards)
        self._arrivals.deliver(outputs)
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def need_stages(self) -> None:
        """The subscription's topics, or their stages, have changed: these must answer from now on (R12)."""
        subscriber = self._subscriber
        stages = {each.stage for each in subscriber.topics.values()}
        self._lease.needs(stages if subscriber.filters else None)

    # -- the lease (R12) ---------------------------------------------------------------------------------------

    def opened(self, frame: Opened, now: float) -> None:
        """The bottom stage tells what it has of this session: has the subscription expired?"""
        if self._subscriber.is_lost(known=frame.known, version=frame.version):
            if self._subscriber.topics:
                _log.warning("event=subscription_expired hint=%s", "away from the workers for too long: it begins anew")
            self._subscriber.expired()
            self._arrivals.deliver(self._ordering.expired(list(self._subscriber.topics), now))
            self.begin_anew()

    def other_domain(self, now: float) -> None:
        """The workers serve another domain: all topics begin anew."""
        self._arrivals.deliver(self._ordering.other_domain(now))
        self._arrivals.other_domain()
        self._subscriber.other_domain()
        if self._error is None and (self._subscriber.filters or self.is_changing or self.is_holding):
            self.begin_anew()

    def begin_anew(self) -> None:
        """The ordering module has given topics up, whose new starts it needs."""
        self._ordering.subscribing()
        self.is_holding = self._is_anew_due = True
        if self.is_changing:
            self._subscriber.begin_anew()
            self.request()
        else:
            task = asyncio.create_task(self._change_anew(), name="inorder: subscription begins anew")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _change_anew(self) -> None:
        async with self._lock:
            if self._is_anew_due:  # else another change has taken it along
                await self._change()

    def leave(self) -> None:
        """The client closes: end its subscription, if no change is on its way."""
        if not self.is_changing and self._subscriber.filters:
            self._subscriber.begin([])
            self.request()

    def stop(self, error: InorderError) -> None:
        """No more changes; outstanding calls raise the error."""
        self._error = self._error or error
        for task in self._tasks:
            task.cancel()
