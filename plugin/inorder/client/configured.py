"""How a client finds its workers when the program says nothing of them: ``INORDER_CLIENT__*`` variables, then the
section ``[client]`` of ``inorder.toml`` in the working directory, then defaults.

Names and meaning are those of the command line's settings; here they are read with the standard library alone.
"""

from __future__ import annotations

import os
import re
import ssl
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast

from inorder.client.client import Client
from inorder.client.options import ClientTimes
from inorder.client.worker_link import parse_address
from inorder.endpoint.notifications import Bounded
from inorder.endpoint.ordering import Mode
from inorder.errors import InvalidOption, InvalidSetting
from inorder.ports import Ens
from inorder.traces.options import Traces

UNREACHABLE_HINT = (
    "start one (inorder worker), or say where they are in INORDER_CLIENT__WORKERS; with an empty value there nothing is"
    " ordered, and none is needed"
)
"""What to do where a program whose import was changed does not reach a worker."""
DEFAULT_FILE = "inorder.toml"
PREFIX = "INORDER_CLIENT__"


class Given(TypedDict, total=False):
    """What a program says itself; see :class:`ClientConfiguration`."""

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
    """What a drop-in client needs to know beside what its library is told.

    Attributes:
        workers: addresses ``host:port``. None: nothing is ordered, and the library behaves as without inorder.
        client_id: the application's name at the workers; by default the library's client id, or a random one.
        token, mode, times, tls, traces: as for :class:`~inorder.client.Client`.
        space: of the broker; by default that of the adapter. All clients of one broker must name the same.
        subscribe_timeout: how long the confirmation of a subscription waits for the workers, s.

    Raises:
        InvalidOption: a value is not allowed.
    """

    workers: tuple[str, ...] = ("localhost:7401",)
    client_id: str | None = None
    token: str | None = field(default=None, repr=False)
    mode: Mode = "strict"
    times: ClientTimes = field(default_factory=ClientTimes)
    tls: ssl.SSLContext | None = None
    traces: str | Path | Traces | None = None
    space: str | None = None
    subscribe_timeout: float = 5.0

    def __post_init__(self) -> None:
        """Check what :class:`~inorder.client.Client` does not check in the words used here."""
        object.__setattr__(self, "workers", _addresses(self.workers))
        if not isinstance(self.times, ClientTimes):
            raise InvalidOption("times", self.times, "ClientTimes(...)")
        if not _is_number(self.subscribe_timeout):
            raise InvalidOption("subscribe_timeout", self.subscribe_timeout, "a number of seconds over 0")

    @property
    def is_ordering(self) -> bool:
        """There are workers; without any, the library behaves as without inorder."""
        return bool(self.workers)

    def client(self, ens: Ens, *, client_id: str | None = None) -> Client:
        """Make a client over a connection of its library, not yet open. Raises what Client does.

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
    *, config: Path | None = None, environ: Mapping[str, str] | None = None, **given: Unpack[Given]
) -> ClientConfiguration:
    """Return the configuration: what is ``given``, else found in the environment, else in the file, else defaults.

    Args:
        config: the file; by default ``inorder.toml`` in the working directory, where there is one.
        environ: instead of the process's environment.

    Raises:
        InvalidSetting: what was found is unknown or not allowed; it names the variable or the key and its file.
        InvalidOption: what is given is not allowed.
    """
    found = {**_from_file(config), **_from_environment(os.environ if environ is None else environ)}
    read = {key: _read(key, value, origin) for key, (value, origin) in found.items()}
    settings: dict[str, Any] = {key: read[key] for key in _AS_THEY_ARE if key in read}
    # what a program says itself, nothing found may contradict or break
    if "mode" not in given:
        settings["mode"] = _mode(read, {key: origin for key, (_, origin) in found.items()})
    if "times" not in given:
        settings["times"] = ClientTimes(**{key: read[key] for key in _TIMES if key in read})
    if "tls" not in given:
        settings["tls"] = _tls(read)
    return ClientConfiguration(**(settings | cast("dict[str, Any]", given)))


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


# -- where settings are found ----------------------------------------------------------------------------------


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    names = [name for name in environ if name.startswith(PREFIX)]
    return {name.removeprefix(PREFIX).lower(): (environ[name], f"env {name}") for name in names}


def _from_file(config: Path | None) -> dict[str, tuple[Any, str]]:
    path = Path(DEFAULT_FILE) if config is None else config
    try:
        with open(path, "rb") as file:
            section = tomllib.load(file).get("client", {})
    except FileNotFoundError:
        if config is None:
            return {}
        raise InvalidSetting("config", str(config), "a readable TOML file", "argument", "no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting("file", str(path), "TOML", str(error)) from None
    except OSError as error:
        raise InvalidSetting("file", str(path), "a readable TOML file", error.strerror or str(error)) from None
    if not isinstance(section, dict):
        raise InvalidSetting("client", None, "a table of keys", f"file {path}")
    return {key: (value, f"file {path}") for key, value in section.items()}


# -- what they say ---------------------------------------------------------------------------------------------


def _addresses(value: Any) -> tuple[str, ...]:
    """Return a list of addresses, in a text with blanks or commas between them. Raises InvalidOption."""
    items = [each for each in re.split(r"[,\s]+", value) if each] if isinstance(value, str) else value
    if isinstance(items, (bytes, bytearray, Mapping)) or not isinstance(items, Sequence):
        raise InvalidOption("workers", value, "texts host:port; none to order nothing")
    for each in items:
        parse_address(each)
    return tuple(items)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def _any_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _mode_name(value: Any) -> str:
    if value not in ("strict", "tag", "bounded"):
        raise ValueError
    return str(value)


def _flag(value: Any) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    return value if isinstance(value, bool) else words[_text(value).lower()]


def _path(value: Any) -> Path:
    return Path(_text(value))


def _is_number(value: object, lowest: float | None = None) -> bool:
    """It is a number above 0, or from ``lowest``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        return False
    return value > 0 if lowest is None else value >= lowest


def _number(kind: type[int] | type[float], lowest: float | None = None) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        number = kind(value) if isinstance(value, str) else value
        if not _is_number(number, lowest) or (kind is int and not isinstance(number, int)):
            raise ValueError
        return number

    return read


def _ignored(value: Any) -> Any:
    return value


_SECONDS = "a number of seconds over 0"
# Key -> how its value is read, and in words what is allowed.
_KEYS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "brokers": (_ignored, ""),  # the library's matter
    "workers": (_addresses, "texts host:port; none to order nothing"),
    "client_id": (_text, "a text of 1 to 128 characters"),
    "token": (_any_text, "a text"),
    "mode": (_mode_name, "strict, tag or bounded"),
    "buffer": (_number(int, 0), "a whole number from 0"),
    "max_wait": (_number(float, 0), "a number from 0"),
    "traces": (_text, "a folder, or a URL of fsspec"),
    "tls": (_flag, "true or false"),
    "tls_ca": (_path, "a path to a PEM file"),
    "tls_cert": (_path, "a path to a PEM file"),
    "tls_key": (_path, "a path to a PEM file"),
    "space": (_text, "a text of 1 to 255 bytes"),
    "subscribe_timeout": (_number(float), _SECONDS),
}
_TIMES = {each.name: type(each.default) for each in fields(ClientTimes)}
_KEYS |= {
    name: (_number(int), "a whole number over 0") if kind is int else (_number(float), _SECONDS)
    for name, kind in _TIMES.items()
}
_KEYS["report_interval"] = _number(float, 0), "a number of seconds from 0 (0: never)"
_AS_THEY_ARE = ("workers", "client_id", "token", "traces", "space", "subscribe_timeout")


def _read(key: str, value: Any, origin: str) -> Any:
    if key not in _KEYS:
        close = get_close_matches(key, _KEYS, n=1)
        guess = f" (did you mean {close[0]}?)" if close else ""
        raise InvalidSetting(f"client.{key}", None, f"one of {', '.join(_KEYS)}{guess}", origin, "unknown key")
    read, allowed = _KEYS[key]
    try:
        return read(value)
    except (ValueError, KeyError):
        raise InvalidSetting(f"client.{key}", "***" if key == "token" else value, allowed, origin) from None


def _mode(read: Mapping[str, Any], origins: Mapping[str, str]) -> Mode:
    mode, limits = read.get("mode", "strict"), {key: read[key] for key in ("buffer", "max_wait") if key in read}
    if mode != "bounded":
        for key, value in limits.items():
            allowed = f"a limit together with mode bounded only; the mode is {mode}"
            raise InvalidSetting(f"client.{key}", value, allowed, origins[key])
        return cast("Mode", mode)
    if not limits:
        allowed = "bounded together with a limit: buffer, max_wait or both"
        raise InvalidSetting("client.mode", mode, allowed, origins["mode"])
    return Bounded(buffer=limits.get("buffer"), max_wait=limits.get("max_wait"))


def _tls(read: Mapping[str, Any]) -> ssl.SSLContext | None:
    ca, cert, key = (read.get(each) for each in ("tls_ca", "tls_cert", "tls_key"))
    return tls_context(ca, cert, key) if read.get("tls") or ca or cert else None
