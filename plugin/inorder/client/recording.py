"""The client's reports to its recorder: ended publishes, arrivals, notifications, beginning and ending topics.

There is one only where the client was given ``traces``; nothing here is done otherwise.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from math import nan
from typing import TYPE_CHECKING, Literal

from inorder.endpoint.notifications import Bounded, Gap, Receipt, Verdict
from inorder.endpoint.outputs import Mode
from inorder.endpoint.publications import Publication
from inorder.endpoint.waiting import Sequenced
from inorder.errors import Abandoned, Forgotten, Refused, TooManyUnconfirmed, UsageError
from inorder.ports import Arrival
from inorder.protocol.wire import TopicInfo
from inorder.traces.options import Traces
from inorder.traces.recorder import BATCH, Recorder, flags_of
from inorder.traces.row_buffers import NOTHING, REPAIRED, TopicName

if TYPE_CHECKING:
    from inorder.client.publishing import Publish

_NO_STAMP = (NOTHING, NOTHING, NOTHING, NOTHING)


class Recording:
    """The link between a client and its recorder.

    Args:
        recorder: takes the rows.
        clock: the event loop's, s.
        name_of: returns what workers told of a topic.
        id_of: returns a topic's id, where workers told it.
        offset: returns the clock's offset, the bound of its error (µs; -1: not known), and when it was found (µs since
            1970).
    """

    def __init__(
        self,
        recorder: Recorder,
        clock: Callable[[], float],
        name_of: Callable[[int], TopicInfo | None],
        id_of: Callable[[str, str], int | None],
        offset: Callable[[], tuple[int, int, int]],
    ) -> None:
        self._recorder, self.clock, self._name_of, self._id_of = recorder, clock, name_of, id_of
        self._offset, self._told_offset = offset, 0
        self._accepted: list[Publication] = []
        # no pairs: the garbage collector would have to look at each
        self._notified: list[Sequenced] = []
        self._notified_at: list[float] = []
        self._is_due = False
        self._dropped: list[tuple[Sequenced, str]] = []
        self._timer: asyncio.TimerHandle | None = None

    # -- life ----------------------------------------------------------------------------------------------------------

    def opened(self, incarnation: int, domain: int, mode: Mode) -> None:
        """Record the client's start, or its new start in another domain."""
        self._settle()
        self._told_offset = 0
        self._recorder.opened(incarnation, domain, "bounded" if isinstance(mode, Bounded) else mode)

    def flush_every(self, seconds: float) -> None:
        """Hand over the recorded rows at least this often."""
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self.flush_every, seconds)
        self._tell()
        self._recorder.flush()

    def _tell(self) -> None:
        """Record the facts that are not recorded as they happen."""
        self._settle()
        offset, error, at_us = self._offset()
        if error >= 0 and at_us != self._told_offset:  # also where it is the same: that it is is known up to then
            self._told_offset = at_us
            self._recorder.clock(offset, error, at_us)

    def _settle_soon(self) -> None:
        """Record all notifications and acceptances of this turn of the event loop at its end."""
        self._is_due = True
        asyncio.get_running_loop().call_soon(self._settle)

    def _settle(self) -> None:
        self._is_due = False
        if self._notified:
            self._settle_notified()
        if self._accepted:
            self._settle_accepted()
        if self._dropped:
            self._tell_dropped()

    def _settle_notified(self) -> None:
        self._recorder.sequenced(self._notified, self._notified_at)
        self._notified.clear()
        self._notified_at.clear()

    def _settle_accepted(self) -> None:
        self._recorder.accepted(self._accepted)
        self._accepted.clear()

    async def close(self, seconds: float) -> None:
        """Write the rest."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell()
        await self._recorder.close(seconds)

    # -- publishes -----------------------------------------------------------------------------------------------------

    def publish_ended(
        self, publish: Publish, publication: Publication | None, outcome: Receipt | BaseException | None
    ) -> None:
        """Record a publish's end: a receipt, an error, or a cancel (``None``). Later reports do not count."""
        if publish.is_recorded:
            return
        if publication is not None and type(outcome) is Receipt:
            publish.is_recorded = True
            self._accepted.append(publication)
            if not self._is_due:
                self._settle_soon()
            elif len(self._accepted) >= BATCH:
                self._settle_accepted()
        else:
            self._other_end(publish, publication, _outcome(publish, publication, outcome))

    def publish_given_up(self, publish: Publish, publication: Publication | None) -> None:
        """Record a publish without a known outcome at the client's end."""
        if not publish.is_recorded:
            was_handed = publish.was_handed if publication is None else publication.handed
            self._other_end(publish, publication, "unknown" if was_handed else "failed")

    def _other_end(self, publish: Publish, publication: Publication | None, outcome: str) -> None:
        publish.is_recorded = True
        size, stamp = len(publish.message.payload), _NO_STAMP
        topic = number = NOTHING
        if publication is None:
            ordering, counter = ("fifo", publish.counter or NOTHING) if publish.is_fifo else ("none", NOTHING)
        else:
            ordering, counter, number = "total", publication.counter, publication.number or NOTHING
            topic = NOTHING if publication.info is None else publication.info.id
        name = publish.link.space, publish.message.topic, topic
        deps: list[int] = []
        stamped_at = nan
        if publication is not None and publication.info is not None and publish.message.stamp is not None:
            deps, stamped_at = publication.deps, publish.stamped_at
            home = publication.info.stage
            top = home if publication.top < 0 else publication.top
            stamp = (len(publish.message.stamp), home, publication.entry, top)
        times = publish.published_at, stamped_at, publish.accepted_at, self.clock()
        self._recorder.published(name, outcome, ordering, (number, counter, size, *stamp), deps, times)

    # -- arrivals and notifications ------------------------------------------------------------------------------------

    def notified(self, entry: Sequenced) -> None:
        """Record a notification of an event with a timestamp."""
        self._notified.append(entry)
        self._notified_at.append(self.clock())
        if not self._is_due:
            self._settle_soon()
        elif len(self._notified) >= BATCH:
            self._settle_notified()

    def notified_plain(
        self, space: str, arrival: Arrival, verdict: Verdict, number: int | None, arrived: float
    ) -> None:
        """Record a notification of an event outside of the total order."""
        self._settle()
        name = space, arrival.topic, self._id_of(space, arrival.topic) or NOTHING
        at = NOTHING if number is None else number
        self._recorder.notified(
            name, verdict, flags_of(arrival), (at, NOTHING, 0, 0, len(arrival.payload)), None, arrived
        )

    def was_overlap(self) -> None:
        """Correct the last dropped arrival: it was a copy for another filter, not a repetition."""
        del self._dropped[-1:]

    def _tell_dropped(self) -> None:
        dropped, self._dropped = self._dropped, []
        for entry, why in dropped:
            space, arrival, index = entry.content
            row = entry.number, index or NOTHING, entry.waited_topic, entry.waited_number, entry.size
            flags, arrived = flags_of(arrival), entry.arrived
            if entry.repaired:
                flags, arrived = flags | REPAIRED, nan
            self._recorder.notified((space, arrival.topic, entry.topic), why, flags, row, entry.deps, arrived)

    def gap(self, gap: Gap) -> None:
        """Record a gap that the application was told of."""
        self._settle()
        topic = self._id_of(gap.space, gap.topic) or NOTHING
        self._recorder.gap((gap.space, gap.topic, topic), gap.first, gap.last, gap.reason)

    # -- what the ordering module tells (see Watcher) ------------------------------------------------------------------

    def began(self, topic: int, number: int) -> None:
        """Record that a topic's clock was taken."""
        if (name := self._named(topic)) is not None:
            self._recorder.subscribed(name, number)

    def ended(self, topic: int, number: int) -> None:
        """Record that a topic's subscription is over."""
        if (name := self._named(topic)) is not None:
            self._recorder.unsubscribed(name, number)

    def ended_all(self, clock: Mapping[int, int]) -> None:
        """Record the end of the whole subscription at the client's close: these topics, at these numbers."""
        for topic, number in clock.items():
            self.ended(topic, number)

    def dropped(self, entry: Sequenced, why: Literal["duplicate", "before"]) -> None:
        """Record a dropped arrival, until it proves to be the copy for another filter."""
        self._dropped.append((entry, why))
        if not self._is_due:
            self._settle_soon()

    def _named(self, topic: int) -> TopicName | None:
        info = self._name_of(topic)
        return None if info is None else (info.space, info.name, topic)


def _outcome(publish: Publish, publication: Publication | None, outcome: Receipt | BaseException | None) -> str:
    """Return how a publish ended: by its receipt, its caller's word or an answered error."""
    if isinstance(outcome, Receipt):
        return "accepted"
    if outcome is None:
        return "cancelled"
    if isinstance(outcome, Forgotten):
        return "forgotten"
    if isinstance(outcome, Abandoned):
        return "abandoned"
    if publish.is_doubtful if publication is None else publication.doubtful:
        return "unknown"  # this hand-over certainly failed; of an earlier one nobody may know
    return "refused" if isinstance(outcome, (Refused, TooManyUnconfirmed, UsageError)) else "failed"


async def begun(
    traces: Traces,
    client_id: str,
    incarnation: int,
    name_of: Callable[[int], TopicInfo | None],
    id_of: Callable[[str, str], int | None],
    offset: Callable[[], tuple[int, int, int]],
) -> Recording:
    """Return a client's recorder after a check that traces can be written, which loads libraries and may wait for the
    disk. Raises InvalidOption where they are not. See :class:`Recording` for the rest."""
    loop = asyncio.get_running_loop()
    # asyncio's own loops only pass on the clock of the system, which is quicker without them
    clock = time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time
    recorder = Recorder(traces, client_id, clock)
    await asyncio.to_thread(recorder.prepare, incarnation)
    recording = Recording(recorder, clock, name_of, id_of, offset)
    recording.flush_every(traces.flush_interval)
    return recording
