"""What a client process writes down, one line of JSON at a time, so that a kill costs at most the last one.

All times are of the machine's monotonic clock, which every process shares.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec


class Record(msgspec.Struct, tag_field="is", kw_only=True):
    """``when``: s."""

    when: float = msgspec.field(default_factory=time.monotonic)


class Began(Record, tag="began"):
    """The client is open."""

    incarnation: int
    mode: str


class Called(Record, tag="called"):
    """It is about to publish its next event; they are counted from 1."""

    counter: int
    topic: str
    payload: str


class Acknowledged(Record, tag="acknowledged"):
    """``publish`` returned."""

    counter: int
    topic: str
    number: int
    deps: tuple[tuple[str, int], ...]


class Failed(Record, tag="failed"):
    """``publish`` raised: whether the event was handed over is not known."""

    counter: int
    error: str


class Subscribing(Record, tag="subscribing"):
    """It is about to subscribe; ``topics`` may be filters."""

    topics: tuple[str, ...]


class Subscribed(Record, tag="subscribed"):
    """``subscribe`` returned."""

    topics: tuple[str, ...]


class Unsubscribed(Record, tag="unsubscribed"):
    """``unsubscribe`` returned, and the application has taken all that it was notified of before.

    Attributes:
        called: when it was called, s.
    """

    topics: tuple[str, ...]
    called: float


class Notified(Record, tag="notified"):
    """The application took an event."""

    topic: str
    number: int | None
    payload: str
    verdict: str
    repaired: bool = False
    redelivered: bool = False


class Missing(Record, tag="missing"):
    """The application took a gap."""

    topic: str
    first: int
    last: int
    reason: str


class Saved(Record, tag="saved"):
    """The workers have a durable subscriber's clock: it will not resume before these numbers, by topic."""

    numbers: dict[str, int]


class Reconnected(Record, tag="reconnected"):
    """The application was told that the broker is back."""


class Stats(Record, tag="stats"):
    """How the client is, now and then, in words."""

    text: str


class Finished(Record, tag="finished"):
    """It publishes no more, and knows how every publish ended."""


class Broken(Record, tag="broken"):
    """The client failed for good."""

    error: str


AnyRecord = (
    Began | Called | Acknowledged | Failed | Subscribing | Subscribed | Unsubscribed | Notified | Missing | Saved
    | Reconnected | Stats | Finished | Broken
)  # fmt: skip

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


class RecordFile:
    """Writes records; each is with the system when ``write`` returns."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, record: AnyRecord) -> None:
        """Write one line."""
        os.write(self._file, _encoder.encode(record) + b"\n")


class Tail:
    """Reads the records of a process that is still writing.

    Attributes:
        records: what was read so far.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self.records: list[AnyRecord] = []

    def read(self) -> list[AnyRecord]:
        """Read on; return what is new. A line without its end is left for later (for ever, after a kill)."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, _, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + 1 if whole else 0
        new = [_decoder.decode(line) for line in whole.splitlines()]
        self.records += new
        return new
