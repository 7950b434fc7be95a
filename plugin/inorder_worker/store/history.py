"""Former topic orders (R14), written in the commit of the switch at the bottom stage, and former owners of stages,
written in the transaction of the claim. Both are for people; nothing is decided by them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import sqlalchemy as sa

from inorder_worker.store import records
from inorder_worker.store.schema import order_history, takeovers, workers

if TYPE_CHECKING:
    from inorder_worker.store.store import Store


class OrderRow(NamedTuple):
    """A topic order, with the moment at which the bottom stage took it.

    Attributes:
        at_ms: when (ms since 1970, by the worker's clock).
        kind: ``start`` (the first that is kept), ``manual`` or ``automatic`` (R15).
        who: who asked for it; empty: nobody.
        stages: ids of the topics of each stage, from the top.
    """

    order_epoch: int
    at_ms: int
    kind: str
    who: str
    stages: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class TakeOver:
    """One change of a stage's owner.

    Attributes:
        epoch: the one that began with it.
        kind: ``claim`` of a stage that nobody had (any more), ``handover`` by a worker that went on, ``takeover`` from
            one that was silent, gone, or told to give way.
    """

    stage: int
    epoch: int
    owner: str
    address: str
    at_ms: int
    kind: str


# -- writing: inside a transaction -----------------------------------------------------------------------------------


def keep_order(connection: sa.Connection, row: OrderRow) -> None:
    """Store a topic order. One of kind ``start`` says what there is, and makes way for what is known of it already."""
    known = order_history.c.order_epoch == row.order_epoch
    if row.kind == "start" and connection.execute(sa.select(order_history.c.kind).where(known)).first():
        return
    connection.execute(order_history.delete().where(known))
    records.add(connection, order_history, {**row._asdict(), "stages": json.dumps(row.stages)})


def keep_claim(connection: sa.Connection, stage: int, epoch: int, before: str, owner: str, address: str) -> None:
    """Store a claim of a stage; ``before``: the owner by the store, empty after a release."""
    values = {
        "stage": stage, "epoch": epoch, "owner": owner, "address": address, "at_ms": records.now_ms(),
        "kind": "takeover" if before not in ("", owner) else "claim",
    }  # fmt: skip
    if not before:
        last = sa.select(takeovers.c.owner).where(takeovers.c.stage == stage).order_by(takeovers.c.epoch.desc())
        giver = connection.execute(last.limit(1)).scalar()
        lives = connection.execute(sa.select(workers.c.owner).where(workers.c.owner == giver)).first()
        values["kind"] = "handover" if lives and giver != owner else "claim"
    records.add(connection, takeovers, values)


# -- reading ---------------------------------------------------------------------------------------------------------


class History:
    """The history of a store. All calls block, and raise StoreErrors."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def orders(self, *, before: int | None = None, limit: int = 100) -> list[OrderRow]:
        """Return topic orders, the newest first; with ``before`` only those of lower order epochs."""
        statement = sa.select(order_history).order_by(order_history.c.order_epoch.desc()).limit(limit)
        if before is not None:
            statement = statement.where(order_history.c.order_epoch < before)
        return [
            OrderRow(row["order_epoch"], row["at_ms"], row["kind"], row["who"], json.loads(row["stages"]))
            for row in self._rows(order_history, statement)
        ]

    def count_orders(self) -> int:
        """Return how many topic orders are kept."""
        return self._count(order_history)

    def take_overs(self, *, before: TakeOver | None = None, limit: int = 100) -> list[TakeOver]:
        """Return the changes of stages' owners, the newest first; with ``before`` only earlier ones."""
        own = takeovers.c
        place = sa.tuple_(own.at_ms, own.stage, own.epoch)
        statement = sa.select(takeovers).order_by(own.at_ms.desc(), own.stage.desc(), own.epoch.desc()).limit(limit)
        if before is not None:
            statement = statement.where(place < sa.tuple_(before.at_ms, before.stage, before.epoch))
        return [
            TakeOver(row["stage"], row["epoch"], row["owner"], row["address"], row["at_ms"], row["kind"])
            for row in self._rows(takeovers, statement)
        ]

    def _rows(self, table: sa.Table, statement: sa.Select[tuple[object, ...]]) -> Iterator[sa.RowMapping]:
        rows = self._store.run(lambda connection: connection.execute(statement).mappings().all())
        return records.read(self._store.url, table, rows, lambda row: row)

    def _count(self, table: sa.Table) -> int:
        total = sa.select(sa.func.count()).select_from(table)
        return int(self._store.run(lambda connection: connection.execute(total).scalar_one()))
