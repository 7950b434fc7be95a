"""``inorder worker``: runs the ordering service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from inorder.logs import set_up
from inorder.signals import on_signals
from inorder_cli import options, output
from inorder_cli.failures import ExitCode
from inorder_cli.flags import Flags, takes_settings

if TYPE_CHECKING:
    from inorder.settings.reading import Loaded, Settings
    from inorder_worker.service import Worker, WorkerSettings


Store = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Where the numbers are kept: sqlite:///FILE or postgresql://..."),
]
WORKER_TOKEN = ("TEXT", "Secret that clients must show. Better in INORDER_WORKER__TOKEN.")
_Stages = Annotated[
    list[int] | None,
    typer.Option(
        "--stage", metavar="I", help="A stage that this worker may process; again for more. Else all of them."
    ),
]
_FLAGS: Flags = {
    "store.url": Store,
    "worker.host": ("ADDRESS", "Address to listen on; one that others reach needs a token."),
    "worker.port": ("PORT", "Port to listen on; 0 takes any free one."),
    "worker.http_port": ("PORT", "Serve /health/ready, /metrics ... over HTTP there; else nowhere."),
    "worker.http_host": ("ADDRESS", "Address to serve them on; this machine's own by default."),
    "worker.token": WORKER_TOKEN,
    "worker.require_token": ("", "Let in only who shows a token: see inorder tokens."),
    "worker.tls_cert": ("FILE", "Certificate (PEM); turns TLS on."),
    "worker.tls_key": ("FILE", "Its private key (PEM)."),
    "worker.stages": ("N", "Stages of the store, 0 being the top one."),
    "worker.hosted": _Stages,
    "worker.name": ("TEXT", "Name in answers and logs; else a random one."),
    "worker.advertise": ("HOST:PORT", "Where clients and other workers reach this one; else where it listens."),
    "worker.log_format": ("<text|json>", "How log lines look: fields in text, or a JSON object each."),
    "worker.session_timeout": ("SECONDS", "How long a client may be gone before its subscription ends (30)."),
    "worker.lease": ("SECONDS", "How long a worker may be silent before its standby takes over (2)."),
    "worker.take_over": ("", "Take the stages now, also from a worker that is alive."),
}


@takes_settings(_FLAGS)
def worker(*, loaded: Loaded, json: options.Json = False) -> int:
    """Run one ordering worker, logging to stderr, until SIGTERM or Ctrl-C; both stop it cleanly (exit code 0).
    SIGHUP has it read its certificates again.

    With --json one line on stdout says when it is ready, where it listens, and its state: active or standby.

    A store has one active worker for each stage. A second worker on the same store is a **standby**: it follows what
    the first one writes, and takes over by itself when that one has ended, or was silent for --lease seconds. Clients
    go to the new one by themselves; give them the addresses of both. A worker that was taken over is a standby from
    then on. --take-over takes the stages at once, for a planned change.

    Several workers may each have stages of their own (--stages 3 --stage 0, --stages 3 --stage 1 ...); they find each
    other in the store, and clients need the address of any of them.
    """
    set_up(loaded.settings.worker.log_format)
    with loaded.located("worker"):
        return _serve(worker_settings(loaded.settings), _print_ready if json else lambda _: None)


def worker_settings(settings: Settings) -> WorkerSettings:
    """Return a worker's settings. Raises MissingExtra and InvalidOption."""
    from inorder.settings.declaring import values_of
    from inorder_worker.service import WorkerSettings

    return WorkerSettings(store=settings.store.url, **values_of(settings.worker, WorkerSettings))


def _print_ready(running: Worker) -> None:
    status = running.status()
    output.emit(
        {
            "type": "ready",
            "state": status["state"],
            "address": running.address,
            "http": running.http_address or None,
            "worker": status["worker"],
            "store": status["store"],
        }
    )


def _serve(settings: WorkerSettings, started: Callable[[Worker], None]) -> int:
    """Run a worker until a signal, and print a line when it is ready."""
    from inorder_worker.service import set_pace

    set_pace()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_until_signal(settings, started))


async def _until_signal(settings: WorkerSettings, started: Callable[[Worker], None]) -> int:
    from inorder_worker.service import Worker

    running = Worker(settings)
    on_signals(running.stop, running.renew_certificates)
    async with running:
        started(running)
        await running.wait_stopped()
    return ExitCode.OK


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
