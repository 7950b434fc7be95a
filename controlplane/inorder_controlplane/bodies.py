"""What is checked of a request before anything is made of it: that its body is small, and JSON that every reader takes
alike.

Python's own parser also takes NaN and Infinity, numbers that become infinite, halves of surrogate pairs, and of two
values with one name the last. None of them may get as far as the store or a worker.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inorder_controlplane.problems import Problem, response

MAX_BODY_BYTES: Final = 1024 * 1024


class Bodies:
    """ASGI middleware: a request's body arrives whole, checked, or not at all."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            if "\0" in scope["path"]:  # nothing is called so, and PostgreSQL could not even look
                raise Problem("not-found", "there is nothing at this path")
            body = await _read(scope, receive)
            if body:
                _check_type(_header(scope, b"content-type"))
                parsed(body)
        except _Disconnected:
            return
        except Problem as problem:
            await response(problem, scope["path"])(scope, receive, send)
            return
        await self._app(scope, _replayed(body, receive), send)


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


async def _read(scope: Scope, receive: Receive) -> bytes:
    declared = _header(scope, b"content-length")
    if declared.isdigit() and int(declared[:20]) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
        if not message.get("more_body", False):
            return bytes(body)


def _too_large() -> Problem:
    allowed = f"at most {MAX_BODY_BYTES} bytes"
    return Problem("too-large", f"a body may have {allowed}", allowed=allowed, headers={"Connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that gives the body once, and then what the connection has to say."""
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
    raise ValueError(f"{text[:40]} is too large for a number")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found
