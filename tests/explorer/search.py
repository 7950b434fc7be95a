"""The search: every reachable state once, checked; the way to the first violation as sentences."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from tests.explorer.checks import Checks
from tests.explorer.configs import Config
from tests.explorer.model import Model, Move, State


@dataclass(slots=True)
class Found:
    """What a search found.

    Attributes:
        states, moves, ends: how many states, moves between them, and states without a move.
        is_complete: all states were seen; else the limit was reached.
        violations: what is broken in the first bad state, and
        trace: the way there.
        outcomes: what readers had at the ends, each combination once.
    """

    states: int = 0
    moves: int = 0
    ends: int = 0
    seconds: float = 0.0
    is_complete: bool = False
    violations: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    outcomes: set[tuple[str, ...]] = field(default_factory=set)

    def __str__(self) -> str:
        how = "all states" if self.is_complete else "not all states"
        text = f"{self.states} states ({how}), {self.moves} moves, {self.ends} ends, {len(self.outcomes)} outcomes"
        text = f"{text}, {self.seconds:.1f} s"
        steps = [f"  {at:2} {each}" for at, each in enumerate(self.trace, start=1)]
        return "\n".join([text, *steps, *self.violations])

    def facts(self) -> dict[str, object]:
        """Return everything as JSON can have it; of the outcomes, how many there are."""
        return {**asdict(self), "outcomes": len(self.outcomes)}


def explore(config: Config, max_states: int = 1_000_000, *, reduced: bool = True) -> Found:
    """Explore a configuration depth first, until a violation, the end or ``max_states``.

    ``reduced``: leave out moves that :meth:`Model.moves` shows to be covered.
    """
    began = time.perf_counter()
    model = Model(config)
    checks = Checks(model)
    moves_of: Callable[[State], list[Move]] = model.moves if reduced else model.all_moves
    found = Found()
    came: dict[State, tuple[State, Move] | None] = {model.start: None}
    stack = [model.start]
    while stack and not found.violations:
        state = stack.pop()
        moves = moves_of(state)
        if not moves:
            found.ends += 1
            found.outcomes.add(checks.notified(state))
            found.violations = checks.at_an_end(state)
        for move in moves:
            found.moves += 1
            after = model.apply(state, move)
            if after in came:
                continue
            came[after] = state, move
            found.violations = checks.after(after, move)
            if found.violations:
                state = after
                break
            stack.append(after)
        if len(came) >= max_states:
            break
    found.states = len(came)
    found.is_complete = not stack and not found.violations
    if found.violations:
        found.trace = _way_to(model, came, state) + list(checks.notified(state))
    found.seconds = time.perf_counter() - began
    return found


def _way_to(model: Model, came: dict[State, tuple[State, Move] | None], state: State) -> list[str]:
    way: list[str] = []
    while (step := came[state]) is not None:
        state, move = step
        way.append(model.describe(move))
    return way[::-1]
