"""Backups of a whole store as one file, the same from SQLite and PostgreSQL, and back into either.

The file is read in one transaction that sees the store as it was at its start, so it is consistent however many workers
go on meanwhile. What it holds is checked when it is made, when it is read and before it counts:

    ``MAGIC``; frames, each a length (4 bytes, big-endian) and a MessagePack array; SHA-256 over all of that.

The frames are the header, then for each table its columns and its rows, and the number of rows at the end.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Final

import msgspec
import sqlalchemy as sa

from inorder import private
from inorder.errors import BackupError
from inorder_worker.store import schema
from inorder_worker.store.identity import is_gone, new_owner, process_of
from inorder_worker.store.store import Store
from inorder_worker.store.verification import check

FORMAT: Final = 1
"""Raised by whatever makes older releases misread a file; new kinds of frames, too."""
MAGIC: Final = b"inorder backup\n"
_LENGTH_BYTES: Final = 4
_PART_PATIENCE: Final = 60.0
"""Seconds after its last write for which a file may be that of a backup on another machine, over a network's folder."""
_PART_OWNER: Final = re.compile(r"\.[0-9a-f]*\.\d+-\d+\.[0-9a-f]+", re.ASCII)
"""Who writes a file that is not finished, as identity.new_owner names processes, with dots."""
_ROWS_BYTES: Final = 256 * 1024
"""A frame of rows is closed when it is this long; one row alone may be longer."""


class Header(msgspec.Struct, array_like=True, tag="header"):
    """The origin and the size of a backup.

    Attributes:
        format: of the file.
        schema_version: of the tables.
        domain, stages: of the store; a restore gives it a domain of its own.
        made: when, UTC, for people only.
    """

    format: int
    schema_version: int
    domain: int
    stages: int
    made: str


class Table(msgspec.Struct, array_like=True, tag="table"):
    """The beginning of a table, whose rows follow."""

    name: str
    columns: list[str]


class Rows(msgspec.Struct, array_like=True, tag="rows"):
    """Rows of the last begun table."""

    rows: list[list[Any]]


class End(msgspec.Struct, array_like=True, tag="end"):
    """The end of the frames; only the checksum follows."""

    count: int


Frame = Header | Table | Rows | End
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[Frame]] = msgspec.msgpack.Decoder(Frame)


# -- making one ------------------------------------------------------------------------------------------------------


def back_up(url: str, path: Path, *, timeout: float = 10.0) -> tuple[Header, int]:
    """Write a store's present state into a new file while workers go on. Return header and rows.

    Raises BackupError for a file that is there already or cannot be written, StoreCorrupt for a store that is damaged
    (its backup would be, too), and InvalidOption, StoreUnreachable and StoreVersionMismatch as ``verify`` does. Nothing
    is left behind then.
    """
    if path.exists():
        raise BackupError(path, "it is there already, and is not overwritten")
    store = Store(url, timeout=timeout, is_read_only=True)
    part = path.with_name(f"{_part_prefix(path)}{new_owner('').replace('/', '.')}")
    try:
        with _reported(path):
            _remove_parts_of_the_dead(path)
            found = store.read(lambda connection: _write(store, connection, part))
            os.replace(part, path)
            private.sync_folder(path.absolute().parent)
        return found
    finally:
        store.close()
        with contextlib.suppress(OSError):
            part.unlink()


def _part_prefix(path: Path) -> str:
    return f".{path.name}.part-"


def _remove_parts_of_the_dead(path: Path) -> None:
    """Remove the unfinished files of killed backups into this file, each as large as the store. One of another machine,
    or of this one before it was started again, stays while it was written to of late."""
    prefix = _part_prefix(path)
    for each in path.absolute().parent.iterdir():
        owner = each.name.removeprefix(prefix)
        if not (each.name.startswith(prefix) and _PART_OWNER.fullmatch(owner)):
            continue
        with contextlib.suppress(OSError):
            owner = owner.replace(".", "/")
            is_old = time.time() - each.lstat().st_mtime > _PART_PATIENCE
            if is_old if process_of(owner) is None else is_gone(owner):
                each.unlink()


def _write(store: Store, connection: sa.Connection, part: Path) -> tuple[Header, int]:
    for problem in check(store, connection).problems:
        raise problem.error(store.url)
    meta = connection.execute(sa.select(schema.meta)).mappings().one()
    made = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    header = Header(FORMAT, schema.SCHEMA_VERSION, meta["domain"], meta["stages"], made)
    count = 0
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        writer = _Writer(file)
        writer.put(header)
        for table in schema.metadata.sorted_tables:
            if table in schema.FLEETING:
                continue
            writer.put(Table(str(table.name), [str(each.name) for each in table.columns]))
            for rows in _in_frames(connection.execute(sa.select(table).execution_options(yield_per=64))):
                count += len(rows)
                writer.put(Rows(rows))
        writer.put(End(count))
        writer.finish()
        file.flush()
        os.fsync(file.fileno())
    return header, count


def _in_frames(found: Iterable[sa.Row[Any]]) -> Iterator[list[list[Any]]]:
    rows: list[list[Any]] = []
    size = 0
    for row in found:
        rows.append(list(row))
        size += sum(len(each) if isinstance(each, bytes | str) else 8 for each in row)
        if size > _ROWS_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


class _Writer:
    """Writes frames into a file, and their checksum behind them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._digest = file, hashlib.sha256()
        self._write(MAGIC)

    def put(self, frame: Frame) -> None:
        body = _encoder.encode(frame)
        self._write(len(body).to_bytes(_LENGTH_BYTES, "big") + body)

    def finish(self) -> None:
        self._file.write(self._digest.digest())

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)


# -- reading one -----------------------------------------------------------------------------------------------------


class Backup:
    """A backup file with a right checksum and right frames. Raises BackupError when made of anything else.

    Attributes:
        path: the file. header: what it is of. count: how many rows it has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _reported(path):
            self.header, self.count = self._checked()

    def tables(self) -> Iterator[tuple[Table, list[list[Any]]]]:
        """Yield all rows in portions, with their table; each table begins with an empty list. Raises BackupError."""
        table: Table | None = None
        with _reported(self.path):
            for frame in self._frames(lambda: None):
                if isinstance(frame, Table):
                    table = frame
                    yield table, []
                elif isinstance(frame, Rows) and table is not None:
                    yield table, frame.rows

    def _checked(self) -> tuple[Header, int]:
        header: Header | None = None
        end: End | None = None
        table: Table | None = None
        count = 0
        for frame in self._frames(self._check_sum):
            if end is not None or (header is None) != isinstance(frame, Header):
                raise BackupError(self.path, "its parts are in the wrong order")
            match frame:
                case Header():
                    header = self._known(frame)
                case Table():
                    table = self._well_formed(frame)
                case Rows():
                    if table is None or any(len(row) != len(table.columns) for row in frame.rows):
                        raise BackupError(self.path, "a row does not fit its table")
                    count += len(frame.rows)
                case End():
                    end = frame
        if header is None or end is None or end.count != count:
            raise BackupError(self.path, "it is not whole")
        return header, count

    def _known(self, header: Header) -> Header:
        if not (1 <= header.format <= FORMAT and 1 <= header.schema_version <= schema.SCHEMA_VERSION):
            made = f"format {header.format}, schema {header.schema_version}"
            known = f"this release knows format {FORMAT}, schema {schema.SCHEMA_VERSION} and older ones"
            raise BackupError(self.path, f"it is of a newer release ({made}; {known})")
        return header

    def _well_formed(self, table: Table) -> Table:
        names = [table.name, *table.columns]
        if not table.columns or not all(each.isascii() and each.isidentifier() for each in names):
            raise BackupError(self.path, "it names a table that cannot be")
        return table

    def _check_sum(self) -> None:
        """Raise BackupError unless the checksum fits, before anything is decoded."""
        digest, size = hashlib.sha256(), self.path.stat().st_size
        left = size - digest.digest_size
        with self.path.open("rb") as file:
            if left < len(MAGIC) or file.read(len(MAGIC)) != MAGIC:
                raise BackupError(self.path, "it is no backup of inorder")
            file.seek(0)
            while left:
                data = file.read(min(left, 1024 * 1024))
                if not data:
                    break
                digest.update(data)
                left -= len(data)
            if file.read() != digest.digest():
                raise BackupError(self.path, "it is damaged, or not whole: its checksum does not fit")

    def _frames(self, before: Callable[[], None]) -> Iterator[Frame]:
        before()
        end = self.path.stat().st_size - hashlib.sha256().digest_size
        with self.path.open("rb") as file:
            file.seek(len(MAGIC))
            while file.tell() < end:
                length = int.from_bytes(file.read(_LENGTH_BYTES), "big")
                try:
                    yield _decoder.decode(file.read(length))
                except msgspec.DecodeError as error:
                    raise BackupError(self.path, f"it has a part that this release cannot read ({error})") from None


@contextlib.contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turn the system's errors about a file into ours."""
    try:
        yield
    except OSError as error:
        raise BackupError(path, error.strerror or str(error)) from None
