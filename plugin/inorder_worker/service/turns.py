"""Queues of several clients are emptied in turns, and a dear request costs its client and its owner later turns."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K")

REMEMBERED: Final = 10_000
"""Names whose costs are known at a time; of more those are forgotten that have had nothing done for longest."""


class Shares(Generic[K]):
    """Shares give the next turn to a waiting name, so that all names together pay the same for their turns (start-time
    fair queueing).

    A cost is told when it is known, behind the turn. A name that comes has saved nothing up by not coming before; and
    when no name waits any more, all costs are forgotten.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, K]] = []
        """A heap: the point from which it is a name's turn, never too late, and in which order names came."""
        self._paid: OrderedDict[K, float] = OrderedDict()  # up to which point each has had its share
        self._now = 0.0  # the point at which the last turn began
        self._came = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __iter__(self) -> Iterator[K]:
        return (name for _, _, name in self._waiting)

    def join(self, name: K) -> None:
        """Let a name wait that does not."""
        heappush(self._waiting, self._place(name))

    def first(self) -> K:
        """Return the name whose turn it is. There must be one."""
        while True:
            point, _, name = self._waiting[0]
            if self._paid.get(name, 0.0) <= point:
                self._now = point
                return name
            heapreplace(self._waiting, self._place(name))

    def pass_on(self, *, waits: bool) -> None:
        """The first one has had its turn. ``waits``: for another one, too."""
        name = self._waiting[0][2]
        if waits:
            heapreplace(self._waiting, self._place(name))
        else:
            heappop(self._waiting)
            self._forget_all_if_idle()

    def leave(self, name: K) -> None:
        """A name does not wait any more. It takes a look at all of them."""
        self._waiting = [each for each in self._waiting if each[2] != name]
        heapify(self._waiting)
        self._forget_all_if_idle()

    def charge(self, name: K, cost: float) -> None:
        """Add the cost of a turn to a name."""
        if self._waiting:
            self._paid[name] = max(self._paid.pop(name, 0.0), self._now) + cost
            if len(self._paid) > REMEMBERED:
                self._paid.popitem(last=False)

    def _place(self, name: K) -> tuple[float, int, K]:
        self._came += 1
        return max(self._paid.get(name, 0.0), self._now), self._came, name

    def _forget_all_if_idle(self) -> None:
        if not self._waiting:
            self._paid.clear()
            self._now = 0.0


class _Owned:
    """The clients of one owner that wait, and how many things they want done in all."""

    __slots__ = ("count", "names")

    def __init__(self) -> None:
        self.names = Shares[str]()
        self.count = 0


Whose = tuple[str, str]
"""(owner, empty) or, where there is none, (empty, name)."""


class Turns(Generic[T]):
    """Turns take items out of queues, so that the items of all owners cost the same, and so do those of their names.

    Items of one name stay in their order, whoever owns them.

    A name without an owner has a share of its own.
    """

    def __init__(self) -> None:
        self._queues: dict[str, deque[T]] = {}  # never an empty queue
        self._whose: dict[str, Whose] = {}  # of each queue; it is that of its first item
        self._shares = Shares[Whose]()
        self._owned: dict[Whose, _Owned] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, name: str, item: T, owner: str = "") -> None:
        """Add an item behind all others of that name."""
        self._queue(name, owner).append(item)

    def put_first(self, name: str, item: T, owner: str = "") -> None:
        """Add an item before all others of that name."""
        self._queue(name, owner).appendleft(item)

    def take(self) -> T:
        """Take out the item whose turn it is. There must be one."""
        whose = self._shares.first()
        owned = self._owned[whose]
        name = owned.names.first()
        queue = self._queues[name]
        item = queue.popleft()
        owned.names.pass_on(waits=bool(queue))
        self._shares.pass_on(waits=bool(owned.names))
        self._taken(whose, name)
        return item

    def charge(self, name: str, cost: float, owner: str = "") -> None:
        """Add the cost of an item that was taken out to its name and owner; the unit is the same for all."""
        whose = _whose(name, owner)
        self._shares.charge(whose, cost)
        if (owned := self._owned.get(whose)) is not None:
            owned.names.charge(name, cost)

    def make_room(self, name: str, owner: str = "") -> bool:
        """Take out the last item of the owner with the most items, and tell whether there was one to take.

        An owner loses none to another one that has as many, or one less; nor does a name to one of its owner.
        """
        if not self._owned:
            return False
        whose, own = max(self._owned.items(), key=lambda each: each[1].count)
        longest = max(own.names, key=lambda each: len(self._queues[each]))
        if whose == _whose(name, owner):
            more = len(self._queues[longest]) - len(self._queues.get(name, ()))
        else:
            has = self._owned.get(_whose(name, owner))
            more = own.count - (has.count if has is not None else 0)
        if more < 2:
            return False
        queue = self._queues[longest]
        queue.pop()
        if not queue:
            own.names.leave(longest)
        if not own.names:
            self._shares.leave(whose)
        self._taken(whose, longest)
        return True

    def _queue(self, name: str, owner: str) -> deque[T]:
        """Return the queue of a name; an item comes into it."""
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = deque()
            whose = self._whose[name] = _whose(name, owner)
            if whose not in self._owned:
                self._owned[whose] = _Owned()
                self._shares.join(whose)
            self._owned[whose].names.join(name)
        self._owned[self._whose[name]].count += 1
        self._count += 1
        return queue

    def _taken(self, whose: Whose, name: str) -> None:
        """Count an item that has been taken out of the queue of a name."""
        owned = self._owned[whose]
        owned.count -= 1
        self._count -= 1
        if not self._queues[name]:
            del self._queues[name], self._whose[name]
        if not owned.count:
            del self._owned[whose]


def _whose(name: str, owner: str) -> Whose:
    return (owner, "") if owner else ("", name)
