"""Subscription changes of an application, each awaited, and the requests to brokers on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from inorder.client.embedded import EmbeddedEns
from inorder.client.ens_link import EnsLink
from inorder.endpoint.changes import Change
from inorder.endpoint.effects import AskBroker, Changed, Resumed
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.routing import Ordering, Subscription
from inorder.errors import InorderError, InvalidFilter, InvalidOption
from inorder.logs import logger
from inorder.protocol.names import Filter
from inorder.protocol.wire import SpaceFilter

_log = logger("inorder.client")


class Changing:
    """A client's subscription changes.

    Args:
        endpoint: decides about them.
        perform: carries out what the endpoint wants done.
        links: the brokers, by space.
    """

    def __init__(self, endpoint: Endpoint, perform: Callable[[], None], links: Mapping[str, EnsLink]) -> None:
        self._endpoint, self._perform, self._links = endpoint, perform, links
        self._open: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._resumed: asyncio.Future[list[SpaceFilter]] | None = None
        self._error: InorderError | None = None

    async def subscribe(self, link: EnsLink, filters: Iterable[Filter], ordering: Ordering, qos: int) -> None:
        """Subscribe to filters. A caller that is cancelled leaves a change that is on its way to complete."""
        properties = link.ens.capabilities.properties
        await self._change([Subscription(link.space, each, ordering, qos, properties) for each in filters], [])

    async def unsubscribe(self, link: EnsLink, filters: list[Filter]) -> None:
        """Unsubscribe from filters. Raises InvalidFilter for what is not subscribed, before anything is changed."""
        for filter in filters:
            if self._endpoint.routes.get(link.space, filter) is None:
                raise InvalidFilter(filter.text, "not subscribed")
        removes = [(link.space, each) for each in filters]
        await self._change([], removes, is_at_brokers=isinstance(link.ens, EmbeddedEns))

    async def resume(self) -> None:
        """Resume the whole durable subscription of this client: its topics' events from the time away come in one order
        (R18). Raises InvalidOption for one with a space that this client does not have."""
        self._resumed = asyncio.get_running_loop().create_future()
        self._endpoint.resume()
        self._perform()
        filters = await self._resumed
        for each in filters:
            if each.space not in self._links:
                allowed = f"a broker for each space of the durable subscription, {each.space!r} too"
                raise InvalidOption("brokers", sorted(self._links), allowed)
        if filters:
            await self._change([self._subscription(each) for each in filters], [])

    def _subscription(self, each: SpaceFilter) -> Subscription:
        properties = self._links[each.space].ens.capabilities.properties
        return Subscription(each.space, each.filter, "total", each.qos, properties)

    async def _change(
        self, adds: list[Subscription], removes: list[tuple[str, Filter]], *, is_at_brokers: bool = False
    ) -> None:
        if self._error is not None:
            raise self._error
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open.add(done)
        done.add_done_callback(self._open.discard)
        self._endpoint.change(adds, removes, done, is_at_brokers=is_at_brokers)
        self._perform()
        await asyncio.shield(done)

    @property
    def is_asking(self) -> bool:
        """A broker has not answered yet."""
        return bool(self._tasks)

    # -- effects -----------------------------------------------------------------------------------------------

    def ask_broker(self, effect: AskBroker) -> None:
        """See :class:`~inorder.endpoint.effects.AskBroker`."""
        task = asyncio.create_task(self._at_brokers(effect.change), name="inorder: subscription change")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _at_brokers(self, change: Change) -> None:
        error: Exception | None = None
        try:
            for each in change.subscribes:
                await self._links[each.space].subscribe(each.filter, each.qos)
            for space, filter in change.unsubscribes:
                await self._links[space].unsubscribe(filter)
        except Exception as failure:
            error = failure
            if change.is_rest:
                _log.warning("event=not_unsubscribed error=%s hint=%s", failure, "its messages are dropped here")
        self._endpoint.broker_answered(change, error)
        self._perform()

    @staticmethod
    def changed(effect: Changed) -> None:
        """See :class:`~inorder.endpoint.effects.Changed`."""
        done: asyncio.Future[None] = effect.change.content
        if not done.done():
            if effect.error is None:
                done.set_result(None)
            else:
                done.set_exception(effect.error)

    def resumed(self, effect: Resumed) -> None:
        """See :class:`~inorder.endpoint.effects.Resumed`."""
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(effect.filters)

    # -- the end -----------------------------------------------------------------------------------------------

    def stop(self, error: InorderError) -> None:
        """Stop changes; outstanding calls raise the error."""
        self._error = self._error or error
        for task in self._tasks:
            task.cancel()
        waiting: list[asyncio.Future[None] | asyncio.Future[list[SpaceFilter]]] = [*self._open]
        for future in waiting if self._resumed is None else [*waiting, self._resumed]:
            if not future.done():
                future.set_exception(self._error)
