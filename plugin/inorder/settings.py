"""Settings of the command line: flags, then ``INORDER_*`` variables, then ``inorder.toml``, then defaults.

Every value knows its origin, and a wrong one is refused with its name, the value, what is allowed and where it was
found, before anything is started. A variable is named by section and key with two underscores between them
(``INORDER_WORKER__PORT``). Two, because Kubernetes sets ``INORDER_WORKER_PORT=tcp://...`` by itself in every pod
beside a service called inorder-worker.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from inorder.errors import InvalidOption, InvalidSetting

DEFAULT_FILE = "inorder.toml"
PREFIX = "INORDER_"
MASK = "***"

_BROKER = re.compile(r"(?:(?P<space>[A-Za-z0-9_.-]+)=)?(?P<url>[a-z][a-z0-9+.-]*://.*)", re.DOTALL)
_VALUE_END = re.compile(r"[&#]")
_SECRET_NAME = re.compile(r"(?i)password|passwd|secret|token|key")


def _option(default: Any, text: str, allowed: str, **constraints: Any) -> Any:
    """Declare one setting: its default, what it means, and in words what is allowed."""
    return Field(default, description=text, json_schema_extra={"allowed": allowed}, **constraints)


def _seconds(default: float, text: str) -> Any:
    return _option(default, text, "a number of seconds over 0", gt=0, allow_inf_nan=False)


def _count(default: int, text: str) -> Any:
    return _option(default, text, "a whole number over 0", gt=0)


def _words(value: Any) -> Any:
    """A list in a variable is written with blanks or commas between its items."""
    return [word for word in re.split(r"[,\s]+", value) if word] if isinstance(value, str) else value


def _from_json(value: Any) -> Any:
    """A list of lists in a variable is written as JSON."""
    return json.loads(value) if isinstance(value, str) else value


def _broker_texts(value: Any) -> Any:
    """In the file, brokers may also be a table of space = URL."""
    return [f"{space}={url}" for space, url in value.items()] if isinstance(value, Mapping) else _words(value)


def _checked_broker(text: str) -> str:
    if not _BROKER.fullmatch(text):
        raise ValueError("not a broker")
    return text


def _checked_address(text: str) -> str:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.port is None or parts.path or parts.query or parts.username:
        raise ValueError("not host:port")
    return text


def _checked_place(text: str) -> str:
    if not (os.path.isabs(text) or re.match(r"[a-z][a-z0-9+.-]*://[^/]", text)):
        raise ValueError("neither an absolute path nor a URL")
    return text


def _checked_proxy(text: str) -> str:
    try:
        ip_network(text)
    except ValueError:
        raise ValueError("neither an IP address nor a network") from None
    return text


def _checked_name(text: str) -> str:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.netloc != text or "@" in text or (":" in text and not text.startswith("[")):
        raise ValueError("not a host name")
    if parts.port is not None:
        raise ValueError("a host name with a port")
    return text


def _checked_root(text: str) -> str:
    if text and not re.fullmatch(r"(/(?!\.+(/|$))[A-Za-z0-9._~-]+)+", text):
        raise ValueError("not a path")
    return text


BrokerText = Annotated[str, BeforeValidator(_checked_broker)]
AddressText = Annotated[str, BeforeValidator(_checked_address)]
PlaceText = Annotated[str, BeforeValidator(_checked_place)]
ProxyText = Annotated[str, BeforeValidator(_checked_proxy)]
NameText = Annotated[str, BeforeValidator(_checked_name)]
RootText = Annotated[str, BeforeValidator(_checked_root)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Misfit(ValueError):
    """A value that is allowed by itself, but not together with others of its section."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        self.key, self.value, self.allowed = key, value, allowed
        super().__init__(allowed)


class ClientSection(_Section):
    """What ``pub``, ``sub``, ``order`` and ``check`` connect to, and how a subscriber waits."""

    brokers: Annotated[tuple[BrokerText, ...], BeforeValidator(_broker_texts)] = _option(
        ("mqtt://localhost:1883",), "the brokers", "one or more of [space=]scheme://host[:port]", min_length=1
    )
    workers: Annotated[tuple[AddressText, ...], BeforeValidator(_words)] = _option(
        ("localhost:7401",), "the ordering workers", "one or more of host:port", min_length=1
    )
    client_id: str | None = _option(None, "name of this client", "a text of 1 to 128 characters",
                                    min_length=1, max_length=128)  # fmt: skip
    token: SecretStr | None = _option(None, "shared secret that the workers ask for", "a text")
    mode: Literal["strict", "tag", "bounded"] = _option(
        "strict", "how long an event waits for those before it", "strict, tag or bounded"
    )
    buffer: int | None = _option(None, "bounded: events that may wait", "a whole number from 0", ge=0)
    max_wait: float | None = _option(None, "bounded: seconds that an event may wait", "a number from 0", ge=0,
                                     allow_inf_nan=False)  # fmt: skip

    space: str | None = _option(None, "drop-in clients: the broker's space; the adapter's if not set",
                                "a text of 1 to 255 bytes", min_length=1, max_length=255)  # fmt: skip
    subscribe_timeout: float = _seconds(
        5.0, "drop-in clients: how long a subscription's confirmation waits for workers"
    )
    traces: str | None = _option(None, "folder or fsspec URL to record traces in; none: nothing is recorded",
                                 "a folder, or a URL of fsspec", min_length=1)  # fmt: skip
    tls: bool = _option(False, "TLS to the workers, trusting the system's authorities", "true or false")
    tls_ca: Path | None = _option(None, "TLS to the workers, trusting this authority", "a path to a PEM file")
    tls_cert: Path | None = _option(None, "TLS to the workers, showing this certificate", "a path to a PEM file")
    tls_key: Path | None = _option(None, "the certificate's private key", "a path to a PEM file")
    connect_timeout: float = _seconds(5.0, "for one attempt to reach a worker")
    backoff_first: float = _seconds(0.05, "pause before the first reconnection; doubles after each failure")
    backoff_max: float = _seconds(5.0, "longest pause between reconnections")
    heartbeat: float = _seconds(1.0, "how often a silent worker is asked to answer; after three of them it is gone")
    gap_timeout: float = _seconds(1.0, "how long a missing number is waited for before the worker is asked")
    loss_timeout: float = _seconds(5.0, "how long an event that the broker accepted is waited for")
    settle_delay: float = _seconds(0.02, "how long confirmations may wait for company")
    save_delay: float = _seconds(0.2, "how often a durable subscriber saves what it has done with")
    close_timeout: float = _seconds(0.6, "how long the end of a client lets open work finish")
    report_interval: float = _option(1.0, "how often a client tells the workers what it has seen, for operators",
                                     "a number of seconds from 0 (0: never)", ge=0, allow_inf_nan=False)  # fmt: skip
    max_waiting: int = _count(200_000, "events that may wait for their turn")
    max_waiting_bytes: int = _count(256 * 1024 * 1024, "bytes of events that may wait for their turn")
    max_undelivered: int = _count(200_000, "events that may lie unread in the stream")
    max_undelivered_bytes: int = _count(256 * 1024 * 1024, "bytes of events that may lie unread in the stream")
    max_pending: int = _count(20_000, "publishes that may be unfinished")

    @model_validator(mode="after")
    def _bounds_belong_to_bounded(self) -> ClientSection:
        given = [key for key in ("buffer", "max_wait") if getattr(self, key) is not None]
        if self.mode == "bounded" and not given:
            allowed = "bounded together with a limit: buffer (--buffer N), max_wait (--max-wait SECONDS) or both"
            raise _Misfit("mode", self.mode, allowed)
        if self.mode != "bounded" and given:
            allowed = f"a limit together with mode bounded only (--mode bounded); the mode is {self.mode}"
            raise _Misfit(given[0], getattr(self, given[0]), allowed)
        return self


class WorkerSection(_Section):
    """The ordering worker: the fields of :class:`inorder_worker.service.WorkerSettings`, but for its store."""

    host: str = _option("127.0.0.1", "address to listen on", "a host name or IP address", min_length=1)
    port: int = _option(7401, "port to listen on", "a port, 0 to 65535 (0: any free one)", ge=0, le=65535)
    http_host: str = _option("127.0.0.1", "address to serve health and metrics on", "a host name or IP address",
                             min_length=1)  # fmt: skip
    http_port: int | None = _option(None, "port to serve health and metrics on over HTTP; none: nowhere",
                                    "a port, 0 to 65535 (0: any free one)", ge=0, le=65535)  # fmt: skip
    token: SecretStr | None = _option(None, "shared secret that clients must show", "a text of 1 character or more",
                                      min_length=1)  # fmt: skip
    require_token: bool = _option(False, "clients must show a token of the store (inorder tokens) or the worker's",
                                  "true or false")  # fmt: skip
    tls_cert: Path | None = _option(None, "certificate; turns TLS on", "a path to a PEM file")
    tls_key: Path | None = _option(None, "the certificate's private key", "a path to a PEM file")
    tls_client_ca: Path | None = _option(None, "authority whose certificate clients must show", "a path to a PEM file")
    tls_peer_ca: Path | None = _option(None, "authority of the other workers' certificates; else tls_client_ca",
                                       "a path to a PEM file")  # fmt: skip
    name: str = _option("", "name in answers and logs; made up if empty", "a text of at most 128 characters",
                        max_length=128)  # fmt: skip
    log_format: Literal["text", "json"] = _option("text", "how log lines look", "text or json")
    stages: int = _option(1, "stages of the sequencer, fixed when the store is made", "a whole number, 1 to 64",
                          ge=1, le=64)  # fmt: skip
    hosted: Annotated[list[int], BeforeValidator(_words)] = _option(
        [], "the stages that this worker processes; all of them if empty", "different whole numbers from 0"
    )
    advertise: str = _option("", "where clients and other workers reach this one; else where it listens", "host:port",
                             pattern=r"^(.+:[0-9]+)?$")  # fmt: skip
    topic_order: Annotated[list[list[str]], BeforeValidator(_from_json)] = _option(
        [], "for a new store: topics of each stage, from the top", "a list of lists of space:name"
    )
    linger: float = _seconds(60.0, "how long a dropped topic keeps counting")
    publisher_grace: float = _seconds(10.0, "how long a publisher may be gone before its numbers are given up")
    session_timeout: float = _seconds(30.0, "how long a client may be gone before its subscription ends")
    confirm_timeout: float = _seconds(60.0, "how long a number may be unconfirmed")
    number_retention: int = _count(10_000, "settled numbers of a topic that are remembered one by one")
    topic_ttl: float = _option(86_400.0, "how long a topic without subscribers may get no number before it retires",
                               "a number of seconds, at least linger (0: it never does)", ge=0,
                               allow_inf_nan=False)  # fmt: skip
    popularity_window: float = _option(0.0, "over which topics' events are counted to reorder them by popularity",
                                       "a number of seconds from 0 (0: never)", ge=0, allow_inf_nan=False)  # fmt: skip
    popularity_alpha: float = _option(0.1, "how many events make a topic popular: the greater, the fewer",
                                      "a number over 0", gt=0, allow_inf_nan=False)  # fmt: skip
    popularity_beta: float = _option(0.2, "how much more popular a topic must be to change places",
                                     "a number from 0 to below 1", ge=0, lt=1)  # fmt: skip
    heads_interval: float = _seconds(1.0, "how often changed highest numbers are sent")
    hello_timeout: float = _seconds(10.0, "how long a connection may be silent before its hello")
    write_timeout: float = _seconds(10.0, "how long a client may leave its answers unread")
    stop_timeout: float = _seconds(3.0, "how long a clean stop may take")
    beat_interval: float = _option(0.5, "how often a worker shows the store that it lives",
                                   "a number of seconds from 0 (0: never)", ge=0, allow_inf_nan=False)  # fmt: skip
    lease: float = _seconds(2.0, "how long an owner may be silent before a standby takes its stages over")
    take_over: bool = _option(False, "at the start, take the stages also from an owner that is alive", "true or false")
    store_timeout: float = _seconds(10.0, "how long the store may be locked or silent")
    retry_max: float = _seconds(5.0, "longest pause between attempts to recover from the store")
    max_batch_commands: int = _count(2_000, "commands of one commit")
    max_batch_bytes: int = _count(1024 * 1024, "bytes of one commit")
    max_queue_bytes: int = _count(64 * 1024 * 1024, "bytes that may wait for a commit before reading pauses")
    snapshot_rows: int = _count(5_000, "journal rows of a stage after which a snapshot is taken")
    snapshot_bytes: int = _count(4 * 1024 * 1024, "journal bytes of a stage after which a snapshot is taken")
    max_frame_bytes: int = _option(8 * 1024 * 1024, "longest frame accepted", "bytes, 1024 to 8388608",
                                   ge=1024, le=8 * 1024 * 1024)  # fmt: skip
    max_requests: int = _count(256, "unanswered frames of one connection before reading from it pauses")
    max_write_bytes: int = _count(32 * 1024 * 1024, "unread answers of a client before it is disconnected")
    max_link_bytes: int = _count(8 * 1024 * 1024, "bytes under way to a stage of another worker")
    max_outbox: int = _count(100_000, "rides that may wait for the stage above before requests are held")
    max_token_topics: int = _count(10_000, "topics that the tokens of one name may make, those of admins apart")
    max_token_subscriptions: int = _count(1_000, "durable subscriptions of the tokens of one name, admins apart")
    log_topics: Annotated[list[str], BeforeValidator(_words)] = _option(
        [], "for a new store: topics with an event log", "texts space:filter"
    )
    log_max_age: float = _option(604_800.0, "seconds that an event log keeps events",
                                 "a number from 0 (0: no such bound)", ge=0, allow_inf_nan=False)  # fmt: skip
    log_max_count: int = _option(100_000, "events of a topic that its log keeps",
                                 "a whole number from 0 (0: no such bound)", ge=0)  # fmt: skip
    log_max_bytes: int = _option(256 * 1024 * 1024, "bytes of a topic that its log keeps",
                                 "a whole number from 0 (0: no such bound)", ge=0)  # fmt: skip
    log_trim_interval: float = _seconds(5.0, "how often event logs over their bounds are looked for")


class StoreSection(_Section):
    """Where the worker keeps its numbers."""

    url: str = _option("sqlite:///inorder.db", "the store", "an SQLAlchemy URL such as sqlite:///inorder.db",
                       pattern=r"^[a-z][a-z0-9+]*://")  # fmt: skip


class ControlPlaneSection(_Section):
    """The control plane: the HTTP API and the web UI."""

    host: str = _option("127.0.0.1", "address to listen on", "a host name or IP address", min_length=1)
    port: int = _option(8080, "port to listen on", "a port, 0 to 65535 (0: any free one)", ge=0, le=65535)
    root_path: RootText = _option("", "path under which a proxy serves it",
                                  "a path such as /inorder, without a slash at its end")  # fmt: skip
    hosts: Annotated[tuple[NameText, ...], BeforeValidator(_words)] = _option(
        (), "further names under which browsers reach it", "host names without scheme and port"
    )
    proxies: Annotated[tuple[ProxyText, ...], BeforeValidator(_words)] = _option(
        (), "proxies in front of it, whose X-Forwarded headers are believed",
        "IP addresses, or networks such as 10.0.0.0/8; no names, and no *: whoever is believed can say who asks"
    )  # fmt: skip
    workers: Annotated[tuple[AddressText, ...], BeforeValidator(_words)] = _option(
        (), "the ordering workers; those in the store if empty", "texts host:port"
    )
    brokers: Annotated[tuple[BrokerText, ...], BeforeValidator(_broker_texts)] = _option(
        (), "the brokers, for the live tail and test events; those of client if empty",
        "texts [space=]scheme://host[:port]"
    )  # fmt: skip
    tls_cert: Path | None = _option(None, "certificate; turns TLS on", "a path to a PEM file")
    tls_key: Path | None = _option(None, "the certificate's private key", "a path to a PEM file")
    session_ttl: float = _seconds(43_200.0, "how long a login in a browser lasts")
    login_rate: int = _count(10, "failed logins of one address in a minute, before more are refused")
    traces: Annotated[tuple[PlaceText, ...] | None, BeforeValidator(_words)] = _option(
        None, "what analyses may read and write; for inorder up if not set: the folder traces beside its SQLite store",
        "absolute paths of folders and beginnings of URLs, such as /var/lib/inorder/traces or s3://bucket/traces"
    )  # fmt: skip
    masters: Annotated[tuple[str, ...], BeforeValidator(_words)] = _option(
        (), "Spark masters that analyses may use beside local ones", "URLs such as spark://host:7077"
    )
    analyses: int = _option(1, "analyses that run here at a time", "a whole number from 0 (0: none)", ge=0)
    analysis_lease: float = _seconds(30.0, "how long who runs an analysis may be silent before it counts as failed")
    cancel_grace: float = _seconds(10.0, "between SIGTERM and SIGKILL for an analysis that is cancelled")
    keep_runs: int = _count(1000, "runs that have ended are kept, of all that were")


class Settings(BaseSettings):
    """All settings."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    client: ClientSection = ClientSection()
    worker: WorkerSection = WorkerSection()
    store: StoreSection = StoreSection()
    controlplane: ControlPlaneSection = ControlPlaneSection()


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings with the origin of every value.

    Attributes:
        settings: the values.
        origins: by ``section.key``: ``flag --port``, ``env INORDER_WORKER__PORT``, ``file inorder.toml``, ``default``.
    """

    settings: Settings
    origins: dict[str, str]

    @contextmanager
    def located(self, section: str) -> Iterator[None]:
        """Let an InvalidOption from inside, about a setting of a section, say where its value was found: a worker, a
        store or a client that gets it knows neither flags nor files. Raises InvalidSetting in its place."""
        try:
            yield
        except InvalidSetting:
            raise
        except InvalidOption as error:
            name, what = _setting_of(section, error.option)
            if name not in self.origins:
                raise
            raise InvalidSetting(what, error.value, error.allowed, self.origins[name]) from None


class EnvironmentSource(PydanticBaseSettingsSource):
    """``INORDER_SECTION__KEY`` variables as they are. Without two underscores a variable is not a setting."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(Settings)
        self._found: dict[str, dict[str, str]] = {}
        for name, value in environ.items():
            section, separator, key = name.removeprefix(PREFIX).lower().partition("__")
            if name.startswith(PREFIX) and separator:
                self._found.setdefault(section, {})[key] = value

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return one section's variables."""
        return self._found.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return all of them, by section."""
        return self._found


def load(
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> Loaded:
    """Read and check all settings. Flags that are ``None`` were not given; ``flag_names`` has those that a command
    calls otherwise. Raises InvalidSetting."""
    given = {
        section: {key: value for key, value in values.items() if value is not None}
        for section, values in (flags or {}).items()
    }
    file, toml = _file_source(config)
    sources: dict[str, PydanticBaseSettingsSource] = {
        "flag": InitSettingsSource(Settings, given),
        "env": EnvironmentSource(os.environ if environ is None else environ),
        "file": toml,
    }
    origins = _origins({kind: source() for kind, source in sources.items()}, file, flag_names or {})
    try:
        return Loaded(_settings_from(*sources.values()), origins)
    except ValidationError as error:
        raise _in_words(error, origins, file) from None


def _settings_from(*sources: PydanticBaseSettingsSource) -> Settings:
    """Let pydantic-settings merge the sources, the first one strongest."""

    class FromSources(Settings):
        @classmethod
        def settings_customise_sources(cls, *_: Any, **__: Any) -> tuple[PydanticBaseSettingsSource, ...]:
            return sources

    return FromSources()


def _file_source(config: Path | None) -> tuple[Path, PydanticBaseSettingsSource]:
    path = config or Path(DEFAULT_FILE)
    if config is not None and not os.path.isfile(config):
        raise InvalidSetting("--config", str(config), "a readable TOML file", "no such file")
    try:
        return path, TomlConfigSettingsSource(Settings, path)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting("file", str(path), "TOML", str(error)) from None
    except OSError as error:
        raise InvalidSetting("file", str(path), "a readable TOML file", error.strerror or str(error)) from None


def _leaves(values: Mapping[str, Any]) -> Iterator[str]:
    for section, keys in values.items():
        if isinstance(keys, Mapping):
            yield from (f"{section}.{key}" for key in keys)
        else:
            yield section


def _origins(given: Mapping[str, Mapping[str, Any]], file: Path, flag_names: Mapping[str, str]) -> dict[str, str]:
    """Say for every key where its value comes from; ``given`` holds the strongest source first."""
    origins = {f"{section}.{key}": "default" for section, key, _ in fields()}
    for kind, values in reversed(list(given.items())):
        for name in _leaves(values):
            variable = f"{PREFIX}{name.replace('.', '__').upper()}"
            where = {"flag": flag_names.get(name) or flag_name(name), "env": variable, "file": str(file)}[kind]
            origins[name] = f"{kind} {where}"
    return origins


def fields() -> Iterator[tuple[str, str, FieldInfo]]:
    """Yield section, key and declaration of every setting."""
    for section, declaration in Settings.model_fields.items():
        model = cast("type[BaseModel]", declaration.annotation)
        for key, field in model.model_fields.items():
            yield section, key, field


def flag_name(name: str) -> str:
    """Return the command line's name for a setting."""
    special = {
        "client.brokers": "--broker",
        "client.workers": "--worker",
        "controlplane.brokers": "--broker",
        "controlplane.workers": "--worker",
        "store.url": "--store",
        "worker.hosted": "--stage",
    }
    return special.get(name, f"--{name.rpartition('.')[2].replace('_', '-')}")


def _setting_of(section: str, option: str) -> tuple[str, str]:
    """Return which setting an option of a worker, a store or a client is, and what to call it."""
    if option == "store":
        return "store.url", "store.url"
    if option.startswith(("url", "option ", "broker")):  # inside of a broker's URL
        return "client.brokers", f"client.brokers: {option}"
    name = option if "." in option else f"{section}.{option}"
    return name, name


def _in_words(error: ValidationError, origins: Mapping[str, str], file: Path) -> InvalidSetting:
    """Turn the first of pydantic's errors into one that names the key, the value, what is allowed and the place."""
    first = error.errors(include_url=False)[0]
    where = [str(part) for part in first["loc"]]
    name = ".".join(where[:2])
    known = {f"{section}.{key}": field for section, key, field in fields()}
    origin = origins.get(name, f"file {file}")
    if name in known:
        extra = cast("dict[str, Any]", known[name].json_schema_extra)
        return InvalidSetting(name, display(name, first["input"]), str(extra["allowed"]), origin)
    if first["type"] == "extra_forbidden":
        return _unknown(where, origin)
    misfit = first.get("ctx", {}).get("error")
    if isinstance(misfit, _Misfit):
        name = f"{name}.{misfit.key}"
        return InvalidSetting(name, misfit.value, misfit.allowed, origins[name])
    return InvalidSetting(name, None, "a table of keys", origin)


def _unknown(where: list[str], origin: str) -> InvalidSetting:
    if len(where) == 1:
        allowed, what = list(Settings.model_fields), "section"
    else:
        allowed, what = [key for section, key, _ in fields() if section == where[0]], "key"
    close = get_close_matches(where[-1], allowed, n=1)
    guess = f" (did you mean {close[0]}?)" if close else ""
    return InvalidSetting(".".join(where), None, f"one of {', '.join(allowed)}{guess}", origin, f"unknown {what}")


def display(name: str, value: Any) -> Any:
    """Return a value as it may be shown: plain JSON types, secrets masked, also those inside URLs."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, SecretStr) or name.endswith(".token"):
        return MASK
    if isinstance(value, list | tuple):
        return [display(name, item) for item in value]
    return masked_url(str(value))


def masked_url(text: str) -> str:
    """Mask the password, and secrets in the query, of a URL (one with ``space=`` in front, too)."""
    head, separator, rest = text.partition("://")
    if not separator:  # no URL; where it looks like a mistyped one, its user part is not shown
        return f"{MASK}@{text.rpartition('@')[2]}" if "@" in text else text
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" not in authority and "@" in rest:  # an unencoded / or ? in the password: hide too much, not too little
        authority = rest.rpartition("@")[0] + "@"
    tail = rest[len(authority) :]
    user, at, host = authority.rpartition("@")
    if ":" in user:
        user = f"{user.partition(':')[0]}:{MASK}"
    return f"{head}{separator}{user}{at}{host}{_masked_query(tail)}"


def _masked_query(tail: str) -> str:
    """Mask what follows a ``=`` behind a name that sounds secret, up to the next parameter."""
    parts = tail.split("=")
    shown, is_secret = parts[:1], False
    for before, value in pairwise(parts):
        is_secret = (is_secret and not _VALUE_END.search(before)) or bool(
            _SECRET_NAME.search(before.rpartition("&")[2])
        )
        end = _VALUE_END.search(value)
        shown.append(f"{MASK}{value[end.start() :] if end else ''}" if is_secret else value)
    return "=".join(shown)


def broker_parts(text: str) -> tuple[str | None, str]:
    """Split ``[space=]URL``. Raises InvalidOption."""
    matched = _BROKER.fullmatch(text)
    if matched is None:
        raise InvalidOption("broker", masked_url(text), "[space=]scheme://host[:port]")
    return matched["space"], matched["url"]


def split_brokers(texts: tuple[str, ...]) -> str | dict[str, str]:
    """Return what :class:`inorder.Client` takes: one URL, or URLs by space. Raises InvalidOption."""
    parts = [broker_parts(text) for text in texts]
    if len(parts) == 1 and parts[0][0] is None:
        return parts[0][1]
    found: dict[str, str] = {}
    for given, url in parts:
        space = given or url.partition("://")[0]
        if space in found:
            allowed = "a space of its own for each broker, as in --broker plant=mqtt://host"
            raise InvalidOption("broker space", space, allowed)
        found[space] = url
    return found
