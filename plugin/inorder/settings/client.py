"""The settings of clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from inorder.errors import InvalidOption
from inorder.settings import declaring as declare


@dataclass(frozen=True, repr=False)
class Times(declare.Section):
    """Timers (seconds) and bounds of a client."""

    connect_timeout: float = declare.seconds(5.0, "for one attempt to reach a worker")
    backoff_first: float = declare.seconds(
        0.05, "longest pause before the first reconnection; doubles after each failure"
    )
    backoff_max: float = declare.seconds(5.0, "longest pause between reconnections; each is drawn at random")
    heartbeat: float = declare.seconds(
        1.0, "how often a silent worker is asked to answer; after three of them it is gone"
    )
    # Within it 100 numbers are asked for that the client may merely not have read (R24), all others at once (R17).
    gap_timeout: float = declare.seconds(1.0, "how long a missing number is waited for before the worker is asked")
    # Time in which all was read that the broker had (R24). Numbers that follow one another, and are overdue within
    # 1.25 s, are one gap, when the last one is; the end of a burst is known a second later than it was published.
    loss_timeout: float = declare.seconds(5.0, "how long an event that the broker accepted is waited for")
    settle_delay: float = declare.seconds(0.02, "how long confirmations may wait for others to go with")
    save_delay: float = declare.seconds(0.2, "how often a durable subscriber saves what it has done with")
    close_timeout: float = declare.seconds(0.6, "how long the end of a client lets open work finish")
    report_interval: float = declare.seconds_or_never(
        1.0, "how often a client tells the workers what it has seen, for operators"
    )
    # What waits for its turn in strict mode.
    max_waiting: int = declare.count(200_000, "events that may wait for their turn")
    max_waiting_bytes: int = declare.count(256 * 1024 * 1024, "bytes of events that may wait for their turn")
    # Beyond it events are given up, and reported as Gap(reason="overflow"); those without a number (orders fifo and
    # none, unsequenced) are counted in stats().overflow and logged once per overflow.
    max_undelivered: int = declare.count(200_000, "events that may lie unread in the stream")
    max_undelivered_bytes: int = declare.count(256 * 1024 * 1024, "bytes of events that may lie unread in the stream")
    max_pending: int = declare.count(20_000, "publishes that may be unfinished")


@dataclass(frozen=True, kw_only=True, repr=False)
class _Connection(declare.Section):
    brokers: tuple[str, ...] = declare.brokers(
        ("mqtt://localhost:1883",), "the brokers", "one or more of [space=]scheme://host[:port]", 1
    )
    workers: tuple[str, ...] = declare.workers(
        ("localhost:7401",), "the ordering workers", "one or more of host:port", 1
    )
    client_id: str | None = declare.text(
        None, "name of this client", "a text of 1 to 128 characters", lambda given: 1 <= len(given) <= 128
    )
    token: str | None = declare.text(None, "shared secret that the workers ask for", "a text")
    mode: Literal["strict", "tag", "bounded"] = declare.choice(
        "strict", "how long an event waits for those before it", "strict", "tag", "bounded"
    )
    buffer: int | None = declare.whole(
        None, "bounded: events that may wait", "a whole number from 0", lambda given: given >= 0
    )
    max_wait: float | None = declare.number(
        None, "bounded: seconds that an event may wait", "a number from 0", lambda given: given >= 0
    )
    space: str | None = declare.text(
        None, "drop-in clients: the broker's space; the adapter's if not set", "a text of 1 to 255 bytes",
        lambda given: 1 <= len(given) <= 255,
    )  # fmt: skip
    subscribe_timeout: float = declare.seconds(
        5.0, "drop-in clients: how long a subscription's confirmation waits for workers"
    )
    traces: str | None = declare.text(
        None, "folder or fsspec URL to record traces in; none: nothing is recorded", "a folder, or a URL of fsspec",
        bool,
    )  # fmt: skip
    tls: bool = declare.switch("TLS to the workers, trusting the system's authorities")
    tls_ca: Path | None = declare.pem_file("TLS to the workers, trusting this authority")
    tls_cert: Path | None = declare.pem_file("TLS to the workers, showing this certificate")
    tls_key: Path | None = declare.pem_file("the certificate's private key")


@dataclass(frozen=True, kw_only=True, repr=False)
class ClientSection(Times, _Connection):
    """The connections of ``pub``, ``sub``, ``order`` and ``check``, and how a subscriber waits."""

    flags: ClassVar = (" (--buffer N, --max-wait SECONDS)", " (--mode bounded)")
    """What errors say of the command line."""

    def __post_init__(self) -> None:
        limits = {key: value for key in ("buffer", "max_wait") if (value := getattr(self, key)) is not None}
        super().__post_init__()
        if self.mode == "bounded" and not limits:
            allowed = f"bounded together with a limit: buffer, max_wait or both{self.flags[0]}"
            raise InvalidOption("mode", self.mode, allowed)
        if self.mode != "bounded" and limits:
            allowed = f"a limit together with mode bounded only{self.flags[1]}; the mode is {self.mode}"
            raise InvalidOption(*next(iter(limits.items())), allowed)


@dataclass(frozen=True, kw_only=True, repr=False)
class DropInSection(ClientSection):
    """The client settings for another library's client, which brings its broker; without workers nothing is ordered."""

    flags = ("", "")
    brokers: tuple[str, ...] = declare.setting((), "the library's matter", "anything", lambda given: given)
    workers: tuple[str, ...] = declare.workers(
        ("localhost:7401",), "the ordering workers", "texts host:port; none to order nothing"
    )
