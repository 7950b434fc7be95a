"""How a worker listens: taken ports, TLS and its certificates, connections without a hello."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from tests.worker.helpers import PATIENCE, TestJournal, settings, until
from tests.worker.raw_client import RawClient

from inorder.errors import PortInUse, WorkerUnreachable
from inorder.testing.services import Certificates
from inorder_cli.probes import Addresses, probe_worker
from inorder_worker.admin.link import Link
from inorder_worker.service import Worker, admission


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
