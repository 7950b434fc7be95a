"""The web UI: its built files, and its page at every path outside of the API.

Without a build a plain page says how to make one.
"""

from __future__ import annotations

import gzip
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path
from typing import Final

from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from inorder_controlplane.problems import Problem
from inorder_webui import static_path

NOT_BUILT: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>inorder</title></head>
<body>
<h1>inorder</h1>
<p>The control plane is up; its pages are not built. In the source tree: <code>make webui</code></p>
<p>The API is described by <a href="/openapi.json">/openapi.json</a>.</p>
</body>
</html>
"""
NOT_PAGES: Final = ("api", "health", "problems", "metrics", "openapi.json")
COMPRESSED: Final = frozenset((".html", ".js", ".css", ".svg", ".json", ".txt"))
KEPT: Final = "public, max-age=31536000, immutable"
"""Files below ``assets/`` have a hash of what they hold in their names."""


class Pages:
    """The ASGI app for all paths without a route.

    Args:
        root: the path below which browsers find us, such as ``/inorder``; empty: all of the server.
    """

    def __init__(self, root: str = "") -> None:
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with a file or the page. Raises Problem."""
        path = str(scope["path"]).lstrip("/")
        if scope["type"] != "http" or path.partition("/")[0] in NOT_PAGES:
            raise Problem("not-found", "there is nothing at this path")
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"Allow": "GET, HEAD"})
        may_compress = "gzip" in Headers(scope=scope).get("accept-encoding", "")
        answer = await run_in_threadpool(_answer, path, may_compress, self._root)
        await answer(scope, receive, send)


def _answer(path: str, may_compress: bool, root: str) -> Response:
    folder = static_path()
    if folder is None:
        return HTMLResponse(NOT_BUILT.replace('href="/', f'href="{root}/'))
    file = _file(folder, path)
    if file is None and path.startswith("assets/"):
        raise Problem("not-found", "there is no such file")
    headers = {"Cache-Control": KEPT if path.startswith("assets/") else "no-cache", "Vary": "Accept-Encoding"}
    if file is None or file == folder.resolve() / "index.html":
        return HTMLResponse(_page(folder / "index.html", root), headers=headers)
    if not (may_compress and file.suffix in COMPRESSED):
        return FileResponse(file, headers=headers)
    kind = guess_type(file.name)[0] or "text/plain"
    content = _compressed(file, file.stat().st_mtime_ns)
    return Response(content, media_type=kind, headers={**headers, "Content-Encoding": "gzip"})


def _page(file: Path, root: str) -> str:
    """Return the page. It is the same at every path, so what it is made of is named from the root on; from where that
    comes its scripts know the root."""
    return file.read_text().replace('="./', f'="{root}/')


@lru_cache(maxsize=256)
def _compressed(file: Path, changed_ns: int) -> bytes:
    """Return a file with its compressed form. Each is compressed once, as long as it is not changed."""
    return gzip.compress(file.read_bytes(), mtime=0)


def _file(folder: Path, path: str) -> Path | None:
    """Return the file of a path, or ``None`` if there is none inside the folder."""
    try:
        found = (folder / path).resolve()
        return found if found.is_file() and found.is_relative_to(folder.resolve()) else None
    except (OSError, ValueError):  # a name that no file can have
        return None
