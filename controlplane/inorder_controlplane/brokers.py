"""The control plane's own connections to the brokers, for the live tail and test events.

A tail subscribes with ordering none (R21): topic managers do not know of it, so looking on costs nobody anything.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import inorder
from inorder.endpoint.notifications import Event
from inorder.settings.texts import split_brokers
from inorder_controlplane import payloads
from inorder_controlplane.models.common import moment
from inorder_controlplane.problems import Problem

MAX_TAIL_PAYLOAD: Final = 16 * 1024
"""Bytes of a payload that a tail shows; of a longer one it shows the beginning."""
MAX_TAIL_TOPICS: Final = 10_000
"""Topics whose highest number a tail remembers."""
MAX_TAIL_UNREAD: Final = 1000
MAX_TAIL_UNREAD_BYTES: Final = 16 * 1024 * 1024
"""Events, and their bytes, that may wait for a slow browser before they are dropped."""


def brokers_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Return the configured brokers' URLs by space. Raises InvalidOption."""
    if not texts:
        return {}
    found = split_brokers(texts)
    return {found.partition("://")[0]: found} if isinstance(found, str) else found


def broker_of(brokers: Mapping[str, str], space: str) -> str:
    """Return the URL of a space's broker. Raises Problem where none is configured."""
    url = brokers.get(space)
    if url is None:
        spaces = sorted(brokers)
        detail = f"no broker is configured for space {space!r}" if spaces else "no broker is configured"
        raise Problem("invalid", detail, allowed=spaces or "the setting controlplane.brokers")
    return url


def tail_client(space: str, url: str) -> inorder.Client:
    """Return an unopened client for a live tail. Raises UsageErrors and MissingExtra."""
    times = inorder.ClientTimes(max_undelivered=MAX_TAIL_UNREAD, max_undelivered_bytes=MAX_TAIL_UNREAD_BYTES)
    return inorder.Client({space: url}, workers=(), times=times)


class Tail:
    """Makes the messages of one live tail.

    The broker's own arrival order is shown, not that of inorder: ``late`` tells that a higher number of the topic came
    before.

    Attributes:
        client: where the events come from.
        skipped: events that were not sent because there were too many.
    """

    def __init__(self, client: inorder.Client) -> None:
        self.client = client
        self.skipped = 0
        self._highest: OrderedDict[str, int] = OrderedDict()
        self._told = 0

    def event(self, event: Event, now_ms: int) -> dict[str, Any]:
        """Return the message for an event."""
        shown = event.payload[:MAX_TAIL_PAYLOAD]
        text = payloads.text_of(shown)
        payload = payloads.fields_of(shown) if text is None else {"payload_base64": None, "payload_text": text}
        return {
            "type": "event",
            "topic": {"space": event.space, "name": event.topic},
            "number": None if event.number is None else str(event.number),
            "late": self._is_late(event),
            "retained": event.retained,
            "at": moment(now_ms),
            **payload,
            "size": len(event.payload),
            "truncated": len(event.payload) > len(shown),
        }

    def dropped(self) -> dict[str, Any] | None:
        """Return the message about events dropped since the last one; ``None`` without any."""
        total = self.skipped + self.client.stats().overflow
        count, self._told = total - self._told, total
        return {"type": "dropped", "count": count} if count > 0 else None

    def _is_late(self, event: Event) -> bool:
        if event.number is None or event.retained:
            return False
        highest = self._highest.pop(event.topic, 0)
        self._highest[event.topic] = max(highest, event.number)
        if len(self._highest) > MAX_TAIL_TOPICS:
            self._highest.popitem(last=False)
        return event.number <= highest
