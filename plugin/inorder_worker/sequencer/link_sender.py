"""The sending end of a connection between two workers: what was sent, and what may be sent now. No I/O.

Exactly once, in order: rides are numbered per pair of stages; a connection begins behind the last number that the
other end holds durably, and goes on from there without a hole. The rides themselves stay in their stage's state until
they are acknowledged, so a connection can be given up at any moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import msgspec

from inorder.errors import ProtocolError
from inorder.protocol.wire import encode_frame
from inorder_worker.sequencer.commands import Send
from inorder_worker.sequencer.link_wire import Rides, encode_ride

FRAME_BYTES = 256 * 1024
"""A frame is closed when it is this long; one ride alone may be longer."""
MAX_RIDES = 256
"""Rides in one frame."""


class LinkSender:
    """The progress of one connection between stages.

    Args:
        received: the last durable ride of each origin, as the other end said in its welcome.
        max_bytes: how much may be under way, sent and not durable; a single frame may go beyond.
    """

    def __init__(self, received: Mapping[int, int], max_bytes: int) -> None:
        self._sent = dict(received)
        self._durable = dict(received)
        self._max_bytes = max_bytes
        self._under_way: dict[int, deque[tuple[int, int]]] = {origin: deque() for origin in received}
        self.bytes_under_way = 0

    @property
    def has_room(self) -> bool:
        """Another frame may leave."""
        return self.bytes_under_way < self._max_bytes

    def sent(self, origin: int) -> int:
        """Return the number of the last ride of that stage that was sent."""
        return self._sent[origin]

    def frame(self, origin: int, sends: Iterable[Send]) -> bytes:
        """Return a frame with the first of these rides, which follow what was sent; there is at least one."""
        first = self._sent[origin] + 1
        raws: list[msgspec.Raw] = []
        size, last = 0, first - 1
        for send in sends:
            if send.number != last + 1:
                raise ValueError(f"ride {send.number} of stage {origin} does not follow {last}")
            raw = encode_ride(send.ride)
            if raws and size + len(raw) > FRAME_BYTES:
                break
            raws.append(raw)
            size += len(raw)
            last = send.number
        data = encode_frame(Rides(origin, first, raws))
        self._sent[origin] = last
        self._under_way[origin].append((last, len(data)))
        self.bytes_under_way += len(data)
        return data

    def durable(self, origin: int, number: int) -> None:
        """The other end has made rides up to ``number`` durable. Raises ProtocolError for one that was not sent."""
        if not self._durable.get(origin, number + 1) <= number <= self._sent[origin]:
            raise ProtocolError(f"the other worker acknowledges ride {number} of stage {origin}, which was not sent")
        self._durable[origin] = number
        under_way = self._under_way[origin]
        while under_way and under_way[0][0] <= number:
            self.bytes_under_way -= under_way.popleft()[1]
