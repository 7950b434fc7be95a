"""An ENS whose connection is the application's own library's: that connects, reads, writes and reconnects."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from inorder.errors import Closed, LinkError
from inorder.logs import logger
from inorder.ports import Arrival, EnsCapabilities, EnsSink, Outgoing
from inorder.protocol.names import Filter

_log = logger("inorder.client")


class EmbeddedEns(ABC):
    """An ENS between a library that does I/O on its own threads and a :class:`~inorder.client.Client`.

    The library's side says with :meth:`up`, :meth:`down`, :meth:`arrived`, :meth:`accepted` and :meth:`refused` what
    happens, from any thread; all of it reaches the client in that order, a batch for each wake-up of its event loop.
    A subclass hands messages to the library (:meth:`publish`), knows what its subscriptions mean, and has the rules
    for names and payloads. It never connects: :meth:`connect` waits until the library has.
    """

    address: str
    space: str
    capabilities: EnsCapabilities

    def __init__(self, address: str, space: str, capabilities: EnsCapabilities) -> None:
        self.address, self.space, self.capabilities = address, space, capabilities
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sink: EnsSink | None = None
        self._reports = deque[Callable[[], None]]()
        self._is_due = False
        self._look: asyncio.TimerHandle | None = None
        self._is_up = False
        self._is_told = False
        self._is_closed = False
        self._changed: asyncio.Future[None] | None = None
        self.kept_wanted: Callable[[Filter], None] = lambda filter: None
        """To be called when the library asks the broker for a filter, and so for the copies that it keeps (R5)."""

    @property
    def is_closed(self) -> bool:
        """Tell whether the client was closed or has failed for good."""
        return self._is_closed

    # -- the library's side: any thread ------------------------------------------------------------------------

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the event loop on which the client runs. Before anything else."""
        self._loop = loop

    def up(self) -> None:
        """Note that the library is connected."""
        self._report(self._now_up)

    def down(self, error: Exception) -> None:
        """Note that the library's connection broke; open messages have an unknown outcome."""
        self._report(lambda: self._now_down(error))

    def arrived(self, arrival: Arrival) -> None:
        """Take a message that the library received."""
        self._report(lambda: self._tell(lambda sink: sink.arrived(arrival)))

    def accepted(self, token: int) -> None:
        """Note that the broker has accepted a message (R16)."""
        self._report(lambda: self._tell(lambda sink: sink.accepted([token])))

    def refused(self, token: int, error: Exception) -> None:
        """Note that a message was certainly not handed over."""
        self._report(lambda: self._tell(lambda sink: sink.refused(token, error)))

    def _report(self, report: Callable[[], None], *, wakes: bool = True) -> None:
        """Queue a report; unless ``wakes``, a call of :meth:`wake` follows soon."""
        assert self._loop is not None
        self._reports.append(report)
        if wakes and not self._is_due:
            self.wake()

    def wake(self) -> None:
        """Pass all queued reports on to the client."""
        assert self._loop is not None
        if self._reports and not self._is_due:  # racing threads wake the loop once too often, never too seldom
            self._is_due = True
            try:
                self._loop.call_soon_threadsafe(self._take_reports)
            except RuntimeError:  # the loop has ended, and nobody is to be told any more
                self._reports.clear()

    # -- the client's side: the event loop's thread ------------------------------------------------------------

    async def connect(self, sink: EnsSink) -> None:
        """Wait until the library is connected. Raises Closed."""
        self._sink = sink
        while not self._is_up:
            if self._is_closed:
                raise Closed(f"the connection to {self.address} is closed")
            self._changed = self._changed or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._changed)
        self._is_told = True

    @abstractmethod
    async def subscribe(self, filter: Filter, *, qos: int = 0) -> None:
        """See :class:`~inorder.ports.Ens`."""

    @abstractmethod
    async def unsubscribe(self, filter: Filter) -> None:
        """See :class:`~inorder.ports.Ens`."""

    @abstractmethod
    def publish(self, message: Outgoing, token: int) -> None:
        """See :class:`~inorder.ports.Ens`."""

    @abstractmethod
    def parse_filter(self, text: object) -> Filter:
        """See :class:`~inorder.ports.Ens`."""

    @abstractmethod
    def check_topic(self, topic: object) -> str:
        """See :class:`~inorder.ports.Ens`."""

    @abstractmethod
    def encode_payload(self, payload: object) -> bytes:
        """See :class:`~inorder.ports.Ens`."""

    @abstractmethod
    def check_properties(self, properties: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """See :class:`~inorder.ports.Ens`."""

    async def close(self) -> None:
        """Report nothing any more; the library keeps its connection."""
        self._is_closed = True
        self._sink = None
        self._wake()

    def look_within(self, seconds: float) -> None:
        """Let reports of the next seconds wait for the end of this time, or for a subclass that takes them before. On
        the event loop's thread."""
        if not self._is_due and self._loop is not None:
            self._is_due = True
            self._look = self._loop.call_later(seconds, self._look_now)

    def _look_now(self) -> None:
        self._look = None
        self._take_reports()

    def _take_reports(self) -> None:
        self._is_due = self._look is not None
        reports = self._reports
        while reports:
            try:
                reports.popleft()()
            except Exception:  # over one report, and those behind it are not to suffer
                _log.exception("event=report_failed address=%s", self.address)

    def _tell(self, tell: Callable[[EnsSink], None]) -> None:
        if self._sink is not None and self._is_up:
            tell(self._sink)

    def _now_up(self) -> None:
        self._is_up = True
        self._wake()

    def _now_down(self, error: Exception) -> None:
        self._is_up = False
        if self._is_told:  # once for each connect that has returned
            self._is_told = False
            if self._sink is not None:
                self._sink.connection_lost(error if isinstance(error, LinkError) else LinkError(str(error)))

    def _wake(self) -> None:
        if self._changed is not None:
            if not self._changed.done():
                self._changed.set_result(None)
            self._changed = None
