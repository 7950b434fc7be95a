"""Made by ``python -m tests.sync.stub`` from ``inorder.Client``."""

import datetime
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from inorder.client.client import Order
from inorder.client.delivery import Notification
from inorder.client.options import ClientTimes
from inorder.client.stats import ClientStats
from inorder.endpoint.notifications import Event, Gap
from inorder.endpoint.outputs import Mode
from inorder.endpoint.routing import Ordering
from inorder.ports import Ens
from inorder.sync.pending import PendingPublish
from inorder.sync.reading import Notifications
from inorder.traces.options import Traces

class Client:
    def __init__(
        self,
        brokers: str | Ens | Mapping[str, str | Ens],
        *,
        workers: str | Sequence[str] = ("localhost:7401",),
        client_id: str | None = None,
        token: str | None = None,
        durable: bool = False,
        mode: Mode = "strict",
        space: str | None = None,
        options: Mapping[str, Any] | None = None,
        times: ClientTimes | None = None,
        tls: ssl.SSLContext | None = None,
        traces: str | Path | Traces | None = None,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @property
    def client_id(self) -> str: ...
    @property
    def incarnation(self) -> int: ...
    def close(self, *, timeout: float | None = None) -> None: ...
    def publish(
        self,
        topic: str,
        payload: Any = b"",
        *,
        order: Order = "total",
        qos: int = 0,
        retain: bool = False,
        properties: Sequence[tuple[str, str]] = (),
        space: str | None = None,
    ) -> PendingPublish: ...
    def subscribe(
        self,
        *filters: str,
        ordering: Ordering = "total",
        qos: int = 0,
        space: str | None = None,
        timeout: float | None = None,
    ) -> None: ...
    def unsubscribe(self, *filters: str, space: str | None = None, timeout: float | None = None) -> None: ...
    def events(self) -> Notifications[Notification]: ...
    def replay(
        self, topic: str, *, from_: int | datetime.datetime | None = None, space: str | None = None
    ) -> Notifications[Event | Gap]: ...
    def stats(self) -> ClientStats: ...
