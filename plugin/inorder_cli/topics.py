"""``inorder topics``: all topics with their figures, one topic in detail, and new topics (R13)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from inorder_cli import options, output
from inorder_cli.connection import talk
from inorder_cli.failures import ExitCode
from inorder_cli.flags import WORKERS, takes_settings
from inorder_cli.naming import ids_of, split

if TYPE_CHECKING:
    from inorder.protocol.wire import TopicInfo
    from inorder.settings.reading import Loaded
    from inorder_worker.admin import Cluster, TopicState

topics = options.group(
    name="topics",
    help="Show topics with their figures, and create them ahead of their first event. (To pin and move them: "
    "inorder order.)",
)
"""The group of these commands."""


@topics.command("list")
@takes_settings(WORKERS)
def list_all(
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Show all topics in the topic order, the highest first: stage, last number, rate, and what became of numbers."""
    found = talk(lambda cluster: cluster.topics(groups=False), loaded, timeout)
    if json:
        for each in found:
            output.emit(_plain(each))
    elif found:
        _print(found)
    else:
        output.say("there are no topics yet")
    return ExitCode.OK


@topics.command()
@takes_settings(WORKERS)
def show(
    topic: options.Topic,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Show one topic, with its sequencing group: the topics whose numbers its timestamps carry."""

    async def look(cluster: Cluster) -> tuple[TopicState, list[TopicInfo]]:
        order = await cluster.order()
        (found,) = await cluster.topics(ids_of(order, [topic]))
        group = set(found.group)
        return found, [info for info in order.topics if info.id in group]

    found, group = talk(look, loaded, timeout)
    plain = {**_plain(found), "group": [each.label for each in group]}
    if json:
        output.emit(plain)
        return ExitCode.OK
    for key, value in plain.items():
        shown = ", ".join(value) or "no other topic" if isinstance(value, list) else _text(value)
        output.write(output.printable(f"{key.replace('_', ' ')}: {shown}"))
    return ExitCode.OK


@topics.command()
@takes_settings(WORKERS)
def create(
    names: options.Topics,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Create topics, last in the topic order; existing ones are left unchanged."""
    wanted = [split(each) for each in names]

    async def make(cluster: Cluster) -> list[TopicInfo]:
        return [await cluster.create(*each) for each in wanted]

    for made in talk(make, loaded, timeout):
        if json:
            output.emit({"topic": made.label, "id": made.id, "stage": made.stage})
        else:
            output.say(output.printable(f"{made.label}: id {made.id}, stage {made.stage}"))
    return ExitCode.OK


def _plain(state: TopicState) -> dict[str, Any]:
    fields = asdict(state)
    for key in ("space", "name", "group", "is_reached", "is_retired"):
        del fields[key]
    fields["rate"] = round(state.rate, 3)
    return {"topic": state.label, **fields, "retired": state.is_retired, "reached": state.is_reached}


def _text(value: Any) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


COLUMNS = ("stage", "topic", "number", "per s", "confirmed", "pending", "void", "abandoned", "late", "")


def _print(found: list[TopicState]) -> None:
    rows = [COLUMNS, *map(_row, found)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    for row in rows:
        texts = [text.ljust(width) for text, width in zip(row[:2], widths, strict=False)]
        figures = [text.rjust(width) for text, width in zip(row[2:-1], widths[2:], strict=False)]
        output.write("  ".join([*texts, *figures, row[-1]]).rstrip())


def _row(each: TopicState) -> tuple[str, ...]:
    counts = (each.confirmed, each.pending, each.void, each.abandoned, each.late)
    figures = [str(each.number), f"{each.rate:.1f}", *map(str, counts)] if each.is_reached else ["?"] * 7
    marks = [name for name, is_so in (("pinned", each.pinned), ("log", each.logged)) if is_so]
    return str(each.stage), output.printable(each.label), *figures, " ".join(marks)
