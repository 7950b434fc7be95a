"""Rides between stages: those of stages here are passed on in memory, those for other workers' stages go to the links.

A ride stays in the state of the stage that sent it until its target has it durable, so nothing of a ride is only here:
when stages come or go, everything in a relay is found again from their states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from inorder_worker.sequencer.commands import Send
from inorder_worker.service.backlog import Backlog
from inorder_worker.service.context import HostContext
from inorder_worker.service.open_commit import OpenCommit
from inorder_worker.service.work import Work
from inorder_worker.store.failpoints import reach


class RideRelay:
    """Passes on the rides of the stages here after their commit, and holds requests back while a stage above is away.

    Args:
        context: see HostContext.
        backlog: where requests go that were held back.
    """

    def __init__(self, context: HostContext, backlog: Backlog) -> None:
        self._stages, self._backlog = context.stages, backlog
        self._sink, self._links, self._wake = context.sink, context.links, context.wake
        self._max_outbox = context.settings.max_outbox
        self.rides: deque[tuple[int, Send]] = deque()
        """(Origin, ride) for stages here, durable at their origin, in the order of their links."""
        self.exits: dict[int, int] = {}
        """Stage here -> the one here through which its rides leave this worker upwards; none where they do not."""
        self._sent: dict[tuple[int, int], int] = {}
        """(Own stage, another worker's) -> last durable ride. Rides above it are not committed and must not leave."""
        self._held: dict[int, deque[Work]] = {}
        """By exit: what would add to a full outbox, in the order in which it came. Never an empty queue."""

    # -- to stages of other workers ----------------------------------------------------------------------------

    def sent(self, origin: int, target: int) -> int:
        """Return the last ride of a stage here for another worker's stage that is durable and may leave."""
        return self._sent.get((origin, target), 0)

    def outgoing(self, origin: int, target: int, after: int, limit: int) -> list[Send]:
        """Return the next rides that may leave."""
        hosted = self._stages.get(origin)
        through = min(self.sent(origin, target), after + limit)
        return [] if hosted is None else hosted.stage.unacknowledged(target, after, through)

    def acknowledge(self, origin: int, target: int, number: int) -> None:
        """The other worker made rides up to this number durable."""
        hosted = self._stages.get(origin)
        if hosted is not None:
            hosted.stage.acknowledge(target, number)
            if self._held:
                self._let_go(origin)

    # -- after a commit ----------------------------------------------------------------------------------------

    def pass_on(self, batch: OpenCommit) -> None:
        """After its commit: what stages got is off their origin's hands, and new rides are on their way."""
        for (stage, origin), number in batch.delivered.items():
            reach("rides.before")
            if origin in self._stages:
                self._stages[origin].stage.acknowledge(stage, number)
            else:
                self._sink.made_durable(stage, origin, number)
            reach("rides.after")
        if self._stages.are_all_here:
            self.rides.extend(batch.sends)
            return
        targets = set()
        for origin, send in batch.sends:
            if send.stage in self._stages:
                self.rides.append((origin, send))
            else:
                self._sent[origin, send.stage] = send.number
                targets.add(send.stage)
        for target in targets:
            self._links.rides_ready(target)

    # -- requests that are held back ---------------------------------------------------------------------------

    @property
    def held(self) -> int:
        """The number of requests held because the stage above is away (``max_outbox``)."""
        return sum(map(len, self._held.values()))

    def hold(self, work: Work) -> bool:
        """Keep a request for a stage above that is away, behind earlier ones; tell whether it was kept."""
        way_out = None if work.entry is None else self.exits.get(work.entry)
        if way_out is None:
            return False
        held = self._held.get(way_out)
        if not held and self._stages[way_out].stage.waiting(way_out - 1) < self._max_outbox:
            return False
        self._held.setdefault(way_out, deque()).append(work)
        return True

    def _let_go(self, way_out: int) -> None:
        """Take up again what was held, before everything that came later."""
        held = self._held.get(way_out)
        if held and self._stages[way_out].stage.waiting(way_out - 1) <= self._max_outbox // 2:
            del self._held[way_out]
            self._backlog.put_back(held)
            self._backlog.check_pressure()
            self._wake.set()

    def take_held(self) -> list[Work]:
        """Take out all requests that are held."""
        held = [work for waiting in self._held.values() for work in waiting]
        self._held.clear()
        return held

    # -- stages come and go ------------------------------------------------------------------------------------

    def arrange(self) -> None:
        """Find the stages here through which rides leave, and the rides to send again, after the stages have changed
        and all their state is durable."""
        self._backlog.put_back(self.take_held())
        stages = self._stages
        self.exits = _exits(stages)
        self._sent = {
            (index, target): hosted.stage.sent(target)
            for index, hosted in stages.items() for target in range(stages.count) if target not in stages
        }  # fmt: skip
        self.rides.clear()
        for origin in stages.values():
            for target in stages.values():
                if origin is not target:
                    origin.stage.acknowledge(target.index, target.stage.received(origin.index))
                    self.rides.extend((origin.index, send) for send in origin.stage.unacknowledged(target.index))
        self._links.stages_changed()


def _exits(own: Iterable[int]) -> dict[int, int]:
    """Return through which of our stages the rides of each leave this worker upwards; none where they do not."""
    own, exits = sorted(own), dict[int, int]()
    for stage in own:
        if stage:
            way_out = exits.get(stage - 1) if stage - 1 in own else stage
            if way_out is not None:
                exits[stage] = way_out
    return exits
