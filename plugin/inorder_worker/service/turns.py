"""What several clients want done, one of each in turn."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Queues by name, from which items are taken in turn: who has put many in has them done one by one, and whoever
    comes later waits for no more than one of each. Items of one name stay in their order."""

    def __init__(self) -> None:
        self._queues: OrderedDict[str, deque[T]] = OrderedDict()  # whose turn is next is first; never an empty queue
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, name: str, item: T) -> None:
        """Add an item behind all others of that name."""
        self._queues.setdefault(name, deque()).append(item)
        self._count += 1

    def put_first(self, name: str, item: T) -> None:
        """Add an item before all others; it is that name's turn."""
        self._queues.setdefault(name, deque()).appendleft(item)
        self._queues.move_to_end(name, last=False)
        self._count += 1

    def take(self) -> T:
        """Take out the item whose turn it is. There must be one."""
        name, items = next(iter(self._queues.items()))
        item = items.popleft()
        self._count -= 1
        if items:
            self._queues.move_to_end(name)
        else:
            del self._queues[name]
        return item

    def make_room(self, name: str) -> bool:
        """Take out the last item of whoever has the most, if that is at least two more than that name has; tell whether
        it was done."""
        items = max(self._queues.values(), key=len, default=())
        if len(items) < len(self._queues.get(name, ())) + 2:
            return False
        assert isinstance(items, deque)
        items.pop()
        self._count -= 1
        return True
