"""The places that analyses may use: folders below ``controlplane.traces``, and URLs with these beginnings.

Whoever may start an analysis could else have any file of this machine read, and any folder written to. Folders are
compared as they really are, with all links followed; URLs by whole segments of their paths.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from inorder_controlplane.problems import Problem

MAX_FOUND: Final = 100
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_LOCAL_MASTER: Final = re.compile(r"local(\[(\*|[1-9][0-9]{0,3})\])?")
LOCAL_MASTERS: Final = "local, local[*] or local[N]"


@dataclass(frozen=True, slots=True)
class PathAllowList:
    """The allowed places.

    Attributes:
        traces: absolute paths of folders, and beginnings of URLs.
        masters: of Spark, beside local ones.
    """

    traces: Sequence[str]
    masters: Sequence[str] = ()

    def resolved(self, text: str, where: str) -> str:
        """Return a folder with links resolved, or a URL. Raises Problem: ``invalid`` for what is neither, ``forbidden``
        for what is not allowed; ``where`` names the field."""
        if not self.traces:
            detail = f"{where}: analyses cannot be started here, as the setting controlplane.traces names no folder"
            raise Problem("forbidden", detail, allowed="traces in folders and URLs that controlplane.traces names")
        found = _plain(text, where)
        if not any(_is_within(found, _known(each)) for each in self.traces):
            detail = f"{where}: {text!r} is not in a place that controlplane.traces allows"
            raise Problem("forbidden", detail, allowed=list(self.traces))
        return found

    def check(self, source: str, out: str | None, master: str) -> tuple[str, str | None]:
        """Return source and out, resolved. Raises Problem."""
        read = self.resolved(source, "source")
        if out is not None and _URL.match(out):
            raise _invalid("out", "it is a URL", "the absolute path of a folder")
        written = None if out is None else self.resolved(out, "out")
        if written is not None and (_is_within(written, read) or _is_within(read, written)):
            raise _invalid("out", f"{out!r} lies in the traces, or they in it", "a place of its own for results")
        if not _LOCAL_MASTER.fullmatch(master) and master not in self.masters:
            raise Problem(
                "forbidden",
                f"master: {master!r} is none that controlplane.masters names",
                allowed=[LOCAL_MASTERS, *self.masters],
            )
        return read, written

    def found(self) -> list[str]:
        """Return the existing allowed folders, and the folders right below them."""
        paths: list[str] = []
        for each in self.traces:
            if not _URL.match(each) and os.path.isdir(each):
                paths += [each, *sorted(_folders(Path(each)))]
        return paths[:MAX_FOUND]


def _folders(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith((".", "_")) and entry.is_dir(follow_symlinks=False):
                    yield entry.path
    except OSError:
        return


def _known(allowed: str) -> str:
    """Return an allowed place in the form of ``_plain``."""
    matched = _URL.match(allowed)
    return allowed.rstrip("/") if matched else os.path.realpath(allowed)


def _plain(text: str, where: str) -> str:
    """Return an absolute path with all links followed, or a URL in its one normal form."""
    matched = _URL.match(text)
    if matched is None:
        if not os.path.isabs(text):
            raise _invalid(where, f"{text!r} is neither an absolute path nor a URL", "/a/folder or scheme://...")
        if ".." in text.split("/"):
            raise _invalid(where, f"{text!r} goes up (..)", "a path without ..")
        return os.path.realpath(text)
    if matched[1].lower() in ("file", "local"):
        raise _invalid(where, f"{text!r} is a file of this machine", "its absolute path")
    return _checked_url(text, where)


def _checked_url(text: str, where: str) -> str:
    try:
        parts = urlsplit(text)
        is_with_secret = parts.username is not None or parts.password is not None
    except ValueError:
        raise _invalid(where, "it is no URL", "scheme://...") from None
    if "::" in text:
        raise _invalid(where, "it is a chain of URLs", "one URL, without ::")
    if is_with_secret:
        raise _invalid(where, "the URL holds credentials", "credentials in the control plane's environment")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise _invalid(where, "the URL has a query or a fragment", "a URL without them")
    if any(segment in (".", "..") for segment in unquote(unquote(text)).replace("\\", "/").split("/")):
        raise _invalid(where, "the URL goes up (..)", "a URL without . and ..")
    return text.rstrip("/")


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def _invalid(where: str, what: str, allowed: str) -> Problem:
    return Problem("invalid", f"{where}: {what}", allowed=allowed, errors=[(f"body.{where}", f"{what}: use {allowed}")])
