"""What must hold in every state, and at every end.

In every state: total order, per-topic and publisher order of what was notified so far, and no circle among timestamps.
At an end, when nothing moves any more and time has passed: everything was delivered, or is void. Each check depends on
the states of a few actors, and is done once for each combination of them.
"""

from __future__ import annotations

from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Any, TypeVar

from tests.core.clients import Answer, Client, Question
from tests.core.table import history_of
from tests.explorer.model import LATER, LINGER_MS, Model, Move, State

from inorder.endpoint.publications import PublicationState
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import NumberState
from inorder_analytics.checks import CHECKS, History, Place, SubscriberHistory, check_dependencies, violations
from inorder_worker.sequencer.stage import Stage

PROMISES = tuple(each for each in CHECKS if each is not check_dependencies)
"""That events wait for their dependencies is how the promises are kept; explored is whether they are kept without."""
ROUNDS = 10
"""Questions and answers until every void number is known."""
Actors = tuple[int, ...]
"""The states of some actors."""
T = TypeVar("T")


class Checks:
    """The checks of one model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._found: dict[tuple[Any, ...], Any] = {}

    def _once(self, check: Callable[..., T], *of: Any) -> T:
        key = check.__name__, *of
        if key not in self._found:
            self._found[key] = check(*of)
        found: T = self._found[key]
        return found

    def _parts(self, state: State) -> tuple[Actors, Actors, Actors]:
        stages, first = self._model.stages, self._model.first_reader
        return state.actors[:stages], state.actors[stages:first], state.actors[first:]

    # -- in every state ----------------------------------------------------------------------------------------

    def after(self, state: State, move: Move) -> list[str]:
        """Return what is broken in a state that a move led to."""
        _, writers, readers = self._parts(state)
        if move.actor < self._model.stages:
            return []
        if move.actor < self._model.first_reader:
            return self._once(self._circles, writers)
        changed = state.actors[move.actor]
        at = move.actor - self._model.first_reader
        twos = [(other, changed) for other in readers[:at]] + [(changed, other) for other in readers[at:]]
        return [sentence for two in twos for sentence in self._once(self._two_so_far, writers, *two)]

    def _two_so_far(self, writers: Actors, *readers: int) -> list[str]:
        # without their spans: what is still on its way is not missing yet
        logs = [SubscriberHistory(each.name, each.mode, each.notified) for each in self._histories(readers)]
        return self._broken(writers, logs)

    def _histories(self, readers: Actors) -> list[SubscriberHistory]:
        return [each.history for each in self._clients(readers)]

    def _client(self, actor: int) -> Client:
        return self._model.client(actor)

    def _clients(self, actors: Actors) -> list[Client]:
        return [self._once(self._client, each) for each in actors]

    def _broken(
        self, writers: Actors, logs: list[SubscriberHistory], numbers: dict[Place, NumberState] | None = None
    ) -> list[str]:
        history: History = history_of(self._clients(writers), LINGER_MS / 1000)
        history.subscribers = {each.name: each for each in logs}
        history.topics = self._model.topics
        for (topic, number), state in (numbers or {}).items():
            history.states[topic, number] = state.name
            if state is not NumberState.VOID:
                history.heads[topic] = max(number, history.heads.get(topic, 0))
        return [str(each) for each in violations(history, PROMISES)]

    def _circles(self, writers: Actors) -> list[str]:
        graph: dict[Place, set[Place]] = {}
        names: dict[Place, str] = {}
        for role in self._clients(writers):
            for event, (topic, number), deps, _ in role.stamped:
                names[topic, number] = role.labels[event[1:]]
                # "everything up to": what has a lower number, too
                graph[topic, number] = {(topic, number - 1), *pairs(deps)}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            return ["circle: " + " before ".join(names.get(place, str(place)) for place in error.args[1])]
        return []

    # -- at an end ---------------------------------------------------------------------------------------------

    def at_an_end(self, state: State) -> list[str]:
        """Return what is broken where nothing moves any more."""
        stages, writers, readers = self._parts(state)
        found = list(self._once(self._unanswered, writers))
        for each in readers:
            found += self._once(self._one_at_the_end, stages, writers, each)
        for one, two in combinations(readers, 2):
            found += self._once(self._two_at_the_end, stages, writers, one, two)
        return found

    def _unanswered(self, writers: Actors) -> list[str]:
        return [
            f"deadlock: {role.name} got no answer for {label}"
            for role in self._clients(writers)
            for label, each in role.publications.items()
            if each.state in (PublicationState.QUEUED, PublicationState.REQUESTED)
        ]

    def _one_at_the_end(self, stages: Actors, writers: Actors, reader: int) -> list[str]:
        role = self._once(self._much_later, stages, reader)
        found = self._broken(writers, [role.history], self._once(self._numbers, stages))
        if role.waiting or role.subscriber.change is not None:
            found.append(f"deadlock: {role.name} waits for ever with {role.waiting}, clock {role.module.clock}")
        return found

    def _two_at_the_end(self, stages: Actors, writers: Actors, *readers: int) -> list[str]:
        logs = [self._once(self._much_later, stages, each).history for each in readers]
        if [len(each.notified) for each in logs] == [len(each.notified) for each in self._histories(readers)]:
            return []  # seen in the states before
        return self._broken(writers, logs, self._once(self._numbers, stages))

    def _much_later(self, stages: Actors, reader: int) -> Client:
        """Return a reader after it asked what became of missing numbers, until nothing is missing any more (R17)."""

        def answer(stage: int, question: Question) -> Answer:
            return self._model.answer(self._once(self._stage, stages[stage]), question)

        client = self._model.client(reader)
        for round_ in range(1, ROUNDS):
            client.wait(LATER + 2.0 * round_)
            client.put_questions(answer)
        client.end_spans()
        return client

    def _stage(self, stage: int) -> Stage:
        return self._model.stage(stage)

    def _numbers(self, stages: Actors) -> dict[Place, NumberState]:
        """Return what the stages know of each number."""
        return {
            (record.topic, record.number): record.state
            for stage in (self._once(self._stage, each) for each in stages)
            for manager in stage._state.topics.values()
            if manager.stage == stage.index
            for record in manager.records.values()
        }

    # -- words -------------------------------------------------------------------------------------------------

    def notified(self, state: State) -> tuple[str, ...]:
        """Return what each reader was notified of, and what waits there."""
        _, _, readers = self._parts(state)
        return tuple(self._once(self._had, each) for each in readers)

    def _had(self, reader: int) -> str:
        role = self._once(self._client, reader)
        waiting = f"; waiting: {', '.join(role.waiting)}" if role.waiting else ""
        return f"{role.name} had {', '.join(role.words) or 'nothing'}{waiting}"
