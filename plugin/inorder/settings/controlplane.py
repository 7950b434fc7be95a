"""The settings of the control plane."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from inorder.settings import declaring as declare
from inorder.settings.texts import is_name, is_place, is_proxy, is_root


@dataclass(frozen=True, kw_only=True, repr=False)
class ControlPlaneSection(declare.Section):
    """The control plane: the HTTP API and the web UI."""

    host: str = declare.host("127.0.0.1", "address to listen on")
    port: int = declare.port(8080, "port to listen on")
    root_path: str = declare.text(
        "", "path under which a proxy serves it", "a path such as /inorder, without a slash at its end", is_root
    )
    # On a loopback address only requests for that address, localhost and these are answered, so that no foreign page
    # can reach it by a name of its own (DNS rebinding).
    hosts: tuple[str, ...] = declare.texts(
        (), "further names under which browsers reach it", "host names without scheme and port", is_name
    )
    proxies: tuple[str, ...] = declare.texts(
        (), "proxies in front of it, whose X-Forwarded headers are believed",
        "IP addresses, or networks such as 10.0.0.0/8; no names, and no *: whoever is believed can say who asks",
        is_proxy,
    )  # fmt: skip
    workers: tuple[str, ...] = declare.workers(
        (), "the ordering workers; those in the store if empty", "texts host:port"
    )
    brokers: tuple[str, ...] = declare.brokers(
        (), "the brokers, for the live tail and test events; those of client if empty",
        "texts [space=]scheme://host[:port]",
    )  # fmt: skip
    tls_cert: Path | None = declare.pem_file("certificate; turns TLS on")
    tls_key: Path | None = declare.pem_file("the certificate's private key")
    session_ttl: float = declare.seconds(43_200.0, "how long a login in a browser lasts")
    login_rate: int = declare.count(10, "failed logins of one address in a minute, before more are refused")
    traces: tuple[str, ...] | None = declare.texts(
        None, "what analyses may read and write; for inorder up if not set: the folder traces beside its SQLite store",
        "absolute paths of folders and beginnings of URLs, such as /var/lib/inorder/traces or s3://bucket/traces",
        is_place,
    )  # fmt: skip
    masters: tuple[str, ...] = declare.texts(
        (), "Spark masters that analyses may use beside local ones", "URLs such as spark://host:7077"
    )
    analyses: int = declare.whole(
        1, "analyses that run here at a time", "a whole number from 0 (0: none)", lambda given: given >= 0
    )
    analysis_lease: float = declare.seconds(
        30.0, "how long who runs an analysis may be silent before it counts as failed"
    )
    cancel_grace: float = declare.seconds(10.0, "between SIGTERM and SIGKILL for an analysis that is cancelled")
    keep_runs: int = declare.count(1000, "runs that have ended are kept, of all that were")
