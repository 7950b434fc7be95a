"""``inorder sub``: prints the events of some topics in total order."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inorder_cli import formats, options, output
from inorder_cli.connection import make_client, run_until_stopped
from inorder_cli.failures import CommandFailed, ExitCode
from inorder_cli.flags import CLIENT, Flags, takes_settings

if TYPE_CHECKING:
    import inorder
    from inorder.settings.reading import Loaded

FORMAT_HELP = (
    "How to print an event. Fields: "
    + "; ".join(f"%{name} {text}" for name, text in formats.FIELDS.items())
    + ". Escapes: "
    + " ".join(f"\\{name}" for name in formats.ESCAPES)
    + ". A line end follows each."
)

_FLAGS: Flags = {
    "client.mode": (
        "<strict|tag|bounded>",
        "How long an event waits for those before it. strict: until they are here or known missing; "
        "tag: not at all, what comes too late is tagged late; bounded: up to --buffer or --max-wait.",
    ),
    "client.buffer": ("N", "bounded: as many events may wait."),
    "client.max_wait": ("SECONDS", "bounded: so long may one wait."),
    **CLIENT,
}


@takes_settings(_FLAGS)
def sub(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC...", help="Topics or filters: a/b, a/+, a/# (MQTT), a.* (Redis).")
    ],
    ordering: Annotated[
        options.Order,
        typer.Option(help="total: one order for all topics; fifo: each publisher's order only; none: as they arrive."),
    ] = options.Order.TOTAL,
    space: options.Space = None,
    *,
    loaded: Loaded,
    durable: Annotated[
        bool,
        typer.Option(
            "--durable",
            help="Stay subscribed when this ends, and go on from here when it runs again with the same --client-id "
            "(topics with an event log then lose nothing). See: inorder subscriptions.",
        ),
    ] = False,
    count: Annotated[int | None, typer.Option("--count", "-C", min=1, help="End after so many events.")] = None,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait", "-W", min=0, metavar="SECONDS", help="End after so long; exit code 124 if -C was not reached."
        ),
    ] = None,
    form: Annotated[str, typer.Option("--format", "-F", metavar="TEXT", help=FORMAT_HELP)] = formats.DEFAULT,
    qos: options.Qos = 0,
    json: options.Json = False,
) -> int:
    """Print the events of some topics, in the one order that every subscriber sees.

    Gaps (numbers known missing) and reconnections are told on stderr, or in the stream with --json. Ends with -C,
    -W or Ctrl-C.

    Example: inorder sub 'stocks/#' news -F '%t: %p'
    """
    print_item = printer(form, as_json=json)
    section = loaded.settings.client
    if durable:
        _check_durable(ordering, section.client_id)
    subscription = {"ordering": str(ordering), "qos": qos, "space": space}
    with loaded.located("client"):
        connection = make_client(section, durable=durable)
        return run_until_stopped(_stream(connection, topics, subscription, print_item, count, wait))


def _check_durable(ordering: options.Order, client_id: str | None) -> None:
    """Require total order and a client id for a durable subscription, as workers know no other."""
    if ordering is not options.Order.TOTAL:
        raise CommandFailed(f"--durable goes with --ordering total only, not {ordering}", ExitCode.USAGE)
    if client_id is None:
        raise CommandFailed("--durable needs the name to come back by: --client-id TEXT", ExitCode.USAGE)


async def _stream(
    client: inorder.Client,
    topics: list[str],
    subscription: dict[str, Any],
    print_item: Callable[[Any], bool],
    count: int | None,
    wait: float | None,
) -> int:
    async with client:
        await client.subscribe(*topics, **subscription)
        output.say(output.printable(f"subscribed to {', '.join(topics)}"))
        try:
            async with asyncio.timeout(wait):
                async for item in client.events():
                    if print_item(item) and count is not None:
                        count -= 1
                        if count == 0:
                            return ExitCode.OK
        except TimeoutError:
            return ExitCode.OK if count is None else ExitCode.TIMED_OUT
    return ExitCode.OK


def printer(form: str, *, as_json: bool) -> Callable[[Any], bool]:
    """Return a function that prints an item and tells whether it was an event."""
    render = formats.compiled(form, terminal=output.is_terminal())

    def print_json(item: Any) -> bool:
        shown = formats.as_dict(item)
        output.emit(shown)
        return bool(shown["type"] == "event")

    def print_text(item: Any) -> bool:
        shown = formats.as_dict(item)
        if shown["type"] == "event":
            sys.stdout.buffer.write(render(item) + b"\n")
            sys.stdout.buffer.flush()
            return True
        kind = shown.pop("type")
        output.say(output.printable(f"{kind}: " + " ".join(f"{key}={value}" for key, value in shown.items())))
        return False

    return print_json if as_json else print_text
