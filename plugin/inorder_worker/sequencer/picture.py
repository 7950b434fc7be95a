"""A snapshot of a stage that is written piece by piece while the stage goes on.

Nearly all of a state is its topics, with their numbers and bases. The rest is written at once; then the topics, one
after the other. Whoever looks at a topic that is not written yet might change it, so its part is taken before that: its
fields as bytes, and its numbers one by one. A number that is settled, and whose timestamp is complete, never changes
again, so just the few open ones are copied. What comes out is the state as it was at the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, ValuesView
from dataclasses import fields
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, replace

from inorder.protocol.wire import NumberState
from inorder_worker.sequencer.state import StageState
from inorder_worker.sequencer.topic_manager import NumberRecord, TopicManager

SLICE_BYTES: Final = 64 * 1024
"""Bytes after which others have a turn: a millisecond's work or two."""
_RECORDS: Final = 224
"""Numbers that are written together."""
_encoder: Final = msgspec.msgpack.Encoder()

Part = tuple[bytes, list[NumberRecord]]
"""A topic without its numbers, and these."""


class _Watched(dict[int, TopicManager]):
    """Topics; tells of each one before anybody gets it."""

    def __init__(self, topics: dict[int, TopicManager], look: Callable[[TopicManager], None]) -> None:
        super().__init__(topics)
        self._look = look

    def __getitem__(self, topic: int) -> TopicManager:
        manager = super().__getitem__(topic)
        self._look(manager)
        return manager

    def get(self, topic: int, default: Any = None) -> Any:
        manager = super().get(topic, default)
        if manager is not None:
            self._look(manager)
        return manager

    def values(self) -> ValuesView[TopicManager]:  # type: ignore[override]
        for manager in (values := super().values()):
            self._look(manager)
        return values

    def items(self) -> ItemsView[int, TopicManager]:  # type: ignore[override]
        self.values()
        return super().items()


class Picture:
    """The state of a stage at the moment at which this is made.

    Args:
        state: goes on meanwhile; its topics are watched until all is written, or ``drop`` is called.
        before: bytes in front.

    Attributes:
        data: what is written so far.
    """

    def __init__(self, state: StageState, before: bytes = b"") -> None:
        if isinstance(state.topics, _Watched):
            raise RuntimeError("the snapshot before is not finished")
        snapshot = state.snapshot()
        saved = {each.name: getattr(snapshot, each.name) for each in fields(snapshot)}
        topics = saved.pop("topics")
        self._state = state
        self._left = {each.id: each for each in topics}
        self._kept: dict[int, Part] = {}
        self.data = bytearray(before)
        self.data += _map(len(saved) + 1) + b"".join(map(_encoder.encode, _flat(saved)))
        self.data += _encoder.encode("topics") + b"\xdd" + len(topics).to_bytes(4, "big")
        self._pieces = self._write()
        state.topics = _Watched(state.topics, self._look)

    def go_on(self) -> bool:
        """Write the next slice; return whether that was the last one."""
        end = len(self.data) + SLICE_BYTES
        for _ in self._pieces:
            if len(self.data) >= end:
                return False
        self.drop()
        return True

    def whole(self) -> bytes:
        """Write all at once, and return it."""
        while not self.go_on():
            pass
        return bytes(self.data)

    def drop(self) -> None:
        """Watch the topics no longer. No error."""
        self._left.clear()
        self._kept.clear()
        if isinstance(self._state.topics, _Watched):
            self._state.topics = dict(self._state.topics)

    def _look(self, manager: TopicManager) -> None:
        topic = manager.id
        if topic in self._left and topic not in self._kept:
            self._kept[topic] = _part(manager)

    def _write(self) -> Iterator[None]:
        for topic, manager in list(self._left.items()):
            head, records = self._kept.pop(topic) if topic in self._kept else _part(manager)
            del self._left[topic]
            self.data += head
            yield
            for at in range(0, len(records), _RECORDS):
                some = records[at : at + _RECORDS]
                pairs = [each for record in some for each in (record.number, record)]
                self.data += memoryview(_encoder.encode(pairs))[_header(len(pairs)) :]
                yield


def _part(manager: TopicManager) -> Part:
    parts = asdict(manager)
    records = [
        replace(each) if each.state is NumberState.PENDING or each.deps is None else each
        for each in parts.pop("records").values()
    ]
    head = _map(len(parts) + 1) + b"".join(map(_encoder.encode, _flat(parts))) + _encoder.encode("records")
    return head + b"\xdf" + len(records).to_bytes(4, "big"), records


def _flat(parts: dict[str, Any]) -> Iterator[Any]:
    for each in parts.items():
        yield from each


def _header(count: int) -> int:
    """Return how many bytes MessagePack has in front of a list of so many parts, at most 65,535."""
    return 1 if count < 16 else 3


def _map(count: int) -> bytes:
    """Return what MessagePack has in front of a map of so many entries."""
    return b"\xde" + count.to_bytes(2, "big")
