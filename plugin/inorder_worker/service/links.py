"""Rides for stages of other workers: the sending end of the links.

For each stage elsewhere there is one connection to whoever has it. Rides leave only after
their commit, stay in their stage's state until they are durable at the other end, and are sent again from there when
the connection breaks, when either side was killed, and when the stage moves to another worker. While the other end is
away ours go on committing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Final

from inorder.backoff import pause
from inorder.errors import InorderError, LinkError, ProtocolError, TimedOut, VersionMismatch
from inorder.logs import logger
from inorder.patience import Patience
from inorder.protocol.pairs import pairs
from inorder.protocol.wire import Failure, FrameSplitter, Ping, StageInfo, encode_frame
from inorder_worker.sequencer.link_sender import MAX_RIDES, LinkSender
from inorder_worker.sequencer.link_wire import (
    LINK_VERSIONS,
    MAX_LINK_FRAME_BYTES,
    Durable,
    LinkHello,
    LinkWelcome,
    ReceiverFrame,
    decode_receiver_frame,
)
from inorder_worker.service.cluster import Cluster
from inorder_worker.service.host import StageHost
from inorder_worker.service.settings import WorkerSettings

CONNECT_TIMEOUT: Final = 5.0
"""Seconds for one attempt, the welcome included."""
FIRST_PAUSE: Final = 0.05
"""Seconds before the second attempt at most (see ``backoff``); doubles up to LAST_PAUSE."""
LAST_PAUSE: Final = 2.0
HEARTBEAT: Final = 1.0
"""Seconds of silence after which the other end is asked to answer; silent for three of them, it is gone."""

log = logger("inorder.worker")


class Links:
    """All links of a worker; the host's RideSink."""

    def __init__(self, settings: WorkerSettings, cluster: Cluster) -> None:
        self.settings, self.cluster = settings, cluster
        self.host: StageHost
        self.domain = 0
        self.address = ""
        self.tls: ssl.SSLContext | None = None
        self._links: dict[int, StageLink] = {}

    def serve(self, host: StageHost, domain: int, address: str) -> None:
        """Comes before ``run``. Raises InvalidOption for bad TLS files."""
        self.host, self.domain, self.address = host, domain, address
        self.tls = self.settings.peer_ssl_context()
        self._links = {stage: StageLink(stage, self) for stage in range(host.count)}

    async def run(self) -> None:
        """Keep a link to every stage elsewhere, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for link in self._links.values():
                group.create_task(link.run(), name=f"inorder-link-{link.target}")

    def origins(self, target: int) -> list[StageInfo]:
        """Return our stages, all of which may have rides for a stage elsewhere (R14); none for one that is here."""
        own = self.host.epochs.items() if not self.host.has(target) else ()
        return [StageInfo(each, epoch, self.address) for each, epoch in own]

    def describe(self) -> dict[str, object]:
        """Return numbers for health and status: bytes under way by stage, ``None`` while it is away."""
        return {str(link.target): link.bytes_under_way for link in self._links.values() if self.origins(link.target)}

    # -- RideSink ----------------------------------------------------------------------------------------------

    def rides_ready(self, target: int) -> None:
        """See RideSink."""
        if target in self._links:
            self._links[target].send_ready()

    def stages_changed(self) -> None:
        """See RideSink; called for stages of other workers, too."""
        for link in self._links.values():
            link.look_again()


class StageLink:
    """The rides to one stage elsewhere.

    Invariant: ``_sender`` is there only after the welcome, on a connection that is up.
    """

    def __init__(self, target: int, links: Links) -> None:
        self.target, self._links = target, links
        self._changed = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._sender: LinkSender | None = None
        self._place = StageInfo(target, 0, "")
        self._origins: list[StageInfo] = []

    @property
    def bytes_under_way(self) -> int | None:
        """Sent and not durable; ``None`` without a connection."""
        return None if self._sender is None else self._sender.bytes_under_way

    def look_again(self) -> None:
        """Make a new connection if a change concerns it."""
        self._changed.set()
        if self._writer is not None and (self._place, self._origins) != self._wanted():
            self._writer.transport.abort()

    def _wanted(self) -> tuple[StageInfo, list[StageInfo]]:
        return self._links.cluster.place(self.target), self._links.origins(self.target)

    async def run(self) -> None:
        """Connect whenever there is somebody to connect to, until cancelled."""
        failures = 0
        while True:
            self._changed.clear()
            self._place, self._origins = self._wanted()
            if not (self._place.address and self._origins):
                await self._changed.wait()
                continue
            try:
                await self._serve()
            except (OSError, EOFError, ValueError, InorderError) as error:  # ValueError: an address that is none
                log.info("event=link_lost stage=%d address=%s reason=%s", self.target, self._place.address, error)
            failures = 0 if self._sender is not None else failures + 1
            self._sender = None
            self._links.host.heartbeat.look_around_soon()  # the stage may be elsewhere
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause(FIRST_PAUSE, LAST_PAUSE, failures)):
                    await self._changed.wait()

    async def _serve(self) -> None:
        """One connection, from its first byte to its end. Raises OSError, EOFError and InorderErrors."""
        host, _, port = self._place.address.rpartition(":")
        try:
            async with Patience(CONNECT_TIMEOUT):
                reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=self._links.tls)
        except TimeoutError:
            raise TimedOut(f"a connection to {self._place.address}", CONNECT_TIMEOUT) from None
        self._writer = writer
        try:
            writer.write(encode_frame(self._hello()))
            await self._read(reader, writer)
        finally:
            self._writer = None
            writer.transport.abort()

    def _hello(self) -> LinkHello:
        links = self._links
        token, name = links.settings.token or "", links.settings.name
        return LinkHello(*LINK_VERSIONS, token, links.domain, name, self.target, self._origins)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take what the other end says; ask a silent one to answer, and give it up after three heartbeats. They are
        counted and not measured: an event loop that stood still must not blame the other worker."""
        splitter, silent = FrameSplitter(MAX_LINK_FRAME_BYTES), 0
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    data = await reader.read(65_536)
            except TimeoutError:
                silent += 1
                if silent > 3:
                    raise TimedOut("a heartbeat", 3 * HEARTBEAT) from None
                if self._sender is not None and not writer.is_closing():  # uvloop raises, asyncio is silent
                    writer.write(encode_frame(Ping()))
                continue
            if not data:
                raise EOFError("closed by the other worker")
            silent = 0
            for body in splitter.feed(data):
                self._take(decode_receiver_frame(body))

    def _take(self, frame: ReceiverFrame) -> None:
        match frame:
            case Failure():
                raise LinkError(f"the other worker refused: {frame.message} ({frame.code})")
            case LinkWelcome() if self._sender is None:
                self._welcomed(frame)
            case Durable() if self._sender is not None:
                for origin, number in _pairs(frame.received):
                    self._sender.durable(origin, number)
                    self._links.host.relay.acknowledge(origin, self.target, number)
                self.send_ready()

    def _welcomed(self, frame: LinkWelcome) -> None:
        """Begin behind what the other end has. Raises ProtocolError, VersionMismatch and LinkError."""
        host = self._links.host
        if not LINK_VERSIONS[0] <= frame.version <= LINK_VERSIONS[1]:
            raise VersionMismatch(LINK_VERSIONS, (frame.version, frame.version))
        if frame.stage != self.target or frame.epoch < self._place.epoch:
            raise LinkError(f"it has stage {frame.stage} of epoch {frame.epoch}, wanted is {self._place}")
        received = {each.stage: 0 for each in self._origins}
        for origin, number in _pairs(frame.received):
            if origin not in received or not 0 <= number <= host.relay.sent(origin, self.target):
                # Somebody else sent in our name: our stage has another owner, or one of the stores was restored.
                raise LinkError(f"it has ride {number} of stage {origin}, which was not sent from here")
            received[origin] = number
        for origin, number in received.items():
            host.relay.acknowledge(origin, self.target, number)
        self._sender = LinkSender(received, self._links.settings.max_link_bytes)
        log.info("event=linked stage=%d address=%s worker=%s", self.target, self._place.address, frame.worker)
        self.send_ready()

    def send_ready(self) -> None:
        """Send what is durable here, as far as the other end keeps up; each origin in its turn."""
        sender, writer = self._sender, self._writer
        if sender is None or writer is None or writer.transport.is_closing():
            return
        waiting = [each.stage for each in self._origins]
        while waiting and sender.has_room:
            origin = waiting.pop(0)
            sends = self._links.host.relay.outgoing(origin, self.target, sender.sent(origin), MAX_RIDES)
            if sends:
                writer.write(sender.frame(origin, sends))
                waiting.append(origin)


def _pairs(flat: list[int]) -> list[tuple[int, int]]:
    if len(flat) % 2:
        raise ProtocolError("an acknowledgement is not made of pairs")
    return list(pairs(flat))
