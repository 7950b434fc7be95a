"""The folder of an analysis (`--out`): ingested files, computed facts, and results.

``rows/`` has the ingested rows, in our columns and types and in files of a bearable size; ``facts/`` one row for each
event and the figures of each run, by generation; ``results/`` and ``result.json`` are for readers. ``manifest.json``
says which of all this counts: it is written last, by a rename, so a run that dies in between changes nothing; what no
manifest names is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from inorder import private
from inorder.errors import InorderError, InvalidOption, UsageError
from inorder_analytics.locking import locked

VERSION: Final = 1
"""Of the manifest and of what it names; of another one everything is computed anew."""


class Source(msgspec.Struct, frozen=True):
    """A trace file in its state at the last look.

    Attributes:
        bytes, version: its size, and what changes with its content.
        rows: rows in it.
        part: the ingested file that has them; ``None`` where it was damaged.
        reason: why it was left out.
    """

    bytes: int
    version: str
    rows: int = 0
    part: str | None = None
    reason: str = ""


class Part(msgspec.Struct, frozen=True):
    """An ingested file: its number of rows and its runs."""

    rows: int
    runs: list[str]


class Settings(msgspec.Struct, frozen=True):
    """The settings on which the figures depend beside the rows. With others every run is computed anew."""

    window_s: float
    max_pairs: int
    seed: int
    schema_version: int
    result_version: int


class Manifest(msgspec.Struct):
    """The list of valid files in the folder.

    Attributes:
        path: what is analysed.
        generation: how many analyses wrote here; it makes names that were never used before.
        sources: by name below the path.
        parts: by name.
        facts: the generation that has the facts of a run, by run.
    """

    path: str
    settings: Settings
    version: int = VERSION
    generation: int = 0
    sources: dict[str, Source] = msgspec.field(default_factory=dict)
    parts: dict[str, Part] = msgspec.field(default_factory=dict)
    facts: dict[str, int] = msgspec.field(default_factory=dict)


class Busy(InorderError):
    """Another analysis works in the folder. Attribute ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"another analysis is at work in {folder}")


class Store:
    """The folder of an analysis. A context manager: only one process works in it at a time.

    Args:
        folder: made when it is not there. On a cluster all executors must have it under the same path.
        path: what is analysed; the two may not contain each other.

    Raises:
        InvalidOption: the folder cannot be used for this.
        Busy: another process works in it.
    """

    def __init__(self, folder: str | Path, path: str) -> None:
        text = str(folder)
        if "://" in text:
            raise InvalidOption("--out", text, "a folder that this machine (and each executor of a cluster) can write")
        self.folder = Path(text).absolute()
        self.path = path if "://" in path else str(Path(path).absolute())
        if "://" not in path and _overlap(self.folder.resolve(), Path(path).resolve()):
            raise InvalidOption("--out", text, "a folder apart from the traces")
        self.rows, self.facts, self.results = (self.folder / each for each in ("rows", "facts", "results"))
        self._manifest = self.folder / "manifest.json"
        self._lock: Any = None

    def __enter__(self) -> Store:
        try:
            for each in (self.folder, self.rows, self.facts, self.results):
                private.make_folder(each)
            self._lock = open(self.folder / ".lock", "w")
        except OSError as error:
            raise InvalidOption("--out", str(self.folder), f"a folder that can be written ({error.strerror})") from None
        if not locked(self._lock):
            self._lock.close()
            raise Busy(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def load(self, settings: Settings, *, full: bool = False) -> Manifest:
        """Return the valid manifest. Raises UsageError where it is of other traces, unless ``full``."""
        fresh = Manifest(path=self.path, settings=settings)
        try:
            found = msgspec.json.decode(self._manifest.read_bytes(), type=Manifest)
        except FileNotFoundError:
            return fresh
        except msgspec.MsgspecError:
            found = None
        if found is not None and found.path != self.path and not full:
            raise UsageError(f"{self.folder} has an analysis of {found.path}; name another folder, or say --full")
        if found is None or full or found.version != VERSION:
            # Names must be new: the old files count until the new manifest stands.
            fresh.generation = max([*self._generations(), 0 if found is None else found.generation])
            return fresh
        if found.settings != settings:
            found.settings, found.facts = settings, {}
        if found.settings.schema_version != settings.schema_version:  # pragma: no cover (there is one version yet)
            found.sources, found.parts = {}, {}
        return found

    def commit(self, manifest: Manifest) -> None:
        """Make a manifest the valid one, and remove files that it does not name."""
        self.write(self._manifest, msgspec.json.encode(manifest))
        self.sweep(manifest)

    def sweep(self, manifest: Manifest) -> None:
        """Remove ingested files and facts that are not valid."""
        for part in self.rows.iterdir():
            if part.name not in manifest.parts:
                part.unlink()
        kept = {self.generation(each).name for each in manifest.facts.values()}
        for each in self.facts.iterdir():
            if each.name not in kept:
                shutil.rmtree(each)

    def generation(self, number: int) -> Path:
        """Return the folder of a generation's facts."""
        return self.facts / f"g{number:06}"

    def write(self, path: Path, data: bytes) -> None:
        """Write a file whole or not at all."""
        with replacing(path) as temporary:
            temporary.write_bytes(data)

    def _generations(self) -> Iterator[int]:
        for each in (*self.facts.iterdir(), *self.rows.iterdir()):
            digits = each.name.lstrip(".")[1:7]
            if digits.isdigit():
                yield int(digits)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside a path, which takes the path's place when the block ends well."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _overlap(one: Path, two: Path) -> bool:
    return one == two or one in two.parents or two in one.parents
