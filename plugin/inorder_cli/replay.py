"""``inorder replay``: prints a topic's event log (R18)."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inorder_cli import formats, options
from inorder_cli.connection import make_client, run_until_stopped
from inorder_cli.failures import CommandFailed, ExitCode
from inorder_cli.flags import READER, takes_settings
from inorder_cli.sub import FORMAT_HELP, printer

if TYPE_CHECKING:
    import inorder
    from inorder.settings.reading import Loaded


@takes_settings(READER)
def replay(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic that has an event log.")],
    begin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="NUMBER|TIME", help="The first number, or a time (ISO 8601); else all there is."
        ),
    ] = None,
    form: Annotated[str, typer.Option("--format", "-F", metavar="TEXT", help=FORMAT_HELP)] = formats.DEFAULT,
    space: options.Space = None,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Print the events of a topic's event log, in their order, up to the present.

    Example: inorder replay orders/eu --from 2026-01-05T09:00:00+01:00
    """
    first = _beginning(begin)
    print_item = printer(form, as_json=json)
    with loaded.located("client"):
        return run_until_stopped(_print(make_client(loaded.settings.client), topic, first, space, print_item))


async def _print(
    client: inorder.Client,
    topic: str,
    first: int | datetime.datetime | None,
    space: str | None,
    print_item: Callable[[Any], bool],
) -> int:
    async with client:
        async for item in client.replay(topic, from_=first, space=space):
            print_item(item)
    return ExitCode.OK


def _beginning(text: str | None) -> int | datetime.datetime | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        allowed = "a number from 1, or a time such as 2026-01-05T09:00:00+01:00"
        raise CommandFailed(f"--from {text!r} is not allowed; allowed is {allowed}", ExitCode.USAGE) from None
    return when.astimezone()
