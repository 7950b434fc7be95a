"""The settings of a worker: its address, its store, and its bounds."""

from __future__ import annotations

import ipaddress
import os
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

from inorder.errors import InvalidFilter, InvalidOption
from inorder.listening import NO_PASS_PHRASE
from inorder.protocol.filters import filter_of
from inorder.protocol.wire import LogRule
from inorder.settings.declaring import SECONDS
from inorder.settings.worker import WorkerSection, store_url
from inorder_worker.sequencer.commands import StageSettings
from inorder_worker.sequencer.sessions import END_WORK

LEASE_BEATS = 4
"""Beat intervals in a session timeout at least: an idle worker answers a client's question with its next beat, and a
client that asks every sixth of the timeout holds its events after half of it without an answer (R12)."""
TAKEOVER_BEATS = 3
"""Beat intervals in a lease at least: one that is late, and one that is lost, make nobody suspect."""


@dataclass(frozen=True, kw_only=True, repr=False)
class WorkerSettings(WorkerSection):
    """Settings of one worker: those of its section, and where its store is. Durations are seconds, sizes are bytes.
    Raises InvalidOption when made wrong."""

    store: str = store_url()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("topic_ttl", "number_retention_age"):
            seconds, allowed = getattr(self, name), f"{SECONDS}, at least linger ({self.linger:g}), or 0 for never"
            _require(seconds == 0 or seconds >= self.linger, name, seconds, allowed)
        for name, beats in (("session_timeout", LEASE_BEATS), ("lease", TAKEOVER_BEATS)):
            least = beats * self.beat_interval
            allowed = f"{SECONDS}, at least {beats} beat_intervals ({least:g})"
            _require(getattr(self, name) >= least, name, getattr(self, name), allowed)
        self._check_tls_pair()
        self._check_listening()
        self._check_topic_order()
        self._check_logs()
        self._check_hosted()
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

    def log_rules(self) -> list[LogRule]:
        """Return which topics have an event log in a new store."""
        bounds = round(self.log_max_age * 1000), self.log_max_count, self.log_max_bytes
        pairs = [(space, name) for space, _, name in (each.partition(":") for each in self.log_topics)]
        return [LogRule(space, filter_of(space, name), *bounds) for space, name in pairs]

    def _check_hosted(self) -> None:
        allowed = f"different whole numbers from 0 to {self.stages - 1}, where there are {self.stages} stages"
        fits = len(set(self.hosted)) == len(self.hosted) and all(each < self.stages for each in self.hosted)
        _require(fits, "hosted", self.hosted, allowed)

    @property
    def hosted_stages(self) -> list[int]:
        """The stages to process, the top one first."""
        return sorted(self.hosted) or list(range(self.stages))

    def stage_settings(self) -> StageSettings:
        """Return what the stages are told, in milliseconds."""
        return StageSettings(
            linger_ms=_milliseconds(self.linger),
            publisher_grace_ms=_milliseconds(self.publisher_grace),
            confirm_timeout_ms=_milliseconds(self.confirm_timeout),
            number_retention=self.number_retention,
            end_work=END_WORK,
            numbers_kept=self.number_retention_total,
            number_age_ms=_milliseconds(self.number_retention_age) if self.number_retention_age else 0,
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
