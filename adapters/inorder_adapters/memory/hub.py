"""The in-process broker itself, and the controls for its misbehaviour in tests."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inorder.errors import InorderError, LinkError, Refused
from inorder.protocol.names import Filter

if TYPE_CHECKING:
    from inorder_adapters.memory.delivery import Line

Properties = tuple[tuple[str, str], ...]

_hubs: dict[str, Hub] = {}


def hub(name: str) -> Hub:
    """Return the broker of this name, which lives as long as the process."""
    return _hubs.setdefault(name, Hub(name))


@dataclass(slots=True, eq=False)
class WireMessage:
    """A message as the broker holds it: the stamp is in the properties or in the payload, as it was published."""

    topic: str
    payload: bytes
    qos: int = 0
    properties: Properties = ()


@dataclass(slots=True, eq=False)
class Member:
    """One connected client, as the broker sees it."""

    client_id: str
    line: Line
    filters: dict[str, tuple[Filter, int]] = field(default_factory=dict)
    overlap_once: bool = False


class Hub:
    """An in-process broker with MQTT filters and retained messages.

    Attributes:
        name: as in the URL.
        members: the connected clients by client id.
        retained: the last retained message of each topic.
        counters: ``published``, ``refused``, ``delivered``, ``lost`` and ``duplicated``, over all clients.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[str, Member] = {}
        self.retained: dict[str, WireMessage] = {}
        self.counters: Counter[str] = Counter()
        self._down = False
        self._refusals: dict[str, deque[InorderError]] = {}

    # -- controls ----------------------------------------------------------------------------------------------

    def cut(self, client_id: str, reason: str = "connection cut") -> None:
        """Break a client's connection and lose the messages on their way. Raises KeyError for an unknown client."""
        member = self.members[client_id]
        self.leave(member)
        member.line.broken(LinkError(reason))

    def cut_all(self, reason: str = "broker stopped") -> None:
        """Break every connection."""
        for client_id in list(self.members):
            self.cut(client_id, reason)

    def stop(self) -> None:
        """Break every connection and refuse new ones until :meth:`start`."""
        self._down = True
        self.cut_all()

    def start(self) -> None:
        """Accept connections again."""
        self._down = False

    def stall(self, client_id: str) -> None:
        """Hold everything for a client back, deliveries and acknowledgements, until :meth:`resume`."""
        self.members[client_id].line.stall()

    def resume(self, client_id: str) -> None:
        """Let a stalled client's messages go, in their order."""
        self.members[client_id].line.resume()

    def refuse_publishes(self, client_id: str, count: int = 1, error: InorderError | None = None) -> None:
        """Refuse a client's next publishes."""
        queue = self._refusals.setdefault(client_id, deque())
        queue.extend([error or Refused("the broker refuses this publish")] * count)

    # -- what clients do ---------------------------------------------------------------------------------------

    @property
    def is_down(self) -> bool:
        """Tell whether the broker refuses connections."""
        return self._down

    def join(self, member: Member) -> None:
        """Let a client in; an older connection of the same client id is cut, as MQTT brokers do."""
        if member.client_id in self.members:
            self.cut(member.client_id, "another client connected with the same client id")
        self.members[member.client_id] = member

    def leave(self, member: Member) -> None:
        """Forget a client."""
        if self.members.get(member.client_id) is member:
            del self.members[member.client_id]

    def subscribe(self, member: Member, wanted: Filter, qos: int) -> None:
        """Add a filter to a client and send it the retained messages."""
        member.filters[wanted.text] = (wanted, qos)
        for message in self.retained.values():
            if wanted.covers(message.topic):
                member.line.deliver("", message, (wanted.text,), min(qos, message.qos), retained=True)

    def publish(self, client_id: str, message: WireMessage, *, retain: bool) -> None:
        """Take a message and pass it to every subscriber. Raises Refused."""
        refusals = self._refusals.get(client_id)
        if refusals:
            self.counters["refused"] += 1
            raise refusals.popleft()
        self.counters["published"] += 1
        if retain and message.payload:
            self.retained[message.topic] = message
        elif retain:
            self.retained.pop(message.topic, None)
        for member in list(self.members.values()):
            for via, qos in _copies(member, message.topic):
                member.line.deliver(client_id, message, via, min(qos, message.qos), retained=False)


def _copies(member: Member, topic: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield, for each copy of a message that a client gets, the filters and the quality of service of this copy."""
    covering = [(text, qos) for text, (wanted, qos) in member.filters.items() if wanted.covers(topic)]
    if not member.overlap_once:
        yield from (((text,), qos) for text, qos in covering)
    elif covering:
        yield tuple(text for text, _ in covering), max(qos for _, qos in covering)
