"""``inorder subscriptions``: the subscribed clients, and the end of subscriptions of gone ones (R12, R18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from inorder_cli import options, output
from inorder_cli.connection import talk
from inorder_cli.failures import ExitCode
from inorder_cli.flags import WORKERS, takes_settings

if TYPE_CHECKING:
    from inorder.protocol.wire import KnownSubscription
    from inorder.settings.reading import Loaded

subscriptions = options.group(
    name="subscriptions",
    help="Show who is subscribed with total order, and end durable subscriptions of clients that do not come back.",
)
"""The group of these commands."""


@subscriptions.command("list")
@takes_settings(WORKERS)
def list_all(
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Show all subscriptions: whose, whether durable, whether the client is there."""
    found = talk(lambda cluster: cluster.subscriptions(), loaded, timeout)
    if json:
        for each in found:
            output.emit(_plain(each))
        return ExitCode.OK
    for each in found:
        kind = "durable, " if each.durable else ""
        filters = ", ".join(f"{one.space}:{one.filter.text}" for one in each.filters)
        owner = f" (token: {each.owner})" if each.owner else ""
        output.say(output.printable(f"{each.client_id}: {kind}{_presence(each)}; {filters}{owner}"))
    if not found:
        output.say("nobody is subscribed")
    return ExitCode.OK


@subscriptions.command()
@takes_settings(WORKERS)
def end(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="The client's id.")],
    timeout: options.Timeout = 10.0,
    *,
    loaded: Loaded,
) -> int:
    """End the subscription of a client that is gone, with its saved clock; a client that comes back begins anew."""
    talk(lambda cluster: cluster.end_subscription(client), loaded, timeout)
    output.say("done")
    return ExitCode.OK


def _plain(each: KnownSubscription) -> dict[str, object]:
    return {
        "client": each.client_id,
        "durable": each.durable,
        "connected": each.away_ms == 0,
        "away": each.away_ms / 1000 if each.away_ms > 0 else None,
        "filters": [f"{one.space}:{one.filter.text}" for one in each.filters],
        "topics": each.topics,
        "token": each.owner or None,
    }


def _presence(each: KnownSubscription) -> str:
    if each.away_ms == 0:
        return "connected"
    return f"away for {each.away_ms / 1000:.0f} s" if each.away_ms > 0 else "away for longer than session_timeout"
