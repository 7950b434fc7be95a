"""Clients made from settings, and runs of them until they are done, stopped or out of time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from inorder.signals import may_hang_up
from inorder_cli import output
from inorder_cli.failures import CommandFailed, ExitCode

if TYPE_CHECKING:
    import inorder
    from inorder.settings.client import ClientSection
    from inorder.settings.reading import Loaded
    from inorder_worker.admin import Cluster

ResultT = TypeVar("ResultT")


def make_client(section: ClientSection, *, durable: bool = False) -> inorder.Client:
    """Make an unopened client. Raises UsageError and MissingExtra."""
    import inorder
    from inorder.client.configured import mode_of, times_of, tls_of
    from inorder.settings.texts import split_brokers

    # What the client has to say meanwhile (a lost connection, say) reads like our own lines.
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    return inorder.Client(
        split_brokers(section.brokers),
        workers=section.workers,
        client_id=section.client_id,
        token=section.token,
        durable=durable,
        mode=mode_of(section),
        times=times_of(section),
        tls=tls_of(section),
        traces=section.traces,
    )


def talk(
    work: Callable[[Cluster], Awaitable[ResultT]],
    loaded: Loaded,
    timeout: float,
    unsure: str = "",
) -> ResultT:
    """Run an operator's session with the workers within ``timeout`` seconds; ``unsure`` is printed if that was too
    short. Raises CommandFailed and InorderErrors."""
    section = loaded.settings.client

    async def main() -> ResultT:
        from inorder.client.configured import tls_of
        from inorder_worker.admin import Cluster

        secret, tls = section.token or "", tls_of(section)
        try:
            async with (
                asyncio.timeout(timeout),
                Cluster(section.workers, secret, tls, agent="inorder command", timeout=2 * timeout) as cluster,
            ):
                return await work(cluster)
        except TimeoutError as error:  # ours, which says nothing; or what was asked for took longer than it may
            text = str(error) or f"no answer within {timeout:g} s"
            raise CommandFailed(f"{text}; {unsure}" if unsure else text, ExitCode.TIMED_OUT) from None

    with loaded.located("client"):
        return run_until_stopped(main())


def run_until_stopped(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine; Ctrl-C, SIGTERM and SIGHUP cancel it and let its resources close."""
    try:
        return asyncio.run(_terminable(main))
    except BrokenPipeError:
        output.discard()
        raise CommandFailed("", ExitCode.BROKEN_PIPE) from None


async def _terminable(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(main)
    terminated = False

    def stop() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not on Windows, not in a thread
        loop.add_signal_handler(signal.SIGTERM, stop)
        if may_hang_up():
            loop.add_signal_handler(signal.SIGHUP, stop)
    try:
        return await task
    except asyncio.CancelledError:
        if terminated:
            raise CommandFailed("", ExitCode.TERMINATED) from None
        raise
