"""Timers and bounds of a client."""

from __future__ import annotations

from dataclasses import dataclass, fields

from inorder.endpoint.endpoint import EndpointTimes
from inorder.endpoint.ordering import OrderingTimes
from inorder.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class ClientTimes:
    """Timers (seconds) and bounds of a client; every one is a setting.

    Attributes:
        connect_timeout: for one attempt to reach a worker.
        backoff_first, backoff_max: pause before reconnecting, doubled after each failure.
        heartbeat: how often an otherwise silent worker is asked to answer; silent for three of them, it is gone.
        gap_timeout: how long a missing number is waited for before its stage is asked (R17); within it 100 numbers that
            the client may merely not have read (R24), all others at once.
        loss_timeout: how long an event that the broker accepted is missed before it is reported as lost (R24): time in
            which all was read that the broker had. Numbers that follow one another, and are overdue within 1.25 s, are
            one gap, when the last one is; the end of a burst is known a second later than it was published, at most.
        settle_delay: how long confirmations may wait for company (R16).
        save_delay: how often a durable subscriber saves its clock (R18).
        report_interval: how often a client tells the workers what it has seen, for operators; 0: never.
        close_timeout: how long :meth:`Client.close` lets open work finish.
        max_waiting, max_waiting_bytes: what may wait for its turn in strict mode.
        max_undelivered, max_undelivered_bytes: what may lie in the delivery stream; beyond it events are given up
            and reported as ``Gap(reason="overflow")``; those without a number (orders fifo and none, unsequenced) are
            counted in ``stats().overflow`` and logged once per overflow.
        max_pending: publishes that may be unfinished.
    """

    connect_timeout: float = 5.0
    backoff_first: float = 0.05
    backoff_max: float = 5.0
    heartbeat: float = 1.0
    gap_timeout: float = 1.0
    loss_timeout: float = 5.0
    settle_delay: float = 0.02
    save_delay: float = 0.2
    report_interval: float = 1.0
    close_timeout: float = 0.6
    max_waiting: int = 200_000
    max_waiting_bytes: int = 256 * 1024 * 1024
    max_undelivered: int = 200_000
    max_undelivered_bytes: int = 256 * 1024 * 1024
    max_pending: int = 20_000

    def __post_init__(self) -> None:
        """Check the values. Raises InvalidOption."""
        for field in fields(self):
            value = getattr(self, field.name)
            may_be_off = field.name == "report_interval"
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (is_number and (value > 0 or (may_be_off and value == 0))):
                raise InvalidOption(field.name, value, "a number above 0" + (", or 0 for never" if may_be_off else ""))

    def endpoint(self) -> EndpointTimes:
        """Return those of the endpoint."""
        ordering = OrderingTimes(self.gap_timeout, self.loss_timeout, self.max_waiting, self.max_waiting_bytes)
        return EndpointTimes(ordering, self.settle_delay, self.save_delay)
