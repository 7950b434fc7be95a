"""``inorder up``: worker, control plane and web UI in one process."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from inorder.errors import PortInUse
from inorder.logs import CERTIFICATES, set_up
from inorder.signals import stop_event
from inorder_cli import options, output
from inorder_cli.controlplane import PAGE_HOST, PAGE_PORT, TOKEN_COMMAND, Traces, make_control_plane
from inorder_cli.failures import ExitCode
from inorder_cli.flags import Flags, takes_settings
from inorder_cli.worker import WORKER_TOKEN, Store, loop_factory, worker_settings

if TYPE_CHECKING:
    from inorder.settings.reading import Loaded, Settings
    from inorder_controlplane.control_plane import ControlPlane
    from inorder_worker.service import Worker

_FLAGS: Flags = {
    "store.url": Store,
    "controlplane.host": PAGE_HOST,
    "controlplane.port": PAGE_PORT,
    "worker.host": ("ADDRESS", "Address of the worker; one that others reach needs a token."),
    "worker.port": ("PORT", "Port of the worker (7401); 0 takes any free one."),
    "worker.token": WORKER_TOKEN,
    "controlplane.traces": Traces,
}


@takes_settings(_FLAGS, {"worker.host": "--worker-host", "worker.port": "--worker-port"})
def up(*, loaded: Loaded, json: options.Json = False) -> int:
    """Start everything inorder needs, in one process: the worker, with its numbers in ./inorder.db, and its page.

    The first start makes a token and prints the page's address with it, ready to be opened. Health and metrics are on
    the same port: /health/ready, /metrics. Your broker stays as it is. The page may analyse traces in the folder
    traces beside the store. Ctrl-C stops cleanly (exit code 0).
    """
    set_up(loaded.settings.worker.log_format, logging.WARNING, "%(levelname)s %(message)s")
    logging.getLogger(CERTIFICATES).setLevel(logging.INFO)
    with loaded.located("worker"), asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(loaded.settings, is_json=json))


async def _run(settings: Settings, *, is_json: bool) -> int:
    from inorder_worker.service import Worker, set_pace

    set_pace()
    told = worker_settings(settings)
    worker = Worker(told)
    plane = make_control_plane(
        settings,
        tls=told.peer_ssl_context(),
        monitor=worker.answer,
        traces=_beside(settings.store.url),
    )
    stop = stop_event(lambda: _renew(worker, plane))
    try:
        async with _RenamedPort(worker):
            secret = await plane.first_token()
            async with plane:
                _say_ready(settings, worker, plane, secret, is_json=is_json)
                await _until(stop, worker)
    finally:
        await plane.close()
    return ExitCode.OK


def _renew(worker: Worker, plane: ControlPlane) -> bool:
    """Read all certificates again; return whether there are any."""
    of_worker = worker.renew_certificates()
    return plane.renew_certificates(worker.settings.peer_ssl_context) or of_worker


def _beside(store: str) -> list[str]:
    """Return the folder for traces of this machine's clients: beside the store, if that is a file."""
    from inorder_worker.store.store_url import file_of

    file = file_of(store)
    return [] if file is None else [str(file.absolute().parent / "traces")]


class _RenamedPort:
    """A worker whose port setting has another name here."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def __aenter__(self) -> None:
        try:
            await self._worker.__aenter__()
        except PortInUse as error:
            option = "worker_port" if error.option == "port" else error.option
            raise PortInUse(error.address, option) from None

    async def __aexit__(self, *error: object) -> None:
        await self._worker.__aexit__(None, None, None)


async def _until(stop: asyncio.Event, worker: Worker) -> None:
    """Return when told to stop. Raises what the worker died of."""
    told = asyncio.create_task(stop.wait(), name="inorder-stop")
    ended = asyncio.create_task(worker.wait_stopped(), name="inorder-worker-ended")
    try:
        await asyncio.wait((told, ended), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            await ended
    finally:
        told.cancel()
        ended.cancel()


def _say_ready(settings: Settings, worker: Worker, plane: ControlPlane, secret: str | None, *, is_json: bool) -> None:
    status, link = worker.status(), f"{plane.url}#token={secret}" if secret else None
    if is_json:
        output.emit(
            {
                "type": "ready",
                "state": status["state"],
                "address": worker.address,
                "http": plane.address,
                "page": plane.url,
                "link": link,
                "worker": status["worker"],
                "store": status["store"],
            }
        )
        return
    from rich.markup import escape

    from inorder.masking import masked_url

    console = output.console()
    state = "" if worker.state == "active" else " (a standby: another worker has this store)"
    store = escape(str(status["store"]))
    console.print(f"[bold green]inorder is up[/]{state}: worker {escape(worker.address)}, store {store}")
    if link is not None:
        console.print(f"page: {escape(link)}", soft_wrap=True)
    else:
        console.print(f"page: {escape(plane.url)} (for a token: [cyan]{TOKEN_COMMAND}[/])")
    brokers = " ".join(map(masked_url, settings.client.brokers))
    sub, pub = "inorder sub 'demo/#'", "inorder pub demo/a hello"
    if not worker.address.endswith(":7401"):
        sub, pub = (
            f"inorder sub 'demo/#' --worker {worker.address}",
            f"inorder pub demo/a hello --worker {worker.address}",
        )
    console.print(f"broker: {escape(brokers)} (yours; inorder sub and inorder pub take another one with --broker)")
    console.print(f"try: [cyan]{escape(sub)}[/], and elsewhere: [cyan]{escape(pub)}[/]")
