"""mosquitto, alone or bridged to another one."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inorder.testing.services.mqtt_probe import MqttProbe
from inorder.testing.services.server import HOST, PING_SECONDS, Server
from inorder.testing.services.tls import Certificates

_RESEND_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Bridge:
    """A bridge from one mosquitto to the broker on another loopback port.

    Attributes:
        port: the other broker's (or that of a proxy before it).
        topics: pairs of topic pattern and direction (``in``, ``out``, ``both``), seen from the bridging broker.
        qos: the quality at which messages cross.
        protocol: ``mqttv50`` carries user properties across; ``mqttv311``, mosquitto's own default, strips them.
        options: further lines of the ``connection`` section.
    """

    port: int
    topics: Sequence[tuple[str, str]] = (("#", "both"),)
    qos: int = 0
    protocol: str = "mqttv50"
    options: Sequence[str] = ()

    def lines(self, name: str) -> list[str]:
        """Return the ``connection`` section. ``name`` must differ among the bridges that reach one broker."""
        return [
            f"connection {name}",
            f"address {HOST}:{self.port}",
            f"bridge_protocol_version {self.protocol}",
            *(f"topic {pattern} {direction} {self.qos}" for pattern, direction in self.topics),
            f"remote_clientid {name}",
            f"local_clientid local-{name}",
            "try_private true",  # the other side then never sends a bridge its own messages back
            "notifications false",
            "cleansession true",
            "restart_timeout 1",
            *self.options,
        ]


class Mosquitto(Server):
    """A mosquitto broker without persistence.

    Args:
        bridges: bridges that this broker opens.
        tls: its listener speaks TLS with this certificate; clients trust ``tls.ca``.
        users: user names and passwords; ``None`` lets everybody in.
        max_queued: messages that wait for one client (0: no limit); ``None``: the broker's own default.
        allow_zero_length_clientid: clients may connect without an id.
        listener_options: further lines of the listener (``max_connections 5``, ...).
        extra: further lines of the general part.
        port, start_timeout: see :class:`Server`.
    """

    binary = "mosquitto"
    package = "mosquitto"
    service_user = "mosquitto"

    def __init__(
        self,
        *,
        bridges: Sequence[Bridge] = (),
        tls: Certificates | None = None,
        users: Mapping[str, str] | None = None,
        max_queued: int | None = None,
        allow_zero_length_clientid: bool = True,
        listener_options: Sequence[str] = (),
        extra: Sequence[str] = (),
        port: int | None = None,
        start_timeout: float = 30.0,
    ) -> None:
        super().__init__(port=port, start_timeout=start_timeout)
        self.bridges = list(bridges)
        self.tls = tls
        self._users = dict(users or {})
        self._max_queued = max_queued
        self._allow_zero_length_clientid = allow_zero_length_clientid
        self._listener_options, self._extra = tuple(listener_options), tuple(extra)

    @property
    def url(self) -> str:
        """``mqtt://`` or ``mqtts://`` with host and port; never with credentials."""
        return f"{'mqtts' if self.tls else 'mqtt'}://{'localhost' if self.tls else HOST}:{self.port}"

    def config(self) -> str:
        """Return the configuration that the next start uses."""
        lines = [
            "persistence false",
            "log_dest stderr",  # not stdout, which it buffers
            "log_type error",
            "log_type warning",
            "log_type notice",
            "log_type information",
            *self._extra,
        ]
        if self._max_queued is not None:
            lines.append(f"max_queued_messages {self._max_queued}")
        lines += [f"listener {self.port} {HOST}", *self._listener_lines()]
        for number, bridge in enumerate(self.bridges):
            lines += bridge.lines(f"bridge-{self.port}-{number}")
        return "\n".join(lines) + "\n"

    def probe(self, timeout: float = 2.0) -> MqttProbe:
        """Return a bare MQTT connection, for checks that must not depend on a client library."""
        credentials = next(iter(self._users.items()), None)
        context = self.tls.client_context() if self.tls else None
        return MqttProbe(self.port, credentials=credentials, tls=context, timeout=timeout)

    def _listener_lines(self) -> list[str]:
        lines = [
            f"allow_anonymous {'false' if self._users else 'true'}",
            f"allow_zero_length_clientid {'true' if self._allow_zero_length_clientid else 'false'}",
        ]
        if self._users:
            lines.append(f"password_file {self.folder / 'passwords'}")
        if self.tls:
            lines += [f"cafile {self.folder / self.tls.ca.name}"]
            lines += [f"certfile {self.folder / self.tls.certificate.name}"]
            lines += [f"keyfile {self.folder / self.tls.key.name}"]
        return [*lines, *self._listener_options]

    def _prepare(self) -> None:
        (self.folder / "mosquitto.conf").write_text(self.config())
        if self._users:
            text = "".join(f"{user}:{_password_hash(password)}\n" for user, password in self._users.items())
            (self.folder / "passwords").write_text(text)
        if self.tls:
            self.tls.copy_to(self.folder)

    def _command(self) -> list[str]:
        return [self.binary, "-c", str(self.folder / "mosquitto.conf")]

    def _ping(self) -> None:
        if not self._allow_zero_length_clientid:
            self._ping_without_client_id()
            return
        with self.probe(PING_SECONDS) as probe:
            probe.ping()

    def _ping_without_client_id(self) -> None:
        """Ping without a client id; a broker that refuses only the empty id is ready, too."""
        with contextlib.suppress(ConnectionRefusedError):
            self.probe(PING_SECONDS).close()
        if f"listen socket on port {self.port}" not in self.log():
            raise ConnectionRefusedError("not listening yet")


@contextlib.contextmanager
def bridged_mosquittos(
    *,
    topics: Sequence[tuple[str, str]] = (("#", "both"),),
    qos: int = 0,
    protocol: str = "mqttv50",
    options: Sequence[str] = (),
    extra: Sequence[str] = (),
    max_queued: int | None = None,
) -> Iterator[tuple[Mosquitto, Mosquitto]]:
    """Start two brokers, the second bridged to the first, and yield them when messages really cross.

    ``topics``, ``qos``, ``protocol`` and ``options`` are those of :class:`Bridge`; ``extra`` and ``max_queued``
    those of :class:`Mosquitto`, for both. With ``topics`` that do not carry everything both ways, only the
    directions that they have are waited for. Raises TimeoutError when the bridge does not come up.
    """
    with Mosquitto(extra=extra, max_queued=max_queued) as first:
        bridge = Bridge(first.port, topics, qos, protocol, options)
        with Mosquitto(bridges=[bridge], extra=extra, max_queued=max_queued) as second:
            for pattern, direction in topics:
                if direction in ("in", "both"):
                    wait_for_crossing(first, second, pattern)
                if direction in ("out", "both"):
                    wait_for_crossing(second, first, pattern)
            yield first, second


def wait_for_crossing(source: Mosquitto, target: Mosquitto, pattern: str = "#", timeout: float = 30.0) -> None:
    """Return when a message published at ``source`` arrives at ``target``, and no probe is under way any more.

    ``pattern`` is the bridge's; the probes use a topic that it covers. Raises TimeoutError (seconds).
    """
    unique = f"probe-{os.getpid()}-{secrets.token_hex(4)}"
    topic = pattern.replace("+", unique)
    topic = f"{topic.removesuffix('#')}{unique}" if topic.endswith("#") else topic
    deadline = time.monotonic() + timeout
    with source.probe() as sender, target.probe() as receiver:
        receiver.subscribe(topic)
        sent = 0
        while time.monotonic() < deadline:
            sent += 1
            sender.publish(topic, f"{unique} {sent}".encode())
            with contextlib.suppress(TimeoutError):
                receiver.receive(_RESEND_SECONDS)
                break
        else:
            raise TimeoutError(f"the bridge of {source.url} and {target.url} carried nothing within {timeout:g} s")
        last = f"{unique} last".encode()
        sender.publish(topic, last)
        while receiver.receive(max(0.0, deadline - time.monotonic()))[1] != last:
            pass


def _password_hash(password: str) -> str:
    """Hash as ``mosquitto_passwd`` does (PBKDF2-SHA512)."""
    salt, rounds = secrets.token_bytes(12), 101
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, rounds)
    return f"$7${rounds}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
