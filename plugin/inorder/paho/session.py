"""One session of the inorder client inside a paho client: paho's threads open it, the event loop's thread runs it."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from inorder.client.client import Client as Engine
from inorder.client.configured import ClientConfiguration
from inorder.client.ens_link import refusal_of
from inorder.errors import Closed, InorderError
from inorder.logs import logger
from inorder.paho.ens import STALE_SECONDS, PahoEns
from inorder.paho.failures import not_connected
from inorder.paho.publication import Publication
from inorder.protocol.names import Filter
from inorder.sync._thread import THREAD

if TYPE_CHECKING:
    from inorder.paho.ordering import Ordering

_log = logger("inorder.paho")

EXIT_SECONDS: Final = 3.0

_open: weakref.WeakSet[Session] = weakref.WeakSet()
closing: set[concurrent.futures.Future[None]] = set()
_of_parents: list[Session] = []
"""In a forked child: never collected, for that would be taken for tasks that were left undone."""


class Session:
    """One session of the inorder client, from a connect to the end of the session that the connect began.

    Args:
        sink: gets what arrives.
    """

    def __init__(self, configuration: ClientConfiguration, name: str, ens: PahoEns, sink: Ordering) -> None:
        self.ens = ens
        self.engine: Engine
        self.opened = False
        self._configuration, self._name, self._sink = configuration, name, sink
        self._changes: asyncio.Lock
        self._has_opened: asyncio.Event
        self._before_open: list[Publication] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ended = False

    def open(self) -> None:
        """Connect to the workers. Raises NotConnected, InvalidOption."""
        THREAD.acquire()
        try:
            THREAD.call(self._make)
            opening = THREAD.submit(self._opening())
            try:
                self.ens.reached.result()
            except BaseException:
                opening.cancel()
                raise
        except BaseException as error:
            self.end()
            if isinstance(error, InorderError):
                raise not_connected(error) from None
            raise
        _open.add(self)

    def _make(self) -> None:
        self._changes, self._has_opened = asyncio.Lock(), asyncio.Event()
        self.ens.attach(asyncio.get_running_loop())
        self.engine = self._configuration.client(self.ens, client_id=self._name)
        self.engine.hand_to(self._sink, self._sink.time)

    async def _opening(self) -> None:
        try:
            await self.engine.__aenter__()
        except BaseException as error:
            if not self.ens.reached.done():
                self.ens.reached.set_exception(error if isinstance(error, Exception) else Closed("closed meanwhile"))
            if not isinstance(error, InorderError):
                raise
            return
        self.opened = True
        self._has_opened.set()
        for publication in self._before_open:
            self._publish(publication)
        self._before_open.clear()

    def end(self) -> None:
        """Close the session in the background; safe more than once and on any thread."""
        if self._is_ended:
            return
        self._is_ended = True
        try:
            ending = THREAD.submit(self._close())
        except InorderError:
            return
        closing.add(ending)
        ending.add_done_callback(closing.discard)

    async def _close(self) -> None:
        try:
            for task in self._tasks:
                task.cancel()
            if hasattr(self, "engine"):
                await self.engine.close()
        finally:
            THREAD.release()

    def check_publish(self, topic: str) -> None:
        """Raise Forbidden for a topic that the token does not allow to publish to."""
        if self.opened:
            (space,) = self.engine._links
            self.engine._driver.permissions.check_publish(space, topic)

    # -- publishing: the event loop's thread from here on ------------------------------------------------------

    def submit(self, publication: Publication) -> None:
        """Request a timestamp (any thread)."""
        self.ens.report_soon(self._publish, publication)

    def _publish(self, publication: Publication) -> None:
        if not self.opened:
            self._before_open.append(publication)
            return
        try:
            future = self.engine.publish(
                publication.topic,
                publication.payload,
                qos=publication.qos,
                retain=publication.retain,
                properties=publication.pairs,
            )
        except Exception as error:
            self._sink.publish_failed(publication, refusal_of(error))
            return
        self.ens.asked(publication, future.message)  # type: ignore[attr-defined]
        future.add_done_callback(partial(self._published, publication))

    def _published(self, publication: Publication, future: asyncio.Future[Any]) -> None:
        self.ens.answered(future.message)  # type: ignore[attr-defined]
        if future.cancelled():
            return
        error = future.exception()
        if not self._is_ended and isinstance(error, InorderError) and publication.error is None:
            self._sink.publish_failed(publication, error)

    # -- subscribing -------------------------------------------------------------------------------------------

    def subscribed(self, filters: list[Filter], confirm: Callable[[InorderError | None], None]) -> None:
        """Tell the topic managers of filters that the broker has acknowledged, then confirm them."""
        for each in filters:
            self.ens.confirmed(each)
        self._change(self._subscribe(filters, confirm))

    def unsubscribed(self, filters: list[Filter]) -> None:
        """Tell the topic managers of filters for which the broker sends nothing more."""
        self._change(self._unsubscribe(filters))

    def connected(self, has_session: bool) -> None:
        """Note that the broker has accepted the connection."""
        if not has_session:
            self.ens.session_lost()
            if self.ens.stale():
                asyncio.get_running_loop().call_later(STALE_SECONDS, self._drop_stale)

    def _drop_stale(self) -> None:
        stale = self.ens.stale()
        if stale and not self._is_ended:
            self._change(self._unsubscribe(stale))

    def _change(self, change: Any) -> None:
        task = asyncio.get_running_loop().create_task(change, name="inorder.paho: subscription")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _subscribe(self, filters: list[Filter], confirm: Callable[[InorderError | None], None]) -> None:
        seconds = self._configuration.subscribe_timeout
        failure: InorderError | None = None
        try:
            async with asyncio.timeout(seconds), self._changes:
                await self._has_opened.wait()
                await self.engine.subscribe(*[each.text for each in filters])
        except TimeoutError:
            hint = f"the workers did not confirm it within {seconds:g} s; its events wait until they do"
            _log.warning("event=subscription_unconfirmed filters=%s hint=%s", _texts(filters), hint)
        except Closed:
            pass
        except InorderError as error:
            failure = error
            _log.error("event=subscription_refused filters=%s error=%s", _texts(filters), error)
            self.ens.unexpect(filters)
        finally:
            confirm(failure)

    async def _unsubscribe(self, filters: list[Filter]) -> None:
        with suppress(Closed):
            async with self._changes:
                mine = [each for each in filters if self.ens.is_subscribed(each)]
                if mine:
                    await self.engine.unsubscribe(*[each.text for each in mine])


def leave_to_parent(session: Session | None) -> None:
    """Leave the event loop's thread and its sessions to the parent process after a fork."""
    if session is not None:
        _of_parents.append(session)
    _open.clear()
    closing.clear()


def _texts(filters: list[Filter]) -> str:
    return ",".join(each.text for each in filters)


def _at_exit() -> None:
    """Let confirmations leave before the process ends: without them numbers would be given up and reported as gaps."""
    for session in list(_open):
        session.end()
    concurrent.futures.wait(list(closing), timeout=EXIT_SECONDS)


atexit.register(_at_exit)
