"""What a control plane is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneSettings:
    """Settings of one control plane. Durations are seconds.

    Attributes:
        host, port: where it listens; port 0 takes any free one.
        root_path: the path under which a proxy serves it, such as ``/inorder``; empty: none.
        hosts: further names, without a port, under which browsers reach it. On a loopback address only requests for
            that address, ``localhost`` and these are answered, so that no foreign page can reach it by a name of its
            own (DNS rebinding).
        proxies: addresses of proxies whose X-Forwarded headers tell who asks, and by which scheme.
        tls_cert, tls_key: PEM files; together they turn TLS on.
        session_ttl: how long a login in a browser lasts.
        login_rate: failed logins from one address in a minute, before further ones are refused.
        brokers: ``[space=]URL`` of the brokers, for the live tail and for test events.
        lease: of the workers: one that shows no sign of life for so long is suspect.
        traces: folders, and beginnings of URLs, that analyses may read and write; none: they cannot be started here.
        masters: of Spark, that analyses may use beside local ones.
        analyses: how many run here at a time; 0: none, they wait for others on this store.
        analysis_lease: who runs an analysis and shows no sign of life for so long is taken for gone.
        cancel_grace: between SIGTERM and SIGKILL for an analysis that is to end.
        keep_runs: runs that have ended are kept, of all that were; the oldest go first.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    root_path: str = ""
    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    session_ttl: float = 12 * 3600.0
    login_rate: int = 10
    brokers: tuple[str, ...] = field(default=(), repr=False)
    lease: float = 2.0
    traces: tuple[str, ...] = ()
    masters: tuple[str, ...] = ()
    analyses: int = 1
    analysis_lease: float = 30.0
    cancel_grace: float = 10.0
    keep_runs: int = 1000
