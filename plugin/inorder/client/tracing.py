"""The traces of one client: its recording begins before anything connects, and ends with its delivery stream."""

from __future__ import annotations

from collections.abc import Callable

from inorder.client.delivery import DeliveryStream
from inorder.client.driving import Driver
from inorder.client.recording import Recording, begun
from inorder.endpoint.endpoint import Endpoint
from inorder.endpoint.outputs import Mode
from inorder.traces.options import Traces


class Tracing:
    """A client's recording, where traces are wanted; without them it does nothing.

    Args:
        traces: where they go, ``None``: nowhere.
        mode: of the client; ``endpoint``, ``driver`` and ``stream``: its parts that report to the recording.
    """

    def __init__(
        self, traces: Traces | None, mode: Mode, endpoint: Endpoint, driver: Driver, stream: DeliveryStream
    ) -> None:
        self._traces, self._mode = traces, mode
        self._endpoint, self._driver, self._stream = endpoint, driver, stream
        self._recording: Recording | None = None

    async def begin(self, client_id: str, offset: Callable[[], tuple[int, int, int]]) -> None:
        """Have everything recorded from now on. ``offset``: see Recording. Raises InvalidOption where traces cannot be
        written."""
        if self._traces is None:
            return
        arrivals, driver = self._endpoint.arrivals, self._driver
        known = arrivals.name_of, arrivals.topic_id, offset
        self._recording = recording = await begun(self._traces, client_id, driver.incarnation, *known)
        driver.publishing.recording = driver.notifier.recording = recording
        self._endpoint.watch()
        self._stream.gap_placed = recording.gap

    def began_anew(self, domain: int) -> None:
        """Record the client's start, or its new start in another domain."""
        if self._recording is not None:
            self._recording.opened(self._driver.incarnation, domain, self._mode)

    def stream_ended(self) -> None:
        """Record the end of all subscriptions; a durable one goes on without the stream."""
        if self._recording is not None and self._endpoint.durable is None:
            ordering = self._endpoint.ordering
            self._recording.ended_all({each: at for each, at in ordering.clock.items() if each not in ordering.left})

    async def close(self, seconds: float) -> None:
        """Write the rest."""
        if self._recording is not None:
            await self._recording.close(max(0.0, seconds))
