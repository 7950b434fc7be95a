"""The connections to all workers of a store, and the places of its stages."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import cast

from inorder.errors import WorkerUnreachable
from inorder.protocol.wire import StageInfo
from inorder_worker.admin.link import Link


class Workers:
    """One connection to each worker, opened on demand, kept, and shared by all questions.

    A connection is a session that the stages there journal when it begins and when it ends: one for each question would
    write the store full of them. With request numbers no question has to wait for another one.

    Args:
        addresses, token, tls, agent, timeout: see :class:`~inorder_worker.admin.cluster.Cluster`.
    """

    def __init__(
        self, addresses: Sequence[str], token: str, tls: ssl.SSLContext | None, agent: str, timeout: float
    ) -> None:
        self._addresses, self._token, self._tls, self._agent = list(addresses), token, tls, agent
        self._timeout = timeout
        self._links: dict[str, Link] = {}
        self._opening: dict[str, asyncio.Task[Link]] = {}
        self._domain = 0
        self._places: dict[int, StageInfo] = {}
        self._living: list[str] = []

    async def close(self) -> None:
        """Close all connections; open questions fail. No error."""
        for task in self._opening.values():
            task.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await asyncio.gather(*(link.close() for link in set(self._links.values())))
        self._links.clear()

    # -- where the stages are ----------------------------------------------------------------------------------

    async def places(self) -> dict[int, StageInfo]:
        """Return the owner of each stage; epoch 0 stands for an unknown one. Raises what ``look_again`` does."""
        if not self._places:
            await self.look_again()
        return self._places

    @property
    def addresses(self) -> list[str]:
        """All known addresses, first those of workers with stages."""
        owners = (each.address for each in self._places.values() if each.epoch)
        return list(dict.fromkeys((*owners, *self._living, *self._addresses)))

    async def look_again(self, without: str = "") -> None:
        """Ask all known workers, but for one that failed, for the stages' places, as not all may know them. What they
        tell on open connections is known already. Raises WorkerUnreachable, and what else all of them failed with."""
        known = [each for each in self.addresses if each != without]
        found = await asyncio.gather(*map(self.link, known), return_exceptions=True)
        failures = [each for each in found if isinstance(each, BaseException)]
        if without or (self._places and len(failures) < len(found)):
            return
        for failure in failures:
            if not isinstance(failure, WorkerUnreachable):
                raise failure
        unreached = cast(list[WorkerUnreachable], failures)
        last = next((each for each in reversed(unreached) if each.is_there), unreached[-1] if unreached else None)
        reason = "no worker has a stage yet" if last is None else last.reason
        raise WorkerUnreachable(known, reason, is_there=last is None or last.is_there)

    def _told(self, link: Link, stages: list[StageInfo], living: list[str]) -> None:
        """Take a worker's map; of two maps that differ the higher epoch is right. A restored store is another one."""
        if link.welcome.domain != self._domain:
            self._domain = link.welcome.domain
            self._places.clear()
        self._living = living or self._living
        for each in stages:
            known = self._places.get(each.stage)
            if known is None or each.epoch >= known.epoch:
                self._places[each.stage] = each

    # -- connections -------------------------------------------------------------------------------------------

    async def link(self, address: str) -> Link:
        """Return the connection to a worker, which may have to be opened. Raises WorkerUnreachable, Unauthorized,
        VersionMismatch, Refused, ProtocolError and InvalidOption."""
        link = self._links.get(address)
        if link is not None and link.is_up:
            return link
        task = self._opening.get(address)
        if task is None:
            task = self._opening[address] = asyncio.create_task(self._open(address), name=f"inorder-admin-{address}")
            task.add_done_callback(lambda done: self._opened(address, done))
        return await asyncio.shield(task)  # others may wait for it, too

    async def _open(self, address: str) -> Link:
        link = Link(address, self._told)
        try:
            async with asyncio.timeout(self._timeout):
                await link.open(self._token, self._tls, self._agent)
        except TimeoutError:
            raise WorkerUnreachable([address], f"no answer within {self._timeout:g} s") from None
        return link

    def _opened(self, address: str, task: asyncio.Task[Link]) -> None:
        del self._opening[address]
        if task.cancelled() or task.exception() is not None:
            return
        link = task.result()
        self._links[address] = link
        advertised = self._links.get(link.welcome.address)
        if advertised is None or not advertised.is_up:
            self._links[link.welcome.address] = link  # the same worker, as others name it
