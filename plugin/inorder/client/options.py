"""Timers and bounds of a client."""

from __future__ import annotations

from inorder.endpoint.endpoint import EndpointTimes
from inorder.endpoint.outputs import OrderingTimes
from inorder.settings.client import Times


class ClientTimes(Times):
    """Timers (seconds) and bounds of a client; every one is a setting, see :class:`~inorder.settings.client.Times`.
    Raises InvalidOption when made wrong."""

    def endpoint(self) -> EndpointTimes:
        """Return the timers and bounds of the endpoint."""
        ordering = OrderingTimes(self.gap_timeout, self.loss_timeout, self.max_waiting, self.max_waiting_bytes)
        return EndpointTimes(ordering, self.settle_delay, self.save_delay)
