"""Shared topics: the topics of each client, the overlap of clients, and the pairs of topics that must be sequenced.

Two topics are in each other's sequencing group where two or more subscribers have both (DESIGN, "Vocabulary"); such a
pair costs an entry in timestamps, and where their stages differ, the ride of the lower topic's timestamps up to the
higher one's stage (R2). Here everything is computed from filters and topics as the workers tell them; topics that
linger (R10) are not among them.

Sets are bit sets over the positions of topics in a list, and all answers are bounded: there may be a thousand clients
with ten thousand topics.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, islice
from operator import or_
from typing import Final

from inorder.protocol.names import Filter, FilterKind
from inorder_worker.sequencer.bits import members, shared_twice

MAX_PAIRS_LOOKED_AT: Final = 100_000
"""Pairs of topics that are compared one by one; beyond it the costliest are those of the pairs seen so far, which begin
with the topics that have the costliest ones."""
_LITERAL: Final = re.compile(r"[^*?\[\\]*")


class Names:
    """The topic names of one space in a tree that finds the covered ones without trying all.

    Args:
        topics: position and name of each.
    """

    def __init__(self, topics: Iterable[tuple[int, str]]) -> None:
        self._positions: dict[str, int] = {}
        self._root = _Level()
        for position, name in topics:
            self._positions[name] = position
            self._root.add(name.split("/"), 1 << position)
        self._sorted = sorted(self._positions)

    def covered(self, filter: Filter) -> int:
        """Return the topics that a filter covers, as :meth:`inorder.protocol.names.Filter.covers` does."""
        if filter.kind is FilterKind.EXACT:
            position = self._positions.get(filter.name)
            return 0 if position is None else 1 << position
        if filter.kind is FilterKind.MQTT:
            return self._root.covered(filter.text.split("/"), is_first=True)
        literal = _LITERAL.match(filter.text)
        prefix = literal.group() if literal else ""
        found = 0
        for name in self._sorted[bisect_left(self._sorted, prefix) :]:
            if not name.startswith(prefix):
                break
            if filter.covers(name):
                found |= 1 << self._positions[name]
        return found


class _Level:
    """A level of topic names: the topic that ends here, all topics that begin so, and the levels below."""

    __slots__ = ("all", "below", "here")

    def __init__(self) -> None:
        self.here = self.all = 0
        self.below: dict[str, _Level] = {}

    def add(self, levels: Sequence[str], bit: int) -> None:
        level = self
        level.all |= bit
        for each in levels:
            level = level.below.setdefault(each, _Level())
            level.all |= bit
        level.here |= bit

    def covered(self, wanted: Sequence[str], *, is_first: bool = False) -> int:
        if not wanted:
            return self.here
        first, rest = wanted[0], wanted[1:]
        if first == "#":  # wildcards never cover a leading $ (MQTT 5, section 4.7.2)
            hidden = sum(each.all for name, each in self.below.items() if name.startswith("$")) if is_first else 0
            return self.all & ~hidden
        if first == "+":
            found = 0
            for name, each in self.below.items():
                if not (is_first and name.startswith("$")):
                    found |= each.covered(rest)
            return found
        level = self.below.get(first)
        return level.covered(rest) if level is not None else 0


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the computation of overlaps. ``rate``: timestamps per second, ``None`` where that is not known."""

    space: str
    name: str
    stage: int
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class ClientPair:
    """Two clients (positions among the clients) and how many topics they share; ``first_topics``: some of them."""

    one: int
    other: int
    shared: int
    first_topics: list[int]


@dataclass(frozen=True, slots=True)
class TopicPair:
    """Two topics (positions) that must be sequenced, the lower one in the topic order first; how many clients have
    both, and how many stages the lower one's timestamps ride up for it."""

    lower: int
    higher: int
    subscribers: int
    stages_apart: int


@dataclass(frozen=True, slots=True)
class Overlap:
    """The shared topics of all clients.

    Attributes:
        clients: those that share most (positions), by how much.
        matrix: the topics that each two of them share; in the diagonal, those that one has.
        pairs: of them, by what they share.
        topic_pairs: the pairs of topics that cost most, see :func:`overlap`.
        topic_pairs_total: how many pairs of topics must be sequenced.
    """

    clients: list[int]
    matrix: list[list[int]]
    pairs: list[ClientPair]
    topic_pairs: list[TopicPair]
    topic_pairs_total: int


def subscribed(topics: Sequence[Topic], clients: Iterable[Iterable[tuple[str, Filter]]]) -> list[int]:
    """Return the topics of each client from its filters and their spaces."""
    by_space: dict[str, list[tuple[int, str]]] = {}
    for position, topic in enumerate(topics):
        by_space.setdefault(topic.space, []).append((position, topic.name))
    names = {space: Names(each) for space, each in by_space.items()}
    known: dict[tuple[str, Filter], int] = {}
    masks = []
    for filters in clients:
        mask = 0
        for space, filter in filters:
            covered = known.get((space, filter))
            if covered is None:
                covered = known[space, filter] = names[space].covered(filter) if space in names else 0
            mask |= covered
        masks.append(mask)
    return masks


def subscribers(count: int, masks: Iterable[int]) -> list[int]:
    """Return how many clients have each of ``count`` topics."""
    planes = [format(plane, f"0{count}b")[::-1] for plane in _counted(masks)]
    return [sum((digit == "1") << at for at, digit in enumerate(digits)) for digits in zip(*planes, strict=True)] or [
        0
    ] * count


def overlap(topics: Sequence[Topic], masks: Sequence[int], limit: int, named: int = 20) -> Overlap:
    """Return the shared topics of all clients.

    Pairs of topics come by what they cost: the stages that the lower one's timestamps ride up for the higher one, times
    its rate where rates are known; then the stages apart; then how many clients have both.

    Args:
        topics, masks: see :func:`subscribed`.
        limit: clients and pairs at most.
        named: topics that are named of a pair of clients at most.
    """
    chosen = _sharing_most(masks, limit)
    matrix = [[(masks[one] & masks[other]).bit_count() for other in chosen] for one in chosen]
    found = [(matrix[i][j], chosen[i], chosen[j]) for i, j in combinations(range(len(chosen)), 2) if matrix[i][j]]
    best = heapq.nsmallest(limit, found, key=lambda each: (-each[0], each[1:]))
    pairs = [ClientPair(one, other, shared, _first(masks[one] & masks[other], named)) for shared, one, other in best]
    topic_pairs, total = _sequenced(topics, masks, limit)
    return Overlap(chosen, matrix, pairs, topic_pairs, total)


def groups(topics: Sequence[Topic], clients: Iterable[Iterable[tuple[str, Filter]]]) -> dict[int, int]:
    """Return the sequencing group of each topic that has one, as a bit set; by position, see :func:`subscribed`."""
    return {at: group for at, (group, _) in _groups(len(topics), subscribed(topics, clients)).items()}


def _sharing_most(masks: Sequence[int], limit: int) -> list[int]:
    """Return the clients whose topics most others have too; of equals, the first."""
    planes = _counted(masks)

    def shared(client: int) -> int:
        mask = masks[client]
        return sum((mask & plane).bit_count() << at for at, plane in enumerate(planes)) - mask.bit_count()

    return heapq.nsmallest(limit, range(len(masks)), key=lambda each: (-shared(each), each))


def _counted(masks: Iterable[int]) -> list[int]:
    """Return how many clients have each topic, in binary with one plane of bits for each digit."""
    planes: list[int] = []
    for mask in masks:
        carry = mask
        for at, plane in enumerate(planes):
            planes[at], carry = plane ^ carry, plane & carry
            if not carry:
                break
        if carry:
            planes.append(carry)
    return planes


def _first(bits: int, count: int) -> list[int]:
    return list(islice(members(bits), count))


def _sequenced(topics: Sequence[Topic], masks: Sequence[int], limit: int) -> tuple[list[TopicPair], int]:
    """Return the costliest pairs of topics that two or more clients have, and the number of all pairs."""
    found = _groups(len(topics), masks)
    total = sum(group.bit_count() for group, _ in found.values()) // 2
    on_stage: dict[int, int] = {}
    for position, topic in enumerate(topics):
        on_stage[topic.stage] = on_stage.get(topic.stage, 0) | 1 << position
    stages = sorted(on_stage)
    up_to = dict(zip(stages, accumulate((on_stage[each] for each in stages), or_), strict=True))

    def reach(position: int) -> tuple[float, int]:
        """Return the cost of a topic's dearest pair, which is with the highest stage of its group."""
        stage, group = topics[position].stage, found[position][0]
        apart = stage - next((each for each in stages if group & on_stage[each]), stage)
        return apart * (topics[position].rate or 0.0), max(0, apart)

    heap: list[tuple[tuple[float, int, int, int, int], TopicPair]] = []
    looked_at = 0
    for position in sorted(found, key=lambda each: (reach(each), -each), reverse=True):
        if looked_at >= MAX_PAIRS_LOOKED_AT or (len(heap) == limit and heap[0][0][:2] > reach(position)):
            break
        group, clients = found[position]
        stage = topics[position].stage
        for other in members(group & up_to[stage]):
            apart = stage - topics[other].stage
            if apart == 0 and other < position:
                continue  # looked at from the other one
            looked_at += 1
            pair = TopicPair(position, other, (clients & found[other][1]).bit_count(), apart)
            cost = apart * (topics[position].rate or 0.0)
            entry = ((cost, apart, pair.subscribers, -position, -other), pair)
            if len(heap) < limit:
                heapq.heappush(heap, entry)
            elif entry > heap[0]:
                heapq.heapreplace(heap, entry)
            if looked_at >= MAX_PAIRS_LOOKED_AT:
                break
    return [pair for _, pair in sorted(heap, reverse=True)], total


def _groups(count: int, masks: Sequence[int]) -> Mapping[int, tuple[int, int]]:
    """Return the sequencing group of each topic with its clients; topics without a group are left out. Topics with the
    same clients have the same group, itself apart, so it is computed once for them."""
    texts = [format(mask, f"0{count}b") for mask in reversed(masks)]
    columns = [int("".join(column), 2) for column in zip(*texts, strict=True)] if texts and count else []
    columns.reverse()
    known: dict[int, int] = {}
    found: dict[int, tuple[int, int]] = {}
    for position, clients in enumerate(columns):
        if clients.bit_count() < 2:
            continue
        twice = known.get(clients)
        if twice is None:
            _, twice = shared_twice(masks[each] for each in members(clients))
            known[clients] = twice
        group = twice & ~(1 << position)
        if group:
            found[position] = (group, clients)
    return found
