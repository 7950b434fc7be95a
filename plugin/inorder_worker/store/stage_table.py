"""The table of the stages with their owners and epochs. Each row is sealed, and found again only whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from inorder.errors import StoreCorrupt
from inorder_worker.store.history import keep_claim
from inorder_worker.store.journal import Holder, fenced
from inorder_worker.store.schema import stages
from inorder_worker.store.seals import stage_problem, stage_seal
from inorder_worker.store.store import Store

_STAGE = sa.select(stages).where(stages.c.stage == sa.bindparam("of"))
_MAP = sa.select(*(stages.c[name] for name in Holder._fields)).order_by(stages.c.stage)
_EPOCHS = sa.select(stages.c.stage, stages.c.epoch, stages.c.owner).where(
    stages.c.stage.in_(sa.bindparam("of", expanding=True))
)
_CHANGE = stages.update().where(
    stages.c.stage == sa.bindparam("of"), stages.c.epoch == sa.bindparam("ours"), stages.c.beat == sa.bindparam("seen")
)


class StageTable:
    """Reads and changes the rows of stages in one store.

    Args:
        store: where they are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def find(self, stage: int) -> sa.RowMapping:
        """Return a stage's row, checked. Raises StoreCorrupt."""
        return self._store.run(lambda connection: self.row(connection, stage))

    def raise_epoch(self, found: sa.RowMapping, owner: str, address: str) -> bool:
        """Give a stage to an owner in its next epoch; return false if the row has changed since it was read."""
        values = {"epoch": found["epoch"] + 1, "owner": owner, "address": address}

        # Not retried here when the connection is lost: the caller reads the epoch again and finds itself its owner.
        def write(connection: sa.Connection) -> bool:
            is_ours = self.change(connection, found, values)
            if is_ours:
                keep_claim(connection, found["stage"], values["epoch"], found["owner"], owner, address)
            return is_ours

        return self._store.write(write)

    def row(self, connection: sa.Connection, stage: int, *, for_update: bool = False) -> sa.RowMapping:
        """Return a stage's row, checked; ``for_update`` locks it until our transaction ends."""
        statement = _STAGE.with_for_update() if for_update and not self._store.is_sqlite else _STAGE
        row = connection.execute(statement, {"of": stage}).mappings().one_or_none()
        if row is None:
            raise StoreCorrupt(self._store.url, f"there is no stage {stage}")
        if problem := stage_problem(row):
            raise problem.error(self._store.url)
        return row

    @staticmethod
    def change(connection: sa.Connection, found: sa.RowMapping, values: dict[str, Any]) -> bool:
        """Change a stage's row and seal it again; return false if the row has changed since it was read."""
        changed = {**found, **values}
        seen = {"of": found["stage"], "ours": found["epoch"], "seen": found["beat"]}
        done = connection.execute(_CHANGE.values(**values, seal=stage_seal(changed)), seen)
        return done.rowcount == 1

    def lock_epochs(self, connection: sa.Connection, owned: Sequence[tuple[int, int]]) -> None:
        """Check these epochs and lock them until the end of the transaction. Raises Fenced."""
        statement = _EPOCHS if self._store.is_sqlite else _EPOCHS.with_for_update()
        rows = connection.execute(statement, {"of": [one for one, _ in owned]})
        found = {row.stage: (row.epoch, row.owner) for row in rows}
        for stage, epoch in owned:
            self._check_epoch(stage, epoch, found.get(stage))

    def _check_epoch(self, stage: int, epoch: int, found: tuple[int, str] | None) -> None:
        """Raise Fenced unless the store has this epoch; ``found``: the stored epoch and owner."""
        there, holder = found or (0, "")
        if there != epoch:
            raise fenced(self._store.url, stage, epoch, there, holder)


def read_holders(connection: sa.Connection) -> list[Holder]:
    """Return the owner of each stage."""
    return [Holder(*row) for row in connection.execute(_MAP).all()]
