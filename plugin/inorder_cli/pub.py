"""``inorder pub``: publish to a topic."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inorder_cli import options, output
from inorder_cli.connection import make_client, run_until_stopped
from inorder_cli.failures import CommandFailed, ExitCode
from inorder_cli.flags import CLIENT, takes_settings

if TYPE_CHECKING:
    import inorder
    from inorder.settings.reading import Loaded

IN_FLIGHT = 1000
"""Publishes that may be unanswered at once; more would only fill memory."""


@takes_settings(CLIENT)
def pub(
    topic: Annotated[str, typer.Argument(help="Topic to publish to, without wildcards.")],
    payload: Annotated[str | None, typer.Argument(help="The payload; or use one of -f, -l and -n.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Payload from a file (-: stdin).")
    ] = None,
    lines: Annotated[bool, typer.Option("--stdin-line", "-l", help="Publish each line of stdin.")] = False,
    empty: Annotated[
        bool, typer.Option("--empty", "-n", help="Empty payload; with --retain it clears the topic.")
    ] = False,
    repeat: Annotated[int, typer.Option("--repeat", "-r", min=1, help="Publish so many times.")] = 1,
    order: Annotated[
        options.Order, typer.Option(help="total: in the one order; fifo: in this publisher's order; none: as it is.")
    ] = options.Order.TOTAL,
    retain: Annotated[bool, typer.Option("--retain", help="The broker keeps it for later subscribers (MQTT).")] = False,
    wait: Annotated[
        float | None,
        typer.Option("--wait", "-W", min=0, metavar="SECONDS", help="Give up after so long, with code 124."),
    ] = None,
    qos: options.Qos = 0,
    space: options.Space = None,
    *,
    loaded: Loaded,
    json: options.Json = False,
) -> int:
    """Publish to a topic and wait until the broker has it. With --json prints one receipt a line.

    Example: inorder pub stocks/ACME 101.5
    """
    payloads = _payloads(payload, file, lines=lines, empty=empty, repeat=repeat)
    publish = {"order": str(order), "qos": qos, "retain": retain, "space": space}
    with loaded.located("client"):
        connection = make_client(loaded.settings.client)
        return run_until_stopped(_publish_all(connection, topic, payloads, publish, as_json=json, wait=wait))


def _payloads(payload: str | None, file: Path | None, *, lines: bool, empty: bool, repeat: int) -> AsyncIterator[bytes]:
    """Determine the payloads before any connection is made."""
    if sum((payload is not None, file is not None, lines, empty)) != 1:
        raise typer.BadParameter("give exactly one of PAYLOAD, -f FILE, -l (stdin lines) and -n (empty)")
    if lines:
        if repeat != 1:
            raise typer.BadParameter("-r does not go with -l")
        return _stdin_lines()
    return _repeated(_content(file) if file else (payload or "").encode("utf-8", "surrogateescape"), repeat)


def _content(file: Path) -> bytes:
    try:
        return sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise CommandFailed(f"cannot read {file}: {error.strerror or error}", ExitCode.USAGE) from None


async def _repeated(payload: bytes, times: int) -> AsyncIterator[bytes]:
    for _ in range(times):
        yield payload


async def _stdin_lines() -> AsyncIterator[bytes]:
    """Read stdin on a thread, so that a terminal or a slow pipe does not delay the connections. It is a daemon that
    holds no lock, so that Ctrl-C ends the process even while it waits for a line."""
    loop, chunks = asyncio.get_running_loop(), asyncio.Queue[bytes](maxsize=16)

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for more
            while True:
                chunk = os.read(sys.stdin.fileno(), 65_536)
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
                if not chunk:
                    return

    threading.Thread(target=read, name="inorder-stdin", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest


async def _publish_all(
    client: inorder.Client,
    topic: str,
    payloads: AsyncIterator[bytes],
    publish: dict[str, Any],
    *,
    as_json: bool,
    wait: float | None,
) -> int:
    receipts: asyncio.Queue[asyncio.Future[inorder.Receipt] | None] = asyncio.Queue(IN_FLIGHT)
    try:
        async with asyncio.timeout(wait), client, asyncio.TaskGroup() as group:
            group.create_task(_show_all(receipts, as_json=as_json))
            async for payload in payloads:
                await receipts.put(client.publish(topic, payload, **publish))
            await receipts.put(None)
    except TimeoutError:
        raise CommandFailed(f"not done within {wait:g} s", ExitCode.TIMED_OUT) from None
    return ExitCode.OK


async def _show_all(receipts: asyncio.Queue[asyncio.Future[inorder.Receipt] | None], *, as_json: bool) -> None:
    """Await the receipts in their order; the first failure ends the command."""
    while (receipt := await receipts.get()) is not None:
        _show(await receipt, as_json=as_json)


def _show(receipt: inorder.Receipt, *, as_json: bool) -> None:
    if as_json:
        output.emit({"space": receipt.space, "topic": receipt.topic, "number": receipt.number})
    elif output.is_terminal():
        number = "" if receipt.number is None else f" number {receipt.number}"
        output.say(output.printable(f"published {receipt.topic}{number}"))
