"""A TCP proxy on loopback that breaks connections on demand, as networks do."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, cast

from inorder.errors import LinkError
from inorder.listening import stop_listening
from inorder.testing.services.server import HOST, free_port

Direction = Literal["up", "down", "both"]
"""``up`` is from the client to the server, ``down`` from the server to the client."""

Which = Callable[[bytes], bool]
"""Tells by the first bytes that a client sent whether a fault is for its connection."""

_BIND_ATTEMPTS = 5


class FaultProxy:
    """Forwards connections to a port, with faults on demand. An async context manager; use it on one event loop.

    A stall is a network that carries nothing: bytes wait, connections stay open and new ones are accepted and
    stall as well. A cut resets every connection. Refusing is a host whose port is closed. Cuts and stalls may be for
    some of the connections only.

    Args:
        target_port: where connections are forwarded to, on loopback.
        port: the port to listen on; ``None`` takes a free one.

    Attributes:
        accepted: the number of connections accepted since the start.
        delay: seconds that everything takes from now on, each way.
    """

    def __init__(self, target_port: int, *, port: int | None = None) -> None:
        self.target_port = target_port
        self.accepted = 0
        self.delay = 0.0
        self._port = port
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self._stalls: list[tuple[Direction, Which]] = []

    @property
    def port(self) -> int:
        """The port for clients. Raises LinkError before the start."""
        if self._port is None:
            raise LinkError("the proxy was not started yet")
        return self._port

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._pairs)

    def cut(self, which: Which = bool) -> None:
        """Reset connections now, on both sides; what was under way is lost. New ones are forwarded. ``which``: of
        those whose client has said something, only these; by default, all."""
        for pair in list(self._pairs):
            if which is bool or (pair.first and which(pair.first)):
                pair.abort()

    def stall(self, direction: Direction = "both", which: Which = bool) -> None:
        """Stop carrying bytes this way, in present and future connections; the other way flows, if not stalled
        by an earlier call. ``which``: as for :meth:`cut`, told as soon as the client has said something."""
        self._stalls.append((direction, which))
        self._apply_stalls()

    def refuse(self) -> None:
        """Refuse new connections (connection refused), from the next turn of the event loop on; open ones live on:
        :meth:`cut` them too if need be."""
        if self._server is not None:
            stop_listening(self._server)
            self._server = None

    async def heal(self) -> None:
        """Carry everything again: stalled bytes flow, and the same port accepts new connections.

        Raises OSError when another process took the port meanwhile.
        """
        self._stalls.clear()
        self._apply_stalls()
        if self._server is None:
            await asyncio.sleep(0)  # one that was refused in this turn of the loop is still to be closed
            self._server = await self._listen(self.port)

    async def start(self) -> Self:
        """Start listening. Raises OSError when the given port is taken."""
        if self._port is not None:
            self._server = await self._listen(self._port)
            return self
        for attempt in range(_BIND_ATTEMPTS):
            port = free_port()
            try:
                self._server = await self._listen(port)
            except OSError:
                if attempt == _BIND_ATTEMPTS - 1:
                    raise
            else:
                self._port = port
                break
        return self

    async def close(self) -> None:
        """Stop listening and reset every connection; safe more than once."""
        self.refuse()
        await asyncio.sleep(0)  # what was accepted before comes up, and is closed with the others
        closing = [pair.wait_closed() for pair in self._pairs]
        self.cut()
        await asyncio.gather(*closing)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _listen(self, port: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        return await loop.create_server(self._accept, HOST, port, reuse_address=True)

    def _accept(self) -> asyncio.Protocol:
        self.accepted += 1
        pair = _Pair(self, self._pairs)
        pair.apply_stalls()
        return pair.client

    def _apply_stalls(self) -> None:
        for pair in self._pairs:
            pair.apply_stalls()

    def stalled_ways(self, first: bytes) -> set[Direction]:
        """Return the ways that are stalled for a connection whose client began with these bytes."""
        return {way for way, which in self._stalls if which is bool or (first and which(first))}


class _Pair:
    """One forwarded connection: the end towards the client and the end towards the server.

    Attributes:
        first: the first bytes that the client sent; none until then.
        is_cut: an end that comes up from now on is reset.
    """

    def __init__(self, proxy: FaultProxy, open_pairs: set[_Pair]) -> None:
        self.proxy = proxy
        self.first = b""
        self.is_cut = False
        self.client = _End(self, "up")
        self.server = _End(self, "down")
        self.client.peer, self.server.peer = self.server, self.client
        self.closed = asyncio.Event()
        self._open_pairs = open_pairs
        open_pairs.add(self)
        self._connecting = asyncio.create_task(self._connect(proxy.target_port), name="fault proxy connect")

    async def _connect(self, target_port: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.server, HOST, target_port)
        except OSError:
            self.abort()

    def apply_stalls(self) -> None:
        ways = self.proxy.stalled_ways(self.first)
        for end in (self.client, self.server):
            end.hold("stalled", not ways.isdisjoint({end.direction, "both"}))

    def abort(self) -> None:
        """Reset both ends."""
        self.is_cut = True
        self._connecting.cancel()
        for end in (self.client, self.server):
            end.reset()
        self.ended()

    def ended(self) -> None:
        """Note that one end is closed; the pair is over when no end has a transport any more. The client's is certain
        to come: the pair was made because it was accepted."""
        if self.client.has_come and self.client.transport is None and self.server.transport is None:
            self._connecting.cancel()
            self._open_pairs.discard(self)
            self.closed.set()

    async def wait_closed(self) -> None:
        await self.closed.wait()
        await asyncio.wait([self._connecting])


class _End(asyncio.Protocol):
    """Reads one side and writes the bytes to the other, unless something holds it."""

    peer: _End

    def __init__(self, pair: _Pair, direction: Direction) -> None:
        self.transport: asyncio.Transport | None = None
        self.has_come = False
        self.direction: Direction = direction
        self._pair = pair
        self._is_finished = False
        self._early = bytearray()
        self._delayed: deque[bytes] = deque()
        self._delayed_until = 0.0
        self._held_by = {"unconnected"}  # until the other end can be written to

    def hold(self, reason: str, is_held: bool) -> None:
        """Stop reading for a reason, or drop that reason; reading goes on without any."""
        (self._held_by.add if is_held else self._held_by.discard)(reason)
        self._apply_hold()

    def _apply_hold(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        if self._held_by:
            self.transport.pause_reading()
            return
        if self._early:
            self._forward(bytes(self._early))
            self._early.clear()
        if self._is_finished:
            self._pass_end_on()
        else:
            self.transport.resume_reading()

    def _forward(self, data: bytes) -> None:
        delay, loop = self._pair.proxy.delay, asyncio.get_running_loop()
        if not delay and not self._delayed:
            if self.peer.transport is not None:
                self.peer.transport.write(data)
            return
        self._delayed.append(data)
        self._delayed_until = max(self._delayed_until, loop.time() + delay)
        loop.call_at(self._delayed_until, self._forward_delayed)

    def _forward_delayed(self) -> None:
        data = self._delayed.popleft()
        if self.peer.transport is not None:
            self.peer.transport.write(data)
        if self._is_finished and not self._held_by:
            self._pass_end_on()

    def reset(self) -> None:
        """Close at once and send RST, so that the other side sees an error and not an orderly end."""
        if self.transport is None:
            return
        with contextlib.suppress(OSError):
            connection = self.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.has_come = cast(asyncio.Transport, transport), True
        if self._pair.is_cut or self._pair.closed.is_set():  # or left by the client, while this end was being connected
            self.reset()
            return
        if self.peer.transport is not None:
            self._held_by.discard("unconnected")
        # Not at once: some releases of Python 3.11 start to read right after this call, paused or not.
        asyncio.get_running_loop().call_soon(self._apply_hold)
        self.peer.hold("unconnected", False)

    def data_received(self, data: bytes) -> None:
        if not self._pair.first and self.direction == "up":
            self._pair.first = data
            self._pair.apply_stalls()
        if self._held_by:  # read before the pause took effect
            self._early += data
        else:
            self._forward(data)

    def eof_received(self) -> bool:
        self._is_finished = True
        if not self._held_by:
            self._pass_end_on()
        return True  # the other direction may still carry something

    def _pass_end_on(self) -> None:
        if self._delayed:
            return  # behind it
        if self.peer._is_finished:
            self.close()
            self.peer.close()
        elif self.peer.transport is not None and self.peer.transport.can_write_eof():
            self.peer.transport.write_eof()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def pause_writing(self) -> None:
        self.peer.hold("full", True)

    def resume_writing(self) -> None:
        self.peer.hold("full", False)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if error is None:
            self.peer.close()
        else:
            self.peer.reset()
        self._pair.ended()
