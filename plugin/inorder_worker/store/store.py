"""An SQL store as a whole: whether it exists, its schema, how it is made and upgraded."""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from inorder import private
from inorder.errors import StoreCorrupt, StoreUnreachable, StoreVersionMismatch
from inorder.logs import logger
from inorder_worker.store import schema, upgrading
from inorder_worker.store.seals import meta_problem, meta_seal, stage_seal
from inorder_worker.store.sql_connection import SqlConnection
from inorder_worker.store.sqlite_place import check_kind, check_place, keep_private
from inorder_worker.store.store_info import StoreInfo, TopicOrder, frozen_order, new_domain, new_key

log = logger("inorder.worker")

_MADE: Final = "there was none: one that was used before is elsewhere, or gone"
_SCHEMA_PAUSE_MS: Final = 60_000
"""For how long a change of the schema may do nothing in its transaction before PostgreSQL ends it."""
_SCHEMA_LOCK: Final = 0x696E6F72  # "inor": makes two workers that meet on an empty database wait for each other


class Store(SqlConnection):
    """The SQL store of a domain, over a connection of its own. See SqlConnection for the arguments.

    Nothing is cached of what the store is: another process may have made it, or brought it up to date, meanwhile.
    """

    def open(self, stages: int, topic_order: TopicOrder = ()) -> StoreInfo:
        """Read the store's facts; make a new store, upgrade one of an older release. One that was made, and that no
        worker has had a stage of, becomes what is asked for. See Journal.open for errors."""
        version, order = self.prepare(), frozen_order(topic_order)
        if version is None:
            info, _ = self._made(stages, topic_order)
        else:
            if version < schema.SCHEMA_VERSION:
                self.write(self.upgrade)
            self._take_mark()
            info = self.run(self._read_meta)
        if info.stages == stages and order in ((), info.topic_order):
            return info
        return self.write(lambda connection: self._fit(connection, stages, order))

    def make(self, stages: int, topic_order: TopicOrder = ()) -> bool:
        """Make the store if there is none, ahead of its first worker; return whether that was done. Raises as ``open``
        does, and as ``require_current``."""
        if self.prepare() is not None:
            self.run(self.require_current)
            self._take_mark()
            return False
        _, is_ours = self._made(stages, topic_order)
        return is_ours

    def _made(self, stages: int, topic_order: TopicOrder) -> tuple[StoreInfo, bool]:
        """Make a new store, unless another process just does, and say so: whoever has moved or removed one, or named
        the wrong place, expects another."""
        had_mark = self._file is not None and self._file.has_mark
        self.unmark()  # of a store that was here before
        info, is_ours = self.write(lambda connection: self._create(connection, stages, topic_order))
        if is_ours:
            level = logging.WARNING if had_mark else logging.INFO
            log.log(level, "event=store_made store=%s domain=%d hint=%s", self.url, info.domain, _MADE)
        return info, is_ours

    def prepare(self) -> int | None:
        """Check the store's place; return its schema's version, or ``None`` without a store. Raises as ``open``."""
        self.check_place()
        if self._file is not None and not (self._is_there or self._file.was_opened):
            private.make(self._file.real)  # SQLite gives the files beside it the same rights
        version: int | None = self.run(self.read_version)
        if self._file is not None:
            keep_private(self._file.real)
            self.run(self._use_wal)
        return version

    def _take_mark(self) -> None:
        """Take the mark beside an SQLite file into the store, if it speaks of this one."""
        if self._file is None or not self._file.has_mark:
            return

        def take(connection: sa.Connection) -> None:
            domain = connection.execute(sa.select(schema.meta.c.domain)).scalar_one()
            if reason := self.mark(domain):
                self.mark_outdated(connection, reason)

        self.write(take)
        self.unmark()

    def mark_outdated(self, connection: sa.Connection, reason: str) -> None:
        """Mark the store as an older copy of itself, inside a transaction. What was found first stays."""
        found = connection.execute(sa.select(schema.meta).with_for_update()).mappings().one()
        if not found["outdated"]:
            seal = meta_seal({**found, "outdated": reason})
            connection.execute(schema.meta.update().values(outdated=reason, seal=seal))

    def check_place(self) -> None:
        """Refuse a place where no store can be: a folder, a network file system. Changes nothing, asks no server.
        Raises StoreUnreachable."""
        if self._file is not None:
            check_kind(self._file.real, self.url)
            check_place(self._file.real, self.url)

    def look(self) -> StoreInfo | None:
        """Read the store's facts, or return ``None`` without a store. Changes nothing."""

        def read(connection: sa.Connection) -> StoreInfo | None:
            return None if self.read_version(connection) is None else self._read_meta(connection)

        return self.run(read)

    def _use_wal(self, connection: sa.Connection) -> None:
        """Switch a new store, or one that a tool's restore switched back, to WAL mode."""
        mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
        if mode != "wal" and connection.exec_driver_sql("PRAGMA journal_mode=WAL").scalar() != "wal":
            raise StoreUnreachable(
                self.url, "its file system does not support SQLite's WAL mode; use a local disk, or postgresql://"
            )

    # -- schema ------------------------------------------------------------------------------------------------

    def read_version(self, connection: sa.Connection) -> int | None:
        """Return the version of the store's schema, or ``None`` without a store. Raises StoreVersionMismatch for one
        that this release cannot use, and StoreCorrupt."""
        inspector = sa.inspect(connection)
        tables = set(inspector.get_table_names())  # all in one look: another process may just make them
        if schema.meta.name not in tables:
            self._require_none(tables)
            return None
        columns = {column["name"] for column in inspector.get_columns(schema.meta.name)}
        if "schema_version" not in columns:
            raise StoreVersionMismatch(
                self.url, "it holds tables of another application; give inorder a database (or schema) of its own"
            )
        versions: Sequence[int] = (
            connection.execute(sa.select(sa.column("schema_version")).select_from(schema.meta)).scalars().all()
        )
        if len(versions) != 1:
            reason = f"the table meta has {len(versions)} rows instead of the one that says what the store is"
            raise StoreCorrupt(self.url, f"{reason}; somebody has changed it by hand")
        version = versions[0]
        if not isinstance(version, int):
            raise StoreCorrupt(self.url, f"meta is damaged (its schema has version {version!r})")
        if not 1 <= version <= schema.SCHEMA_VERSION:
            raise StoreVersionMismatch(
                self.url,
                f"its schema has version {version}, this release knows {schema.SCHEMA_VERSION}; "
                "use the release that wrote it, or a newer one",
            )
        self._check_revision(connection, version)
        return version

    def _require_none(self, tables: set[str]) -> None:
        """Raise StoreCorrupt where there are tables of a store without ``meta``: a new store would mix with them, and a
        backup would replace them unasked."""
        if found := sorted(schema.metadata.tables.keys() & tables):
            there = f"there is no table meta, and there are {', '.join(found)}"
            reason = "where meta was dropped or renamed, undo that; where they are of another application, give inorder"
            raise StoreCorrupt(self.url, f"{there}: {reason} a database (or schema) of its own")

    def require_current(self, connection: sa.Connection) -> None:
        """Raise StoreUnreachable without a store, StoreVersionMismatch for an older schema, and the errors of
        ``read_version``: for callers that only read."""
        version = self.read_version(connection)
        if version is None:
            raise StoreUnreachable(self.url, "there is no store yet; a worker makes it")
        if version != schema.SCHEMA_VERSION:
            reason = f"its schema has version {version}; a worker of this release brings it up to date at its start"
            raise StoreVersionMismatch(self.url, reason)

    def _check_revision(self, connection: sa.Connection, version: int) -> None:
        found = connection.execute(sa.select(schema.alembic_version.c.version_num)).scalars().all()
        if found != [schema.revision(version)]:
            raise StoreCorrupt(self.url, f"meta is of schema version {version}, alembic_version says {found}")

    def _read_meta(self, connection: sa.Connection) -> StoreInfo:
        found = connection.execute(sa.select(schema.meta)).mappings().one()
        if problem := meta_problem(found):
            raise problem.error(self.url)
        order, key = frozen_order(json.loads(found["topic_order"])), bytes.fromhex(found["witness_key"])
        return StoreInfo(found["domain"], found["stages"], order, key, found["outdated"] or self.mark(found["domain"]))

    def upgrade(self, connection: sa.Connection) -> None:
        """Upgrade step by step inside a transaction, unless another worker did so meanwhile."""
        self._begin_schema_change(connection)
        version = self.read_version(connection)
        if version is None or version == schema.SCHEMA_VERSION:
            return
        upgrading.migrate(connection)
        connection.execute(schema.meta.update().values(schema_version=schema.SCHEMA_VERSION))
        found = connection.execute(sa.select(schema.meta)).mappings().one()
        connection.execute(schema.meta.update().values(seal=meta_seal(found)))
        for row in connection.execute(sa.select(schema.stages)).mappings().all():
            # A worker of the older release that still runs must not write what this one would misread.
            values = {**row, "epoch": row["epoch"] + 1, "owner": ""}
            here = schema.stages.c.stage == row["stage"]
            connection.execute(schema.stages.update().where(here), {**values, "seal": stage_seal(values)})

    def _begin_schema_change(self, connection: sa.Connection) -> None:
        """Begin the one schema change at a time, which may take longer than an owner may be silent."""
        if not self.is_sqlite:
            connection.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {_SCHEMA_PAUSE_MS}")
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _SCHEMA_LOCK})

    def _create(self, connection: sa.Connection, stages: int, topic_order: TopicOrder) -> tuple[StoreInfo, bool]:
        """Make a store, inside a transaction; tell whether that was done: another worker may have made it meanwhile."""
        self._begin_schema_change(connection)
        if self.read_version(connection) is not None:
            return self._read_meta(connection), False
        schema.metadata.create_all(connection)
        info = StoreInfo(new_domain(), stages, frozen_order(topic_order), new_key())
        values = {
            "id": 1, "schema_version": schema.SCHEMA_VERSION, "domain": info.domain, "stages": stages,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "topic_order": json.dumps(info.topic_order), "witness_key": info.key.hex(), "outdated": "",
        }  # fmt: skip
        connection.execute(schema.meta.insert(), {**values, "seal": meta_seal(values)})
        connection.execute(schema.alembic_version.insert(), {"version_num": schema.revision(schema.SCHEMA_VERSION)})
        self._make_stages(connection, stages)
        self.tell_domain(connection, info.domain)
        return info, True

    def _make_stages(self, connection: sa.Connection, count: int) -> None:
        rows = [{"stage": stage, "epoch": 0, "owner": "", "address": "", "beat": 0} for stage in range(count)]
        connection.execute(schema.stages.insert(), [{**row, "seal": stage_seal(row)} for row in rows])

    def _fit(self, connection: sa.Connection, stages: int, order: TopicOrder) -> StoreInfo:
        """Store the first worker's number of stages and first topics, inside a transaction."""
        self._begin_schema_change(connection)
        if connection.execute(sa.select(sa.func.max(schema.stages.c.epoch))).scalar_one() > 0:
            return self._read_meta(connection)
        connection.execute(schema.stages.delete())
        self._make_stages(connection, stages)
        connection.execute(schema.meta.update().values(stages=stages, topic_order=json.dumps(order)))
        found = connection.execute(sa.select(schema.meta)).mappings().one()
        connection.execute(schema.meta.update().values(seal=meta_seal(found)))
        return self._read_meta(connection)
