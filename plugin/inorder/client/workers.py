"""All workers of a client: the place of each stage, a connection to every needed worker, the route of each frame.

Any worker tells where all stages are, at the hello and whenever that changes, so the address of one is enough. A
stage is *reached* while there is a connection to the worker that has it, in the epoch that is known to be its latest.

Where all workers that a client is connected to are silent, it *listens* to one more, which tells when a stage has
another owner: waiting until a connection that stays open is given up takes longer than a take-over.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Protocol

from msgspec.structs import replace

from inorder.backoff import pause
from inorder.client.link_pool import LinkPool
from inorder.client.options import ClientTimes
from inorder.client.stage_map import StageMap, own_epochs
from inorder.client.worker_link import FATAL, WorkerLink, tell_unreachable
from inorder.endpoint.effects import Send
from inorder.errors import InorderError, LinkError, WorkerUnreachable
from inorder.logs import logger
from inorder.patience import Patience
from inorder.protocol.wire import (
    AskHeads,
    ClusterMap,
    Frame,
    Hello,
    Opened,
    Positions,
    Renew,
    StageInfo,
    Welcome,
    WorkerFrame,
)

_log = logger("inorder.client")


class WorkerEvents(Protocol):
    """The reports of the connections to workers, on the event loop's thread."""

    def greeting(self, hello: Hello) -> Hello:
        """Return a hello with the client's requests to the stages."""

    def on_other_domain(self, domain: int) -> int:
        """Note that the workers now serve another domain (R4), so that everything known of the former one is void.
        Return the incarnation to come back with."""

    def on_worker_welcomed(self, welcome: Welcome) -> None:
        """Note that a worker has welcomed the client."""

    def on_stages_lost(self, stages: set[int]) -> None:
        """Note that the connections to these stages are gone, though others may be there already."""

    def on_stages_reached(self, stages: set[int], bottom: int) -> None:
        """Note that these stages are reached (again), so that all unanswered requests are sent again."""

    def on_stage_opened(self, frame: Opened, greeted: float) -> None:
        """Note that a stage knows of us, after ``on_stages_reached`` and a hello at ``greeted`` (see ``clock``)."""

    def on_worker_frame(self, frame: WorkerFrame) -> None:
        """Take a worker's answer."""

    def on_worker_lost(self, error: Exception) -> None:
        """Note that a connection broke and is being made again."""

    def on_worker_failed(self, error: InorderError) -> None:
        """Note that the workers refuse this client for good (``FATAL``)."""


class Workers:
    """The connections to the workers.

    Args:
        addresses: ``host:port`` of some of the workers, tried in turn. Raises InvalidOption.
        hello: what to introduce ourselves with.
        events: who is told.
        tls: ``None`` for plain TCP.

    Attributes:
        reconnects: how often a stage was reached again, those of one connection counted once.
    """

    def __init__(
        self,
        addresses: list[str],
        hello: Hello,
        events: WorkerEvents,
        times: ClientTimes,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._hello, self._events, self._times, self._tls = hello, events, times, tls
        self._addresses = addresses
        self._links = LinkPool(self._make_link)
        self._map = StageMap(addresses)
        self._routes: dict[int, WorkerLink] = {}
        self._epochs: dict[int, int] = {}  # of the routes
        self._needed: set[int] = set()
        self._was_reached: set[int] = set()
        self._domain = 0
        self._is_lacking = asyncio.Event()
        self._listener: WorkerLink | None = None  # which may be connecting
        self._is_unheard = asyncio.Event()  # a listener is lacking
        self._is_closed = False
        self.reconnects = 0
        for address in addresses:
            self._make_link(address)

    def __repr__(self) -> str:
        reached = f"{len(self._routes)} of {len(self._map.places)} stages reached"
        return f"<Workers {', '.join(self._addresses)}: {reached}>"

    # -- what is known -----------------------------------------------------------------------------------------

    @property
    def is_connected(self) -> bool:
        """Tell whether there is a connection to some worker."""
        return any(link.is_connected for link in self._links)

    @property
    def is_complete(self) -> bool:
        """Tell whether all needed stages are reached."""
        return bool(self._map.places) and self._wanted <= self._routes.keys()

    @property
    def reaches_bottom(self) -> bool:
        """Tell whether frames for the stage may arrive at which topics and subscriptions enter."""
        return self._map.bottom in self._routes

    @property
    def _wanted(self) -> set[int]:
        return self._needed | {self._map.bottom}

    def need(self, stages: Iterable[int]) -> None:
        """Keep connections to the workers of these stages from now on."""
        if not self._needed.issuperset(stages):
            self._needed.update(stages)
            self._arrange()

    # -- sending -----------------------------------------------------------------------------------------------

    def send(self, *sends: Send) -> None:
        """Send each frame to the worker of its stage, and one worker's frames in one write. One for a stage that is not
        reached is dropped: when it is, everything unanswered is asked again."""
        by_link: dict[WorkerLink, list[Frame]] = {}
        for each in sends:
            stage = each.stage
            if stage not in self._needed:
                self.need([stage])
            link = self._routes.get(stage)
            if link is not None:
                by_link.setdefault(link, []).append(each.frame)
        for link, its in by_link.items():
            link.send(*its)

    def ask_heads(self) -> None:
        """Ask the other stages' workers for all heads again after a change at the bottom stage (R17)."""
        bottom = self._routes.get(self._map.bottom)
        for link in set(self._routes.values()):
            if link is not bottom:
                link.send(AskHeads())

    def renew(self, request: int) -> None:
        """Ask all workers to show that they still have their stages (R12)."""
        for link in set(self._routes.values()):
            link.send(Renew(request))

    # -- life --------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Connect once, to the first given address whose worker sends a welcome.

        Raises:
            WorkerUnreachable: none answered; Unauthorized, VersionMismatch: one did, and refused.
        """
        last: WorkerUnreachable | None = None
        for address in self._addresses:
            try:
                await self._links.connect_to(address)
                return
            except WorkerUnreachable as error:
                last = error if last is None or error.is_there or not last.is_there else last
        assert last is not None, "there is an address"
        raise WorkerUnreachable(self._addresses, last.reason, is_there=last.is_there) from last

    async def run(self) -> None:
        """Keep the connections, until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._links.run(group)
            group.create_task(self._listen(), name="inorder: listen")
            while True:
                await self._is_lacking.wait()
                await self._search()

    async def close(self, timeout: float) -> None:
        """Close all connections within ``timeout`` seconds, and report nothing afterwards."""
        self._is_closed = True
        self._routes.clear()
        await self._links.close(timeout)

    def _make_link(self, address: str) -> WorkerLink:
        return WorkerLink(address, self._greeting, self, self._times, self._tls)

    def _greeting(self) -> Hello:
        return self._events.greeting(replace(self._hello, positions=list(self._map.positions.values())))

    def _discard(self, link: WorkerLink) -> None:
        if link is self._listener:
            self._listener = None
        self._links.discard(link)

    async def _search(self) -> None:
        """Try all other known workers, as a needed stage is not reached. One of them has it, or will tell who does."""
        failures, told = 0, dict[str, str]()
        while not self.is_complete:
            await self._rest(failures)
            failures += 1
            for address in self._map.to_search():
                if not self.is_complete and not self._links.has(address):
                    told[address] = await self._try(address, told.get(address, ""))
        self._is_lacking.clear()

    async def _try(self, address: str, told: str) -> str:
        try:
            link = await self._links.connect_to(address)
        except FATAL as refusal:
            self._events.on_worker_failed(refusal)
        except LinkError as error:
            return tell_unreachable(address, error, told)
        else:
            self._links.keep(link)
        return ""

    async def _listen(self) -> None:
        """Find a worker to listen to whenever one is needed, one at a time."""
        loop = asyncio.get_running_loop()
        failures, tried_at = 0, 0.0
        while True:
            await self._is_unheard.wait()
            # a worker that takes us in and throws us out again must not be asked without a rest
            if loop.time() - tried_at >= self._times.heartbeat:
                failures = 0
            await self._rest(failures)
            failures += 1
            for address in self._map.to_listen_to():
                if self._is_unheard.is_set() and not self._links.has(address):
                    await self._listen_to(address)
            tried_at = loop.time()

    async def _rest(self, failures: int) -> None:
        await asyncio.sleep(pause(self._times.backoff_first, self._times.backoff_max, failures))

    async def _listen_to(self, address: str) -> None:
        """Try one worker for a short time. Its refusals do not concern us."""
        link = self._listener = self._make_link(address)
        self._is_unheard.clear()
        try:
            async with Patience(self._times.heartbeat):
                await self._links.connect(link)
        except (InorderError, TimeoutError) as error:
            _log.info("event=no_listener address=%s error=%s", address, str(error) or "no answer")
        else:
            self._links.keep(link)
        if link not in self._links and not self._is_closed:
            if self._listener is link:
                self._listener = None
            self._arrange()

    # -- LinkEvents --------------------------------------------------------------------------------------------

    def on_link_connected(self, link: WorkerLink, welcome: Welcome) -> None:
        """See LinkEvents."""
        if self._is_closed:
            return
        if link is self._listener and welcome.domain != self._domain:
            # the one that is silent may be as it was; who has really left our domain is lost first
            hint = "a worker of another store; is its address right?"
            _log.warning(
                "event=listener_of_other_domain address=%s domain=%d hint=%s", link.address, welcome.domain, hint
            )
            self._discard(link)
            return
        link.advertised = welcome.address or link.address
        for other in [each for each in self._links if each is not link and each.advertised == link.advertised]:
            self._discard(other)  # the worker has given that connection up for this one
        if self._domain and welcome.domain != self._domain:
            self._leave_domain(welcome)
            return
        self._domain = welcome.domain
        self._welcomed(link, welcome)

    def _welcomed(self, link: WorkerLink, welcome: Welcome) -> None:
        self._events.on_worker_welcomed(welcome)
        link.own = own_epochs(welcome.stages)
        self._learn(link, welcome.stages, welcome.workers)

    def _leave_domain(self, welcome: Welcome) -> None:
        """Forget epochs, sessions and numbers, as the store is another one or was restored. We come back as somebody
        that nobody there has ever heard of: a session of the same incarnation may be in the backup."""
        self._domain = welcome.domain
        self._map.clear()
        self._routes.clear()
        self._needed.clear()
        self._hello = replace(self._hello, incarnation=self._events.on_other_domain(welcome.domain))
        for link in self._links:
            link.own = {}
            link.say_hello_again()

    def on_link_frame(self, link: WorkerLink, frame: WorkerFrame) -> None:
        """See LinkEvents. A worker that has none of the stages (any more) has nothing to say about them."""
        if isinstance(frame, ClusterMap):
            own = own_epochs(frame.stages)
            link.own = dict(own.items() & link.own.items())
            self._learn(link, frame.stages, frame.workers)
            if link.own != own:
                link.greet_again()
        elif isinstance(frame, Welcome):
            link.welcomed_again()
            self._welcomed(link, frame)
        elif isinstance(frame, Opened):
            link.take_opened(frame)
            self._tell_opened()
        elif isinstance(frame, Positions):
            self._map.remember(frame.positions)
        elif link in self._routes.values():
            self._events.on_worker_frame(frame)

    def on_link_silent(self, link: WorkerLink) -> None:
        """See LinkEvents."""
        if link.is_silent:
            _log.warning("event=worker_silent address=%s", link.address)
        else:
            _log.info("event=worker_answers address=%s", link.address)
        self._arrange()

    def on_link_lost(self, link: WorkerLink, error: Exception) -> None:
        """See LinkEvents."""
        link.own = {}
        if link is self._listener:
            self._discard(link)
        self._events.on_worker_lost(error)
        self._arrange()

    def on_link_failed(self, link: WorkerLink, error: InorderError) -> None:
        """See LinkEvents."""
        self._events.on_worker_failed(error)

    # -- the routes --------------------------------------------------------------------------------------------

    def _learn(self, link: WorkerLink, stages: list[StageInfo], workers: list[str]) -> None:
        self._map.learn(stages, workers, link.advertised)
        self._arrange()

    def _arrange(self) -> None:
        """Find the routes to the stages, open missing connections, close unneeded ones."""
        if self._is_closed:
            return
        routes: dict[int, WorkerLink] = {}
        for stage, place in self._map.places.items():
            for link in self._links:
                if link.is_connected and place.epoch and link.own.get(stage) == place.epoch:
                    routes[stage] = link
        epochs = {stage: self._map.places[stage].epoch for stage in routes}
        reached = {
            stage for stage, link in routes.items()
            if self._routes.get(stage) is not link or self._epochs[stage] != epochs[stage]
        }  # fmt: skip
        lost = {stage for stage, link in self._routes.items() if routes.get(stage) is not link}
        if reached & self._was_reached:
            self.reconnects += 1
        self._routes, self._epochs = routes, epochs
        self._was_reached |= reached
        self._open_and_close()
        if lost:
            self._events.on_stages_lost(lost)
        if reached:
            self._events.on_stages_reached(reached, self._map.bottom)
        self._tell_opened()

    def _tell_opened(self) -> None:
        """Pass on the stages' words on our session once they are known to come from the owner."""
        for stage, link in list(self._routes.items()):
            if stage in link.opened and link.opened[stage][0].epoch >= self._epochs[stage]:
                self._events.on_stage_opened(*link.opened.pop(stage))

    def _open_and_close(self) -> None:
        wanted = self._map.addresses_of(self._wanted)
        for address in wanted:
            if not self._links.has(address) and len(self._links):
                self._links.open(address)
        if self.is_complete:  # else one that has no stage may still tell where they are
            idle = [each for each in self._links if not self._map.has_latest(each.own)]
            idle = [each for each in idle if not wanted & {each.address, each.advertised}]
            is_heard = any(each.is_connected and not each.is_silent for each in self._links if each not in idle)
            self._listener = None if is_heard else self._who_tells(idle)
            for link in idle:
                if link is not self._listener:
                    self._discard(link)
            if not is_heard and self._listener is None:
                self._is_unheard.set()
            else:
                self._is_unheard.clear()
        else:
            self._is_unheard.clear()
            self._is_lacking.set()

    def _who_tells(self, idle: list[WorkerLink]) -> WorkerLink | None:
        """Return the worker to listen to: the present one, even if not connected yet, or any other that answers."""
        if self._listener in idle and not self._listener.is_silent:
            return self._listener
        return next((each for each in idle if each.is_connected and not each.is_silent), None)
