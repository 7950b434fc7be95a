"""``inorder gaps``: numbers that subscribers wait for, the reasons, and an operator's remedies (R16, R17)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inorder_cli import options, output
from inorder_cli.connection import talk
from inorder_cli.failures import CommandFailed, ExitCode
from inorder_cli.flags import WORKERS, takes_settings
from inorder_cli.naming import ids_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from inorder.protocol.wire import TopicOrder
    from inorder.settings.reading import Loaded
    from inorder_worker.admin import Cluster, StuckNumber

gaps = options.group(
    name="gaps",
    help="Show numbers that are stuck, and why; give them up, or have them fetched from the event log.",
)
"""The group of these commands."""


class As(StrEnum):
    """The outcomes that a released number can get."""

    VOID = "void"
    ABANDONED = "abandoned"


First = Annotated[int, typer.Argument(metavar="FIRST", min=1, help="The number, or the first of several.")]
Last = Annotated[int | None, typer.Argument(metavar="[LAST]", min=1, help="The last number.")]
UNSURE = "what is still stuck shows: inorder gaps list"
"""What to say where no answer came in time."""


@gaps.command("list")
@takes_settings(WORKERS)
def list_all(
    older: Annotated[
        float, typer.Option(min=0, max=10**9, metavar="SECONDS", help="Only what is stuck for longer than this.")
    ] = 1.0,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Show numbers without an outcome, with publishers and reasons, and other numbers that clients wait for."""

    async def look(cluster: Cluster) -> tuple[TopicOrder, list[StuckNumber]]:
        return await cluster.order(), await cluster.stuck(older_s=older)

    order, found = talk(look, loaded, timeout)
    names = {info.id: info.label for info in order.topics}
    for each in found:
        plain = _plain(each, names)
        if json:
            output.emit(plain)
        else:
            output.write(output.printable(_text(plain)))
    if not found and not json:
        output.say("nothing is stuck")
    return ExitCode.OK


@gaps.command()
@takes_settings(WORKERS)
def release(
    topic: options.Topic,
    first: First,
    last: Last = None,
    as_: Annotated[
        As,
        typer.Option(
            "--as",
            help="void: skipped silently, for events that certainly did not reach the broker; abandoned: each "
            "subscriber is told of a gap.",
        ),
    ] = As.ABANDONED,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Give up pending numbers in place of their publisher, so that subscribers go on without them.

    Their publisher hears of it when it confirms them. An event that arrives nonetheless is delivered by subscribers
    that have not skipped its number yet, and dropped by the others; their orders never differ.
    """

    async def give_up(cluster: Cluster) -> list[int]:
        (id_,) = ids_of(await cluster.order(), [topic])
        return await cluster.release(id_, first, _end(first, last), "void" if as_ is As.VOID else "abandoned")

    return _changed(talk(give_up, loaded, timeout, UNSURE), f"released as {as_}", json)


@gaps.command()
@takes_settings(WORKERS)
def repair(
    topic: options.Topic,
    first: First,
    last: Last = None,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Confirm pending numbers found in the event log, from which subscribers then fetch the events."""

    async def confirm(cluster: Cluster) -> list[int]:
        (id_,) = ids_of(await cluster.order(), [topic])
        return await cluster.confirm_logged(id_, first, _end(first, last))

    return _changed(talk(confirm, loaded, timeout, UNSURE), "repaired", json)


def _end(first: int, last: int | None) -> int:
    if last is not None and last < first:
        raise CommandFailed(f"LAST {last} is not allowed; allowed is {first} (FIRST) and higher", ExitCode.USAGE)
    return first if last is None else last


def _changed(numbers: list[int], how: str, as_json: bool) -> int:
    if as_json:
        output.emit({"numbers": numbers})
    else:
        output.say(f"{how}: {', '.join(map(str, numbers))}")
    return ExitCode.OK


def _plain(each: StuckNumber, names: Mapping[int, str]) -> dict[str, Any]:

    def label(topic: int) -> str:
        return names.get(topic, f"topic {topic}")

    return {
        "topic": label(each.topic),
        "first": each.first,
        "last": each.last,
        "state": each.state.name.lower(),
        "reason": each.reason,
        "client": each.client_id or None,
        "away": each.away_ms / 1000 if each.away_ms > 0 else None,
        "age": each.age_ms / 1000,
        "logged": each.logged,
        "waiting": list(each.waiting),
        "holds": None if each.holds is None else {"topic": label(each.holds[0]), "number": each.holds[1]},
    }


def _text(plain: dict[str, Any]) -> str:
    numbers = str(plain["first"]) if plain["first"] == plain["last"] else f"{plain['first']} to {plain['last']}"
    away = f" for {plain['away']:.0f} s" if plain["away"] and "away" in plain["reason"] else ""
    log = "; in the event log" if plain["logged"] else ""
    whose = f" old, of {plain['client']}" if plain["client"] else ""
    waiting = ""
    if plain["holds"]:
        holds = plain["holds"]
        waiting = f"; waited for by {', '.join(plain['waiting'])}, with {holds['topic']} {holds['number']}"
    age = f"{plain['age']:.0f} s{whose}{log}{waiting}"
    return f"{plain['topic']} {numbers}: {plain['state']}, {plain['reason']}{away} ({age})"
