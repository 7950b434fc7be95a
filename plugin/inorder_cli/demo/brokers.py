"""The brokers of the demo: real ones on free ports, removed with all their files at its end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from inorder_cli.demo.plan import BrokerKind, Channel, SiteJob

NAMES = ("east", "west")

ABOUT = {
    BrokerKind.MQTT: (
        "two mosquitto brokers on this machine, bridged (MQTT 5, QoS 0); at each one publisher of its own topic and "
        "one subscriber of both topics, no artificial delay"
    ),
    BrokerKind.REDIS: (
        "two sites on this machine, each with a Redis primary for its own channel and a replica of the other site's; "
        "subscribers read both from the servers of their site, no artificial delay. (One primary and its replica alone "
        "never disagree: Redis replicates published messages in one stream.)"
    ),
    BrokerKind.MEMORY: (
        "an in-process broker that delays each delivery by 0 to 20 ms from a seeded generator, in the order of each "
        "publisher; no server needed, and the delay is artificial"
    ),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The places where the two sites publish and subscribe."""

    kind: BrokerKind
    publishes: tuple[Channel, Channel]
    subscribes: tuple[tuple[Channel, Channel], tuple[Channel, Channel]]

    def brokers(self) -> list[str]:
        """Return the first site's brokers, ``[space=]URL`` each."""
        found = [each.url if each.space is None else f"{each.space}={each.url}" for each in self.subscribes[0]]
        return list(dict.fromkeys(found))

    def jobs(self, count: int, rate: float, workers: tuple[str, ...] = ()) -> list[SiteJob]:
        """Return the sites' jobs; with ``workers`` those of the half with inorder."""
        return [
            SiteJob(
                name=name,
                kind=str(self.kind),
                publishes=self.publishes[site],
                subscribes=self.subscribes[site],
                count=count,
                rate=rate,
                workers=workers,
            )
            for site, name in enumerate(NAMES)
        ]


def layout(kind: BrokerKind, seed: int) -> contextlib.AbstractContextManager[Layout]:
    """Start the brokers of a kind. Raises MissingBinary with the line that installs what is missing."""
    match kind:
        case BrokerKind.MQTT:
            return _mqtt()
        case BrokerKind.REDIS:
            return _redis()
        case BrokerKind.MEMORY:
            return _memory(seed)


def _topics(kind: BrokerKind) -> tuple[str, str]:
    east, west = (f"demo/{name}" if kind is not BrokerKind.REDIS else f"demo.{name}" for name in NAMES)
    return east, west


def _one_space(kind: BrokerKind, urls: tuple[str, str]) -> Layout:
    """Make the layout in which each site's own broker has both topics."""
    topics = _topics(kind)
    east, west = (tuple(Channel(topic, None, url) for topic in topics) for url in urls)
    return Layout(kind, (east[0], west[1]), ((east[0], east[1]), (west[0], west[1])))


@contextlib.contextmanager
def _mqtt() -> Iterator[Layout]:
    from inorder.testing.services import bridged_mosquittos

    with bridged_mosquittos(max_queued=0) as (east, west):
        yield _one_space(BrokerKind.MQTT, (east.url, west.url))


@contextlib.contextmanager
def _redis() -> Iterator[Layout]:
    from inorder.testing.services import replicated_redis

    topics = _topics(BrokerKind.REDIS)
    with replicated_redis() as (east_primary, east_copy), replicated_redis() as (west_primary, west_copy):
        at_east = (Channel(topics[0], "east", east_primary.url), Channel(topics[1], "west", west_copy.url))
        at_west = (Channel(topics[0], "east", east_copy.url), Channel(topics[1], "west", west_primary.url))
        yield Layout(BrokerKind.REDIS, (at_east[0], at_west[1]), (at_east, at_west))


@contextlib.contextmanager
def _memory(seed: int) -> Iterator[Layout]:
    url = f"memory://demo?seed={seed}&delay_ms=0..20"
    yield _one_space(BrokerKind.MEMORY, (url, url))
