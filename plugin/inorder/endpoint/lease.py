"""The time for which a client may count on its subscription: the client's side of R12. No I/O, no clock.

The bottom stage keeps a subscription for ``session_timeout`` after its client was heard last; then pairs that this
client alone shared with others stop counting. So a client whose stages have not answered for half of that must not
notify in order any more, however well its broker serves it. *Counter-example:* A and B subscribe to a and b; A is cut
from the workers only and expires; x on a and y on b get no dependencies; A: x, y; B: y, x.

What counts of an answer is when its request *left*: the stage had the request later than that, and was still the
owner later than that, so it cannot have begun to count before. The other half of the timeout is for clocks that run
at different speeds. Times here are of a clock that goes on while the machine sleeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

MAX_ASKED = 64
"""Questions whose answers are still of use; a lost answer makes the oldest one go."""

RENEWALS = 6
"""Questions in a whole timeout, so that three in a row may fail before the half of it is over."""


class Lease:
    """The stages that have answered, and the time until which events may be notified in order.

    Attributes:
        until: up to when (s); infinity while no stage has to answer.
        timeout: the shortest one that a stage has told (s), ``None`` before any did.
        bottom: the bottom stage; it decides about expiry, so every subscription needs it.
    """

    def __init__(self) -> None:
        self.until = inf
        self.timeout: float | None = None
        self.bottom = 0
        self._timeouts: dict[int, float] = {}
        self._heard: dict[int, float] = {}
        self._asked: dict[int, float] = {}
        self._needed: frozenset[int] = frozenset()
        self._next_request = 1

    def __repr__(self) -> str:
        return f"<Lease until {self.until:.3f} on stages {sorted(self._needed)}>"

    @property
    def pause(self) -> float | None:
        """The time between two questions (s), ``None`` before a timeout is known."""
        return None if self.timeout is None else self.timeout / RENEWALS

    def needs(self, stages: Iterable[int] | None) -> None:
        """The stages of the subscription's topics; ``None`` without a subscription, or for a durable one."""
        self._needed = frozenset() if stages is None else frozenset([*stages, self.bottom])
        self._reckon()

    def needs_too(self, stages: Iterable[int]) -> None:
        """The subscription has more topics, of these stages."""
        self._needed = self._needed.union(stages, [self.bottom])
        self._reckon()

    def opened(self, stage: int, timeout: float, greeted: float) -> None:
        """A stage has noted that this client is connected. ``greeted``: when the hello left (s)."""
        self._timeouts[stage] = timeout
        self.timeout = min(self._timeouts.values())
        self.on_reception([stage], greeted)

    def ask(self, now: float) -> int:
        """Return the number for a question that leaves now."""
        request = self._next_request
        self._next_request += 1
        self._asked[request] = now
        if len(self._asked) > MAX_ASKED:
            del self._asked[next(iter(self._asked))]
        return request

    def answered(self, request: int, stages: Iterable[int]) -> None:
        """A worker has shown that these stages are still its own. Other workers answer the same question."""
        asked = self._asked.get(request)
        if asked is not None:
            self.on_reception(stages, asked)

    def completed(self, asked: float) -> None:
        """A subscription change passed all its stages after it was asked for (s); each committed it."""
        self.on_reception(self._needed, asked)

    def on_reception(self, stages: Iterable[int], asked: float) -> None:
        """Note the answer of these stages to a question that left at ``asked`` (s)."""
        for stage in stages:
            self._heard[stage] = max(asked, self._heard.get(stage, -inf))
        self._reckon()

    def _reckon(self) -> None:
        # a stage that a subscription passed before this client has connected to it: what others told, as the bottom
        # stage is among them, and ends subscriptions by its own timeout
        others = self.timeout or 0.0
        ends = (self._heard.get(stage, -inf) + self._timeouts.get(stage, others) / 2 for stage in self._needed)
        self.until = min(ends, default=inf)
