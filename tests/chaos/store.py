"""What the store says: who has which stage, and at the end what became of each number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from inorder.protocol.pairs import pairs
from inorder_worker.service.following import recover
from inorder_worker.store.journal import Holder
from inorder_worker.store.sql_journal import SqlJournal
from inorder_worker.store.verification import verify

Name = str
Number = tuple[Name, int]


@dataclass(slots=True)
class Numbers:
    """What the stages know at the end.

    Attributes:
        states: of each number, ``CONFIRMED`` and so on.
        deps: of each number whose timestamp is complete, by topic name.
        owners: client id and incarnation of who has each number.
        problems: damage that ``inorder verify`` finds.
    """

    states: dict[Number, str] = field(default_factory=dict)
    deps: dict[Number, Mapping[Name, int]] = field(default_factory=dict)
    owners: dict[Number, tuple[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def holders(url: str) -> dict[int, Holder]:
    """Return who has which stage. Raises StoreErrors."""
    journal = SqlJournal(url, timeout=2.0)
    try:
        return {each.stage: each for each in journal.read_map()}
    finally:
        journal.close()


def read_numbers(url: str, stages: int) -> Numbers:
    """Read a store that nobody writes to any more: recover every stage, as a worker would. Raises StoreErrors."""
    found = Numbers(problems=[str(each) for each in verify(url).problems])
    journal = SqlJournal(url)
    try:
        journal.open(stages)
        recovered = [recover(journal, index, stages).stage for index in range(stages)]
    finally:
        journal.close()
    names = {each.id: each.name for stage in recovered for each in stage._state.topics.values()}
    for stage in recovered:
        for manager in stage._state.topics.values():
            for record in manager.records.values():
                place = names[record.topic], record.number
                found.states[place] = record.state.name
                found.owners[place] = record.client_id, record.incarnation
                if record.deps is not None:
                    found.deps[place] = {names[topic]: number for topic, number in pairs(record.deps)}
    return found
