"""``inorder log``: the topics that have an event log (R18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from inorder_cli import options, output
from inorder_cli.connection import talk
from inorder_cli.failures import CommandFailed, ExitCode
from inorder_cli.flags import WORKERS, takes_settings
from inorder_cli.naming import split

if TYPE_CHECKING:
    from inorder.protocol.wire import LogRule
    from inorder.settings.reading import Loaded
    from inorder_worker.admin import Cluster

log = options.group(
    name="log",
    help="Show and change which topics have an event log, while everything runs.",
)
"""The group of these commands."""

ALLOWED = "space:filter, such as mqtt:orders/#"
MOST = 2**53
"""The highest bound of a log that can be asked for."""

Filters = Annotated[
    list[str],
    typer.Argument(metavar="SPACE:FILTER...", help="Topics or filters with their space: mqtt:orders/#, redis:orders.*"),
]
Glob = Annotated[
    bool | None,
    typer.Option("--glob/--no-glob", help="Read * ? [...] as Redis does; else where the space begins with redis."),
]


@log.command()
@takes_settings(WORKERS)
def show(
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Show the rules, and the topics that have a log by them."""

    async def look(cluster: Cluster) -> None:
        rules = await cluster.log_rules()
        topics = (info.label async for part in cluster.logged_topics() for info in part)
        if json:
            output.emit({"rules": [_plain(rule) for rule in rules], "topics": [each async for each in topics]})
            return
        for rule in rules:
            output.say(output.printable(_text(rule)))
        async for topic in topics:
            output.say(output.printable(f"  {topic}"))
        if not rules:
            output.say("no topic has an event log")

    talk(look, loaded, timeout)
    return ExitCode.OK


@log.command()
@takes_settings(WORKERS)
def on(
    filters: Filters,
    max_age: Annotated[
        float, typer.Option(min=0, max=MOST // 1000, metavar="SECONDS", help="Forget what is older; 0: however old.")
    ] = 604_800.0,
    max_count: Annotated[
        int, typer.Option(min=0, max=MOST, metavar="N", help="Events of each topic; 0: any number.")
    ] = 100_000,
    max_bytes: Annotated[
        int, typer.Option(min=0, max=MOST, metavar="BYTES", help="Bytes of each topic; 0: any number.")
    ] = 268_435_456,
    glob: Glob = None,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
) -> int:
    """Give topics an event log: from now on what is published there can be repaired, resumed and replayed."""
    bounds = round(max_age * 1000), max_count, max_bytes
    rules = [_rule(each, glob, *bounds) for each in filters]

    async def turn_on(cluster: Cluster) -> None:
        for rule in rules:
            await cluster.change_log(rule, is_on=True)

    talk(turn_on, loaded, timeout)
    output.say("done")
    return ExitCode.OK


@log.command()
@takes_settings(WORKERS)
def off(
    filters: Filters,
    glob: Glob = None,
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
) -> int:
    """Remove rules, given as they were made. Logs that no other rule keeps are forgotten at once."""
    wanted = [split(each, ALLOWED) for each in filters]

    async def turn_off(cluster: Cluster) -> None:
        known = await cluster.log_rules()
        for rule in [rule for space, text in wanted for rule in _made(known, space, text, glob)]:
            await cluster.change_log(rule, is_on=False)

    talk(turn_off, loaded, timeout)
    output.say("done")
    return ExitCode.OK


def _rule(text: str, glob: bool | None, *bounds: int) -> LogRule:
    from inorder.errors import InvalidFilter
    from inorder.protocol.filters import filter_of
    from inorder.protocol.wire import LogRule

    space, name = split(text, ALLOWED)
    try:
        return LogRule(space, filter_of(space, name, glob=glob), *bounds)
    except InvalidFilter as error:
        text = f"{error} (--glob reads a filter as Redis does, --no-glob as MQTT)"
        raise CommandFailed(text, ExitCode.USAGE) from None


def _made(known: list[LogRule], space: str, text: str, glob: bool | None) -> list[LogRule]:
    """Return the rules made from a text, also a rule that would be refused today but must be removable."""
    from inorder.protocol.names import FilterKind

    made = [rule for rule in known if (rule.space, rule.filter.text) == (space, text)]
    if glob is not None:  # of a text without wildcards, both readings are the same rule
        kinds = {FilterKind.EXACT, FilterKind.REDIS if glob else FilterKind.MQTT}
        made = [rule for rule in made if rule.filter.kind in kinds]
    if not made:
        raise CommandFailed(f"there is no such rule: {output.printable(f'{space}:{text}')}")
    return made


def _plain(rule: LogRule) -> dict[str, object]:
    return {
        "space": rule.space,
        "filter": rule.filter.text,
        "kind": str(rule.filter.kind),
        "max_age": rule.max_age_ms / 1000,
        "max_count": rule.max_count,
        "max_bytes": rule.max_bytes,
    }


def _text(rule: LogRule) -> str:
    age = f"{rule.max_age_ms / 1000:g} s" if rule.max_age_ms else "any age"
    count = f"{rule.max_count} events" if rule.max_count else "any number of events"
    size = f"{rule.max_bytes} bytes" if rule.max_bytes else "any number of bytes"
    return f"{rule.space}:{rule.filter.text} keeps of each topic: {age}, {count}, {size}"
