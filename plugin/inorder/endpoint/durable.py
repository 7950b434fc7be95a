"""A durable subscriber's saved clock: what the application is done with, told to the bottom stage (R18).

It is kept by the workers and not in a file of the client's, so that a client may come back on another machine. A number
counts as done with when the application asks for what follows it. What was taken and not done with when the process
ended comes again: every event is worked on at least once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from inorder.endpoint.arrivals import Arrivals
from inorder.endpoint.effects import Clock, Outbox, Resumed
from inorder.endpoint.notifications import Event, Gap, Reconnected, Verdict
from inorder.endpoint.ticks import Reached, Ticks
from inorder.protocol.pairs import flat, pairs
from inorder.protocol.wire import AskDurable, Done, Durable, SaveClock

MAX_GIVEN = 100_000
"""Events whose ticks are kept until the application is done with them. Of more the oldest count as done with: to reach
further than that makes events late, and none in order that should not be."""
ASK_AGAIN = 1.0
"""Seconds after which an answer counts as lost."""


class SavedClock:
    """The events that the application has done with, and how far they are saved.

    Args:
        arrivals: knows topics; where there is a ``point``, it tells what is notified of in order.
        delay: how long saving may wait for others to go with, s.
        point: returns how far a client that takes events out of turn was done with them, if nothing was forged.

    Attributes:
        due_at: when something is to be saved, or asked again, by the clock's uptime; ``None``: nothing is.
    """

    def __init__(
        self, outbox: Outbox, clock: Clock, arrivals: Arrivals, delay: float, point: Callable[[Reached], Reached] | None
    ) -> None:
        self._outbox, self._clock, self._topic_id, self._delay = outbox, clock, arrivals.topic_id, delay
        self._point = point
        if point is not None:
            arrivals.given = self._note
        self._unsaved: dict[int, int] = {}
        self._saving: SaveClock | None = None
        # R23: what was notified of in order and is not done with, and its ticks; the point that is done with.
        self._given: deque[tuple[Event, Ticks]] = deque()
        self._reached = Reached()
        self._is_asking = self._is_stopped = False
        self._foreign = 0
        self.due_at: float | None = None

    @property
    def is_saved(self) -> bool:
        """Tell whether nothing is left to save."""
        return not self._unsaved and self._saving is None

    @property
    def saving(self) -> dict[int, int]:
        """The numbers, by topic, that are on their way to be saved."""
        return {} if self._saving is None else dict(pairs(self._saving.numbers))

    # -- what the application is done with ---------------------------------------------------------------------

    def _note(self, event: Event, ticks: Ticks) -> None:
        """A client that takes events out of turn notifies of an event in order (R23)."""
        self._given.append((event, ticks))
        if len(self._given) > MAX_GIVEN:
            self._reached.take(self._given.popleft()[1])

    def done_with(self, item: Event | Gap | Reconnected) -> None:
        """The application asks for what follows this notification."""
        number = _number_of(item)
        if self._foreign:
            self._foreign -= 1
            return
        if number is None or isinstance(item, Reconnected):
            return
        self._rise_to(item)
        topic = self._topic_id(item.space, item.topic)
        if topic is not None and number > self._unsaved.get(topic, 0):
            self._unsaved[topic] = number
            self._save_soon()

    def _rise_to(self, item: Event | Gap) -> None:
        """Reach an event. Those before it that the application has not come to were dropped on their way to it."""
        while self._given and isinstance(item, Event):
            event, ticks = self._given.popleft()
            self._reached.take(ticks)
            if event is item:
                break

    def _save_soon(self) -> None:
        if self.due_at is None and self._saving is None and not self._is_stopped:
            self.due_at = self._clock.uptime() + self._delay
            self._outbox.wants_timer = True

    def save(self) -> None:
        """Save what is not saved yet; the next time when this is answered."""
        if not self._is_asking:
            self.due_at = None
        if self._unsaved and self._saving is None:
            numbers, self._unsaved = flat(self._unsaved), {}
            if self._point is not None:
                self._reached = self._point(self._reached)
            self._saving = SaveClock(self._outbox.next_request(), numbers, self._reached.saved())
            self._send()

    def _send(self) -> None:
        if self._saving is not None:
            self._outbox.send(self._saving)

    # -- what the bottom stage says ----------------------------------------------------------------------------

    def told(self, frame: Done | Durable) -> None:
        """An answer of the bottom stage."""
        if isinstance(frame, Done):
            self._saved(frame)
        elif self._is_asking:
            self._is_asking, self.due_at = False, None
            self._outbox.effects.append(Resumed(frame.filters))

    def _saved(self, frame: Done) -> None:
        if self._saving is not None and frame.request == self._saving.request:
            self._saving = None
            if self._unsaved:
                self._save_soon()

    def reached(self) -> None:
        """The bottom stage is reached (again)."""
        self._send()

    def forget(self, foreign: int) -> None:
        """Topics of another domain have other numbers: those of the next ``foreign`` notifications are of no use."""
        self._unsaved.clear()
        self._given.clear()
        self._reached = Reached()
        self._saving = None
        self._foreign = foreign

    # -- the beginning and the end -----------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask which subscription waits for this client."""
        self._is_asking, self.due_at = True, self._clock.uptime() + ASK_AGAIN
        self._outbox.wants_timer = True
        self._outbox.send(AskDurable(self._outbox.next_request()))

    def tick(self) -> None:
        """Do the work that is due at ``due_at``."""
        if self._is_asking:
            self.ask()
        else:
            self.save()

    def stop(self) -> None:
        """Ask nothing more, and save only by :meth:`save`."""
        self._is_stopped, self._is_asking, self.due_at = True, False, None


def _number_of(item: Event | Gap | Reconnected) -> int | None:
    """Return up to where a topic is done with after a notification; ``None``: it says nothing of that."""
    if isinstance(item, Gap):
        return item.last
    return item.number if isinstance(item, Event) and item.verdict is Verdict.IN_ORDER else None
