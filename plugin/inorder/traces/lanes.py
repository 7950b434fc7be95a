"""Rows as the event loop writes them: fixed records in one piece of memory, and nothing made for the garbage collector.

A lane belongs to the event loop until it is handed over, and to the writer's thread from then on. Its records are read
there by column (:mod:`inorder.traces.batches`), without a Python object for each value.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from struct import Struct
from typing import Final

LANE_ROWS: Final = 8192
NUMBERS_PER_ROW: Final = 16
"""A lane is full when it has as many numbers in dependencies for each of its rows; they take their memory."""
NOTHING: Final = -1
"""Stands for null in whole numbers: those of traces are from 0 on. In times it is a NaN."""


@dataclass(frozen=True)
class Layout:
    """How the records of one kind of rows lie in memory: 8 bytes for each part.

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
        """Parts of a record."""
        return len(self.whole) + len(self.times)

    @property
    def struct(self) -> Struct:
        """A record's form."""
        return Struct(f"={len(self.whole)}q{len(self.times)}d")


PUBLISHED: Final = Layout(
    "published",
    (
        "topic", "how", "number", "counter", "payload_size", "numbers_end", "stamp_bytes", "stage", "entry_stage",
        "top_stage",
    ),
    ("published_at", "stamped_at", "accepted_at", "recorded_at"),
)  # fmt: skip
"""``topic``: place in the lane's topics. ``how``: outcome, and the order in the bits above. ``numbers_end``: where its
dependencies end in the lane's numbers."""

NOTIFIED: Final = Layout(
    "notified",
    (
        "topic", "how", "number", "arrival_index", "delivery_index", "waited_topic_id", "waited_number", "payload_size",
        "numbers_end",
    ),
    ("arrived_at", "recorded_at"),
)  # fmt: skip
"""``how``: the verdict, and the flags in the bits above."""

HOW_BITS: Final = 8
"""Of ``how``, for its first part."""
RETAINED, REDELIVERED, REPAIRED, SEQUENCED = (1 << HOW_BITS + bit for bit in range(4))

TopicName = tuple[str, str, int]
"""Space, name and id; :data:`NOTHING` where it has none."""


class Lane:
    """Rows of one layout.

    Attributes:
        raw: the records; ``count`` of them are there.
        numbers: the dependencies of all, one behind the other.
        places, topics: topics by what the event loop knows them by, and in the order of their places.
        incarnation, domain: of all rows.
        zero_us: when the event loop's clock stood at 0, µs since 1970.
    """

    __slots__ = ("count", "domain", "incarnation", "layout", "numbers", "places", "raw", "room", "topics", "zero_us")

    def __init__(self, layout: Layout, room: int) -> None:
        self.layout, self.room = layout, room
        self.raw = bytearray(8 * layout.width * room)
        self.count = 0
        self.incarnation = self.domain = self.zero_us = 0
        self.numbers = array("q")
        self.places: dict[object, int] = {}
        self.topics: list[TopicName] = []

    def __len__(self) -> int:
        return self.count

    @property
    def is_full(self) -> bool:
        """There is no room for another row."""
        return self.count >= self.room or len(self.numbers) >= NUMBERS_PER_ROW * self.room

    @property
    def weight(self) -> int:
        """Rows, or more where its dependencies take more memory than rows do."""
        return max(self.count, len(self.numbers) // NUMBERS_PER_ROW)

    def place(self, key: object, name: TopicName) -> int:
        """Give a topic its place."""
        self.places[key] = at = len(self.topics)
        self.topics.append(name)
        return at

    def clear(self) -> None:
        """Forget all rows."""
        self.count = 0
        self.numbers = array("q")
        self.places, self.topics = {}, []
