"""``inorder check``: a test that the broker, the worker and the store can be reached."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from inorder_cli import options, output
from inorder_cli.connection import run_until_stopped
from inorder_cli.failures import ExitCode

if TYPE_CHECKING:
    from inorder.settings.reading import Loaded


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. ``what`` is broker, worker or store; ``status`` is ok, failed or skipped."""

    what: str
    name: str
    status: str
    detail: str
    ms: float


def check(
    store: Annotated[
        str | None, typer.Option(metavar="URL", help="The worker's store, if it is to be checked.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How long each may take.")] = 5.0,
    brokers: options.Brokers = None,
    workers: options.Workers = None,
    token: options.Token = None,
    tls_ca: options.TlsCa = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Check that every broker, every worker and the store can be reached. Changes nothing.

    Workers that those given say have stages are looked at too: clients connect to all of them.

    The store is only looked at where it is set up: named by --store, a variable or the file, or present in this
    directory. Exit codes: 0 all is well, 1 something is not, 2 wrong usage.
    """
    loaded = options.settings(
        config, client={"brokers": brokers, "workers": workers, "token": token, "tls_ca": tls_ca}, store={"url": store}
    )
    with loaded.located("client"):
        findings = run_until_stopped(_check_all(loaded, timeout))
    is_ok = all(finding.status != "failed" for finding in findings)
    if json:
        output.emit({"ok": is_ok, "checks": [asdict(finding) for finding in findings]})
    else:
        _print(findings)
    return ExitCode.OK if is_ok else ExitCode.FAILED


async def _check_all(loaded: Loaded, timeout: float) -> list[Finding]:
    from inorder.client.configured import tls_of
    from inorder.masking import masked_url
    from inorder_cli import probes

    client, store = loaded.settings.client, loaded.settings.store
    secret, tls = client.token or "", tls_of(client)
    # What is wrong in a URL is wrong usage, found before anything is connected.
    opened = [(text, probes.open_broker(text)) for text in client.brokers]
    checks: list[Awaitable[Finding]] = [
        _finding("broker", masked_url(text), timeout, lambda ens=ens: probes.probe_broker(ens))  # type: ignore[misc]
        for text, ens in opened
    ]
    known = probes.Addresses()

    def worker(address: str) -> Awaitable[Finding]:
        return _finding("worker", address, timeout, lambda: probes.probe_worker(address, secret, tls, known))

    checks += [worker(address) for address in client.workers]
    is_set_up = loaded.origins["store.url"] != "default" or probes.is_there(store.url)
    if is_set_up:
        checks.append(_finding("store", masked_url(store.url), timeout, lambda: probes.probe_store(store.url, timeout)))
    findings = list(await asyncio.gather(*checks))
    others = sorted(known.named - known.asked - set(client.workers))
    findings += await asyncio.gather(*map(worker, others))
    if not is_set_up:
        findings.append(Finding("store", store.url, "skipped", "not set up here", 0.0))
    return findings


async def _finding(what: str, name: str, timeout: float, probe: Callable[[], Awaitable[str]]) -> Finding:
    from inorder.errors import InorderError, UsageError

    begun = time.perf_counter()
    try:
        async with asyncio.timeout(timeout):
            status, detail = "ok", await probe()
    except TimeoutError:
        status, detail = "failed", f"no answer within {timeout:g} s"
    except UsageError:
        raise
    except (InorderError, OSError) as error:
        # The name of what was looked at stands beside it already.
        status, detail = "failed", " ".join(str(getattr(error, "reason", error)).split())
    return Finding(what, name, status, detail, round((time.perf_counter() - begun) * 1000, 1))


def _print(findings: Iterable[Finding]) -> None:
    from rich.markup import escape

    console = output.console()
    marks = {"ok": "[green]ok     [/]", "failed": "[red]failed [/]", "skipped": "[dim]skipped[/]"}
    for finding in findings:
        console.print(f"{marks[finding.status]} {finding.what:6} {escape(finding.name)}: {escape(finding.detail)}")
