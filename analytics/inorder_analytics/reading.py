"""The trace files under a path: their list, their integrity and their rows.

Names that begin with ``.`` or ``_`` are passed over, folders too (writers use them for what is not finished), and so is
what is not called ``*.parquet``. Files that are damaged are listed with the reason and left out; they never end a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from inorder.errors import InorderError, InvalidOption
from inorder.traces.folder import LocalFolder, RemoteFolder, reason_of
from inorder.traces.schema import NAMES, SCHEMA_VERSION
from inorder_analytics.columns import Unreadable, arrow_schema, check, conform, found_in, is_exact, is_text
from inorder_analytics.copies import KEY, Copies
from inorder_analytics.pages import unpacked_sizes
from inorder_analytics.results import Damaged

Row: Any = msgspec.defstruct("Row", [(name, Any, None) for name in NAMES], gc=False, module=__name__)
"""One row: an attribute for each column, ``None`` where it is null; instants are microseconds since 1970 in UTC."""

VALUES_A_BYTE = 64
"""A trace has fewer values for each byte of its file. One with more was made to fill the memory of its reader."""
TEXT_A_BYTE = 1_000
"""So many bytes of text may come out of each byte of a file."""
UNPACKED_A_BYTE = 1_000
"""And so many when it is unpacked."""
SMALL = 1_000_000
"""So many values, and so many bytes of text, may be in any file."""
MOST_BYTES = 2**30
"""So many bytes may any file have, as it is read as a whole; one with holes may be of any length, and need no place on
the disk. A million rows have some 50 MB."""

EMPTY = "it is empty (zero bytes)"
EXISTING = "a file or folder that exists, or a URL of one, such as s3://bucket/traces"


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file that may be a trace.

    Attributes:
        file: its path, absolute where it is of this machine, else its URL.
        name: its path below what was asked for.
        bytes: its size.
        version: what changes with its content, as far as the storage tells.
    """

    file: str
    name: str
    bytes: int
    version: str = ""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """A file with a whole footer.

    Attributes:
        schema: its columns, as they are in the file.
        is_exact: its columns have our names and types (:func:`inorder_analytics.columns.is_exact`), so that any reader
            may take it as it is; others are to be read through :meth:`Traces.read`.
        schema_version: the highest of its rows, as its footer says; ``None`` where it does not say.
    """

    file: TraceFile
    rows: int
    schema: pa.Schema
    is_exact: bool
    schema_version: int | None

    @property
    def is_newer(self) -> bool:
        """Tell whether a file has rows of a newer release, whose additions are not seen."""
        return self.schema_version is not None and self.schema_version > SCHEMA_VERSION


@dataclass(slots=True)
class Survey:
    """The files under a path by their footers alone: a damaged page shows only when it is read."""

    path: str
    files: list[Surveyed] = field(default_factory=list)
    damaged: list[Damaged] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(each.rows for each in self.files)

    @property
    def bytes(self) -> int:
        """The size of all files in bytes."""
        return sum(each.file.bytes for each in self.files)

    @property
    def notes(self) -> list[str]:
        """Remarks for a reader, in words."""
        newer = sum(each.is_newer for each in self.files)
        text = f"{newer} of {len(self.files)} files have rows of a newer release; columns that are new are not read"
        return [text] if newer else []


class Traces:
    """The trace files under a path or fsspec URL at the time of construction.

    Args:
        path: a folder (with all below it) or one file.

    Attributes:
        files: in the order of their names.
        damaged: what could not be read so far.
        copies: rows of :meth:`tables` that were left out, the last time, because another file had them.

    Raises:
        InvalidOption: there is no such path, or nothing that opens such a URL.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.filesystem, self._root = _opened(self.path)
        self.files = self.listed()
        self.damaged: list[Damaged] = []
        self.copies = 0

    def listed(self) -> list[TraceFile]:
        """Return the present files. Raises InvalidOption where the path is gone, or cannot be read."""
        try:
            return self._listed()
        except InorderError:
            raise
        except Exception as error:  # each store raises errors of its own library
            allowed = f"a place that can be read; this one cannot: {reason_of(error)}"
            raise InvalidOption("PATH", self.path, allowed) from error

    def _listed(self) -> list[TraceFile]:
        filesystem, root = self.filesystem, self._root
        filesystem.invalidate_cache()
        if not filesystem.exists(root):
            raise InvalidOption("PATH", self.path, EXISTING)
        if filesystem.isfile(root):
            return [self._file(filesystem.info(root), root.rsplit("/", 1)[-1])]
        found = []
        for full, info in filesystem.find(root, detail=True).items():
            name = full[len(root) :].lstrip("/")
            parts = name.split("/")
            if name.endswith(".parquet") and not any(part.startswith((".", "_")) for part in parts):
                found.append(self._file(info, name))
        return sorted(found, key=lambda each: each.name.split("/"))

    def _file(self, info: Mapping[str, Any], name: str) -> TraceFile:
        full, name = _utf8(str(info["name"])), _utf8(name)
        url = full if self.is_local else self.filesystem.unstrip_protocol(full)
        marks = (info.get(key) for key in ("ino", "mtime", "LastModified", "ETag", "etag"))
        version = "-".join(str(mark) for mark in marks if mark is not None) or str(info.get("created", ""))
        return TraceFile(url, name, int(info.get("size") or 0), version)

    @property
    def is_local(self) -> bool:
        """Tell whether the files are this machine's."""
        return _is_local(self.filesystem)

    def looked_at(self, path: Path) -> TraceFile:
        """Return the present state of a file of this machine."""
        return self._file(self.filesystem.info(str(path)), path.name)

    def survey(self) -> Survey:
        """Read the footer of each file."""
        survey = Survey(self.path)
        for each in self.files:
            try:
                with self._open(each) as opened:
                    found = opened.schema_arrow
                    check(found)
                    version = _schema_version(opened.metadata, found)
                    rows = opened.metadata.num_rows
            except Exception as error:  # whatever reading other people's bytes may raise
                survey.damaged.append(Damaged(file=each.file, reason=_reason(error)))
            else:
                survey.files.append(Surveyed(each, rows, found, is_exact(found), version))
        return survey

    def tables(
        self, names: Iterable[str] = NAMES, copies: Copies | None = None
    ) -> Iterator[tuple[TraceFile, pa.Table]]:
        """Yield each whole file with its rows in our types, and add the others to ``damaged``.

        A file is read as a whole before anything of it is returned: of a damaged one no part is. A row that is in
        several files is returned once.

        Args:
            copies: knows rows that were returned earlier; those are left out, too.
        """
        names, self.copies = tuple(names), 0
        copies = Copies() if copies is None else copies
        read = dict.fromkeys((*names, *KEY))
        for each in self.files:
            try:
                table = self.read(each, read)
            except Exception as error:  # likewise
                self.damaged.append(Damaged(file=each.file, reason=_reason(error)))
            else:
                before = copies.count
                table = copies.without(table)
                self.copies += copies.count - before
                yield each, table.select(names)

    def table(self, names: Iterable[str] = NAMES) -> pa.Table:
        """Return the rows of all whole files as one table with all columns, even without files."""
        names = tuple(names)
        return pa.concat_tables([arrow_schema(names).empty_table(), *(table for _, table in self.tables(names))])

    def read(self, file: TraceFile, names: Iterable[str] = NAMES) -> pa.Table:
        """Return the rows of one file, in our types. Raises whatever says that it is damaged."""
        names, content = tuple(names), self._content(file)
        with pq.ParquetFile(pa.BufferReader(content)) as footer:
            _check_values(footer.metadata, len(content))
            _check_pages(content, footer.metadata)
            texts = [each.name for each in footer.schema_arrow if is_text(each.type)]
        # each text is read once, not once for each row
        with pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts) as opened:
            check(opened.schema_arrow)
            found = found_in(opened.schema_arrow)
            wanted = [found[name] for name in names if name in found]
            rows = opened.metadata.num_rows
            table = opened.read(columns=wanted) if wanted else pa.table({"": pa.nulls(rows)})
            _check_text(table, len(content))
            table = conform(table, names)
            table.validate(full=True)  # that text is UTF-8, for one
            return table

    def _content(self, file: TraceFile) -> bytes:
        """Return all bytes of a file, for the checks and the reading alike: a file may change between two looks."""
        if file.bytes == 0:
            raise Unreadable(EMPTY)
        with self.filesystem.open(file.file, "rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            _check_size(size)
            opened.seek(0)
            return bytes(opened.read(size))  # no more, if somebody appends to it faster than we read

    def _open(self, file: TraceFile) -> pq.ParquetFile:
        """Open a file for its footer."""
        if self.is_local and file.bytes:
            _check_size(file.bytes)
            return pq.ParquetFile(file.file)
        return pq.ParquetFile(pa.BufferReader(self._content(file)))


def _utf8(name: str) -> str:
    """Return a file's name for manifests and results. Bytes that are no UTF-8 are escaped: no file is there by the new
    name, so such a file is found damaged."""
    return name.encode(errors="backslashreplace").decode()


def _check_size(size: int) -> None:
    """Raise Unreadable for a file that is too long to be read as a whole."""
    if size > MOST_BYTES:
        raise Unreadable(f"it has {size} bytes; {MOST_BYTES} are allowed")


def _check_values(footer: Any, size: int) -> None:
    """Raise Unreadable for a file with far more values than a trace of so many bytes has."""
    groups = (footer.row_group(at) for at in range(footer.num_row_groups))
    values = sum(group.column(at).num_values for group in groups for at in range(group.num_columns))
    if values > SMALL + VALUES_A_BYTE * size:
        raise Unreadable(f"it has {values} values in {size} bytes; {VALUES_A_BYTE} a byte are allowed")


def _check_pages(content: bytes, footer: Any) -> None:
    """Raise Unreadable for a file whose pages are far larger than a trace of so many bytes has them."""
    size, most = 0, SMALL + UNPACKED_A_BYTE * len(content)
    for each in unpacked_sizes(memoryview(content), footer):
        size += each
        if size > most:
            raise Unreadable(f"its {len(content)} bytes become more than {most}; {UNPACKED_A_BYTE} a byte are allowed")


def _check_text(table: pa.Table, size: int) -> None:
    """Raise Unreadable for a file whose repeated texts would need far more memory than its bytes."""
    coded = [chunk for each in table.columns if pa.types.is_dictionary(each.type) for chunk in each.chunks]
    text = sum(pc.sum(pc.binary_length(each.dictionary).take(each.indices)).as_py() or 0 for each in coded)
    if text > SMALL + TEXT_A_BYTE * size:
        raise Unreadable(f"it has {text} bytes of text in {size} bytes; {TEXT_A_BYTE} a byte are allowed")


def survey(path: str | Path) -> Survey:
    """Read the footers of all trace files under a path. Raises InvalidOption where there is no such path."""
    return Traces(path).survey()


def rows(table: pa.Table) -> Iterator[Row]:
    """Return the rows of a table; missing columns are null."""
    columns = {name: _values(table.column(name)) for name in table.column_names}
    nothing = [None] * table.num_rows
    return map(Row, *(columns.get(name, nothing) for name in NAMES))


def _values(column: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    values: list[Any] = []
    for chunk in column.chunks:  # each text once, not once for each row
        coded = chunk.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        values += [None if at is None else texts[at] for at in coded.indices.to_pylist()]
    return values


class Place:
    """A folder for whole files. Raises InvalidOption for a URL that nothing opens.

    Attributes:
        folder: it, where it is of this machine.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        self._filesystem, self._root = _opened(self._path)
        self.folder = Path(self._root) if _is_local(self._filesystem) else None
        self._files = (
            RemoteFolder(self._filesystem, self._root) if self.folder is None else LocalFolder(self.folder)
        )  # fmt: skip

    def __str__(self) -> str:
        return self._path

    def names(self) -> list[str]:
        """Return the names in the folder."""
        self._filesystem.invalidate_cache()
        if not self._filesystem.exists(self._root):
            return []
        return [str(full).rstrip("/").rsplit("/", 1)[-1] for full in self._filesystem.ls(self._root, detail=False)]

    def open(self, name: str) -> Any:
        """Open a file to read its bytes."""
        return self._filesystem.open(f"{self._root}/{name}", "rb")

    def write(self, name: str, fill: Callable[[Any], Any]) -> None:
        """Make or replace a file, whole or not at all; ``fill`` gets the stream to write to."""
        self._files.write(name, fill)

    def rename(self, name: str, to: str) -> None:
        """Give a file another name."""
        self._filesystem.mv(f"{self._root}/{name}", f"{self._root}/{to}")

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._filesystem.rm_file(f"{self._root}/{name}")


def _opened(path: str) -> tuple[Any, str]:
    if "://" not in path:  # whatever it looks like: "a::b" is a name, too
        return fsspec.filesystem("file"), str(Path(path).absolute())
    try:
        filesystem, root = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise InvalidOption("PATH", path, f"a folder or a URL that can be opened ({error})") from None
    return filesystem, root.rstrip("/")


def _is_local(filesystem: Any) -> bool:
    protocol = filesystem.protocol
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def _schema_version(metadata: pq.FileMetaData, schema: pa.Schema) -> int | None:
    """Return the highest schema version of a file's rows by the statistics of its footer."""
    name = found_in(schema).get("schema_version")
    if name is None:
        return None
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    found = [
        column.statistics.max
        for group in groups
        for column in (group.column(at) for at in range(group.num_columns))
        if column.path_in_schema == name and column.statistics is not None and column.statistics.has_min_max
    ]
    return max((each for each in found if isinstance(each, int)), default=None)


def _reason(error: Exception) -> str:
    """Return in one line why a file cannot be read."""
    lines = str(error).strip().splitlines()
    return f"{lines[0]}" if lines else type(error).__name__
