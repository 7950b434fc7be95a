"""A client's machine by hand: what workers, brokers and the clock say, and what it wants done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from inorder.endpoint.effects import Alarm, Effect, Missed, Notify, Send
from inorder.endpoint.endpoint import Endpoint, EndpointTimes
from inorder.endpoint.notifications import Event, Gap
from inorder.endpoint.outputs import Mode
from inorder.endpoint.routing import Subscription
from inorder.protocol.arrival import Arrival
from inorder.protocol.filters import mqtt_filter
from inorder.protocol.names import FilterKind
from inorder.protocol.stamp import Stamp, TotalStamp, encode_stamp
from inorder.protocol.wire import Access, Frame, Opened, Subscribed, TopicInfo, TopicStart, Welcome

SPACE, DOMAIN = "m", 5
SESSION_TIMEOUT = 30.0
E = TypeVar("E", bound=Effect)
F = TypeVar("F", bound=Frame)


class Hand:
    """The endpoint with its clock; topics are ``t/1``, ``t/2`` and so on, at home on stage 0, the only one."""

    def __init__(self, mode: Mode = "strict", *, durable: bool = False, times: EndpointTimes | None = None) -> None:
        self.time = 100.0
        self.endpoint = Endpoint(mode, self, times, stream=9, durable=durable)
        self.endpoint.welcomed(Welcome(1, DOMAIN, "w", 1, [], 10_000, 1 << 20, "", [], Access("client")))
        self.endpoint.reached({0}, 0)
        self.endpoint.opened(Opened(0, 1, False, 0, int(SESSION_TIMEOUT * 1000)), self.time)
        self.done()
        self.pass_time(1.0)

    @property
    def now(self) -> Callable[[], float]:
        return lambda: self.time

    uptime = now

    def pass_time(self, seconds: float) -> None:
        """Let time pass; what it wants done at its end nobody sees."""
        self.time += seconds
        self.endpoint.tick()
        self.done()

    def done(self) -> list[Effect]:
        """Flush, and return what it wants done since the last call."""
        self.endpoint.flush()
        return list(self.endpoint.take())

    def all(self, kind: type[E]) -> list[E]:
        return [each for each in self.done() if isinstance(each, kind)]

    def sent(self, kind: type[F]) -> list[F]:
        return [each.frame for each in self.all(Send) if isinstance(each.frame, kind)]

    def told(self) -> list[Event | Gap]:
        """What the application gets."""
        found = [each for each in self.done() if isinstance(each, Notify | Missed)]
        return [each.event if isinstance(each, Notify) else each.gap for each in found]

    def words(self) -> list[str]:
        """The same, in words."""
        return [
            f"{each.topic} gap {each.first}" if isinstance(each, Gap) else f"{each.topic} {each.number} {each.verdict}"
            for each in self.told()
        ]

    def alarms(self) -> list[tuple[str, str, int]]:
        return [(each.kind, each.topic, each.number) for each in self.all(Alarm)]

    def subscribe(self, *filters: str, ordering: Literal["total", "fifo", "none"] = "total", starts: int = 0) -> None:
        """Subscribe, with what brokers and workers say to it; topics begin behind ``starts``."""
        adds = [Subscription(SPACE, mqtt_filter(each), ordering, 0, True) for each in filters]
        change = self.endpoint.change(adds)
        self.endpoint.broker_answered(change)
        if ordering == "total":
            wanted = self.endpoint.subscriber.change
            assert wanted is not None
            exact = [each.filter.name for each in wanted.filters if each.filter.kind is FilterKind.EXACT]
            topics = [TopicStart(info(int(name[2:])), starts, []) for name in exact]
            self.endpoint.receive(Subscribed(wanted.version, topics))
        self.done()

    def arrive(self, topic: int, number: int, *deps: int, domain: int = DOMAIN, **more: Any) -> None:
        """An event comes from the broker with its stamp."""
        self.arrive_with(TotalStamp(domain, topic, number, list(deps)), topic, **more)

    def arrive_with(self, stamp: Stamp | bytes | None, topic: int, **more: Any) -> None:
        data = stamp if stamp is None or isinstance(stamp, bytes) else encode_stamp(stamp)
        self.endpoint.arrived(SPACE, Arrival(f"t/{topic}", b"x", data, **more))


def info(topic: int) -> TopicInfo:
    return TopicInfo(topic, SPACE, f"t/{topic}", 0)
