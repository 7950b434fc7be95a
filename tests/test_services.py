"""The servers and the fault proxy that other tests stand on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from inorder.errors import InorderError
from inorder.testing.services import (
    Bridge,
    Certificates,
    FaultProxy,
    MissingBinary,
    Mosquitto,
    PostgresServer,
    RedisServer,
    Server,
    ServerFailed,
    WorkerServer,
    bridged_mosquittos,
    find_binary,
    free_port,
    replicated_redis,
    wait_until,
)

SERVERS: list[Callable[[], Server]] = [Mosquitto, RedisServer, PostgresServer]


def can_connect(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
        return True
    return False


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not waited for does not."""
    with contextlib.suppress(OSError):
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


# -- every server ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", SERVERS)
def test_lives_as_long_as_its_context(make: Callable[[], Server]) -> None:
    with make() as server:
        folder, port, pid = server.folder, server.port, server.pid
        assert can_connect(port)
        assert server.url.split("/")[2].endswith(f":{port}") or f":{port}/" in server.url
        assert server.log()
        assert Path(f"/proc/{pid}").stat().st_uid != 0, "a server runs as root"
        assert repr(server) == f"<{type(server).__name__} 127.0.0.1:{port} pid {pid}>"
    assert not can_connect(port)
    assert not is_alive(pid)
    assert not folder.exists()


@pytest.mark.parametrize("make", SERVERS)
@pytest.mark.parametrize("end", [Server.stop, Server.kill], ids=["stop", "kill"])
def test_starts_again_on_the_same_port(make: Callable[[], Server], end: Callable[[Server], None]) -> None:
    with make() as server:
        port, pid = server.port, server.pid
        end(server)
        assert not server.is_running
        assert not can_connect(port)
        server.start()
        assert server.port == port
        assert server.pid != pid
        assert can_connect(port)


@pytest.mark.parametrize("make", SERVERS)
def test_a_missing_program_is_an_error_with_the_line_that_installs_it(
    make: Callable[[], Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = make()
    monkeypatch.setattr("inorder.testing.services.server.shutil.which", lambda name, path=None: None)
    with pytest.raises(MissingBinary, match=f"install it with: (sudo )?apt-get install {server.package}$") as caught:
        server.start()
    assert caught.value.binary == server.binary
    assert isinstance(caught.value, InorderError)


def test_a_program_is_found_outside_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "frobd"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", "")
    assert find_binary("frobd", "frob", [tmp_path]) == str(program)
    with pytest.raises(MissingBinary):
        find_binary("frobd", "frob")


@pytest.mark.parametrize("make", [Mosquitto, RedisServer, PostgresServer])
def test_a_taken_port_is_an_error_that_says_so(make: Callable[..., Server]) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerFailed, match=f"127.0.0.1:{port}: port {port} is in use") as caught, make(port=port):
            pass
        assert "ddress already in use" in caught.value.log


def test_a_free_port_that_was_taken_meanwhile_is_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        ports = iter([taken.getsockname()[1], free_port()])
        monkeypatch.setattr("inorder.testing.services.server.free_port", lambda: next(ports))
        with RedisServer() as server:
            assert server.port != taken.getsockname()[1]


def test_a_server_that_ends_by_itself_is_an_error_with_its_log() -> None:
    with pytest.raises(ServerFailed, match="no_such_option"), Mosquitto(extra=["no_such_option true"]):
        pass


def test_a_killed_python_leaves_no_server_behind() -> None:
    code = """
        import sys, time
        from inorder.testing.services import RedisServer
        with RedisServer() as server:
            print(server.pid, server.folder, flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as python:
        assert python.stdout is not None
        pid, folder = python.stdout.readline().split()
        assert is_alive(int(pid))
        os.kill(python.pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(int(pid)), what="end of the orphaned server")
        wait_until(lambda: not Path(folder).exists(), what="removal of its folder")


def test_wait_until_names_what_it_waited_for() -> None:
    with pytest.raises(TimeoutError, match=r"the moon: not within 0\.01 s"):
        wait_until(lambda: False, what="the moon", timeout=0.01)


# -- one by one --------------------------------------------------------------------------------------------------------


def test_mosquitto_asks_for_a_password() -> None:
    with Mosquitto(users={"ada": "secret"}) as server:
        server.probe().close()
        server._users = {"ada": "wrong"}
        with pytest.raises(ConnectionRefusedError):
            server.probe()


def test_mosquitto_can_refuse_clients_without_an_id() -> None:
    with Mosquitto(allow_zero_length_clientid=False) as server, pytest.raises(ConnectionRefusedError):
        server.probe()


def test_servers_speak_tls() -> None:
    with Certificates() as tls, Mosquitto(tls=tls) as mosquitto, RedisServer(tls=tls, password="secret") as redis:
        assert mosquitto.url == f"mqtts://localhost:{mosquitto.port}"
        assert redis.url == f"rediss://localhost:{redis.port}"
        with mosquitto.probe() as probe:
            probe.ping()
        with redis.probe() as redis_probe:
            assert redis_probe.call("PING") == "PONG"
        restarted = mosquitto.pid
        mosquitto.restart()
        assert mosquitto.pid != restarted


@pytest.mark.parametrize("protocol", ["mqttv50", "mqttv311"])
def test_bridged_brokers_carry_each_message_once_both_ways(protocol: str) -> None:
    with bridged_mosquittos(protocol=protocol) as pair:
        for source, target in (pair, pair[::-1]):
            with source.probe() as sender, target.probe() as far, source.probe() as near:
                for receiver in (far, near):
                    receiver.subscribe("#")
                for number in range(100):
                    sender.publish("a/b", b"%d" % number)
                sender.publish("a/b", b"end")
                for receiver in (far, near):
                    payloads: list[bytes] = []
                    while payloads[-1:] != [b"end"]:
                        payloads.append(receiver.receive(10)[1])
                    assert payloads == [*(b"%d" % number for number in range(100)), b"end"]


def test_a_bridge_carries_only_its_topics_and_comes_back_after_a_restart() -> None:
    with bridged_mosquittos(topics=[("in/#", "in"), ("out/#", "out")]) as (first, second):
        with first.probe() as sender, second.probe() as receiver:
            receiver.subscribe("#")
            sender.publish("out/x", b"stays")
            sender.publish("in/x", b"crosses")
            assert receiver.receive(10) == ("in/x", b"crosses")
        first.restart()
        with first.probe() as sender, second.probe() as receiver:
            receiver.subscribe("in/y")

            def crosses() -> bool:
                sender.publish("in/y", b"again")
                return receiver.receive(0.05) == ("in/y", b"again")

            wait_until(crosses, what="the bridge after a restart")


def test_bridge_lines_hold_what_they_were_given() -> None:
    bridge = Bridge(1884, [("a/#", "both"), ("b", "out")], qos=1, options=["keepalive_interval 5"])
    lines = bridge.lines("north")
    assert lines[:5] == [
        "connection north",
        "address 127.0.0.1:1884",
        "bridge_protocol_version mqttv50",
        "topic a/# both 1",
        "topic b out 1",
    ]
    assert lines[-1] == "keepalive_interval 5"


def test_what_is_published_at_the_primary_reaches_the_replica() -> None:
    with (
        replicated_redis(password="secret") as (primary, replica),
        primary.probe() as sender,
        replica.probe() as receiver,
    ):
        assert "role:slave" in str(receiver.call("INFO", "replication"))
        assert receiver.call("SUBSCRIBE", "news") == ["subscribe", "news", 1]
        sender.call("PUBLISH", "news", "hello")
        assert receiver.reply(10) == ["message", "news", "hello"]


def test_postgres_keeps_its_data_over_a_kill_and_makes_databases() -> None:
    with PostgresServer(settings={"log_connections": "on"}) as server:
        first, second = server.database(), server.database()
        assert first != second
        assert first.startswith(f"postgresql://postgres@127.0.0.1:{server.port}/")
        server.kill()
        server.start()
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(first) as connection:
            assert connection.execute("SHOW log_connections").fetchone() == ("on",)


def test_a_worker_recovers_on_the_same_port_from_the_same_store() -> None:
    with WorkerServer() as server:
        port, store = server.port, server.store
        server.kill()
        assert not can_connect(port)
        server.start()
        assert (server.port, server.store) == (port, store)
        assert server.url == f"127.0.0.1:{port}"
        assert can_connect(port)


def test_a_worker_that_listens_is_ready_only_when_it_has_started(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = WorkerServer(port=listener.getsockname()[1])
        server._folder, log = tmp_path, tmp_path / "log"
        for line in ("x event=started worker=w", '{"event": "started"}'):
            log.write_text("")
            with pytest.raises(ConnectionRefusedError, match="starting"):
                server._ping()
            log.write_text(line)
            server._ping()
            server._log_begin = len(line)
            with pytest.raises(ConnectionRefusedError, match="starting"):  # that was an earlier start
                server._ping()
            server._log_begin = 0


# -- the proxy ---------------------------------------------------------------------------------------------------------


@pytest.fixture
async def echo_port() -> AsyncIterator[int]:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", free_port())
    async with server:
        yield server.sockets[0].getsockname()[1]


async def assert_silent(reader: asyncio.StreamReader) -> None:
    """Nothing may arrive; the wait is short because a failure would only make it shorter."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.05)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_proxy_forwards_both_ways_and_ends_in_order(echo_port: int) -> None:
    payload = os.urandom(3_000_000)
    async with FaultProxy(echo_port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)

        async def send() -> None:
            writer.write(payload)
            await writer.drain()
            writer.write_eof()

        _, received = await asyncio.gather(send(), reader.read())
        assert received == payload
        await closed(writer)
        assert proxy.accepted == 1


async def test_proxy_cuts_every_connection_and_takes_new_ones(echo_port: int) -> None:
    async with FaultProxy(echo_port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        assert proxy.connections == 1
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        await closed(writer)
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"y")
        assert await reader.read(1) == b"y"
        await closed(writer)


@pytest.mark.parametrize("direction", ["up", "down", "both"])
async def test_proxy_stalls_and_loses_nothing(echo_port: int, direction: str) -> None:
    async with FaultProxy(echo_port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"a")
        assert await reader.read(1) == b"a"
        proxy.stall(direction)  # type: ignore[arg-type]
        writer.write(b"b")
        await assert_silent(reader)
        await proxy.heal()
        assert await reader.read(1) == b"b"
        await closed(writer)


async def test_proxy_stalls_one_direction_only() -> None:
    """The server hears what the client says while the client hears nothing."""
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.put_nowait(await reader.readexactly(1))
        writer.write(b"answer")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", free_port())
    async with server, FaultProxy(server.sockets[0].getsockname()[1]) as proxy:
        proxy.stall("down")
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"q")
        assert await asyncio.wait_for(heard.get(), 10) == b"q"
        await assert_silent(reader)
        await proxy.heal()
        assert await reader.readexactly(6) == b"answer"
        await closed(writer)


@pytest.mark.parametrize("turns", range(6))
async def test_proxy_closes_what_it_has_just_accepted(echo_port: int, turns: int) -> None:
    """At whatever turn of the event loop it is closed: a connection that is left behind is an error here."""
    proxy = await FaultProxy(echo_port).start()
    with socket.create_connection(("127.0.0.1", proxy.port)) as connection:
        for _ in range(turns):
            await asyncio.sleep(0)
        await proxy.close()
        gc.collect()
        connection.settimeout(10.0)
        with contextlib.suppress(ConnectionError):
            assert connection.recv(1) == b""


async def test_proxy_refuses_and_is_healed_at_once(echo_port: int) -> None:
    async with FaultProxy(echo_port) as proxy:
        proxy.refuse()
        await proxy.heal()
        with socket.create_connection(("127.0.0.1", proxy.port)):
            await asyncio.sleep(0)


async def test_proxy_refuses_until_healed(echo_port: int) -> None:
    async with FaultProxy(echo_port) as proxy:
        port = proxy.port
        proxy.refuse()
        await asyncio.sleep(0)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await proxy.heal()
        assert proxy.port == port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"z")
        assert await reader.read(1) == b"z"
        await closed(writer)


async def test_proxy_before_a_dead_server_resets(unused_port: int) -> None:
    async with FaultProxy(unused_port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        await closed(writer)


async def test_proxy_closes_with_connections_open(echo_port: int) -> None:
    proxy = await FaultProxy(echo_port).start()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"x")
    assert await reader.read(1) == b"x"
    await proxy.close()
    await proxy.close()
    assert proxy.connections == 0
    with pytest.raises(ConnectionResetError):
        await reader.read(1)
    await closed(writer)


async def test_proxy_breaks_some_connections_only(echo_port: int) -> None:
    """Told by what their client says first, also of connections that come later."""
    async with FaultProxy(echo_port) as proxy:
        one, other = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(2)]
        for (reader, writer), word in ((one, b"a"), (other, b"b")):
            writer.write(word)
            assert await reader.read(1) == word
        proxy.stall("down", lambda first: first == b"a")
        late = await asyncio.open_connection("127.0.0.1", proxy.port)
        for each in (one, late):
            each[1].write(b"a")
            await assert_silent(each[0])
        other[1].write(b"a")
        assert await other[0].read(1) == b"a"
        await proxy.heal()
        assert [await each[0].read(1) for each in (one, late)] == [b"a", b"a"]
        proxy.cut(lambda first: first == b"b")
        with pytest.raises(ConnectionResetError):
            await other[0].read(1)
        one[1].write(b"c")
        assert await one[0].read(1) == b"c"
        for _, writer in (one, other, late):
            await closed(writer)


async def test_proxy_delays_and_keeps_the_order(echo_port: int) -> None:
    payload = os.urandom(300_000)
    async with FaultProxy(echo_port) as proxy:
        proxy.delay = 0.05
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        began = asyncio.get_running_loop().time()
        writer.write(payload[:10])
        received = await reader.readexactly(10)
        assert asyncio.get_running_loop().time() - began >= 0.1
        writer.write(payload[10:])
        proxy.delay = 0.0  # what comes now must not overtake
        writer.write_eof()
        assert received + await reader.read() == payload
        await closed(writer)
