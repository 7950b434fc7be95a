"""The stages that a worker has: what all parts of its host look at."""

from __future__ import annotations

from collections.abc import Iterable

from inorder.protocol.wire import LogRule
from inorder_worker.sequencer.stage import Stage
from inorder_worker.service.attesting import Standing
from inorder_worker.service.hosted import HostedStage
from inorder_worker.service.work import StageElsewhere
from inorder_worker.store.journal import Batch


class HostedStages(dict[int, HostedStage]):
    """Maps the index of each stage here to this worker's state of it.

    Only ``Tenure`` puts stages in and takes them out, and only while no command and no commit is under way.

    Args:
        count: how many stages the store has; the last one is the bottom.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.are_ready = False
        """Work for the stages is taken. False at the start, at the end, and from a failure until the recovery."""
        self.claimed: dict[int, int] = {}
        """Stages that are ours in the store and not here yet -> their epochs. No stage is both here and in it."""
        self.last_rows: dict[int, int] = {}
        """Stage -> the highest row that this process knows as durable, whoever had the stage then. It only rises, also
        over losses and recoveries: a journal that ends before that row belongs to an older copy of the store."""

    @property
    def are_all_here(self) -> bool:
        """No other worker has a stage."""
        return len(self) == self.count

    @property
    def machines(self) -> dict[int, Stage]:
        """The state machine of each stage here."""
        return {index: hosted.stage for index, hosted in self.items()}

    @property
    def epochs(self) -> dict[int, int]:
        """The epoch of each stage here."""
        return {index: hosted.epoch for index, hosted in self.items()}

    @property
    def owned(self) -> dict[int, int]:
        """The epoch of each stage that is ours in the store."""
        return {**self.claimed, **self.epochs}

    @property
    def standings(self) -> dict[int, Standing]:
        """The positions of the journals of the stages here."""
        return {index: hosted.standing for index, hosted in self.items()}

    def machine(self, index: int) -> Stage:
        """Return the state machine of a stage. Raises StageElsewhere."""
        if index not in self:
            raise StageElsewhere
        return self[index].stage

    def now(self, index: int) -> int:
        """Return the time of a stage, ms. Raises StageElsewhere."""
        if index not in self:
            raise StageElsewhere
        return self[index].now()

    def became_durable(self, rows: Iterable[Batch]) -> None:
        """The store has committed these rows of stages that are here."""
        for row in rows:
            self[row.stage].durable = self.last_rows[row.stage] = row.seq

    # -- event logs --------------------------------------------------------------------------------------------

    @property
    def have_logs(self) -> bool:
        """Some topic has an event log, or may have had one."""
        return any(hosted.stage.log.has_rules for hosted in self.values())

    def home_of(self, topic: int) -> int | None:
        """Return the stage of a topic, if it is here."""
        for index, hosted in self.items():
            if hosted.stage.stage_of(topic) == index:
                return index
        return None

    def log_bounds(self, topic: int) -> LogRule | None:
        """Return what the log of a topic of a stage here may hold; ``None``: it has none, or is elsewhere."""
        home = self.home_of(topic)
        return None if home is None else self.machine(home).log.bounds(topic)

    def log_settled(self, topic: int, count: int) -> range:
        """Return the oldest numbers in the log of a topic of a stage here that may be forgotten; see EventLog."""
        home = self.home_of(topic)
        return range(0) if home is None else self.machine(home).log.settled(topic, count)

    def log_deps(self, topic: int, number: int, told: list[int] | None) -> list[int] | None:
        """Return the dependencies of a number in the log of a topic of a stage here; see EventLog."""
        home = self.home_of(topic)
        return None if home is None else self.machine(home).log.known_deps(topic, number, told)
