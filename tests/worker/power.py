"""SQLite on a disk whose power can be cut, and the DB-API over APSW through which the store uses it.

The disk follows POSIX at its worst: what was written to a file since its last ``fsync`` may be there after the cut or
not, each sector by itself. Making and deleting a file is taken as durable at once, so a directory's own ``fsync`` is
not tested here.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw

SECTOR = 512


@dataclass
class Image:
    """One file: what is durable of it, and what was written since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, sector), or (size, None) for a truncation."""

    def write(self, offset: int, data: bytes) -> None:
        for start in range(0, len(data), SECTOR):
            self.pending.append((offset + start, data[start : start + SECTOR]))

    def after_cut(self, survives: Callable[[], bool]) -> bytes:
        content = bytearray(self.durable)
        for step in self.pending:
            if survives():
                _apply(content, step)
        return bytes(content)

    def sync(self) -> None:
        for step in self.pending:
            _apply(self.durable, step)
        self.pending.clear()


def _apply(content: bytearray, step: tuple[int, bytes | None]) -> None:
    offset, data = step
    if data is None:
        del content[offset:]
        return
    content.extend(bytes(max(0, offset - len(content))))
    content[offset : offset + len(data)] = data


class Disk(apsw.VFS):
    """A file system, ``name`` to SQLite, over the real one. ``on_io`` is called after every change of a file."""

    def __init__(self, name: str, on_io: Callable[[], None] = lambda: None) -> None:
        self.name = name
        self.images: dict[str, Image] = {}
        self.on_io = on_io
        self.syncs = 0
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.images.pop(Path(filename).name, None)
        self.on_io()

    def cut(self, folder: Path, survives: Callable[[], bool]) -> None:
        """Put what is left after a cut into a folder. Shared memory is never left."""
        folder.mkdir()
        for name, image in self.images.items():
            (folder / name).write_bytes(image.after_cut(survives))


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._disk = disk
        self._image = disk.images.setdefault(Path(path).name, Image()) if path else Image()
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._image.write(offset, bytes(data))
        self._disk.on_io()

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._image.pending.append((newsize, None))
        self._disk.on_io()

    def xSync(self, flags: int) -> None:
        self._image.sync()
        self._disk.syncs += 1
        self._disk.on_io()


def lucky(seed: int) -> Callable[[], bool]:
    """Let each unsynced sector survive or not, by chance."""
    chance = random.Random(seed)
    return lambda: chance.random() < 0.5


# -- DB-API ----------------------------------------------------------------------------------------------------------


def driver(disk: Disk, synchronous: str | None = None) -> ModuleType:
    """Return a module that connects SQLAlchemy to SQLite on this disk. ``synchronous`` is put in the place of what the
    store asks for."""
    module = ModuleType("apsw_driver")
    for name in ("Error", "DatabaseError", "OperationalError", "IntegrityError", "InterfaceError", "DataError",
                 "InternalError", "ProgrammingError", "NotSupportedError", "Warning"):  # fmt: skip
        setattr(module, name, getattr(sqlite3, name))
    module.paramstyle = "qmark"  # type: ignore[attr-defined]
    module.apilevel = "2.0"  # type: ignore[attr-defined]
    module.Binary = bytes  # type: ignore[attr-defined]
    version = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    module.sqlite_version_info = module.version_info = version  # type: ignore[attr-defined]
    module.connect = lambda database, **_: _Connection(database, disk.name, synchronous)  # type: ignore[attr-defined]
    return module


class _Connection:
    isolation_level: str | None = None

    def __init__(self, database: str, vfs: str, synchronous: str | None) -> None:
        self.apsw = apsw.Connection(database, vfs=vfs)
        self.synchronous = synchronous
        self.apsw.execute("PRAGMA wal_autocheckpoint=5")  # checkpoints often enough to be cut, too

    def cursor(self) -> _Cursor:
        return _Cursor(self)

    def create_function(self, *_: Any, **__: Any) -> None:
        """Not needed."""

    def commit(self) -> None:
        """Transactions are the store's."""

    rollback = commit

    def close(self) -> None:
        self.apsw.close()


class _Cursor:
    arraysize = 1
    rowcount = -1
    lastrowid = None

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        if "synchronous=" in sql and self._connection.synchronous:
            sql = f"PRAGMA synchronous={self._connection.synchronous}"
        cursor = self._connection.apsw.cursor()
        self.description = None

        def look(cursor: apsw.Cursor, _: str, __: Any) -> bool:
            self.description = [(name, *[None] * 6) for name, *_ in cursor.get_description()] or None
            return True

        cursor.exec_trace = look
        try:
            self._rows = list(cursor.execute(sql, parameters or None))
        except apsw.Error as error:
            raised = sqlite3.OperationalError(str(error))
            raised.sqlite_errorname = f"SQLITE_{type(error).__name__.removesuffix('Error').upper()}"
            raise raised from None
        self.rowcount = self._connection.apsw.changes()

    def executemany(self, sql: str, many: Iterable[Sequence[Any]]) -> None:
        for parameters in many:
            self.execute(sql, parameters)

    def fetchall(self) -> list[Any]:
        rows, self._rows = self._rows, []
        return rows

    def fetchone(self) -> Any:
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int | None = None) -> list[Any]:
        size = size or self.arraysize
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    def close(self) -> None:
        self._rows = []
