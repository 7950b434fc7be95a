"""``inorder pub`` and ``inorder sub`` against a real broker and a real worker."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Child, Cli, Run, Start

from inorder import Event, Verdict
from inorder.errors import InvalidOption
from inorder.testing.services import Certificates, Mosquitto, RedisServer
from inorder_cli import formats


def subscribed(start: Start, *arguments: object) -> Child:
    """Start ``sub`` and return when the broker has its subscription."""
    child = start("sub", *arguments)
    assert child.said().startswith("subscribed to ")
    return child


@pytest.fixture
def here(mosquitto: Mosquitto, shared_worker: str) -> tuple[str, ...]:
    return ("--broker", mosquitto.url, "--worker", shared_worker)


def test_round_trip_with_numbers(cli: Cli, start: Start, here: tuple[str, ...]) -> None:
    child = subscribed(start, "cli/a/#", *here, "-C", 3, "--json")
    receipts = cli("pub", "cli/a/x", "hello", *here, "-r", 2, "--json")
    assert receipts.code == 0, receipts
    assert [json.loads(line)["number"] for line in receipts.out.splitlines()] == [1, 2]
    assert cli("pub", "cli/a/y", *here, "-n").code == 0
    ended = child.wait()
    assert ended.code == 0, ended
    seen = [json.loads(line) for line in ended.out.splitlines()]
    assert [(item["topic"], item["payload"], item["verdict"], item["number"]) for item in seen] == [
        ("cli/a/x", "hello", "in_order", 1),
        ("cli/a/x", "hello", "in_order", 2),
        ("cli/a/y", "", "in_order", 1),
    ]


def test_lines_of_stdin_keep_their_order(start: Start, here: tuple[str, ...]) -> None:
    child = subscribed(start, "cli/b", *here, "-C", 1500, "-F", "%n %p")
    publisher = start("pub", "cli/b", "-l", *here)
    publisher.write("\n".join(f"line {i}" for i in range(1500)))
    assert publisher.wait() == Run(0, "", "")
    ended = child.wait()
    assert ended.code == 0
    assert ended.out.splitlines() == [f"{i + 1} line {i}" for i in range(1500)]


def test_an_interrupt_ends_a_wait_for_stdin(start: Start, here: tuple[str, ...]) -> None:
    publisher = start("pub", "cli/i", "-l", "--json", *here)
    publisher.write("one\n")
    assert json.loads(publisher.line())["number"] == 1  # at once, not with the next line
    assert publisher.interrupt(close_stdin=False) == Run(130, "", "")


def test_the_reader_of_the_output_goes_away(cli: Cli, start: Start, here: tuple[str, ...]) -> None:
    child = subscribed(start, "cli/j", *here, "-F", "%p")
    child.close_stdout()
    assert cli("pub", "cli/j", "x", *here).code == 0
    assert child.wait() == Run(141, "", "")


def test_payload_of_a_file_is_kept_byte_by_byte(cli: Cli, start: Start, here: tuple[str, ...]) -> None:
    Path("payload.bin").write_bytes(bytes(range(256)))
    child = subscribed(start, "cli/c", *here, "-C", 1, "-F", "%x %l")
    assert cli("pub", "cli/c", "-f", "payload.bin", *here, "-q", 1).code == 0
    assert child.wait().out == f"{bytes(range(256)).hex()} 256\n"


def test_retained(cli: Cli, here: tuple[str, ...]) -> None:
    assert cli("pub", "cli/d", "kept", "--retain", *here).code == 0
    shown = cli("sub", "cli/d", *here, "-C", 1, "-W", 10, "-F", "%v %r %p")
    assert (shown.code, shown.out) == (0, "retained 1 kept\n")
    assert cli("pub", "cli/d", "-n", "--retain", *here).code == 0
    assert cli("sub", "cli/d", *here, "-W", 0.5).out == ""


def test_waiting_ends_with_0_or_124(cli: Cli, here: tuple[str, ...]) -> None:
    begun = time.monotonic()
    assert cli("sub", "cli/e", *here, "-W", 0.5).code == 0
    assert cli("sub", "cli/e", *here, "-W", 0.5, "-C", 1).code == 124
    assert time.monotonic() - begun < 8


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_signals_end_quietly(start: Start, here: tuple[str, ...], number: int, code: int) -> None:
    ended = subscribed(start, "cli/f", *here).interrupt(number)
    assert (ended.code, ended.out, ended.err) == (code, "", "")


@pytest.mark.parametrize("ordering", ["fifo", "none"])
def test_other_orders(cli: Cli, start: Start, here: tuple[str, ...], ordering: str) -> None:
    topic = f"cli/g/{ordering}"
    child = subscribed(start, topic, *here, "-C", 1, "--ordering", ordering, "--mode", "tag", "-F", "%p")
    assert cli("pub", topic, "x", "--order", ordering, *here).code == 0
    assert child.wait().out == "x\n"


def test_two_brokers_in_one_client(
    cli: Cli, start: Start, here: tuple[str, ...], mosquitto: Mosquitto, redis_server: RedisServer
) -> None:
    both = ("-b", f"plant={mosquitto.url}", "-b", f"office={redis_server.url}", *here[2:])
    child = subscribed(start, "cli-h", "--space", "office", *both, "-C", 1, "-F", "%s %t %p")
    assert cli("pub", "cli-h", "x", "--space", "office", *both).code == 0
    assert child.wait().out == "office cli-h x\n"


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["pub", "", "x"], ["topic"]),
        (["pub", "cli/#", "x"], ["cli/#", "wildcard"]),
        (["pub", "cli/+", "x"], ["cli/+", "wildcard"]),
        (["pub", "a" * 65_536, "x"], ["over the limit of 65535"]),
        (["sub", ""], ["filter"]),
        (["sub", "a/#/b"], ["a/#/b"]),
    ],
)
def test_bad_topics(cli: Cli, here: tuple[str, ...], arguments: list[str], parts: list[str]) -> None:
    cli(*arguments, *here).assert_refused(2, *parts)


@pytest.mark.parametrize("command", [["pub", "a", "x"], ["sub", "a", "-W", "30"]])
def test_what_cannot_be_reached(
    cli: Cli, command: list[str], mosquitto: Mosquitto, shared_worker: str, unused_port: int
) -> None:
    nowhere = f"127.0.0.1:{unused_port}"
    cli(*command, "-b", f"mqtt://{nowhere}", "-w", shared_worker).assert_refused(1, nowhere, "broker", "--broker")
    cli(*command, "-b", mosquitto.url, "-w", nowhere).assert_refused(1, nowhere, "worker", "inorder up")


def test_a_wrong_token(cli: Cli, start: Start, mosquitto: Mosquitto) -> None:
    child = start("worker", "--port", 0, "--token", "right", "--json")
    address = json.loads(child.line())["address"]
    refused = cli("pub", "a", "x", "-b", mosquitto.url, "-w", address, "--token", "hunter2")
    refused.assert_refused(1, "token")
    assert "hunter2" not in refused.err
    assert cli("pub", "a", "x", "-b", mosquitto.url, "-w", address, "--token", "right").code == 0


def test_tls_to_the_worker(cli: Cli, start: Start, mosquitto: Mosquitto) -> None:
    with Certificates() as certificates:
        pair = ("--tls-cert", certificates.certificate, "--tls-key", certificates.key)
        child = start("worker", "--port", 0, *pair, "--json")
        address = json.loads(child.line())["address"]
        to_it = ("-b", mosquitto.url, "-w", address)
        assert cli("check", *to_it, "--tls-ca", certificates.ca).code == 0
        assert cli("pub", "cli/k", "x", *to_it, "--tls-ca", certificates.ca).code == 0
        assert cli("check", *to_it, "--timeout", 1).code == 1
    cli("pub", "cli/k", "x", *to_it, "--tls-ca", certificates.ca).assert_refused(2, "client.tls_ca", "PEM")


# -- formats, without a broker ---------------------------------------------------------------------------------------


def event(payload: bytes = b"p\x1b[0m", number: int | None = 7) -> Event:
    return Event("s", "t", payload, Verdict.IN_ORDER, number, qos=1, redelivered=True)


def test_every_documented_field_is_rendered() -> None:
    text = "|".join(f"%{name}" for name in formats.FIELDS if name not in "IUj")
    shown = formats.compiled(text, terminal=False)(event())
    assert shown == b"p\x1b[0m|701b5b306d|5|t|s|in_order|7|1|0|1|%"
    times = formats.compiled("%U %I", terminal=False)(event()).split()
    assert float(times[0]) == pytest.approx(time.time(), abs=60)
    assert json.loads(formats.compiled("%j", terminal=False)(event(payload=b"\xff")))["payload_base64"] == "/w=="


def test_nothing_drives_a_terminal() -> None:
    assert formats.compiled("%p", terminal=True)(event()) == rb"p\x1b[0m"


def test_escapes_and_missing_numbers() -> None:
    assert formats.compiled(r"%t\t%n\\", terminal=False)(event(number=None)) == b"t\t-\\"
    with pytest.raises(InvalidOption, match=r"\\q"):
        formats.compiled(r"\q", terminal=False)
