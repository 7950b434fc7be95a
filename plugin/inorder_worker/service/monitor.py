"""The worker's HTTP port for operators: ``/health/live``, ``/health/ready``, ``/metrics``, ``/metrics/topics``.

It answers GET and HEAD, one request a connection, and changes nothing. It is up before the store is opened and until
the worker has stopped, so that a probe sees a start and a stop for what they are.
"""

from __future__ import annotations

import asyncio
import errno
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

from inorder.errors import InvalidOption, MissingExtra, PortInUse
from inorder.listening import Abortable, BoundedConnections, stop_listening
from inorder.logs import logger
from inorder_worker.service import exposition
from inorder_worker.service.settings import WorkerSettings

MAX_REQUEST_BYTES: Final = 16 * 1024
MAX_CONNECTIONS: Final = 32
"""The oldest goes for a further one."""
REQUEST_TIMEOUT: Final = 5.0
"""Seconds for the whole of a request and its answer."""
JSON: Final = "application/json"

log = logger("inorder.worker")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request for a path."""

    status: HTTPStatus
    kind: str
    body: bytes


def _json(status: HTTPStatus, value: object) -> Answer:
    return Answer(status, JSON, json.dumps(value, ensure_ascii=False).encode() + b"\n")


class Monitor:
    """Listens and answers.

    Args:
        settings: its ``http_host`` and ``http_port``; without a port nothing listens.
        health: returns (is ready, facts as plain values).
        view: what metrics are read from.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        health: Callable[[], tuple[bool, dict[str, object]]],
        view: exposition.View,
    ) -> None:
        self._settings, self._health, self._view = settings, health, view
        self._server: asyncio.Server | None = None
        self._open: BoundedConnections[Abortable] = BoundedConnections(MAX_CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.address = ""
        """Where it listens, ``host:port``; empty where it does not."""

    async def start(self) -> None:
        """Listen, if a port is set. Raises PortInUse and InvalidOption."""
        host, port = self._settings.http_host, self._settings.http_port
        if port is None:
            return
        try:
            self._server = await asyncio.start_server(
                self._connected, host, port, limit=MAX_REQUEST_BYTES, backlog=MAX_CONNECTIONS
            )
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse(f"{host}:{port}", "http_port") from None
            allowed = f"an address this process may listen on ({error.strerror or error})"
            raise InvalidOption("http_host", f"{host}:{port}", allowed) from None
        name = self._server.sockets[0].getsockname()
        self.address = f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"
        try:
            exposition.require_library()
        except MissingExtra as error:
            log.warning("event=no_metrics hint=%s", error)

    async def close(self) -> None:
        """Stop listening and cut what is open. No error."""
        if self._server is not None:
            stop_listening(self._server)
            await asyncio.sleep(0)  # what was accepted before comes up, and is cut with the others
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="inorder-http")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        guest = writer.transport
        task.add_done_callback(lambda _: self._open.remove(guest))
        oldest = self._open.add(guest)
        if oldest is not None:
            oldest.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(request.decode("latin-1")))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except asyncio.LimitOverrunError:
            writer.write(_encoded(_json(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, {}), has_body=True))
            writer.close()
        except (OSError, EOFError, TimeoutError):
            pass  # a scraper that went away, or says nothing
        finally:
            if not writer.is_closing():
                writer.transport.abort()

    def _response(self, request: str) -> bytes:
        first, _, rest = request.partition("\r\n")
        method, target, *_ = [*first.split(" "), "", ""]
        if method not in ("GET", "HEAD"):
            return _encoded(_json(HTTPStatus.METHOD_NOT_ALLOWED, {"allowed": ["GET", "HEAD"]}), has_body=True)
        headers = dict(line.lower().split(":", 1) for line in rest.split("\r\n") if ":" in line)
        return _encoded(self.answer(target, headers.get("accept", "").strip()), has_body=method == "GET")

    def answer(self, target: str, accept: str = "") -> Answer:
        """Return what a path (with its query) is answered with."""
        try:
            url = urlsplit(target)
            match url.path:
                case "/health/live":
                    return _json(HTTPStatus.OK, {"status": "live", "worker": self._settings.name})
                case "/health/ready":
                    is_ready, facts = self._health()
                    return _json(HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE, facts)
                case "/metrics":
                    return Answer(HTTPStatus.OK, *exposition.exposed(self._view, accept))
                case "/metrics/topics":
                    return Answer(HTTPStatus.OK, *exposition.exposed_topics(self._view, accept, _limit(url.query)))
        except MissingExtra as error:
            return _json(HTTPStatus.NOT_IMPLEMENTED, {"error": str(error)})
        except ValueError:
            allowed = f"limit=N with a whole number from 1 to {exposition.MAX_TOPICS}"
            return _json(HTTPStatus.BAD_REQUEST, {"error": f"invalid query: allowed is {allowed}"})
        return _json(HTTPStatus.NOT_FOUND, {"paths": PATHS})


PATHS: Final = ["/health/live", "/health/ready", "/metrics", "/metrics/topics"]


def _limit(query: str) -> int:
    """Return how many topics are asked for. Raises ValueError."""
    given = parse_qs(query, strict_parsing=bool(query)).get("limit", [])
    limit = int(given[-1]) if given else exposition.TOPIC_LIMIT
    if not 1 <= limit <= exposition.MAX_TOPICS:
        raise ValueError(query)
    return limit


def _encoded(answer: Answer, *, has_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.kind}\r\nContent-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if has_body else b"")
