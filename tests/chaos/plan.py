"""Which faults come when: drawn from a seed before anything runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

LEASE = 2.0
"""Seconds after which a silent worker is taken for gone."""
SESSION_TIMEOUT = 8.0
"""Seconds after which the session of a silent client ends."""
LONG_ABSENCES = 0.3
"""The share of absences that go beyond the session, where the run leaves room for them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at: s from the beginning of the faults.
        kind: one of :data:`KINDS`.
        target: ``stage 0`` (the worker that has it then), or the name of a client.
        seconds: how long it lasts.
        way: of a stall: ``up`` (towards the server), ``down`` or ``both``; of an absence: ``kill``, ``close`` or
            ``stop``.
        whose: of a break before a worker: connections of ``clients``, of other ``workers``, or of ``all``.
        seed: for what it draws itself, when it knows more.
    """

    at: float
    kind: str
    target: str = ""
    seconds: float = 0.0
    way: str = ""
    whose: str = ""
    seed: int = 0

    def __str__(self) -> str:
        parts = [f"{self.at:6.2f} s", self.kind, self.target, self.way, self.whose]
        return " ".join([*filter(None, parts), *([f"for {self.seconds:.2f} s"] if self.seconds else [])])


@dataclass(frozen=True, slots=True)
class Shape:
    """What there is to break.

    Attributes:
        stages: how many.
        clients: names; ``wanderers``: those whose subscription changes; ``durables``: those that come back to theirs.
        has_store_way: the store is reached over a network.
        only: kinds that may come; all of them if empty.
        pause: seconds between two faults, on average.
    """

    stages: int
    clients: tuple[str, ...]
    wanderers: tuple[str, ...]
    durables: tuple[str, ...] = ()
    has_store_way: bool = False
    only: frozenset[str] = field(default_factory=frozenset)
    pause: float = 0.8


class Dice:
    """What faults are drawn from, within the ``seconds`` of a run."""

    def __init__(self, seed: int, shape: Shape, seconds: float) -> None:
        self.rng, self.shape, self.seconds = random.Random(seed), shape, seconds

    def stage(self) -> str:
        return f"stage {self.rng.randrange(self.shape.stages)}"

    def client(self) -> str:
        return self.rng.choice(self.shape.clients)

    def way(self) -> str:
        return self.rng.choice(("up", "down", "both"))

    def whose(self) -> str:
        return self.rng.choice(("clients", "workers", "all"))


def kill_worker(dice: Dice, at: float) -> Fault:
    """kill -9; started again after a while, as a supervisor would."""
    return Fault(at, "kill_worker", dice.stage(), round(dice.rng.uniform(0, 0.6), 3))


def stop_worker(dice: Dice, at: float) -> Fault:
    """SIGSTOP, SIGCONT: mostly beyond the lease."""
    return Fault(at, "stop_worker", dice.stage(), round(dice.rng.uniform(0.7, 1.8) * LEASE, 3))


def take_over(dice: Dice, at: float) -> Fault:
    """A standby is started anew with ``--take-over``: whoever has its stages loses them while it lives."""
    return Fault(at, "take_over", dice.stage(), seed=dice.rng.randrange(2**31))


def cut_worker(dice: Dice, at: float) -> Fault:
    """Connections to a worker are reset."""
    return Fault(at, "cut_worker", dice.stage(), whose=dice.whose())


def stall_worker(dice: Dice, at: float) -> Fault:
    """Connections to a worker carry nothing, one way or both."""
    return Fault(at, "stall_worker", dice.stage(), round(dice.rng.uniform(0.3, 4), 3), dice.way(), dice.whose())


def delay_worker(dice: Dice, at: float) -> Fault:
    """Everything from and to a worker takes longer."""
    return Fault(at, "delay_worker", dice.stage(), round(dice.rng.uniform(0.5, 3), 3))


def cut_broker(dice: Dice, at: float) -> Fault:
    """A client's connection to its broker is reset."""
    return Fault(at, "cut_broker", dice.client())


def stall_broker(dice: Dice, at: float) -> Fault:
    """It carries nothing, one way or both."""
    return Fault(at, "stall_broker", dice.client(), round(dice.rng.uniform(0.3, 4), 3), dice.way())


def cut_store(dice: Dice, at: float) -> Fault:
    """A worker's connections to its store are reset."""
    return Fault(at, "cut_store", dice.stage())


def stall_store(dice: Dice, at: float) -> Fault:
    """They carry nothing, one way or both."""
    return Fault(at, "stall_store", dice.stage(), round(dice.rng.uniform(0.3, 1.5 * LEASE), 3), dice.way())


def kill_broker(dice: Dice, at: float) -> Fault:
    """kill -9 of the broker, which forgets everything; started again after a while."""
    return Fault(at, "kill_broker", seconds=round(dice.rng.uniform(0, 1.0), 3))


def kill_store(dice: Dice, at: float) -> Fault:
    """kill -9 of the database; started again after a while."""
    return Fault(at, "kill_store", seconds=round(dice.rng.uniform(0, 1.0), 3))


def kill_client(dice: Dice, at: float) -> Fault:
    """kill -9; started again at once."""
    return Fault(at, "kill_client", dice.client())


def stop_client(dice: Dice, at: float) -> Fault:
    """SIGSTOP, SIGCONT."""
    return Fault(at, "stop_client", dice.client(), round(dice.rng.uniform(0.3, 4), 3))


def send_away(dice: Dice, at: float) -> Fault:
    """A durable subscriber is killed, closed or stopped, and comes back later: sometimes when its session has ended."""
    way, seconds = dice.rng.choice(("kill", "close", "stop")), dice.rng.uniform(0.2, 2.0)
    beyond = dice.rng.uniform(1.1, 1.4) * SESSION_TIMEOUT
    if dice.rng.random() < LONG_ABSENCES and at + beyond < dice.seconds:
        seconds = beyond
    return Fault(at, "send_away", dice.rng.choice(dice.shape.durables), round(seconds, 3), way)


def change_order(dice: Dice, at: float) -> Fault:
    """Topics move to other stages."""
    return Fault(at, "change_order", seed=dice.rng.randrange(2**31))


def change_subscription(dice: Dice, at: float) -> Fault:
    """A subscriber takes or leaves a topic."""
    return Fault(at, "change_subscription", dice.rng.choice(dice.shape.wanderers), seed=dice.rng.randrange(2**31))


Draw = Callable[[Dice, float], Fault]

KINDS: dict[str, tuple[Draw, int]] = {
    each.__name__: (each, weight)
    for each, weight in (
        (kill_worker, 4),
        (stop_worker, 2),
        (take_over, 2),
        (cut_worker, 3),
        (stall_worker, 3),
        (delay_worker, 1),
        (cut_broker, 2),
        (stall_broker, 2),
        (cut_store, 2),
        (stall_store, 2),
        (kill_broker, 1),
        (kill_store, 1),
        (kill_client, 2),
        (stop_client, 1),
        (send_away, 4),
        (change_order, 3),
        (change_subscription, 5),
    )
}
"""By name: what draws it, and how often it comes among all."""


def plan(seed: int, seconds: float, shape: Shape) -> list[Fault]:
    """Return the faults of a run. Each kind comes once before any comes again by chance, so that short runs have seen
    as many as they can."""
    dice, faults = Dice(seed, shape, seconds), []
    at, kinds = 0.0, _kinds(dice)
    while (at := at + dice.rng.uniform(0.2, 1.8) * shape.pause) < seconds:
        draw, _ = KINDS[next(kinds)]
        faults.append(draw(dice, round(at, 3)))
    return faults


def _kinds(dice: Dice) -> Iterator[str]:
    shape = dice.shape
    possible = [each for each in KINDS if not shape.only or each in shape.only]
    if not shape.has_store_way:
        possible = [each for each in possible if not each.endswith("_store")]
    if not shape.wanderers:
        possible = [each for each in possible if each != "change_subscription"]
    if not shape.durables:
        possible = [each for each in possible if each != "send_away"]
    once = list(possible)
    dice.rng.shuffle(once)
    yield from once
    while True:
        yield dice.rng.choices(possible, [KINDS[each][1] for each in possible])[0]
