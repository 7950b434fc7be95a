"""A client's counters: for its application, and for operators."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from inorder.client.delivery import DeliveryStream
from inorder.client.driving import Driver
from inorder.client.ens_link import EnsLink
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.notifications import Verdict
from inorder.protocol.wire import ClientCounts, Wait


class ClientStats(msgspec.Struct, frozen=True):
    """Counters of a client since it was made; ``delivered`` by verdict. ``after_gap``: of the late ones, those that
    came after a gap had told of them."""

    delivered: dict[str, int]
    duplicates: int
    overlaps: int
    before: int
    gaps: int
    voids: int
    repaired: int
    overflow: int
    unsequenced: int
    corrupt: int
    foreign: int
    malformed: int
    waiting: int
    waiting_bytes: int
    undelivered: int
    pending: int
    late_confirms: int
    worker_reconnects: int
    connected: bool
    after_gap: int


class Counters:
    """The counts of a client's parts."""

    def __init__(
        self, endpoint: Endpoint, driver: Driver, stream: DeliveryStream, links: Mapping[str, EnsLink]
    ) -> None:
        self._endpoint, self._driver, self._stream, self._links = endpoint, driver, stream, links

    def stats(self) -> ClientStats:
        """Return the counters for an application."""
        endpoint, driver, workers = self._endpoint, self._driver, self._driver.workers
        ordering, arrivals = endpoint.ordering, endpoint.arrivals
        seen, counts = ordering.counts, arrivals.counts
        return ClientStats(
            delivered={str(verdict): count for verdict, count in arrivals.delivered.items()},
            duplicates=seen.duplicates + arrivals.fifo.duplicates,
            overlaps=counts.overlaps,
            before=seen.before,
            gaps=arrivals.gaps,
            voids=seen.voids,
            repaired=seen.repaired,
            overflow=seen.overflow + self._stream.overflowed,
            unsequenced=counts.unsequenced,
            corrupt=counts.corrupt,
            foreign=counts.foreign,
            malformed=driver.malformed,
            waiting=ordering.waiting,
            waiting_bytes=ordering.waiting_bytes,
            undelivered=len(self._stream),
            pending=driver.publishing.pending,
            late_confirms=endpoint.publishing.late_confirms,
            worker_reconnects=0 if workers is None else workers.reconnects,
            connected=(workers is None or workers.is_complete)
            and all(link.is_connected for link in self._links.values()),
            after_gap=seen.after_gap,
        )

    def waits(self) -> list[Wait]:
        """Return the numbers that hold events up for long."""
        return self._endpoint.ordering.waits(self._driver.now())

    def counts(self) -> ClientCounts:
        """Return the counters for operators."""
        stats, delivered = self.stats(), self._endpoint.arrivals.delivered
        in_order, late = delivered[Verdict.IN_ORDER], delivered[Verdict.LATE]
        return ClientCounts(
            published=self._endpoint.publishing.accepted,
            in_order=in_order,
            late=late,
            other=sum(delivered.values()) - in_order - late,
            duplicates=stats.duplicates,
            gaps=stats.gaps,
            missed=self._endpoint.arrivals.missed,
            voids=stats.voids,
            repaired=stats.repaired,
            overflow=stats.overflow,
            late_confirms=stats.late_confirms,
            waiting=stats.waiting,
            waiting_bytes=stats.waiting_bytes,
            undelivered=stats.undelivered,
            pending=stats.pending,
            after_gap=stats.after_gap,
        )
