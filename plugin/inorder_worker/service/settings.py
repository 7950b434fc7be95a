"""What a worker is told: where it listens, where it keeps its numbers, and its bounds."""

from __future__ import annotations

import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass, field, fields
from pathlib import Path

from inorder.errors import InvalidFilter, InvalidOption
from inorder.listening import NO_PASS_PHRASE
from inorder.protocol.filters import filter_of
from inorder.protocol.wire import MAX_FRAME_BYTES, LogRule
from inorder_worker.sequencer.commands import StageSettings
from inorder_worker.store.store import masked

SECONDS = "a number of seconds over 0"
MAX_STAGES = 64
LOG_FORMATS = ("text", "json")
LOG_MAX_AGE, LOG_MAX_COUNT, LOG_MAX_BYTES = 7 * 86_400.0, 100_000, 256 * 1024 * 1024
"""What an event log keeps of a topic unless it is told otherwise: seconds, events, bytes."""
LEASE_BEATS = 4
"""Beat intervals in a session timeout at least: an idle worker answers a client's question with its next beat, and a
client that asks every sixth of the timeout holds its events after half of it without an answer (R12)."""
TAKEOVER_BEATS = 3
"""Beat intervals in a lease at least: one that is late, and one that is lost, make nobody suspect."""
_DURATIONS = (
    "linger", "publisher_grace", "confirm_timeout", "session_timeout", "heads_interval", "hello_timeout",
    "write_timeout", "stop_timeout", "store_timeout", "retry_max", "lease", "log_trim_interval",
)  # fmt: skip
_COUNTS = (
    "number_retention", "max_batch_commands", "max_batch_bytes", "max_queue_bytes", "snapshot_rows",
    "snapshot_bytes", "max_requests", "max_write_bytes", "max_link_bytes", "max_outbox",
    "max_token_topics", "max_token_subscriptions",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Settings of one worker. Durations are seconds, sizes are bytes. Raises InvalidOption when made wrong.

    Attributes:
        store: SQLAlchemy URL; ``sqlite:///file`` or ``postgresql://...``.
        host, port: where to listen; port 0 takes any free one.
        http_host, http_port: where health and metrics are served over HTTP (see ``monitor``); no port: nowhere.
        token: shared secret that clients must show, or a token of the store (see ``tokens``); needed on addresses that
            other machines reach. Who shows this one may do everything; the worker shows it to other workers.
        require_token: clients must show a token of the store, or ``token``, also where there is no ``token``.
        tls_cert, tls_key: PEM files; together they turn TLS on. ``tls_client_ca`` makes clients show a
            certificate of that authority.
        tls_peer_ca: PEM file of authorities that the certificates of other workers are checked against; else
            ``tls_client_ca``, else those of the system.
        name: what the worker is called in answers and logs; made up if empty.
        log_format: ``text`` or ``json``, for ``run``.
        stages: number of stages; fixed when the store is made.
        hosted: the stages that this worker may process; all of them if empty.
        advertise: ``host:port`` where clients and other workers reach this one; else the first address it listens
            on, or this machine's name where it listens on all.
        topic_order: for a new store, ``space:name`` of the topics of each stage, from the top.
        linger, publisher_grace, confirm_timeout, session_timeout, number_retention: see StageSettings (R10, R12, R16).
        topic_ttl: how long a topic that nobody has subscribed to may get no number before it retires: its numbers are
            forgotten but for the last one. At least ``linger``; 0: it never does.
        popularity_window: over which events are counted, for topics to change places by themselves (R15); 0 for never.
        popularity_alpha, popularity_beta: see StageSettings.
        heads_interval: how often changed heads are sent (R17).
        hello_timeout: how long a connection may be silent before its hello.
        write_timeout: how long a client may leave its answers unread before it is disconnected.
        stop_timeout: how long a clean stop may take before connections are cut.
        beat_interval: how often a worker shows the store that it lives, and looks where other stages are; 0: it shows
            nothing but its commits, and looks every second.
        lease: how long the owner of a stage may show no sign of life before a standby takes it over; at least three
            beat intervals.
        take_over: at the start, take the stages also from an owner that is alive.
        store_timeout: how long the store may be locked or silent before it counts as unreachable.
        retry_max: longest pause between two attempts to recover from the store.
        max_batch_commands, max_batch_bytes: bounds of one commit.
        max_queue_bytes: commands that may wait for a commit, over all clients, before reading pauses.
        snapshot_rows, snapshot_bytes: journal of one stage after which a snapshot is taken.
        max_frame_bytes: longest frame accepted.
        max_requests: frames of one connection without an answer before reading from it pauses.
        max_write_bytes: unread answers of one client before it is disconnected.
        max_link_bytes: rides sent to another worker's stage that it has not made durable yet.
        max_outbox: rides that may wait for the stage above before requests that would add to them are held.
        max_token_topics: topics that the tokens of one name may make, those of admins apart.
        max_token_subscriptions: durable subscriptions that they may have at a time, admins apart.
        log_topics: for a new store, ``space:filter`` of topics with an event log (R18); later see ``inorder log``.
        log_max_age, log_max_count, log_max_bytes: what a log of these keeps of each topic; 0: no such bound.
        log_trim_interval: how often logs over their bounds are looked for.
    """

    store: str = "sqlite:///inorder.db"
    host: str = "127.0.0.1"
    port: int = 7401
    http_host: str = "127.0.0.1"
    http_port: int | None = None
    token: str | None = None
    require_token: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_client_ca: Path | None = None
    tls_peer_ca: Path | None = None
    name: str = ""
    log_format: str = "text"
    stages: int = 1
    hosted: list[int] = field(default_factory=list)
    advertise: str = ""
    topic_order: list[list[str]] = field(default_factory=list)
    linger: float = 60.0
    publisher_grace: float = 10.0
    session_timeout: float = 30.0
    confirm_timeout: float = 60.0
    number_retention: int = 10_000
    topic_ttl: float = 86_400.0
    popularity_window: float = 0.0
    popularity_alpha: float = 0.1
    popularity_beta: float = 0.2
    heads_interval: float = 1.0
    hello_timeout: float = 10.0
    write_timeout: float = 10.0
    stop_timeout: float = 3.0
    beat_interval: float = 0.5
    lease: float = 2.0
    take_over: bool = False
    store_timeout: float = 10.0
    retry_max: float = 5.0
    max_batch_commands: int = 2_000
    max_batch_bytes: int = 1024 * 1024
    max_queue_bytes: int = 64 * 1024 * 1024
    snapshot_rows: int = 5_000
    snapshot_bytes: int = 4 * 1024 * 1024
    max_frame_bytes: int = MAX_FRAME_BYTES
    max_requests: int = 256
    max_write_bytes: int = 32 * 1024 * 1024
    max_link_bytes: int = 8 * 1024 * 1024
    max_outbox: int = 100_000
    max_token_topics: int = 10_000
    max_token_subscriptions: int = 1_000
    log_topics: list[str] = field(default_factory=list)
    log_max_age: float = LOG_MAX_AGE
    log_max_count: int = LOG_MAX_COUNT
    log_max_bytes: int = LOG_MAX_BYTES
    log_trim_interval: float = 5.0

    def __post_init__(self) -> None:
        for name in _DURATIONS:
            _require(getattr(self, name) > 0, name, getattr(self, name), SECONDS)
        for name in _COUNTS:
            _require(getattr(self, name) > 0, name, getattr(self, name), "a whole number over 0")
        window, beta = self.popularity_window, self.popularity_beta
        _require(window >= 0, "popularity_window", window, f"{SECONDS}, or 0 for never")
        _require(
            self.topic_ttl == 0 or self.topic_ttl >= self.linger,
            "topic_ttl", self.topic_ttl, f"{SECONDS}, at least linger ({self.linger:g}), or 0 for never",
        )  # fmt: skip
        _require(self.popularity_alpha > 0, "popularity_alpha", self.popularity_alpha, "a number over 0")
        _require(0 <= beta < 1, "popularity_beta", beta, "a number from 0 to below 1")
        _require(self.beat_interval >= 0, "beat_interval", self.beat_interval, f"{SECONDS}, or 0 for never")
        _require(
            self.session_timeout >= LEASE_BEATS * self.beat_interval,
            "session_timeout", self.session_timeout,
            f"{SECONDS}, at least {LEASE_BEATS} beat_intervals ({LEASE_BEATS * self.beat_interval:g})",
        )  # fmt: skip
        _require(
            self.lease >= TAKEOVER_BEATS * self.beat_interval,
            "lease", self.lease,
            f"{SECONDS}, at least {TAKEOVER_BEATS} beat_intervals ({TAKEOVER_BEATS * self.beat_interval:g})",
        )  # fmt: skip
        _require(0 <= self.port <= 65535, "port", self.port, "a port, 0 to 65535 (0: any free one)")
        http = self.http_port
        _require(http is None or 0 <= http <= 65535, "http_port", http, "a port, 0 to 65535 (0: any free one), or none")
        _require(self.token != "", "token", "", "a text that is not empty, or no token at all")
        _require(1 <= self.stages <= MAX_STAGES, "stages", self.stages, f"a whole number, 1 to {MAX_STAGES}")
        _require(
            1024 <= self.max_frame_bytes <= MAX_FRAME_BYTES,
            "max_frame_bytes", self.max_frame_bytes, f"1024 to {MAX_FRAME_BYTES}",
        )  # fmt: skip
        _require(self.log_format in LOG_FORMATS, "log_format", self.log_format, " or ".join(LOG_FORMATS))
        _require("://" in self.store, "store", "(not a URL)", "an SQLAlchemy URL such as sqlite:///inorder.db")
        self._check_tls_pair()
        self._check_listening()
        self._check_topic_order()
        self._check_logs()
        self._check_place()
        if not self.name:
            object.__setattr__(self, "name", f"worker-{secrets.token_hex(4)}")

    def _check_tls_pair(self) -> None:
        pair = (self.tls_cert is None) == (self.tls_key is None)
        option = "tls_key" if self.tls_cert is None else "tls_cert"
        given, other = getattr(self, option), "tls_cert" if self.tls_cert is None else "tls_key"
        _require(pair, option, str(given), f"a PEM file together with {other}{_absence(given)}")
        needs = self.tls_client_ca is None or self.tls_cert is not None
        allowed = f"a PEM file together with tls_cert and tls_key{_absence(self.tls_client_ca)}"
        _require(needs, "tls_client_ca", str(self.tls_client_ca), allowed)

    def _check_listening(self) -> None:
        _require(
            bool(self.token) or self.require_token or is_loopback(self.host),
            "host", self.host,
            "127.0.0.1 (or another loopback address), or any address together with a token or require_token",
        )  # fmt: skip

    def _check_topic_order(self) -> None:
        _require(
            len(self.topic_order) <= self.stages,
            "topic_order", f"{len(self.topic_order)} lists", f"one list of topics for each of the {self.stages} stages",
        )  # fmt: skip
        seen: set[str] = set()
        for text in (text for stage in self.topic_order for text in stage):
            space, separator, name = text.partition(":")
            _require(bool(space and separator and name), "topic_order", text, "space:name")
            _require(text not in seen, "topic_order", text, "each topic once")
            seen.add(text)

    def _check_logs(self) -> None:
        for text in self.log_topics:
            space, separator, name = text.partition(":")
            _require(bool(space and separator and name), "log_topics", text, "space:filter")
            try:
                filter_of(space, name)
            except InvalidFilter as error:
                allowed = f"space:filter with a filter that its broker takes ({error.reason})"
                raise InvalidOption("log_topics", text, allowed) from None
        for name in ("log_max_age", "log_max_count", "log_max_bytes"):
            _require(getattr(self, name) >= 0, name, getattr(self, name), "a number from 0 (0: no such bound)")

    def log_rules(self) -> list[LogRule]:
        """Return which topics have an event log in a new store."""
        bounds = round(self.log_max_age * 1000), self.log_max_count, self.log_max_bytes
        pairs = [(space, name) for space, _, name in (each.partition(":") for each in self.log_topics)]
        return [LogRule(space, filter_of(space, name), *bounds) for space, name in pairs]

    def _check_place(self) -> None:
        allowed = f"different whole numbers from 0 to {self.stages - 1}, where there are {self.stages} stages"
        fits = len(set(self.hosted)) == len(self.hosted) and all(0 <= each < self.stages for each in self.hosted)
        _require(fits, "hosted", self.hosted, allowed)
        host, _, port = self.advertise.rpartition(":")
        is_address = bool(host) and self.advertise.isprintable() and port.isascii() and port.isdigit()
        _require(
            not self.advertise or (is_address and 0 < int(port) < 65536),
            "advertise", self.advertise, "host:port, for example worker-1.example:7401",
        )  # fmt: skip

    @property
    def hosted_stages(self) -> list[int]:
        """The stages to process, the top one first."""
        return sorted(self.hosted) or list(range(self.stages))

    def __repr__(self) -> str:
        shown = ((item.name, getattr(self, item.name)) for item in fields(self))
        secret = {"token": "***" if self.token else None, "store": masked(self.store)}
        return f"WorkerSettings({', '.join(f'{name}={secret.get(name, value)!r}' for name, value in shown)})"

    def stage_settings(self) -> StageSettings:
        """Return what the stages are told, in milliseconds."""
        return StageSettings(
            linger_ms=_milliseconds(self.linger),
            publisher_grace_ms=_milliseconds(self.publisher_grace),
            confirm_timeout_ms=_milliseconds(self.confirm_timeout),
            number_retention=self.number_retention,
            session_timeout_ms=_milliseconds(self.session_timeout),
            popularity_window_ms=_milliseconds(self.popularity_window) if self.popularity_window else 0,
            popularity_alpha=self.popularity_alpha,
            popularity_beta=self.popularity_beta,
            topic_ttl_ms=_milliseconds(self.topic_ttl) if self.topic_ttl else 0,
        )

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the server's TLS context, ``None`` without TLS. Raises InvalidOption naming the bad file."""
        if self.tls_cert is None:
            return None
        for option in ("tls_cert", "tls_key", "tls_client_ca"):
            path = getattr(self, option)
            _require(not _absence(path), option, str(path), f"a PEM file{_absence(path)}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._show_own_certificate(context)
        if self.tls_client_ca is not None:
            try:
                context.load_verify_locations(self.tls_client_ca)
            except (OSError, ssl.SSLError) as error:
                allowed = f"a PEM file of certificates ({error})"
                raise InvalidOption("tls_client_ca", str(self.tls_client_ca), allowed) from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def peer_ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for connections to other workers, ``None`` without TLS. Raises InvalidOption naming
        the bad file."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        authority = self.tls_peer_ca or self.tls_client_ca
        option = "tls_peer_ca" if self.tls_peer_ca else "tls_client_ca"
        try:
            context = ssl.create_default_context(cafile=authority)
        except (OSError, ssl.SSLError) as error:
            raise InvalidOption(option, str(authority), f"a PEM file of certificates ({error})") from None
        self._show_own_certificate(context)
        return context

    def _show_own_certificate(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(str(self.tls_cert), self.tls_key, password=NO_PASS_PHRASE)
        except (OSError, ssl.SSLError) as error:
            allowed = f"a PEM certificate with its key, without a pass phrase, in tls_key ({error})"
            raise InvalidOption("tls_cert", str(self.tls_cert), allowed) from None


def is_loopback(host: str) -> bool:
    """Tell whether an address is reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _absence(path: Path | None) -> str:
    """Return words for a file that is not there, nothing for one that is (or was not named)."""
    return f" (there is no file {path})" if path is not None and not os.path.exists(path) else ""


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _require(allowed: bool, option: str, value: object, text: str) -> None:
    if not allowed:
        raise InvalidOption(option, value, text)
