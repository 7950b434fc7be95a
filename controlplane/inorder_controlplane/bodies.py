"""Checks of a request ahead of its handler: the sender, a small body, and JSON that every parser reads alike.

Python's own parser also takes NaN and Infinity, numbers that become infinite, halves of surrogate pairs, and of two
values with one name the last. None of them may get as far as the store or a worker.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inorder.errors import InorderError
from inorder_controlplane.context import Context
from inorder_controlplane.principals import authenticate
from inorder_controlplane.problems import Problem, of_error, response

MAX_BODY_BYTES: Final = 1024 * 1024
MAX_PUBLIC_BYTES: Final = 8 * 1024
"""Of the body of somebody who is not known yet."""
MAX_NAMES: Final = 100
"""Of one object: no model has nearly as many, and each that is unknown would be an error of its own."""
_SHOWN: Final = 40
"""Characters of what is wrong, in what is said of it."""
_SMALL: Final = 16 * 1024
"""Bytes that are parsed while everybody waits; more are on a thread."""


class Bodies:
    """ASGI middleware: a request's body arrives whole, checked, or not at all.

    Args:
        context: to find out who asks: that comes before anything of a body is read.
        guarded: beginning of the paths that are for known people only, and
        public: those of them where people become known.
    """

    def __init__(self, app: ASGIApp, context: Context, guarded: str, public: Iterable[str]) -> None:
        self._app, self._context = app, context
        self._guarded, self._public = guarded, frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            if "\0" in scope["path"]:  # nothing is called so, and PostgreSQL could not even look
                raise Problem("not-found", "there is nothing at this path")
            if _has_body(scope):
                receive = _replayed(await self._checked(scope, receive), receive)
        except _Disconnected:
            return
        except (Problem, InorderError) as error:
            problem = error if isinstance(error, Problem) else of_error(error)
            problem.headers["Connection"] = "close"  # what is left of the body is not read
            await response(problem, scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _checked(self, scope: Scope, receive: Receive) -> bytes:
        """Return the checked body. Raises Problem."""
        path, limit = scope["path"], MAX_PUBLIC_BYTES
        if path.startswith(self._guarded) and path not in self._public:
            await authenticate(HTTPConnection(scope), self._context)
            limit = MAX_BODY_BYTES
        body = await _read(scope, receive, limit)
        if body:
            _check_type(_header(scope, b"content-type"))
            if len(body) > _SMALL:
                await asyncio.to_thread(parsed, body)
            else:
                parsed(body)
        return body


class _Disconnected(Exception):
    pass


def parsed(body: bytes) -> Any:
    """Return the value of a body. Raises Problem."""
    try:
        value = json.loads(
            body.decode(), parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_without_repetition
        )
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Problem("malformed", "the body holds half of a surrogate pair") from None
    except UnicodeDecodeError:
        raise Problem("malformed", "the body is not UTF-8") from None
    except RecursionError:
        raise Problem("malformed", "the body is nested too deeply") from None
    except ValueError as error:
        raise Problem("malformed", f"the body is not JSON: {error}") from None
    return value


def _has_body(scope: Scope) -> bool:
    """Tell whether a request announces a body; without that HTTP/1.1 has none."""
    return _header(scope, b"content-length") not in ("", "0") or _header(scope, b"transfer-encoding") != ""


async def _read(scope: Scope, receive: Receive, limit: int) -> bytes:
    declared = _header(scope, b"content-length")
    if declared.isdigit() and int(declared[:20]) > limit:
        raise _too_large(limit)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(limit: int) -> Problem:
    allowed = f"at most {limit} bytes"
    return Problem("too-large", f"a body may have {allowed} here", allowed=allowed)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives the body once, and then the connection's own messages."""
    is_given = False

    async def replay() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _check_type(given: str) -> None:
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem("unsupported-media-type", f"a body of type {kind or 'unknown'}", allowed="application/json")


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    if math.isfinite(value := float(text)):
        return value
    raise ValueError(f"{text[:_SHOWN]} is too large for a number")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_NAMES:
        raise ValueError(f"an object has {len(pairs)} names, at most {MAX_NAMES} are allowed")
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)[:_SHOWN]!r} stands twice")
    return found
