"""How a worker listens: taken ports, TLS and its certificates, connections without a hello."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from tests.worker.helpers import PATIENCE, TestJournal, disk_full, settings, until
from tests.worker.raw_client import RawClient

from inorder import Client
from inorder.client.configured import advised
from inorder.errors import PortInUse, StoreUnreachable, WorkerUnreachable
from inorder.protocol.wire import Frame, StageInfo
from inorder.testing.services import Certificates
from inorder_cli.failures import _hinted
from inorder_cli.probes import Addresses, probe_worker
from inorder_worker.admin.link import Link
from inorder_worker.sequencer.link_wire import LINK_VERSIONS, LinkHello
from inorder_worker.service import Worker, admission
from inorder_worker.store.store_info import StoreInfo, TopicOrder


@pytest.fixture
def certificates() -> Iterator[Certificates]:
    with Certificates() as made:
        yield made


async def test_a_taken_port() -> None:
    store = TestJournal()
    async with Worker(settings(), journal=store) as worker:
        port = int(worker.address.rpartition(":")[2])
        with pytest.raises(PortInUse, match=str(port)):
            async with Worker(settings(port=port), journal=TestJournal(store.store)):
                pass
        async with RawClient(worker.address) as client:
            await client.resolve("a")  # not fenced: the port is taken before the stages


class SlowToOpen(TestJournal):
    """Its opening is held, too, and may fail."""

    def open(self, stages: int, topic_order: TopicOrder = ()) -> StoreInfo:
        assert self._gate.wait(PATIENCE)
        if self.error is not None:
            raise self.error
        return super().open(stages, topic_order)


@pytest.mark.parametrize("fails", [False, True])
async def test_who_comes_before_the_store_is_open_is_told_so(fails: bool) -> None:
    """In words, at once: clients go on to another worker, or try again. Nobody is cut without a word, also where the
    start fails."""
    journal = SlowToOpen()
    journal.hold()
    worker = Worker(settings(http_port=0), journal=journal)
    starting = asyncio.create_task(worker.__aenter__())
    await until(lambda: worker.status()["address"] != "")
    silent = RawClient(worker.address)
    await silent.connect()
    hellos: list[Frame] = [silent.hello, LinkHello(*LINK_VERSIONS, "", 1, "another", 0, [StageInfo(1, 1, "a:1")])]
    for hello in hellos:
        early = RawClient(worker.address)
        await early.connect()
        early.send(hello)
        failure = await early.failure()
        assert (failure.code, "starting" in failure.message) == ("store", True)
        await early.close()
    with pytest.raises(WorkerUnreachable, match="starting") as raised:
        await Link(worker.address, lambda *_: None).open("", None, "admin")
    assert raised.value.is_there
    assert worker.health()[1]["status"] == "starting"
    if fails:
        journal.error = disk_full()
    journal.let_go()
    if fails:
        with pytest.raises(StoreUnreachable):
            await starting
        assert (await silent.failure()).code == "stopping"
    else:
        await starting
        async with RawClient(worker.address) as client:
            await client.ping()
        await worker.__aexit__(None, None, None)
    await silent.close()


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_connection_that_ends_before_the_welcome(is_reset: bool) -> None:
    """What listens there is starting, stopping, behind TLS or something else: nobody is told to start one."""

    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        if is_reset:
            own = writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with await asyncio.start_server(end, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for greet in (
            lambda: Client("memory://nobody", workers=[address]).__aenter__(),
            lambda: Link(address, lambda *_: None).open("", None, "admin"),
            lambda: probe_worker(address, "", None, Addresses()),
        ):
            with pytest.raises(WorkerUnreachable, match="ended the connection before its welcome") as raised:
                await greet()
            assert "try again" in _hinted(raised.value)
            assert "inorder up" not in _hinted(raised.value)
            assert "start one" not in advised(raised.value)


async def test_tls(certificates: Certificates) -> None:
    options = settings(tls_cert=certificates.certificate, tls_key=certificates.key)
    async with Worker(options, journal=TestJournal()) as worker:
        async with RawClient(worker.address, tls=certificates.client_context()) as client:
            await client.ping()
        plain = RawClient(worker.address)
        await plain.connect()
        plain.send(plain.hello)
        assert await plain.is_closed()
        await plain.close()
        untrusted = ssl.create_default_context()
        with pytest.raises(WorkerUnreachable, match="its TLS certificate is not trusted: unable to get"):
            await Link(worker.address, lambda *_: None).open("", untrusted, "admin")
        with pytest.raises(WorkerUnreachable, match="its TLS certificate is not trusted: unable to get"):
            await probe_worker(worker.address, "", untrusted, Addresses())


async def test_renewed_certificates(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    """New connections get the certificate, and the authority of clients, that the files have now; bad files nothing."""
    own = {"tls_cert": certificates.certificate, "tls_key": certificates.key, "tls_client_ca": certificates.ca}
    before = certificates.client_context()
    before.load_cert_chain(certificates.certificate, certificates.key)
    async with (
        Worker(settings(**own), journal=TestJournal()) as worker,
        RawClient(worker.address, tls=before) as client,
    ):
        with Certificates() as renewed:
            renewed.copy_to(certificates.ca.parent)
            after = renewed.client_context()
            after.load_cert_chain(renewed.certificate, renewed.key)
        assert worker.renew_certificates()
        await client.ping()
        async with RawClient(worker.address, "another", tls=after) as another:
            await another.ping()
        with pytest.raises(ssl.SSLError):
            await RawClient(worker.address, tls=before).connect()
        certificates.key.write_text("no key")
        assert worker.renew_certificates()
        assert "event=certificates_not_renewed" in caplog.text
        async with RawClient(worker.address, "another", tls=after) as another:
            await another.ping()


async def test_a_connection_accepted_as_the_worker_stops_is_told_so() -> None:
    """Accepted in the very turn of the loop in which no more are taken: it must not hang without an owner."""
    async with Worker(settings(), journal=TestJournal()) as worker:
        host, _, port = worker.address.rpartition(":")
        loop = asyncio.get_running_loop()
        with socket.create_connection((host, int(port))) as raw:
            raw.setblocking(False)
            loop.call_soon(loop.call_soon, worker._server.stop_accepting)  # right behind the accepting
            async with asyncio.timeout(PATIENCE):
                assert b"stopping" in await loop.sock_recv(raw, 1000)


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03"], ids=["nothing", "half a hello"])
async def test_handshakes_without_end_keep_nobody_out(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    """They have places, and a deadline, as those have who say nothing; none is left when the worker has stopped."""
    monkeypatch.setattr(admission, "places", lambda share: 6)
    options = settings(tls_cert=certificates.certificate, tls_key=certificates.key)
    async with AsyncExitStack() as stack:
        async with Worker(options, journal=TestJournal()) as worker:
            tls = certificates.client_context()
            client = await stack.enter_async_context(RawClient(worker.address, tls=tls))
            silent = [RawClient(worker.address) for _ in range(8)]
            for each in silent:
                await each.connect()
                stack.push_async_callback(each.close)
                each.writer.write(said)
            for each in silent[:3]:
                assert await each.is_closed()
            await until(lambda: worker.status()["connections"] == 6)
            await stack.enter_async_context(RawClient(worker.address, "one more", tls=tls))
            assert worker.status()["connections"] == 6
            await client.ping()
        assert await silent[-1].is_closed()
    async with Worker(replace(options, hello_timeout=0.05), journal=TestJournal()) as worker:
        late = RawClient(worker.address)
        await late.connect()
        late.writer.write(said)
        assert await late.is_closed()
        await late.close()


async def test_tls_may_ask_for_a_certificate(certificates: Certificates) -> None:
    paths = {"tls_cert": certificates.certificate, "tls_key": certificates.key, "tls_client_ca": certificates.ca}
    async with Worker(settings(**paths), journal=TestJournal()) as worker:
        anonymous = RawClient(worker.address, tls=certificates.client_context())
        with pytest.raises((OSError, EOFError)):
            async with anonymous:
                pass
        await anonymous.close()
        assert worker.status()["sessions"] == 0
