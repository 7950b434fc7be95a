"""Every error of the API in the form of problem details (RFC 9457, ``application/problem+json``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from inorder import errors
from inorder.logs import logger

MEDIA_TYPE: Final = "application/problem+json"

MAX_ERRORS: Final = 100
"""Of what is wrong with a request, as many are told."""

log = logger("inorder.controlplane")

KINDS: Final[dict[str, tuple[HTTPStatus, str]]] = {
    "malformed": (HTTPStatus.BAD_REQUEST, "The body is not JSON that this API takes"),
    "unauthorized": (HTTPStatus.UNAUTHORIZED, "A token is needed, or the one given is not valid"),
    "forbidden": (HTTPStatus.FORBIDDEN, "The token, or the place of the request, does not allow this"),
    "not-found": (HTTPStatus.NOT_FOUND, "There is no such thing"),
    "method-not-allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "This method cannot be used here"),
    "conflict": (HTTPStatus.CONFLICT, "What is there now does not allow this change"),
    "stale": (HTTPStatus.PRECONDITION_FAILED, "It was changed since you read it"),
    "too-large": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large"),
    "unsupported-media-type": (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Bodies are JSON"),
    "wrong-host": (HTTPStatus.MISDIRECTED_REQUEST, "This server is not known by that host name"),
    "invalid": (HTTPStatus.UNPROCESSABLE_ENTITY, "The request is not valid"),
    "precondition-required": (HTTPStatus.PRECONDITION_REQUIRED, "Say which version you change, with If-Match"),
    "too-many-requests": (HTTPStatus.TOO_MANY_REQUESTS, "Too many attempts"),
    "internal": (HTTPStatus.INTERNAL_SERVER_ERROR, "The control plane failed; its log says how"),
    "store-unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, "The store does not answer"),
    "workers-unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, "The workers do not answer"),
    "broker-unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, "The broker does not answer"),
    "unknown-outcome": (HTTPStatus.GATEWAY_TIMEOUT, "The change may or may not have been made"),
}
"""By slug: status and title. ``/problems/<slug>`` says what can be done."""


class Problem(Exception):
    """A request ends with problem details.

    Args:
        slug: one of KINDS.
        detail: what is the matter with this request.
        allowed: what would have been allowed, in words or as a list.
        errors: (where, message) of each part of the request that is wrong.
        headers: of the answer.
    """

    def __init__(
        self,
        slug: str,
        detail: str,
        *,
        allowed: str | Sequence[str] | None = None,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.slug, self.detail = slug, detail
        self.status, self.title = KINDS[slug]
        self.allowed, self.errors, self.headers = allowed, list(errors), dict(headers or {})
        super().__init__(f"{slug}: {detail}")


def response(problem: Problem, instance: str) -> JSONResponse:
    """Return a problem as an answer to the request for ``instance`` (its path)."""
    body: dict[str, Any] = {
        "type": f"/problems/{problem.slug}",
        "title": problem.title,
        "status": problem.status.value,
        "detail": problem.detail,
        "instance": instance,
    }
    if problem.allowed is not None:
        body["allowed"] = problem.allowed
    if problem.errors:
        body["errors"] = [{"where": where, "message": message} for where, message in problem.errors]
    return JSONResponse(body, problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def of_error(error: errors.InorderError) -> Problem:
    """Return the problem for an error of inorder, for this principal."""
    match error:
        case errors.StoreError():
            return Problem("store-unavailable", str(error), headers={"Retry-After": "1"})
        case errors.OutcomeUnknown():
            return Problem("unknown-outcome", str(error))
        case errors.StaleOrder():
            return Problem("stale", str(error))
        case errors.UnknownTopic():
            return Problem("not-found", str(error))
        case errors.Refused():
            return Problem("conflict", str(error))
        case errors.InvalidOption():
            return Problem("invalid", str(error), allowed=error.allowed)
        case errors.BrokerUnreachable() | errors.Unauthorized(peer="broker"):
            return Problem("broker-unavailable", str(error), headers={"Retry-After": "1"})
        case errors.UsageError():
            return Problem("invalid", str(error))
        case errors.Unauthorized(peer="worker"):
            return Problem("workers-unavailable", f"the workers refuse the control plane's token: {error}")
    return Problem("workers-unavailable", str(error), headers={"Retry-After": "1"})


def install(app: FastAPI) -> None:
    """Make an app answer every error with a problem."""
    answer: Any = _answer  # one for requests and WebSockets
    kinds = (Problem, HTTPException, RequestValidationError, WebSocketRequestValidationError, errors.InorderError)
    for kind in kinds:
        app.add_exception_handler(kind, answer)


class Failures:
    """ASGI middleware: it answers a defect with a problem, too, and logs the traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        is_begun = False

        async def send_on(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except Exception as error:
            if is_begun or scope["type"] != "http":
                raise
            log.error("event=request_failed path=%s error=%s", scope["path"], type(error).__name__, exc_info=error)
            problem = Problem("internal", f"unexpected {type(error).__name__}")
            await response(problem, scope["path"])(scope, receive, send)


async def _answer(connection: Request | WebSocket, error: Exception) -> JSONResponse:
    """Send the problem, also to a WebSocket that was not accepted yet, in place of the acceptance."""
    return response(_problem_of(error), connection.scope["path"])


def _problem_of(error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case RequestValidationError() | WebSocketRequestValidationError():
            return _of_validation(error)
        case HTTPException():
            return _of_http(error)
        case errors.InorderError():
            return of_error(error)
    raise error


def _of_validation(error: RequestValidationError | WebSocketRequestValidationError) -> Problem:
    some = error.errors()[:MAX_ERRORS]
    found = [(".".join(map(str, each["loc"])) or "body", str(each["msg"])) for each in some]
    if any(each["type"] == "json_invalid" for each in some):
        return Problem("malformed", "the body is not JSON", errors=found)
    shown = "; ".join(f"{where}: {message}" for where, message in found[:3])
    return Problem("invalid", shown, errors=found)


def _of_http(error: HTTPException) -> Problem:
    headers = error.headers
    match error.status_code:
        case 404:
            return Problem("not-found", "there is nothing at this path", headers=headers)
        case 405:
            allowed = [word.strip() for word in (headers or {}).get("Allow", "").split(",") if word.strip()]
            return Problem("method-not-allowed", "see allowed", allowed=allowed, headers=headers)
        case 400:
            return Problem("malformed", str(error.detail), headers=headers)
    slug = next((slug for slug, (status, _) in KINDS.items() if status == error.status_code), "internal")
    return Problem(slug, str(error.detail), headers=headers)
