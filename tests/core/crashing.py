"""A cluster whose stages keep journals, so that any of them can crash at any point and come back (R14, STYLE 1)."""

from __future__ import annotations

from collections import deque

import msgspec
from tests.core.cluster import Cluster

from inorder.protocol.wire import Frame
from inorder_worker.sequencer.commands import AnyCommand, Deliver
from inorder_worker.sequencer.ride_check import check_ride
from inorder_worker.sequencer.stage import Stage

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[AnyCommand] = msgspec.msgpack.Decoder(AnyCommand)


class CrashingCluster(Cluster):
    """Every command is journaled as bytes, and rides are checked as those of another worker are. ``steps`` counts
    commands; at step ``crash_at`` the stage that takes it crashes right after the commit, before anything of it has
    left."""

    crash_at = 0
    snapshots = False

    def step(self, stage: int, command: AnyCommand) -> list[Frame]:
        if not hasattr(self, "journals"):
            self.steps = 0
            self.journals: list[list[tuple[bytes, int]]] = [[] for _ in self.stages]
            self.images: list[tuple[bytes, int] | None] = [None] * len(self.stages)
        self.steps += 1
        if self.snapshots:
            self.images[stage] = self.stages[stage].snapshot(), len(self.journals[stage])
        if isinstance(command, Deliver):
            check_ride(command.ride, command.origin, self.stages[stage])
        data, told = _encode(command), len(self.frames)
        self.journals[stage].append((data, self.now))
        frames = super().step(stage, _decoder.decode(data))
        if self.steps == self.crash_at:
            del self.frames[told:]
            self.crash(stage)
            return []
        return frames

    def crash(self, stage: int) -> None:
        """Forget what was in memory; recover from the journal; links begin anew behind what is durable."""
        image = self.images[stage]
        if image is None:
            fresh, start = Stage(stage, len(self.stages)), 0
        else:
            fresh, start = Stage.restore(image[0]), image[1]
        for data, now in self.journals[stage][start:]:
            fresh.step(_decoder.decode(data), now)
        assert fresh.snapshot() == self.stages[stage].snapshot(), "a replay gives the same state"
        self.stages[stage] = fresh
        for other in range(len(self.stages)):
            if other != stage:
                self.connect(stage, other)
                self.connect(other, stage)

    def connect(self, origin: int, target: int) -> None:
        """Send again what is not durable at the target."""
        self.stages[origin].acknowledge(target, self.stages[target].received(origin))
        self.links[origin, target] = deque(self.stages[origin].unacknowledged(target))
