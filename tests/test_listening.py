"""How many connections there may be, and who goes when there are too many."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from tests.worker.raw_client import PATIENCE, RawClient

from inorder import listening
from inorder.client.configured import tls_context as to_workers
from inorder.errors import InvalidOption
from inorder.listening import MOST, RESERVED, BoundedConnections, Listener, places, queue_length, raise_open_files
from inorder.testing.services.tls import Certificates
from inorder_adapters.url_options import tls_context as to_brokers
from inorder_controlplane import connections
from inorder_controlplane.serving import Service
from inorder_controlplane.settings import ControlPlaneSettings
from inorder_worker.service.settings import WorkerSettings


def test_the_oldest_stranger_makes_room() -> None:
    bounded = BoundedConnections[str](3)
    assert [bounded.add(each) for each in "abcd"] == [None, None, None, "a"]
    assert bounded.mark_known("b")
    assert bounded.add("e") == "c"
    assert bounded.add("d") is None  # it has been served, and waits anew
    assert bounded.add("f") == "e"
    bounded.remove("b")
    assert bounded.add("g") is None


def test_the_last_places_are_for_those_who_are_needed() -> None:
    bounded = BoundedConnections[str](4, spare=1)
    for each in "abcd":
        bounded.add(each)
    assert [bounded.mark_known(each) for each in "abc"] == [True, True, True]
    assert bounded.mark_known("a")
    assert not bounded.mark_known("d")
    assert bounded.mark_known("d", is_needed=True)
    assert bounded.add("e") == "e"
    assert len(bounded) == 4


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        (300, 150),
        (4096, 2640),
        (20_000, 13_077),
        (RESERVED + 1, 2),
        (0, 2),
        (resource.RLIM_INFINITY, MOST),
        (2**40, MOST),
    ],
)
def test_places_leave_files_for_the_rest(monkeypatch: pytest.MonkeyPatch, limit: int, found: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert places(0.75) == found
    both = places(0.75) + min(places(0.25), connections.MOST)
    assert both + 4 * queue_length() + RESERVED <= limit or limit <= RESERVED + 1


async def test_half_handshakes_keep_nobody_from_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "places", lambda share: 3)
    with Certificates() as files:
        options = ControlPlaneSettings(port=0, tls_cert=files.certificate, tls_key=files.key)
        async with Service(FastAPI(), options) as page, AsyncExitStack() as stack:
            silent = [RawClient(page.address) for _ in range(5)]
            for each in silent:
                await each.connect()
                stack.push_async_callback(each.close)
            for each in silent[:2]:
                assert await each.is_closed()
            browser = RawClient(page.address, tls=files.client_context())
            await browser.connect()
            stack.push_async_callback(browser.close)
            assert await silent[2].is_closed()
            browser.writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(PATIENCE):
                assert (await browser.reader.readline()).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [((1024, 4096), 4096), ((1024, -1), 2 * MOST), ((1024, 2**30), 2 * MOST), ((2**20, 2**20), None), ((-1, -1), None)],
)
def test_a_process_may_raise_what_it_may_have_open(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: int | None
) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: told.append(given))
    raise_open_files()
    assert told == ([] if wanted is None else [(wanted, limits[1])])


class FullOnce(socket.socket):
    """A socket that can accept nothing, the first time."""

    is_full = True

    def accept(self) -> tuple[socket.socket, Any]:
        was_full, self.is_full = self.is_full, False
        if was_full:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


async def test_no_file_for_a_connection_is_no_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is a connection that has to go at once, for which there is no place at all."""
    monkeypatch.setattr(listening, "ACCEPT_AGAIN", 0.01)
    listener = Listener(
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), PATIENCE, asyncio.Protocol, lambda guest: guest.abort(), lambda _: None
    )
    sock = FullOnce()
    sock.bind(("127.0.0.1", 0))
    listener.accept_on(sock)
    client = RawClient("127.0.0.1:{1}".format(*sock.getsockname()))
    await client.connect()
    assert await client.is_closed()
    await client.close()
    await listener.cut()
    assert "no connection can be accepted" in caplog.text


async def test_those_who_come_together_do_not_wait_for_a_turn_of_the_loop_each() -> None:
    """uvloop accepts one in a turn, and the turns of a worker under load are long."""
    came, left, made = list[object](), list[object](), list[asyncio.Protocol]()

    def guest() -> asyncio.Protocol:
        made.append(asyncio.Protocol())
        return made[-1]

    listener = Listener(None, PATIENCE, guest, came.append, left.append)
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    listener.accept_on(sock)
    many = 3 * listening.AT_ONCE
    clients = [socket.create_connection(sock.getsockname()) for _ in range(many)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert (len(came), len(left), len(made), len(listener)) == (many, many, many, 0)
    for each in clients:
        each.close()
    await listener.cut()


def of_worker(cert: Path, key: Path) -> ssl.SSLContext | None:
    return WorkerSettings(tls_cert=cert, tls_key=key).ssl_context()


def of_peers(cert: Path, key: Path) -> ssl.SSLContext | None:
    return WorkerSettings(tls_cert=cert, tls_key=key).peer_ssl_context()


def of_control_plane(cert: Path, key: Path) -> ssl.SSLContext | None:
    service = Service(FastAPI(), ControlPlaneSettings(port=0, tls_cert=cert, tls_key=key))
    service.close()
    return service.tls_context()


def of_client(cert: Path, key: Path) -> ssl.SSLContext:
    return to_workers(None, cert, key)


def of_broker(cert: Path, key: Path) -> ssl.SSLContext:
    return to_brokers(ca=None, cert=str(cert), key=str(key), insecure=False)


@pytest.mark.parametrize("made", [of_worker, of_peers, of_control_plane, of_client, of_broker])
def test_nobody_is_asked_for_a_pass_phrase(
    made: Callable[[Path, Path], ssl.SSLContext | None], capfd: pytest.CaptureFixture[str]
) -> None:
    """OpenSSL would ask on the terminal, and everything that the event loop does would wait for the answer."""
    with Certificates() as files:
        locked = files.key.with_name("locked.key")
        command = ["openssl", "pkey", "-in", str(files.key), "-aes128", "-passout", "pass:secret", "-out", str(locked)]
        subprocess.run(command, check=True, capture_output=True)
        with pytest.raises(InvalidOption, match=r"tls_cert.*without a pass phrase"):
            made(files.certificate, locked)
        assert made(files.certificate, files.key) is not None
    assert "pass phrase" not in "".join(capfd.readouterr())
