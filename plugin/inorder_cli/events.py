"""``inorder events``: the workers' knowledge of one event."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inorder_cli import options, output
from inorder_cli.connection import talk
from inorder_cli.failures import CommandFailed, ExitCode
from inorder_cli.flags import WORKERS, takes_settings
from inorder_cli.naming import ids_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from inorder.protocol.wire import NumberState, TopicOrder
    from inorder.settings.reading import Loaded
    from inorder_worker.admin import Cluster, EventState

events = options.group(
    name="events",
    help="Show what the workers know of an event.",
)
"""The group of these commands."""


@events.command()
@takes_settings(WORKERS)
def show(
    topic: options.Topic,
    number: Annotated[int, typer.Argument(metavar="NUMBER", min=1, help="Its number in the topic.")],
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Show the outcome of an event's number, the publisher, the dependencies, and the payload if there is a log."""

    async def look(
        cluster: Cluster,
    ) -> tuple[TopicOrder, EventState | None, dict[tuple[int, int], NumberState], list[str]]:
        order = await cluster.order()
        id_ = ids_of(order, [topic])[0]
        found = await cluster.find_event(id_, number)
        if found is None:
            return order, found, {}, []
        return order, found, await cluster.number_states(found.deps), await cluster.waiting_for(id_, number)

    order, found, states, waiting = talk(look, loaded, timeout)
    if found is None:
        raise CommandFailed(f"topic {output.printable(topic)!r} has had no number {number} yet")
    names = {info.id: info.label for info in order.topics}
    dependencies = before(found, names, states)
    plain = {**_plain(found, topic, dependencies), "waiting": waiting}
    if json:
        output.emit(plain)
    else:
        _print(plain)
    return ExitCode.OK


def before(
    found: EventState, names: Mapping[int, str], states: Mapping[tuple[int, int], NumberState]
) -> list[dict[str, Any]]:
    """Return the dependencies of an event, with the names of topics and the states of numbers."""
    return [
        {
            "topic": names.get(topic, f"topic {topic}"),
            "number": at,
            "state": states[topic, at].name.lower() if (topic, at) in states else "never given",
        }
        for topic, at in found.deps
    ]


def _plain(found: EventState, topic: str, before: list[dict[str, Any]]) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "topic": topic,
        "number": found.number,
        "state": found.state.name.lower(),
        "complete": found.is_complete,
        "client": found.client_id or None,
        "incarnation": found.incarnation if found.counter else None,
        "counter": found.counter or None,
        "dependencies": before,
        "logged": found.logged,
        "stored_at": None,
    }
    if found.stored_ms:
        plain["stored_at"] = datetime.fromtimestamp(found.stored_ms / 1000, UTC).isoformat(timespec="milliseconds")
    if found.content is not None:
        try:
            plain["payload"] = found.content.payload.decode()
        except UnicodeDecodeError:
            plain["payload_base64"] = base64.b64encode(found.content.payload).decode()
    return plain


def _print(plain: dict[str, Any]) -> None:
    for key, value in plain.items():
        if isinstance(value, list):
            value = ", ".join(map(_in_words, value)) or "nothing"
        shown = ("no", "yes")[value] if isinstance(value, bool) else "unknown" if value is None else value
        output.write(output.printable(f"{key.replace('_', ' ')}: {shown}"))


def _in_words(each: dict[str, Any] | str) -> str:
    """Return a dependency, or a waiting client, in words."""
    return each if isinstance(each, str) else f"{each['topic']} {each['number']} ({each['state']})"
