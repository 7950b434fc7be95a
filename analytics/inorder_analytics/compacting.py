"""Compaction of many small trace files into few full ones.

Rows keep their order: that of the files' names, then that within each; a row that lies in several files is written
once. A compaction may be killed at any point, and done again: what was begun is ended first, or never was.

1. New files are written under names that readers pass over, and read again.
2. A manifest lists them, and what they were made of: from here on the compaction counts, and is ended by the next one
   where it is killed.
3. The files get their names, of which none is without its manifest. Then originals are removed, if that is asked for.
4. The manifest says that all is done. Originals that it names are not merged again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from inorder import private
from inorder.errors import InorderError, InvalidOption
from inorder_analytics.columns import arrow_schema
from inorder_analytics.locking import locked
from inorder_analytics.reading import Place, TraceFile, Traces
from inorder_analytics.results import Damaged

ROWS_PER_FILE: Final = 1_000_000
MANIFEST: Final = "_compacted-{}.json"
SETTLED: Final = timedelta(hours=1)
"""A file that no client has replaced for so long is not replaced any more: clients do every few seconds."""
_NEW: Final = re.compile(r"_(compacted-(\w+)-\d+\.parquet)")
_NUMBERED: Final = re.compile(r"(.*-)(\d+)\.parquet")
_LOCK: Final = ".compacting"


class CompactionFailed(InorderError):
    """The new files differ from the old ones, or another compaction works there; the originals are untouched."""


class MergedFile(msgspec.Struct, frozen=True):
    """A merged file in its state at the merge."""

    file: str
    bytes: int
    version: str

    def is_same(self, file: TraceFile) -> bool:
        """Tell whether a file is still the one that was merged."""
        return self.bytes == file.bytes and self.version == file.version


class Compacted(msgspec.Struct, kw_only=True):
    """The result of a compaction; a manifest holds it as JSON.

    Attributes:
        sources: files that were read.
        damaged: files that could not be read; they are never removed.
        files: names of the new files.
        manifest: name of the file that says all this.
        remove: the sources were to be removed.
        removed: how many were; a client that has written more into one meanwhile keeps it.
        passed: files that were merged by an earlier compaction, and were passed over.
        is_done: nothing of it is left to do.
    """

    path: str
    out: str
    made_at: str
    rows: int = 0
    sources: list[MergedFile] = msgspec.field(default_factory=list)
    damaged: list[Damaged] = msgspec.field(default_factory=list)
    files: list[str] = msgspec.field(default_factory=list)
    manifest: str = ""
    remove: bool = False
    removed: int = 0
    passed: int = 0
    is_done: bool = True

    def to_plain(self) -> dict[str, Any]:
        """Return the result in plain JSON types."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain


def compact(
    traces: Traces,
    out: str | Path,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    remove: bool = False,
    now: datetime | None = None,
) -> Compacted:
    """Merge trace files into full ones, after ending an earlier compaction into the same place.

    Args:
        out: a folder or URL, made where it is not there; another one than that of the traces.
        remove: remove what was merged, what was merged earlier too.
        now: names the new files; the time of day, where it is not given.

    Raises:
        InvalidOption: ``out`` is the traces' own folder, or above or below it.
        CompactionFailed: what was written is not what was read, or another compaction works in ``out``.
    """
    _check_is_apart(traces, out)
    place = Place(out)
    with _alone(place):
        return _Compaction(traces, place, now or datetime.now(UTC)).run(rows_per_file, remove=remove)


class _Compaction:
    """One compaction.

    Args:
        when: names what is new.
    """

    def __init__(self, traces: Traces, place: Place, when: datetime) -> None:
        self._traces, self._place = traces, place
        self._stamp = when.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        self._when = when.astimezone(UTC).isoformat()

    def run(self, rows_per_file: int, *, remove: bool) -> Compacted:
        """Run the whole compaction."""
        earlier = self._recovered()
        traces = self._traces
        traces.files = files = traces.listed()
        known = {each.file: each for manifest in earlier for each in manifest.sources}
        merged = [each for each in files if each.file in known and known[each.file].is_same(each)]
        traces.files = [each for each in files if each not in merged]
        done = Compacted(path=traces.path, out=str(self._place), made_at=self._when, is_done=False)
        done.remove, done.passed, done.manifest = remove, len(merged), MANIFEST.format(self._stamp)
        try:
            self._make(done, rows_per_file)
            self._check_is_whole(done)
        except BaseException:
            self._undo(done.files)
            raise
        if done.files:
            self._tell(done)
            self._end(done)
        if remove:
            done.removed += self._remove([MergedFile(each.file, each.bytes, each.version) for each in merged])
        return done

    # -- what is new ---------------------------------------------------------------------------------------------------

    def _make(self, done: Compacted, rows_per_file: int) -> None:
        read: list[TraceFile] = []
        for at, table in enumerate(_full(self._traces, read, rows_per_file), start=1):
            done.files.append(f"compacted-{self._stamp}-{at:06}.parquet")
            self._place.write(f"_{done.files[-1]}", partial(_write, table))
            done.rows += table.num_rows
        done.sources = [MergedFile(each.file, each.bytes, each.version) for each in read]
        done.damaged = list(self._traces.damaged)

    def _check_is_whole(self, done: Compacted) -> None:
        """Read the new files again and check their contents. Raises CompactionFailed."""
        rows, why = 0, "nothing was removed"
        for name in done.files:
            try:
                with self._place.open(f"_{name}") as file, pq.ParquetFile(file) as opened:
                    rows += sum(part.num_rows for part in opened.iter_batches())
            except pa.ArrowException as error:
                why = f"{error}; {why}"
        if rows != done.rows:
            raise CompactionFailed(f"{done.out}: {rows} of {done.rows} rows can be read again; {why}")

    def _undo(self, files: Iterable[str]) -> None:
        there = set(self._place.names())
        for name in files:
            if f"_{name}" in there:
                self._place.remove(f"_{name}")

    def _tell(self, done: Compacted) -> None:
        content = msgspec.json.format(msgspec.json.encode(done), indent=1)
        self._place.write(done.manifest, lambda file: file.write(content))

    def _end(self, done: Compacted) -> None:
        """Finish a compaction that has a manifest; repeatable."""
        there = set(self._place.names())
        for name in done.files:
            if f"_{name}" in there:
                self._place.rename(f"_{name}", name)
        if done.remove:
            done.removed += self._remove(done.sources)
        done.is_done = True
        self._tell(done)

    # -- what was begun ------------------------------------------------------------------------------------------------

    def _recovered(self) -> list[Compacted]:
        """Finish compactions with a manifest, undo others; return the ones whose files still exist."""
        names = set(self._place.names())
        found = []
        for name in sorted(names):
            if name.startswith("_compacted-") and name.endswith(".json"):
                with self._place.open(name) as file, suppress(msgspec.MsgspecError):
                    found.append(msgspec.json.decode(file.read(), type=Compacted, strict=False))
        if self._traces.is_local:
            for path in (Path(each.file) for manifest in found for each in manifest.sources):
                if (taken := _taken(path)).exists():  # a compaction was killed while it removed this one
                    _put_back(taken, path)
        for each in found:
            if not each.is_done:
                self._end(each)
        told = {name for each in found for name in each.files}
        for name in self._place.names():
            if name.startswith("._compacted-"):  # what was being written
                self._place.remove(name)
        self._undo(new[1] for name in names if (new := _NEW.fullmatch(name)) and new[1] not in told)
        names = set(self._place.names())
        return [each for each in found if names.issuperset(each.files)]

    # -- originals -----------------------------------------------------------------------------------------------------

    def _remove(self, sources: Iterable[MergedFile]) -> int:
        """Remove originals that are still as merged; return how many. Clients may write meanwhile."""
        files = {each.file: each for each in self._traces.listed()}
        unchanged = [each for each in sources if each.file in files and each.is_same(files[each.file])]
        if self._traces.is_local:
            return sum(map(self._take_away, unchanged))
        may_grow = _last_of_each(files.values())
        settled = [each for each in unchanged if each.file not in may_grow or self._is_settled(each)]
        for each in settled:
            self._traces.filesystem.rm_file(each.file)
        return len(settled)

    def _is_settled(self, source: MergedFile) -> bool:
        when: datetime = self._traces.filesystem.modified(source.file)
        return datetime.now(UTC) - when.astimezone(UTC) >= SETTLED

    def _take_away(self, source: MergedFile) -> bool:
        """Remove a file of this machine. Whoever replaces it from here on makes a new one; who did before shows in what
        is taken."""
        path = Path(source.file)
        taken = _taken(path)
        os.rename(path, taken)
        if not source.is_same(self._traces.looked_at(taken)):
            _put_back(taken, path)
            return False
        taken.unlink()
        return True


def _taken(path: Path) -> Path:
    return path.with_name(f".{path.name}.merged")


def _put_back(taken: Path, path: Path) -> None:
    """Restore a file's name, unless a newer file, with all of its rows, has it."""
    with suppress(FileExistsError):
        os.link(taken, path)
    taken.unlink()


def _last_of_each(files: Iterable[TraceFile]) -> set[str]:
    """Return each client's last file, which may still grow: object stores cannot check and remove at once."""
    last: dict[str, tuple[int, str]] = {}
    for each in files:
        if name := _NUMBERED.fullmatch(each.name):
            last[name[1]] = max((int(name[2]), each.file), last.get(name[1], (0, "")))
    return {file for _, file in last.values()}


@contextmanager
def _alone(place: Place) -> Iterator[None]:
    """Lock a folder of this machine against other compactions in this block. Raises CompactionFailed."""
    folder = place.folder
    if folder is None:
        yield
        return
    is_new = not folder.exists()
    private.make_folder(folder)
    lock = folder / _LOCK
    try:
        with private.write_new(lock) as file:
            if not locked(file):
                raise CompactionFailed(f"{folder}: another compaction works there")
            yield
    finally:
        if is_new and [each.name for each in folder.iterdir()] == [_LOCK]:
            lock.unlink()
            folder.rmdir()


def _full(traces: Traces, read: list[TraceFile], rows: int) -> Iterator[pa.Table]:
    """Return all rows in tables of so many; only the last may have fewer."""
    waiting = arrow_schema().empty_table()
    for file, table in traces.tables():
        read.append(file)
        waiting = pa.concat_tables([waiting, table])
        while waiting.num_rows >= rows:
            yield waiting.slice(0, rows)
            waiting = waiting.slice(rows)
    if waiting.num_rows:
        yield waiting


def _write(table: pa.Table, file: Any) -> None:
    pq.write_table(table, file, compression="zstd", store_schema=False)


def _check_is_apart(traces: Traces, out: str | Path) -> None:
    """Refuse a target among the originals, where new files would be read together with them."""
    one, two = _absolute(traces.path), _absolute(str(out))
    if one.startswith(two) or two.startswith(one):
        raise InvalidOption("--out", str(out), "a folder apart from the traces, not above or below them")


def _absolute(path: str) -> str:
    return f"{path.rstrip('/') if '://' in path else Path(path).absolute()}/"
