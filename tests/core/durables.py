"""Durable subscriptions by hand (R18)."""

from __future__ import annotations

from tests.core.cluster import SPACE, Cluster

from inorder.protocol.names import exact
from inorder.protocol.pairs import joined
from inorder.protocol.wire import Done, SpaceFilter, StampedEvent, Subscribed, TopicStart
from inorder_worker.sequencer.commands import ChangeSubscription, LeaveSession, SaveNumbers, Tick


def change(cluster: Cluster, client: str, *names: str, incarnation: int = 1, version: int = 1) -> Subscribed:
    """A durable subscription changes, and rides to its end."""
    filters = [SpaceFilter(SPACE, exact(name)) for name in names]
    command = ChangeSubscription(client, incarnation, version, filters, False, durable=True)
    frames = cluster.step(len(cluster.stages) - 1, command) + cluster.run()
    return next(each for each in reversed(frames) if isinstance(each, Subscribed))


def starts(answer: Subscribed) -> dict[str, TopicStart]:
    return {each.topic.name: each for each in answer.topics}


def save(cluster: Cluster, client: str, incarnation: int = 1, **numbers: int) -> None:
    flat = joined((cluster.ids[name], number) for name, number in numbers.items())
    (answer,) = cluster.step(len(cluster.stages) - 1, SaveNumbers(client, incarnation, 9, flat))
    assert answer == Done(9)


def end_sessions(cluster: Cluster, client: str, incarnation: int = 1) -> None:
    """The client is gone for longer than its sessions live."""
    for stage in range(len(cluster.stages)):
        cluster.step(stage, LeaveSession(client, incarnation))
    cluster.now += 60_000
    for stage in range(len(cluster.stages)):
        cluster.step(stage, Tick())
    cluster.run()


def publish(cluster: Cluster, name: str, count: int = 1) -> list[StampedEvent]:
    events = [cluster.stamp("p", name, content=b"x") for _ in range(count)]
    cluster.settle("p", name, confirmed=[each.number for each in events])
    return events
