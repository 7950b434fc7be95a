"""Source distributions, from the package registry that pip is set up for, unpacked once."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from .suite import Suite

CACHE = Path(__file__).parents[2] / "build" / "upstream"


def fetched(suite: Suite, cache: Path = CACHE) -> Path:
    """Return the folder that holds the suite's tests, of the library's installed version."""
    number = version(suite.distribution)
    folder = cache / f"{suite.distribution}-{number}"
    if not folder.exists():
        with tempfile.TemporaryDirectory() as download:
            command = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", download]
            subprocess.run([sys.executable, "-m", "pip", *command, f"{suite.distribution}=={number}"], check=True)
            (archive,) = Path(download).iterdir()
            unpack(archive, suite.keep, folder)
    return folder


def unpack(archive: Path, keep: tuple[str, ...], folder: Path) -> None:
    """Unpack what is to be kept of a source distribution. The folder is there when all of it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unpacking-"))
    try:
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                inner = member.name.partition("/")[2]
                if any(inner == each or inner.startswith(f"{each}/") for each in keep):
                    member.name = inner
                    tar.extract(member, unfinished, filter="data")
        for each in keep:
            if not (unfinished / each).exists():
                raise SystemExit(f"{archive.name} has no {each}")
        unfinished.rename(folder)
    except BaseException:
        shutil.rmtree(unfinished)
        raise
