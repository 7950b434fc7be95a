"""Plans of changes of the topic order (R14): the effects of a change without the change itself.

A change is given whole, as a swap of two topics, or as a move of one; all three become the whole new order, which a
worker takes. What it would cost is computed from the sequencing groups: a timestamp is made at its topic's stage and
passes every stage from there to the highest one with a topic of the group (R2), so it visits
``stage of the topic - highest stage of the group + 1`` stages. (A request that its publisher pipelines behind others
may enter lower, R19; nobody can tell that beforehand, so it is left out.)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from inorder_worker.sequencer.bits import bit_set

MAX_ERRORS: Final = 100
"""Topics that are named in one refusal; of more only the number is told."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """A topic in a plan.

    Attributes:
        id: its cluster-wide id.
        label: ``space:name``, for messages.
        stage: its stage now, 0 at the top.
        pinned: it stays on its stage (R15).
        rate: its timestamps per second, ``None`` where that is not known.
        group: its sequencing group, as a bit set over the places in ``topics`` of the plan.
    """

    id: int
    label: str
    stage: int
    pinned: bool = False
    rate: float | None = None
    group: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a change: ``where`` in the request's body, and why."""

    where: str
    message: str


class NotAnOrder(ValueError):
    """The requested order is no topic order, for its ``faults``: at most ``MAX_ERRORS`` of each kind."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("; ".join(each.message for each in faults[:3]))


@dataclass(frozen=True, slots=True)
class Moved:
    """One topic's old and new place; ranks count from 1, the highest, through all stages."""

    topic: int
    from_stage: int
    to_stage: int
    from_rank: int
    to_rank: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The effects of a change.

    Attributes:
        stages: the topics of each stage afterwards, in order.
        moves: the topics that change their stage and, of the others, the fewest whose moving makes the new order. Those
            that merely make room are not among them.
        visits_now, visits_then: the stages that a timestamp visits, in the mean.
        rates_known: that mean is weighted by the topics' rates; else every topic counts the same.
        warnings: what an operator should know before, in words.
    """

    stages: list[list[int]]
    moves: list[Moved]
    visits_now: float
    visits_then: float
    rates_known: bool
    warnings: list[str]


class PresentOrder:
    """The present topic order, from which changes are planned.

    Args:
        stages: topic ids of each stage, the highest first.
        topics: what is known of each. Groups are bit sets: ten thousand topics may each be in a group of all.
    """

    def __init__(self, stages: Sequence[Sequence[int]], topics: Mapping[int, Ordered]) -> None:
        self.stages = [list(each) for each in stages]
        self._topics = topics

    # -- a change, as the whole order that it makes ----------------------------------------------------------------

    def whole(self, stages: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return a requested whole order. Raises NotAnOrder naming every topic that is missing, repeated or unknown."""
        faults = []
        if len(stages) != len(self.stages):
            faults.append(Fault("stages", f"there are {len(self.stages)} stages, not {len(stages)}"))
        seen: set[int] = set()
        repeated, unknown = list[tuple[int, int]](), list[tuple[int, int]]()
        for at, stage in enumerate(stages):
            for place, topic in enumerate(stage):
                if topic not in self._topics:
                    unknown.append((at, place))
                elif topic in seen:
                    repeated.append((at, place))
                seen.add(topic)
        missing = [topic for stage in self.stages for topic in stage if topic not in seen]
        # a body may have ten thousand times as many as are told
        no_topics = [f"there is no topic {stages[at][place]}" for at, place in unknown[:MAX_ERRORS]]
        twice = [f"topic {self._name(stages[at][place])} is named twice" for at, place in repeated[:MAX_ERRORS]]
        lacking = [Fault("stages", f"topic {self._name(topic)} is missing") for topic in missing[:MAX_ERRORS]]
        for count, told in (
            (len(unknown), _at(unknown, no_topics)),
            (len(repeated), _at(repeated, twice)),
            (len(missing), lacking),
        ):
            faults += told
            if count > MAX_ERRORS:
                faults.append(Fault("stages", f"and {count - MAX_ERRORS} more like that"))
        if faults:
            raise NotAnOrder(faults)
        return [list(each) for each in stages]

    def swapped(self, one: int, other: int) -> list[list[int]]:
        """Return the order after two topics have changed places. Raises NotAnOrder."""
        faults = [
            Fault(f"swap.{at}", f"there is no topic {topic}")
            for at, topic in enumerate((one, other))
            if topic not in self._topics
        ]
        if not faults and one == other:
            faults = [Fault("swap", f"topic {self._name(one)} is named twice")]
        if faults:
            raise NotAnOrder(faults)
        places = {one: other, other: one}
        return [[places.get(topic, topic) for topic in stage] for stage in self.stages]

    def moved(self, topic: int, stage: int, rank: int | None = None) -> list[list[int]]:
        """Return the order after one topic has moved to a stage: to a rank (from 1, through all stages) that the stage
        covers then, or to its front. Raises NotAnOrder."""
        if topic not in self._topics:
            raise NotAnOrder([Fault("move.topic", f"there is no topic {topic}")])
        if not 0 <= stage < len(self.stages):
            allowed = f"0 to {len(self.stages) - 1}"
            raise NotAnOrder([Fault("move.stage", f"stage {stage} is not allowed; there are the stages {allowed}")])
        stages = [[each for each in members if each != topic] for members in self.stages]
        first = sum(map(len, stages[:stage])) + 1
        last = first + len(stages[stage])
        rank = first if rank is None else rank
        if not first <= rank <= last:
            span = str(first) if first == last else f"{first} to {last}"
            raise NotAnOrder([Fault("move.rank", f"rank {rank} is not allowed; on stage {stage} it would be {span}")])
        stages[stage].insert(rank - first, topic)
        return stages

    # -- what it would do ------------------------------------------------------------------------------------------

    def plan(self, stages: list[list[int]], named: Collection[int] = ()) -> Plan:
        """Return the effects of an order (see the methods above). ``named``: topics that are told of in any case, if
        their rank changes."""
        moves = moves_between(self.stages, stages, named)
        rates_known = any(each.rate for each in self._topics.values())
        now, then = self._visits(self.stages, rates_known), self._visits(stages, rates_known)
        return Plan(stages, moves, now, then, rates_known, self._warnings(stages, moves, now, then))

    def fixed(self, stages: Sequence[Sequence[int]]) -> list[int]:
        """Return the pinned topics that an order would move from their stage, which workers refuse (R15)."""
        return [
            topic
            for at, stage in enumerate(stages)
            for topic in stage
            if self._topics[topic].pinned and self._topics[topic].stage != at
        ]

    def _visits(self, stages: Sequence[Sequence[int]], rates_known: bool) -> float:
        home = {topic: at for at, stage in enumerate(stages) for topic in stage}
        places = {topic: at for at, topic in enumerate(self._topics)}
        on_stages = [bit_set([places[topic] for topic in stage]) for stage in stages]
        visits = weights = 0.0
        for topic, stage in home.items():
            known = self._topics[topic]
            weight = (known.rate or 0.0) if rates_known else 1.0
            if weight:
                top = next((at for at, its in enumerate(on_stages[:stage]) if its & known.group), stage)
                visits += weight * (stage - top + 1)
                weights += weight
        return round(visits / weights, 6) if weights else 1.0

    def _warnings(self, stages: Sequence[Sequence[int]], moves: Sequence[Moved], now: float, then: float) -> list[str]:
        warnings = []
        if not moves:
            warnings.append("that is the present topic order")
        if any(each.from_stage != each.to_stage for each in moves):
            warnings.append("topics change their stage: every publisher pauses for a moment while the order changes")
        if pinned := self.fixed(stages):
            names = ", ".join(map(self._name, pinned[:5])) + (", ..." if len(pinned) > 5 else "")
            warnings.append(f"pinned to their stage, so the change would be refused: {names}")
        if then > now * 1.001:
            warnings.append(f"a timestamp would visit {then:.2f} stages in the mean, {now:.2f} now")
        return warnings

    def _name(self, topic: int) -> str:
        return f"{topic} ({self._topics[topic].label})"


def _at(places: Sequence[tuple[int, int]], messages: Sequence[str]) -> list[Fault]:
    return [Fault(f"stages.{at}.{place}", message) for (at, place), message in zip(places, messages, strict=False)]


def moves_between(
    former: Sequence[Sequence[int]], stages: Sequence[Sequence[int]], named: Collection[int] = ()
) -> list[Moved]:
    """Return the moves from one order to another. Topics that only the later one has were made meanwhile: last in the
    order, on the bottom stage (R13)."""
    new = {topic for stage in stages for topic in stage} - {topic for stage in former for topic in stage}
    before, after = _places([*former[:-1], [*former[-1], *sorted(new)]]), _places(stages)
    staying = [topic for topic in after if before[topic][0] == after[topic][0]]
    still = _rising([before[topic][1] for topic in staying])
    movers = {topic for topic, is_still in zip(staying, still, strict=True) if not is_still}
    movers |= after.keys() - set(staying)
    movers |= {topic for topic in named if before[topic] != after[topic]}
    return [
        Moved(topic, before[topic][0], stage, before[topic][1], rank)
        for topic, (stage, rank) in after.items()
        if topic in movers
    ]


def _places(stages: Sequence[Sequence[int]]) -> dict[int, tuple[int, int]]:
    """Return stage and rank of each topic, by rank."""
    order = [(topic, at) for at, stage in enumerate(stages) for topic in stage]
    return {topic: (at, rank) for rank, (topic, at) in enumerate(order, 1)}


def _rising(numbers: Sequence[int]) -> list[bool]:
    """Tell which of these numbers belong to a longest rising subsequence."""
    ends: list[int] = []
    end_at: list[int] = []
    previous: list[int] = []
    for at, number in enumerate(numbers):
        place = bisect_left(ends, number)
        ends[place : place + 1] = [number]
        end_at[place : place + 1] = [at]
        previous.append(end_at[place - 1] if place else -1)
    chosen = [False] * len(numbers)
    at = end_at[-1] if end_at else -1
    while at >= 0:
        chosen[at] = True
        at = previous[at]
    return chosen
