"""The settings of workers and of their shared store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from inorder.protocol.stamp import MAX_STAGES
from inorder.protocol.wire import MAX_FRAME_BYTES
from inorder.settings import declaring as declare
from inorder.settings.texts import is_address, is_store

_NO_BOUND = "a whole number from 0 (0: no such bound)"
_lists = declare.list_reader(declare.list_reader(declare.text_reader(bool), list), list)


def store_url() -> Any:
    """Declare the URL of a store."""
    allowed = "an SQLAlchemy URL such as sqlite:///inorder.db"
    return declare.text("sqlite:///inorder.db", "the store", allowed, is_store, "--store")


@dataclass(frozen=True, kw_only=True, repr=False)
class StoreSection(declare.Section):
    """The store of the worker's numbers."""

    url: str = store_url()


@dataclass(frozen=True, kw_only=True, repr=False)
class WorkerSection(declare.Section):
    """The ordering worker, without its store."""

    host: str = declare.host("127.0.0.1", "address to listen on")
    port: int = declare.port(7401, "port to listen on")
    http_host: str = declare.host("127.0.0.1", "address to serve health and metrics on")
    http_port: int | None = declare.port(None, "port to serve health and metrics on over HTTP; none: nowhere")
    # Needed, this or require_token, on addresses that other machines reach. Who shows this one, and no token of the
    # store, may do everything; the worker shows it to other workers.
    token: str | None = declare.text(
        None, "shared secret that clients must show", "a text of 1 character or more", bool
    )
    require_token: bool = declare.switch("clients must show a token of the store (inorder tokens) or the worker's")
    tls_cert: Path | None = declare.pem_file("certificate; turns TLS on")
    tls_key: Path | None = declare.pem_file("the certificate's private key")
    tls_client_ca: Path | None = declare.pem_file("authority whose certificate clients must show")
    # Without both, the other workers' certificates are checked against the system's authorities.
    tls_peer_ca: Path | None = declare.pem_file("authority of the other workers' certificates; else tls_client_ca")
    name: str = declare.text(
        "", "name in answers and logs; made up if empty", "a text of at most 128 characters",
        lambda given: len(given) <= 128,
    )  # fmt: skip
    log_format: Literal["text", "json"] = declare.choice("text", "how log lines look", "text", "json")
    stages: int = declare.whole(
        1, "stages of the sequencer, fixed when the store is made", f"a whole number, 1 to {MAX_STAGES}",
        lambda given: 1 <= given <= MAX_STAGES,
    )  # fmt: skip
    hosted: list[int] = declare.setting(
        [], "the stages that this worker processes; all of them if empty", "different whole numbers from 0",
        declare.list_reader(declare.number_reader(int, lambda given: given >= 0), list),
        lambda given: list(map(int, declare.words_of(given))), "--stage",
    )  # fmt: skip
    # Else the first address it listens on, or this machine's name where it listens on all.
    advertise: str = declare.text(
        "", "where clients and other workers reach this one; else where it listens",
        "host:port, for example worker-1.example:7401", lambda given: not given or is_address(given),
    )  # fmt: skip
    topic_order: list[list[str]] = declare.setting(
        [], "for a new store: topics of each stage, from the top", "a list of lists of space:name", _lists, json.loads
    )
    linger: float = declare.seconds(60.0, "how long a dropped topic keeps counting")
    publisher_grace: float = declare.seconds(10.0, "how long a publisher may be gone before its numbers are given up")
    session_timeout: float = declare.seconds(30.0, "how long a client may be gone before its subscription ends")
    confirm_timeout: float = declare.seconds(60.0, "how long a number may be unconfirmed")
    number_retention: int = declare.count(10_000, "settled numbers of a topic that are remembered one by one")
    number_retention_total: int = declare.whole(
        1_000_000, "settled numbers that all topics of a stage remember together", _NO_BOUND, lambda given: given >= 0
    )
    number_retention_age: float = declare.seconds_or_never(
        604_800.0,
        "how long a settled number is remembered, about",
        "a number of seconds, at least linger (0: for ever)",
    )
    # Used again, it is another topic with the same name.
    topic_ttl: float = declare.seconds_or_never(
        86_400.0, "how long a topic may get no number before it ends, though wildcards cover it",
        "a number of seconds, at least linger (0: it never does)",
    )  # fmt: skip
    popularity_window: float = declare.seconds_or_never(
        0.0, "over which topics' events are counted to reorder them by popularity"
    )
    popularity_alpha: float = declare.number(
        0.1, "how many events make a topic popular: the greater, the fewer", "a number over 0",
        lambda given: given > 0,
    )  # fmt: skip
    popularity_beta: float = declare.number(
        0.2, "how much more popular a topic must be to change places", "a number from 0 to below 1",
        lambda given: 0 <= given < 1,
    )  # fmt: skip
    heads_interval: float = declare.seconds(1.0, "how often changed highest numbers are sent")
    hello_timeout: float = declare.seconds(10.0, "how long a connection may be silent before its hello")
    write_timeout: float = declare.seconds(10.0, "how long a client may leave its answers unread")
    stop_timeout: float = declare.seconds(3.0, "how long a clean stop may take")
    # With 0 it shows nothing but its commits, and looks every second where other stages are.
    beat_interval: float = declare.seconds_or_never(0.5, "how often a worker shows the store that it lives")
    lease: float = declare.seconds(2.0, "how long an owner may be silent before a standby takes its stages over")
    take_over: bool = declare.switch("at the start, take the stages also from an owner that is alive")
    store_timeout: float = declare.seconds(10.0, "how long the store may be locked or silent")
    retry_max: float = declare.seconds(5.0, "longest pause between attempts to recover from the store")
    max_batch_commands: int = declare.count(2_000, "commands of one commit")
    max_batch_bytes: int = declare.count(1024 * 1024, "bytes of one commit")
    max_queue_bytes: int = declare.count(64 * 1024 * 1024, "bytes that may wait for a commit before reading pauses")
    snapshot_rows: int = declare.count(5_000, "journal rows of a stage after which a snapshot is taken")
    snapshot_bytes: int = declare.count(4 * 1024 * 1024, "journal bytes of a stage after which a snapshot is taken")
    max_frame_bytes: int = declare.whole(
        MAX_FRAME_BYTES, "longest frame accepted", f"bytes, 1024 to {MAX_FRAME_BYTES}",
        lambda given: 1024 <= given <= MAX_FRAME_BYTES,
    )  # fmt: skip
    max_requests: int = declare.count(256, "unanswered frames of one connection before reading from it pauses")
    max_write_bytes: int = declare.count(32 * 1024 * 1024, "unread answers of a client before it is disconnected")
    max_link_bytes: int = declare.count(8 * 1024 * 1024, "bytes under way to a stage of another worker")
    max_outbox: int = declare.count(100_000, "rides that may wait for the stage above before requests are held")
    max_token_topics: int = declare.count(10_000, "topics that the tokens of one name may make, those of admins apart")
    max_token_subscriptions: int = declare.count(1_000, "durable subscriptions of the tokens of one name, admins apart")
    max_token_unconfirmed: int = declare.count(
        100_000, "open numbers of the tokens of one name at a stage, those of admins apart"
    )
    log_topics: list[str] = declare.texts([], "for a new store: topics with an event log", "texts space:filter")
    log_max_age: float = declare.seconds_or_never(
        604_800.0, "seconds that an event log keeps events", "a number from 0 (0: no such bound)"
    )
    log_max_count: int = declare.whole(
        100_000, "events of a topic that its log keeps", _NO_BOUND, lambda given: given >= 0
    )
    log_max_bytes: int = declare.whole(
        256 * 1024 * 1024, "bytes of a topic that its log keeps", _NO_BOUND, lambda given: given >= 0
    )
    log_trim_interval: float = declare.seconds(5.0, "how often event logs over their bounds are looked for")
