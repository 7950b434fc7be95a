"""Configuration of a client whose program gives none: ``INORDER_CLIENT__*`` variables, then the section ``[client]`` of
``inorder.toml`` in the working directory, then defaults.

Names and meaning are those of the command line's settings.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict, Unpack

from inorder.client.client import Client
from inorder.client.options import ClientTimes
from inorder.endpoint.notifications import Bounded
from inorder.endpoint.outputs import Mode
from inorder.errors import InvalidOption, InvalidSetting, WorkerUnreachable
from inorder.ports import Ens
from inorder.settings.client import ClientSection, DropInSection
from inorder.settings.declaring import values_of, words_of
from inorder.settings.reading import Source, from_environment, from_file, read_section
from inorder.traces.options import Traces

_AS_THEY_ARE = ("workers", "client_id", "token", "traces", "space", "subscribe_timeout")


class GivenConfiguration(TypedDict, total=False):
    """The program's own configuration; see :class:`ClientConfiguration`."""

    workers: str | Sequence[str]
    client_id: str | None
    token: str | None
    mode: Mode
    times: ClientTimes
    tls: ssl.SSLContext | None
    traces: str | Path | Traces | None
    space: str | None
    subscribe_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfiguration:
    """The configuration of a drop-in client beside its library's own.

    Attributes:
        workers: addresses ``host:port``. None: nothing is ordered, and the library behaves as without inorder.
        client_id: the application's name at the workers; by default the library's client id, or a random one.
        token, mode, times, tls, traces: as for :class:`~inorder.client.Client`.
        space: of the broker; by default that of the adapter. All clients of one broker must name the same.
        subscribe_timeout: how long the confirmation of a subscription waits for the workers, s.

    Raises:
        InvalidOption: a value is not allowed.
    """

    workers: tuple[str, ...] = DropInSection.workers
    client_id: str | None = None
    token: str | None = field(default=None, repr=False)
    mode: Mode = "strict"
    times: ClientTimes = field(default_factory=ClientTimes)
    tls: ssl.SSLContext | None = None
    traces: str | Path | Traces | None = None
    space: str | None = None
    subscribe_timeout: float = DropInSection.subscribe_timeout

    def __post_init__(self) -> None:
        """Check the values that :class:`~inorder.client.Client` checks under other names."""
        given: Any = self.workers
        workers: Any = words_of(given) if isinstance(given, str) else given
        checked = DropInSection(workers=workers, subscribe_timeout=self.subscribe_timeout)
        object.__setattr__(self, "workers", checked.workers)
        if not isinstance(self.times, ClientTimes):
            raise InvalidOption("times", self.times, "ClientTimes(...)")

    @property
    def is_ordering(self) -> bool:
        """Tell whether there are workers; without any, the library behaves as without inorder."""
        return bool(self.workers)

    def client(self, ens: Ens, *, client_id: str | None = None) -> Client:
        """Make an unopened client over its library's connection. Raises what Client does.

        Args:
            client_id: where none is configured.
        """
        return Client(
            ens,
            workers=self.workers,
            client_id=client_id if self.client_id is None else self.client_id,
            token=self.token,
            mode=self.mode,
            space=self.space,
            times=self.times,
            tls=self.tls,
            traces=self.traces,
        )


def configured(
    *, config: Path | None = None, environ: Mapping[str, str] | None = None, **given: Unpack[GivenConfiguration]
) -> ClientConfiguration:
    """Return the configuration from ``given`` values, else the environment, else the file, else defaults.

    Args:
        config: the file; by default ``inorder.toml`` in the working directory, where there is one.
        environ: instead of the process's environment.

    Raises:
        InvalidSetting: what was found is unknown or not allowed; it names the variable or the key and its file.
        InvalidOption: what is given is not allowed.
    """
    if config is not None and not os.path.exists(config):
        raise InvalidSetting("config", str(config), "a readable TOML file", "argument", "no such file")
    sources = [from_file(config), from_environment(environ)]
    if "mode" in given:  # what a program says itself, nothing found may contradict
        sources.append(Source({"client": {"mode": "strict", "buffer": None, "max_wait": None}}, str))
    section = read_section("client", DropInSection, sources, {})
    settings: dict[str, Any] = {
        **{key: getattr(section, key) for key in _AS_THEY_ARE},
        "mode": mode_of(section),
        "times": times_of(section),
        "tls": None if "tls" in given else tls_of(section),
        **given,
    }
    return ClientConfiguration(**settings)


def advised(error: WorkerUnreachable) -> str:
    """Return the reason of an error with advice for the user of a program that changed just an import."""
    begin = "try again in a moment" if error.is_there else "start one (inorder worker)"
    others = "say where they are in INORDER_CLIENT__WORKERS; with an empty value there nothing is ordered"
    return f"{error.reason}; {begin}, or {others}, and none is needed"


def mode_of(section: ClientSection) -> Mode:
    """Return the mode of waiting."""
    if section.mode == "bounded":
        return Bounded(buffer=section.buffer, max_wait=section.max_wait)
    return section.mode


def times_of(section: ClientSection) -> ClientTimes:
    """Return the timers and bounds."""
    return ClientTimes(**values_of(section, ClientTimes))


def tls_of(section: ClientSection) -> ssl.SSLContext | None:
    """Return the TLS context for the workers, or ``None`` without TLS. Raises InvalidOption naming the bad file."""
    if not (section.tls or section.tls_ca or section.tls_cert):
        return None
    return tls_context(section.tls_ca, section.tls_cert, section.tls_key)


def tls_context(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return the TLS context for the workers: with this authority or the system's, showing the certificate if any.
    Raises InvalidOption naming the bad file."""
    for name, path in (("tls_ca", ca), ("tls_cert", cert), ("tls_key", key)):
        if path is not None and not os.path.exists(path):
            raise InvalidOption(f"client.{name}", str(path), f"a PEM file (there is no file {path})")
    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise InvalidOption("client.tls_ca", str(ca), f"a readable PEM file ({error})") from None
    if cert is not None:
        try:
            context.load_cert_chain(cert, key, password="")  # never asked for on the terminal
        except OSError as error:
            allowed = f"a readable PEM certificate with its key, without a pass phrase, in client.tls_key ({error})"
            raise InvalidOption("client.tls_cert", str(cert), allowed) from None
    return context
