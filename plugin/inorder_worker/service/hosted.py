"""One stage in this process: the state machine, its clock, and its journal rows on the way to the store.

A row holds what one group commit took in: ``[[now, [command, ...]], ...]`` in MessagePack, ``now`` being the
stage's time in milliseconds at which those commands were stepped. Replay steps the same commands at the same times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec

from inorder.protocol.wire import LogRule, TopicInfo
from inorder_worker.sequencer.commands import (
    AnyCommand,
    Configure,
    Effect,
    LeaveSession,
    OpenSession,
    Place,
    RestartTimers,
    SetLogRule,
    StageSettings,
)
from inorder_worker.sequencer.picture import Picture
from inorder_worker.sequencer.stage import Stage
from inorder_worker.service.attesting import Standing
from inorder_worker.store.journal import Batch

Monotonic = Callable[[], float]

WORTH_BYTES: Final = 8
"""A large state is not written again for less journal than an eighth of it: that costs more than replaying it."""


class StageImage(msgspec.Struct, array_like=True):
    """The contents of a snapshot: the stage's own snapshot, and the host's state.

    Attributes:
        now: the stage's time, in milliseconds.
        settings: the last ones journaled.
        sessions: client id -> incarnation of those that were connected.
        state: ``Stage.snapshot()``.
    """

    now: int
    settings: StageSettings | None
    sessions: dict[str, int]
    state: bytes


class SnapshotBounds(Protocol):
    """The bounds of the journal before a snapshot is due (see WorkerSettings)."""

    @property
    def snapshot_rows(self) -> int:
        """Rows of one stage."""

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of one stage's rows."""


class _Image(NamedTuple):
    """An image that is being written: of the state after a row, with so many bytes before the stage's own snapshot."""

    seq: int
    head: int
    picture: Picture


_encoder: Final = msgspec.msgpack.Encoder()
_NO_BYTES: Final = _encoder.encode(b"")
_BYTES, _LENGTH = b"\xc6", 4
"""How MessagePack begins bytes of any length, and the length of that length."""
_entries_decoder: Final = msgspec.msgpack.Decoder(list[tuple[int, list[AnyCommand]]])
_image_decoder: Final = msgspec.msgpack.Decoder(StageImage)


class HostedStage:
    """A stage that this worker owns, or follows.

    Invariant: ``stage`` is what replay of all rows up to ``seq``, and then of the open row, would give.

    Attributes:
        stage: the state machine.
        epoch: of our ownership; 0 before ``own``.
        seq: number of the last row that was closed (committed or on its way).
        began, durable: the last row when our ownership began, and the last one that was committed since.
    """

    def __init__(self, stage: Stage, epoch: int = 0, monotonic: Monotonic = time.monotonic) -> None:
        self.stage, self.epoch, self.seq = stage, epoch, 0
        self.began = self.durable = 0
        stage.epoch = epoch
        self._monotonic = monotonic
        self._now = 0  # stage time when the clock was last set
        self._since = monotonic()
        self._settings: StageSettings | None = None
        self._sessions: dict[str, int] = {}
        self._groups: list[tuple[int, list[msgspec.Raw]]] = []
        self._rows_since_snapshot = self._bytes_since_snapshot = self._image_bytes = 0
        self._image: _Image | None = None

    @property
    def index(self) -> int:
        """The index of the stage."""
        return self.stage.index

    @property
    def standing(self) -> Standing:
        """The position of its journal's durable end."""
        return Standing(self.epoch, self.began, self.durable)

    def now(self) -> int:
        """Return the stage's time in milliseconds. It stands still while no worker has the stage (R10)."""
        return self._now + int((self._monotonic() - self._since) * 1000)

    def step(self, command: AnyCommand) -> tuple[list[Effect], int]:
        """Step a command into the open row; return its effects, and its encoded size in bytes."""
        now = self.now()
        encoded = _encoder.encode(command)
        effects = self.stage.step(command, now)
        self._note(command)
        if not self._groups or self._groups[-1][0] != now:
            self._groups.append((now, []))
        self._groups[-1][1].append(msgspec.Raw(encoded))
        return effects, len(encoded)

    def close_row(self) -> Batch | None:
        """Return the open row for the journal and begin the next one; ``None`` if nothing was stepped."""
        if not self._groups:
            return None
        entries = _encoder.encode(self._groups)
        self._groups = []
        self.seq += 1
        self._rows_since_snapshot += 1
        self._bytes_since_snapshot += len(entries)
        return Batch(self.index, self.epoch, self.seq, entries)

    def begin_snapshot(self, bounds: SnapshotBounds) -> None:
        """Right after ``close_row``: begin an image of the state after that row, if it is time for one."""
        if self._rows_since_snapshot < bounds.snapshot_rows and self._bytes_since_snapshot < bounds.snapshot_bytes:
            return
        if self._bytes_since_snapshot * WORTH_BYTES < self._image_bytes or self._image is not None:
            return
        image = _encoder.encode(StageImage(self.now(), self._settings, self._sessions, b""))
        before = image.removesuffix(_NO_BYTES) + _BYTES + bytes(_LENGTH)
        self._image = _Image(self.seq, len(before), self.stage.picture(before))
        self._rows_since_snapshot = self._bytes_since_snapshot = 0

    @property
    def has_image(self) -> bool:
        """Tell whether an image was begun and is not finished."""
        return self._image is not None

    def next_slice(self) -> tuple[int, bytearray] | None:
        """Write a slice of the image, if one was begun; return a finished one with the number of its row."""
        image = self._image
        if image is None or not image.picture.go_on():
            return None
        self._image, data = None, image.picture.data
        data[image.head - _LENGTH : image.head] = (len(data) - image.head).to_bytes(_LENGTH, "big")
        self._image_bytes = len(data)
        return image.seq, data

    def first_commands(
        self, settings: StageSettings, topics: list[TopicInfo], rules: list[LogRule]
    ) -> list[AnyCommand]:
        """Return the first commands of a stage after its recovery. These are changed settings, a new store's topic
        order and (at the bottom stage) event logs, and the end of all connections (their grace begins now, R12,
        R16)."""
        commands: list[AnyCommand] = []
        if settings != self._settings:
            commands.append(Configure(settings))
        if self.seq == 0 and topics:
            commands.append(Place(topics))
        if self.seq == 0 and self.index == self.stage.count - 1:
            commands += [SetLogRule("", 0, 0, rule, True) for rule in rules]
        if self.seq:
            commands.append(RestartTimers())
        commands += [LeaveSession(client_id, incarnation) for client_id, incarnation in self._sessions.items()]
        return commands

    # -- replay ------------------------------------------------------------------------------------------------

    def take_image(self, seq: int, data: bytes) -> None:
        """Begin from a snapshot. Raises msgspec.DecodeError."""
        image = _image_decoder.decode(data)
        self.stage = type(self.stage).restore(image.state)
        self.stage.epoch = self.epoch
        self._settings, self._sessions = image.settings, image.sessions
        self.seq, self._now, self._image_bytes = seq, image.now, len(data)

    def replay_row(self, seq: int, entries: bytes) -> None:
        """Step a stored row again; its effects left when it was committed, or will be asked for again. Raises
        msgspec.DecodeError."""
        for now, commands in _entries_decoder.decode(entries):
            for command in commands:
                self.stage.step(command, now)
                self._note(command)
            self._now = now
        self.seq = seq
        self._rows_since_snapshot += 1
        self._bytes_since_snapshot += len(entries)

    def expect_snapshot(self, bounds: SnapshotBounds) -> None:
        """While another worker has the stage: what is due for a snapshot has got one there, or will soon."""
        if self._rows_since_snapshot >= bounds.snapshot_rows or self._bytes_since_snapshot >= bounds.snapshot_bytes:
            self._rows_since_snapshot = self._bytes_since_snapshot = 0

    def own(self, epoch: int) -> None:
        """The stage is ours from now on: let its time go on from where it stood."""
        self.epoch = self.stage.epoch = epoch
        self.began = self.durable = self.seq
        self._since = self._monotonic()
        self.stage.changed_heads()  # whoever connects is told all of them
        self.stage.begin_tally()

    def _note(self, command: AnyCommand) -> None:
        if isinstance(command, OpenSession):
            self._sessions[command.client_id] = command.incarnation
        elif isinstance(command, LeaveSession):
            if self._sessions.get(command.client_id) == command.incarnation:
                del self._sessions[command.client_id]
        elif isinstance(command, Configure):
            self._settings = command.settings
