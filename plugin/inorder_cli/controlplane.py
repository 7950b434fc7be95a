"""``inorder controlplane``: serves the HTTP API and the web UI, apart from the workers."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from inorder.listening import raise_open_files
from inorder.logs import set_up
from inorder.signals import stop_event
from inorder_cli import options, output
from inorder_cli.failures import ExitCode, needs
from inorder_cli.flags import Flags, takes_settings
from inorder_cli.worker import Store, loop_factory

if TYPE_CHECKING:
    from inorder.settings.reading import Loaded, Settings
    from inorder_controlplane.control_plane import ControlPlane
    from inorder_worker.service.monitor import Answer

PAGE_HOST = ("ADDRESS", "Address of page and API; one that others reach needs a token in the store.")
PAGE_PORT = ("PORT", "Port of page and API (8080); 0 takes any free one.")


def _places(given: list[str] | None) -> list[str] | None:
    """Return folders as absolute paths; URLs stay."""
    return given and [each if "://" in each or not each else os.path.abspath(each) for each in given]


Traces = Annotated[
    list[str] | None,
    typer.Option(
        "--traces",
        metavar="PLACE",
        callback=_places,
        help="Folder, or beginning of a URL, that analyses may read and write; again for more.",
    ),
]
_FLAGS: Flags = {
    "store.url": Store,
    "controlplane.host": PAGE_HOST,
    "controlplane.port": PAGE_PORT,
    "controlplane.workers": options.Workers,
    "controlplane.brokers": options.Brokers,
    "controlplane.tls_cert": ("FILE", "Certificate of page and API (PEM); turns TLS on."),
    "controlplane.tls_key": ("FILE", "Its private key (PEM)."),
    "controlplane.traces": Traces,
    "client.token": options.Token,
    "client.tls_ca": options.TlsCa,
}


@takes_settings(_FLAGS)
def controlplane(*, loaded: Loaded, json: options.Json = False) -> int:
    """Serve the HTTP API and the web UI, until SIGTERM or Ctrl-C; both stop it cleanly (exit code 0).
    SIGHUP has it read its certificates again.

    It needs the store and the workers that work on it. Any number may run beside each other: they keep nothing. Where
    the workers are it reads in the store, unless --worker names them, and for them it makes itself a short-lived token
    there, unless --token gives one. To see what a token may do, and to make the first one: inorder tokens --help.
    """
    settings = loaded.settings
    raise_open_files()
    set_up(settings.worker.log_format)
    with loaded.located("controlplane"), asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(settings, is_json=json))


def make_control_plane(
    settings: Settings,
    *,
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    monitor: Callable[[str, str], Answer] | None = None,
    traces: Sequence[str] = (),
) -> ControlPlane:
    """Make a control plane and take its port. See ControlPlane for arguments and errors; ``traces``: what analyses may
    read and write where the settings do not say it."""
    with needs("controlplane", "the control plane"):
        from inorder_controlplane.control_plane import ControlPlane
        from inorder_controlplane.settings import ControlPlaneSettings
    from inorder.settings.declaring import values_of

    section = settings.controlplane
    values = values_of(section, ControlPlaneSettings)
    values["traces"] = traces if section.traces is None else section.traces
    values["brokers"] = section.brokers or settings.client.brokers
    own = ControlPlaneSettings(**values, lease=settings.worker.lease)
    return ControlPlane(own, store=settings.store.url, token=token, tls=tls, monitor=monitor)


async def _serve(settings: Settings, *, is_json: bool) -> int:
    from inorder.client.configured import tls_of

    plane = make_control_plane(
        settings,
        token=settings.client.token,
        tls=tls_of(settings.client),
    )
    stop = stop_event(lambda: plane.renew_certificates(partial(tls_of, settings.client)))
    try:
        async with plane:
            _say_ready(plane, is_json=is_json)
            await stop.wait()
    finally:
        await plane.close()
    return ExitCode.OK


def _say_ready(plane: ControlPlane, *, is_json: bool) -> None:
    if is_json:
        output.emit({"type": "ready", "http": plane.address, "page": plane.url, "store": plane.store})
        return
    from rich.markup import escape

    console = output.console()
    console.print(f"[bold green]the control plane is up[/]: {escape(plane.url)}, store {escape(plane.store)}")
    console.print(f"log in with a token: [cyan]{TOKEN_COMMAND}[/]")


TOKEN_COMMAND = "inorder tokens create NAME --role admin"
