"""Restoring a backup: all of it in one transaction, never under a living worker, and under a new domain id.

Numbers that were given after the backup was made are given again, to other events. The new domain id keeps the two
apart: stamps carry it, workers tell it in their welcome, and a client that finds another one begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from inorder.errors import BackupError, StoreInUse, StoreUnreachable
from inorder_worker.store import records, schema, upgrading
from inorder_worker.store.audit import record_done
from inorder_worker.store.backup import Backup, Table
from inorder_worker.store.identity import is_gone, process_of
from inorder_worker.store.seals import meta_problem, meta_seal, stage_seal
from inorder_worker.store.store import Store
from inorder_worker.store.store_info import new_domain, new_key
from inorder_worker.store.verification import check

WATCHED_BEATS: Final = 3
"""Beat intervals that a store's workers are watched for a sign of life."""
_DAMAGED: Final = 2**62
"""What no epoch and no beat reaches."""
SOMEBODY: Final = "operator"
"""As the audit log names whoever does not say who it is."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of restoring a backup. ``domain``: the new one; ``former``: that of the backup."""

    url: str
    domain: int
    former: int
    stages: int
    rows: int
    made: str


def restore(
    url: str,
    path: Path,
    *,
    force: bool = False,
    beat_interval: float = 1.0,
    timeout: float = 10.0,
    who: str = SOMEBODY,
) -> Restored:
    """Restore a backup into a store; a crash or an error at any moment leaves the store unchanged.

    Args:
        force: replace what the store holds already.
        beat_interval: seconds between two signs of life of workers that may use the store.
        who: as the audit log names whoever asks for it; it is recorded in the same transaction.

    Raises:
        BackupError: the file is no backup, is damaged, or of a newer release; nothing was changed.
        StoreInUse: a worker lives on the store (whatever ``force`` says), or it has rows and there is no ``force``.
        InvalidOption, StoreUnreachable, StoreReadOnly, StoreFull, StoreVersionMismatch, StoreCorrupt: of the store.
    """
    store = Store(url, timeout=timeout)
    try:
        backup = Backup(path)
        store.prepare()
        before = store.run(lambda connection: _State.read(store, connection))
        before.check(store, force=force)
        _watch(store, before, WATCHED_BEATS * beat_interval)
        restored = store.write(lambda connection: _replace(store, connection, backup, before, who))
        store.settle()
        return restored
    finally:
        store.close()


@dataclass(frozen=True, slots=True)
class Renewed:
    """The result of giving a store a new domain id. ``domain``: the new one; ``former``: the one before."""

    url: str
    domain: int
    former: int


def renew(url: str, *, beat_interval: float = 1.0, timeout: float = 10.0, who: str = SOMEBODY) -> Renewed:
    """Give a store a new domain id, because it is an older copy of itself, or a copy to be used beside its original.
    Nothing else changes but that the audit log says so, and an error leaves the store as it was.

    Raises StoreInUse where a worker lives on it; StoreCorrupt where no worker could go on with it (a file that was
    copied over one that was open is of two states); StoreUnreachable (also if there is no store yet), StoreReadOnly
    and StoreVersionMismatch.
    """
    store = Store(url, timeout=timeout, is_there=True)
    try:
        info = store.look()
        if info is None:
            raise StoreUnreachable(store.url, "there is no store yet, so there is nothing to renew")
        before = store.run(lambda connection: _State.read(store, connection))
        before.check(store, force=True)
        _watch(store, before, WATCHED_BEATS * beat_interval)
        domain = store.write(lambda connection: _renew_alone(store, connection, before, info.domain, who))
        store.settle()
        return Renewed(store.url, domain, info.domain)
    finally:
        store.close()


Owner = tuple[int, str, int, int]
"""(stage, owner, epoch, beat)"""


@dataclass(frozen=True, slots=True)
class _State:
    """A store's former state: the stages' owners, the workers and standbys with their beats, whether it has rows."""

    owners: tuple[Owner, ...]
    members: tuple[tuple[str, int], ...]
    has_rows: bool

    @classmethod
    def read(cls, store: Store, connection: sa.Connection) -> _State:
        if store.read_version(connection) is None:
            return cls((), (), has_rows=False)
        stages = schema.stages.c
        found = connection.execute(sa.select(stages.stage, stages.owner, stages.epoch, stages.beat)).all()
        first_row = connection.execute(sa.select(schema.journal.c.seq).limit(1)).first()
        first_snapshot = connection.execute(sa.select(schema.snapshots.c.seq).limit(1)).first()
        members = connection.execute(sa.select(schema.workers.c.owner, schema.workers.c.beat)).all()
        return cls(
            tuple(sorted((*row,) for row in found)),
            tuple(sorted((*row,) for row in members)),
            bool(first_row or first_snapshot),
        )

    @property
    def living(self) -> set[str]:
        """The workers that have not left."""
        return {str(owner) for _, owner, *_ in self.owners if owner} | {str(owner) for owner, _ in self.members}

    def check(self, store: Store, *, force: bool) -> None:
        """Raise StoreInUse for a store with rows, unless forced, and at once for an owner whose process exists."""
        for owner in sorted(self.living):
            if process_of(owner) is not None and not is_gone(owner):
                raise StoreInUse(store.url, f"{_lives(owner)} (its process runs)")
        if self.has_rows and not force:
            raise StoreInUse(store.url, "it holds numbers already, and they would be lost; --force replaces them")


def _watch(store: Store, before: _State, seconds: float) -> None:
    """Watch whether a worker shows life. Raises StoreInUse."""
    until = time.monotonic() + seconds
    while before.living and time.monotonic() < until:
        time.sleep(min(0.1, seconds / 10))
        _require_unchanged(store, before, store.run(lambda connection: _State.read(store, connection)))


def _require_unchanged(store: Store, before: _State, now: _State) -> None:
    news = [owner for stage, owner, *rest in now.owners if (stage, owner, *rest) not in before.owners]
    news += [owner for owner, beat in now.members if (owner, beat) not in before.members]
    for owner in filter(None, news):
        raise StoreInUse(store.url, _lives(owner))


def _lives(owner: str) -> str:
    return f"the worker {owner} lives; stop it first"


# -- inside the transaction --------------------------------------------------------------------------------------------


def _replace(store: Store, connection: sa.Connection, backup: Backup, before: _State, who: str) -> Restored:
    _lock(store, connection)
    _require_unchanged(store, before, _State.read(store, connection))
    schema.metadata.drop_all(connection)
    version = backup.header.schema_version
    upgrading.migrate(connection, version)
    connection.execute(schema.alembic_version.delete())
    count = sum(_insert(connection, backup, table, rows) for table, rows in backup.tables())
    if version < schema.SCHEMA_VERSION:
        store.upgrade(connection)
    records.count_on(connection)
    domain = _renew(store, connection, {stage: (epoch, beat) for stage, _, epoch, beat in before.owners})
    facts = {"file": backup.path.name, "made": backup.header.made, "former": backup.header.domain}
    record_done(connection, who, "store.restore", f"domain {domain}", facts)
    report = check(store, connection)
    if report.problems:
        raise BackupError(backup.path, f"what it holds is damaged: {report.problems[0].detail}")
    return Restored(store.url, domain, backup.header.domain, len(report.stages), count, backup.header.made)


def _renew_alone(store: Store, connection: sa.Connection, before: _State, former: int, who: str) -> int:
    _lock(store, connection)
    _require_unchanged(store, before, _State.read(store, connection))
    if store.read_version(connection) != schema.SCHEMA_VERSION:
        store.upgrade(connection)
    domain = _renew(store, connection, {})
    record_done(connection, who, "store.renew", f"domain {domain}", {"former": former})
    if problems := check(store, connection).problems:
        raise problems[0].error(store.url)
    return domain


def _number(stored: object) -> int:
    """Return a number of a row of ``stages``, or 0 where that is damaged and can be none. The row gets new contents,
    and the store a new domain; where the journal has a higher epoch, the check finds it."""
    return stored if isinstance(stored, int) and 0 <= stored < _DAMAGED else 0


def _lock(store: Store, connection: sa.Connection) -> None:
    """Lock out other workers' claims, beats and appends until the end, when they find other epochs."""
    if not store.is_sqlite and store.read_version(connection) is not None:
        connection.execute(sa.text("LOCK TABLE stages, journal IN ACCESS EXCLUSIVE MODE"))


def _insert(connection: sa.Connection, backup: Backup, table: Table, rows: list[list[Any]]) -> int:
    if not rows:
        return 0
    there = sa.inspect(connection)
    if not there.has_table(table.name) or table.name not in schema.metadata.tables:
        raise BackupError(backup.path, f"it has a table {table.name}, which a store has not")
    known = {column["name"] for column in there.get_columns(table.name)}
    if not known.issuperset(table.columns):
        raise BackupError(backup.path, f"its table {table.name} has columns that a store has not")
    target = sa.table(table.name, *map(sa.column, table.columns))
    connection.execute(target.insert(), [dict(zip(table.columns, row, strict=True)) for row in rows])
    return len(rows)


def _renew(store: Store, connection: sa.Connection, former: dict[int, tuple[int, int]]) -> int:
    """Give the store a new domain id, and each stage an epoch that no worker of either store has had."""
    domain = new_domain()
    found = connection.execute(sa.select(schema.meta)).mappings().one()
    if problem := meta_problem(found):
        raise problem.error(store.url)
    changed = {"domain": domain, "witness_key": new_key().hex(), "outdated": ""}
    connection.execute(schema.meta.update().values(**changed, seal=meta_seal({**found, **changed})))
    stages: Sequence[sa.RowMapping] = connection.execute(sa.select(schema.stages)).mappings().all()
    for row in stages:
        epoch, beat = former.get(row["stage"], (0, 0))
        values = {
            **row, "owner": "", "address": "",
            "epoch": max(_number(epoch), _number(row["epoch"])) + 1,
            "beat": max(_number(beat), _number(row["beat"])) + 1,
        }  # fmt: skip
        here = schema.stages.c.stage == row["stage"]
        connection.execute(schema.stages.update().where(here), {**values, "seal": stage_seal(values)})
    store.tell_domain(connection, domain)
    return domain
