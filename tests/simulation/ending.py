"""What is left when a run is over: who waits for something, and what the stages know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.clients import Client

from inorder.protocol.wire import TopicInfo
from inorder_analytics.checks import Unfinished

if TYPE_CHECKING:
    from tests.simulation.world import World


def unfinished(client: Client) -> str:
    """Return what a client waits for, in words; empty: nothing."""
    module = client.module
    if client.publisher.pending:
        return f"{client.publisher} {list(client.publisher.publications)[:3]}"
    if client.subscriber.change is not None or client.is_resuming:
        return "a subscription change"
    if client.endpoint.durable is not None and not client.endpoint.durable.is_saved:
        return f"the saved clock {client.endpoint.durable.saving}"
    if client.endpoint.subscribing.drains or client.filters != {each.filter for each in client.subscriber.filters}:
        return f"topics that were left, at the broker {client.filters}"
    said = {} if module.is_idle else module.describe()
    if said and (module.waiting or any(each["is_awaited"] for each in said["unbegun"]["topics"].values())):
        return f"waiting {said['waiting']['entries']}, without a start {said['unbegun']}, clock {module.clock}"
    return ""


def finish(world: World) -> None:
    """Note what is left for the checks."""
    history = world.history
    for client in world.clients.values():
        if left := unfinished(client):
            history.unfinished.append(Unfinished(client.name, f"{left} ({client.history.mode})"))
        client.learn_end()
        client.give_up(set(client.publisher.publications.open))
        client.end_spans()
    for host in world.hosts:
        if host.stage._state.switch is not None:
            history.unfinished.append(Unfinished(f"stage {host.index}", "a change of the topic order"))
        host.note_states(always=True)
        for manager in host.stage._state.topics.values():
            if manager.stage == host.index:
                history.heads[manager.id] = manager.head
                _check_heard(world, host.stage._state.info(manager.id), manager.head)
    if world.profile.logged:
        _check_logs(world)


def _check_heard(world: World, topic: TopicInfo, head: int) -> None:
    """R13, R17: who has a new topic by a filter knows of it, though the broker may have lost all of its events."""
    for client in world.clients.values():
        if head and client.subscriber.covers(topic) and topic.id not in client.module.clock:
            world.history.unfinished.append(Unfinished(client.name, f"has never heard of {topic.label}"))


def _check_logs(world: World) -> None:
    """R18: what the log has is neither lost nor abandoned nor void."""
    history = world.history
    for client in world.clients.values():
        for gap in client.history.gaps:
            if gap.reason in ("lost", "abandoned"):
                history.unfinished.append(Unfinished(client.name, f"{gap}, though the log has it"))
    for place, state in history.states.items():
        if state in ("VOID", "ABANDONED"):
            history.unfinished.append(Unfinished("a stage", f"{place} {state}, though the log has it"))
