"""Rows as fixed records in one piece of memory, so that writing them makes no objects for the garbage collector.

A buffer belongs to the event loop until it is handed over, and to the writer's thread from then on. Its records are
read there by column (:mod:`inorder.traces.arrow`), without a Python object for each value.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from struct import Struct
from typing import Final

BUFFER_ROWS: Final = 16_384
NUMBERS_PER_ROW: Final = 16
"""A buffer is full when it has as many numbers in dependencies for each of its rows; they take their memory."""
NOTHING: Final = -1
"""Stands for null in whole numbers: those of traces are from 0 on. In times it is a NaN."""


@dataclass(frozen=True)
class Layout:
    """The memory layout of one kind of rows: 8 bytes for each part of a record.

    Attributes:
        kind: of the rows.
        whole: the parts that are whole numbers, in front.
        times: the parts that are seconds of the event loop, behind.
    """

    kind: str
    whole: tuple[str, ...]
    times: tuple[str, ...]

    @property
    def width(self) -> int:
        """The number of parts of a record."""
        return len(self.whole) + len(self.times)

    @property
    def struct(self) -> Struct:
        """The :mod:`struct` of a record."""
        return Struct(f"={len(self.whole)}q{len(self.times)}d")


PUBLISHED: Final = Layout(
    "published",
    (
        "topic", "how", "numbers_end", "number", "counter", "payload_size", "stamp_bytes", "stage", "entry_stage",
        "top_stage",
    ),
    ("published_at", "stamped_at", "accepted_at", "recorded_at"),
)  # fmt: skip
"""``topic``: place in the buffer's topics. ``how``: outcome, and the order in the bits above; 0 is the usual end.
``numbers_end``: where its dependencies end in the buffer's numbers."""

NOTIFIED: Final = Layout(
    "notified",
    (
        "topic", "how", "numbers_end", "number", "arrival_index", "delivery_index", "waited_topic_id", "waited_number",
        "payload_size",
    ),
    ("arrived_at", "recorded_at"),
)  # fmt: skip
"""``how``: the verdict, and the flags in the bits above."""

HOW_BITS: Final = 8
"""Of ``how``, for its first part."""
RETAINED, REDELIVERED, REPAIRED, SEQUENCED = (1 << HOW_BITS + bit for bit in range(4))

TopicName = tuple[str, str, int]
"""Space, name and id; :data:`NOTHING` where it has none."""


class RowBuffer:
    """Rows of one layout.

    Attributes:
        raw: the records; ``count`` of them are there, and there is room for ``room``.
        is_mixed: some are not of the usual kind: accepted with a total order, or notified of in order. Columns of
            buffers that are not mixed are known without a look at each row.
        has_waited: some waited for a number.
        numbers: the dependencies of all, one behind the other; with ``numbers_room`` of them the buffer is full.
        places, topics: topics by what the event loop knows them by, and in the order of their places.
        incarnation, domain: of all rows.
        zero_us: when the event loop's clock stood at 0, µs since 1970.
    """

    __slots__ = (
        "_rows", "count", "domain", "has_waited", "incarnation", "is_mixed", "layout", "numbers", "numbers_room",
        "places", "raw", "room", "topics", "zero_us",
    )  # fmt: skip

    def __init__(self, layout: Layout, room: int) -> None:
        self.layout, self._rows, self.room = layout, room, room
        self.numbers_room = NUMBERS_PER_ROW * room
        self.raw = bytearray(8 * layout.width * room)
        self.count = 0
        self.incarnation = self.domain = self.zero_us = 0
        self.is_mixed = self.has_waited = False
        self.numbers = array("q")
        self.places: dict[object, int] = {}
        self.topics: list[TopicName] = []

    def __len__(self) -> int:
        return self.count

    @property
    def weight(self) -> int:
        """The number of rows, or more if their dependencies take more memory than rows do."""
        return max(self.count, len(self.numbers) // NUMBERS_PER_ROW)

    def place(self, key: object, name: TopicName) -> int:
        """Assign a topic its place."""
        self.places[key] = at = len(self.topics)
        self.topics.append(name)
        return at

    def added(self, rows: int) -> None:
        """Count new rows and their dependencies. With many of these they are the last."""
        self.count += rows
        if len(self.numbers) >= self.numbers_room:
            self.room = self.count

    def clear(self) -> None:
        """Forget all rows."""
        self.count, self.room = 0, self._rows
        self.is_mixed = self.has_waited = False
        self.numbers = array("q")
        self.places, self.topics = {}, []
