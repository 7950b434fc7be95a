"""A wrong value is refused by the name of the option that was typed, whichever command and whoever finds it wrong."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.conftest import Cli, Run

from inorder.errors import InvalidOption
from inorder_cli import failures
from inorder_cli.app import app

ARGUMENTS = {
    "pub": ["a", "x"], "sub": ["a"], "replay": ["a"], "backup": ["f"], "restore": ["f"], "order set": ["order.json"],
    "order move": ["m:a"], "order pin": ["m:a"], "order unpin": ["m:a"], "log on": ["m:a"], "log off": ["m:a"],
    "subscriptions end": ["c"], "topics show": ["m:a"], "topics create": ["m:a"], "events show": ["m:a", "1"],
    "gaps release": ["m:a", "1"], "gaps repair": ["m:a", "1"], "tokens create": ["desk"], "tokens revoke": ["id"],
    "workers drain": ["owner"], "workers move": ["0", "owner"], "analytics cancel": ["id"], "analytics remove": ["id"],
    "analytics schedules add": ["nightly", "0 3 * * *", "/traces"], "analytics schedules set": ["nightly"],
    "analytics schedules remove": ["nightly"], "analytics schedules run": ["nightly"],
    "traces audit": ["."], "traces show": ["."], "traces tail": ["."], "traces stats": ["."],
    "traces generate": ["made"], "traces compact": [".", "--out", "/dev/shm/none"],
    "report": ["."], "analyze": ["."],
}  # fmt: skip
"""What a command cannot do without."""
WRONG: dict[str, list[str]] = {
    "--advertise": ["nohost", "h:70000"], "--broker": ["localhost"],
    "--buffer": ["x", "-1"], "--client-id": ["", "a\tb", "x" * 129], "--config": ["nowhere.toml", "x" * 300],
    "--count": ["x", "0"], "--events": ["0"], "--format": ["%y"], "--from": ["yesterday"],
    "--alpha": ["x", "-1"], "--beta": ["x", "2"], "--window": ["x", "-1"],
    "--as": ["lost"], "--expires": ["0", "inf"], "--max-topics": ["-1", "9" * 20], "--max-unconfirmed": ["0", "9" * 20],
    "--max-subscriptions": ["-1", "9" * 20],
    "--older": ["-1", "inf"],
    "--publish": ["a", "m:a/#/b"], "--role": ["king"], "--subscribe": ["a", "m:a+"], "--worker-host": ["0.0.0.0"],
    "--worker-port": ["x", "-1", "70000"],
    "--disorder": ["x", "-1", "1.5", "nan"], "--late": ["x", "0.9"], "--loss": ["x", "0.9"], "--runs": ["0", "99999"],
    "--rows-per-file": ["0"], "--subscribers": ["0"], "--topics": ["0"], "--violations": ["-1", "9999"],
    "--interval": ["x", "0", "nan"], "--kind": ["kind"], "--limit": ["x", "-1"], "--linger": ["x", "-1", "nan"],
    "--lines": ["x", "-1"], "--max-pairs": ["x", "-1"], "--number": ["x", "-1"],
    "--lease": ["x", "0", "inf"], "--log-format": ["xml"], "--max-age": ["-1", "inf"],
    "--max-bytes": ["-1", "9" * 20], "--max-count": ["-1", "9" * 20], "--max-wait": ["x", "nan"], "--mode": ["lax"],
    "--name": ["x" * 129], "--order": ["loose"], "--ordering": ["loose"], "--port": ["x", "-1", "70000"],
    "--http-port": ["x", "-1", "70000"], "--qos": ["3"], "--rate": ["0", "nan"], "--repeat": ["0"], "--repeats": ["0"],
    "--seed": ["x"],
    "--session-timeout": ["x", "0", "1"], "--stage": ["x", "-1"], "--stages": ["x", "0", "65"],
    "--store": ["inorder.db", "oracle://x/y"], "--timeout": ["x", "0", "nan"], "--tls-ca": ["no.pem", "x" * 300],
    "--tls-cert": ["no.pem"], "--tls-key": ["no.pem"], "--traces": ["", "/dev/null/x"],
    "--cron": ["x", "0 24 * * *"], "--outcome": ["lost"],
    "--report-fd": ["x", "2"], "--source": [""], "--timezone": ["Berlin", "../x"],
    "--wait": ["x", "-1", "nan"], "--worker": ["localhost"],
}  # fmt: skip
"""Values that no command takes."""
ALSO_WRONG = {
    "check --broker": ["kafka://h"],
    "report --window": ["nan", "inf"],
    "traces audit --max-pairs": ["0"],
    "sub --broker": ["kafka://h", "mqtt://h?nosuch=1"],
    "worker --host": ["0.0.0.0"],
    "worker --lease": ["0.5"],
    "worker --stage": ["1"],
    "worker --token": [""],
}
FOUND_LATER = {
    "--client",
    "--file",
    "--history",
    "--host",
    "--http-host",
    "--master",
    "--out",
    "--run",
    "--run-id",
    "--space",
    "--title",
    "--token",
    "--topic",
}
"""What only the file system, the network or the other side finds wrong."""


BUILT: Any = typer.main.get_command(app)


@pytest.fixture(autouse=True)
def _built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of a refusal's time goes into making the commands."""
    monkeypatch.setattr("inorder_cli.app.app", BUILT)


@pytest.fixture(autouse=True)
def _ports_of_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused only when its port is taken must not depend on who else has the usual one."""
    for name in ("WORKER__PORT", "WORKER__HTTP_PORT", "CONTROLPLANE__PORT"):
        monkeypatch.setenv(f"INORDER_{name}", "0")


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for name, each in command.commands.items():
            yield from _commands(each, (*path, name))
    else:
        yield " ".join(path), command


def _options() -> Iterator[tuple[str, str]]:
    """All commands with all of their options that take a value."""
    for name, command in _commands(BUILT):
        for option in command.params:
            if option.param_type_name == "option" and not option.is_flag and option.opts[0] != "--help":
                yield name, option.opts[0]


def _wrong() -> Iterator[tuple[str, str, str]]:
    """Each value with one command, and one value with each command that has the option."""
    tried = set()
    for command, option in _options():
        values = WRONG.get(option, [])
        for value in [*ALSO_WRONG.get(f"{command} {option}", []), *values[: 1 if option in tried else None]]:
            yield command, option, value
        tried.add(option)


def assert_names(shown: Run, option: str) -> None:
    assert re.search(rf"(?<![\w-]){option}(?![\w-])", shown.err), shown


def test_every_option_is_tried() -> None:
    options = {option for _, option in _options()}
    assert options == WRONG.keys() | FOUND_LATER


@pytest.mark.parametrize(("command", "option", "value"), list(_wrong()))
def test_a_wrong_value_is_refused_by_the_name_of_its_option(cli: Cli, command: str, option: str, value: str) -> None:
    Path("order.json").write_text("[]")
    shown = cli(*command.split(), *ARGUMENTS.get(command, ()), option, value)
    shown.assert_refused(2)
    assert_names(shown, option)


@pytest.mark.parametrize(
    ("flags", "option"),
    [
        (["sub", "a", "--durable"], "--client-id"),
        (["sub", "a", "--durable", "--client-id", "c", "--ordering", "fifo"], "--ordering"),
        (["sub", "a", "--durable", "--client-id", "c", "--ordering", "none"], "--durable"),
        (["worker", "--tls-cert", "/dev/null", "--tls-key", "/dev/null"], "--tls-cert"),
        (["worker", "--host", "no such host.invalid", "--token", "t"], "--host"),
        (["worker", "--port", "0", "--http-port", "0", "--http-host", "192.0.2.1"], "--http-host"),
        (["worker", "--port", "0", "--stages", "2", "--stage", "0", "--stage", "0"], "--stage"),
        (["pub", "a", "x", "--broker", "mqtt://h", "--broker", "mqtt://h"], "--broker"),
        (["check", "--broker", "mqtt://h:port"], "--broker"),
        (["order", "show", "--tls-ca", "/dev/null"], "--tls-ca"),
        (["controlplane", "--host", "192.0.2.1"], "--host"),
        (["controlplane", "--tls-cert", "/dev/null", "--tls-key", "/dev/null"], "--tls-cert"),
    ],
)
def test_so_is_what_does_not_go_together_or_is_found_late(cli: Cli, flags: list[str], option: str) -> None:
    shown = cli(*flags)
    shown.assert_refused(2)
    assert_names(shown, option)


def test_settings_from_elsewhere_are_named_with_their_place(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same values, not typed: the file or the variable is named, and what the setting is called there."""
    Path("inorder.toml").write_text("[worker]\nlease = 0.5\n")
    cli("worker").assert_refused(2, "worker.lease 0.5 (file inorder.toml)")
    monkeypatch.setenv("INORDER_WORKER__HOSTED", "7")
    cli("worker", "--lease", "2").assert_refused(2, "worker.hosted", "(env INORDER_WORKER__HOSTED)")


@pytest.mark.parametrize(
    "name", ["ordering", "order", "qos", "retain", "space", "from_", "alpha", "beta", "traces", "window_s"]
)
def test_arguments_of_clients_and_operators_are_named_as_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.report(InvalidOption(name, 7, "something else")) == 2
    assert capsys.readouterr().err == f"error: invalid --{name.partition('_')[0]} 7: allowed is something else\n"


def test_a_space_that_no_broker_has(cli: Cli, shared_worker: str) -> None:
    shown = cli("pub", "a", "x", "--worker", shared_worker, "--broker", "memory://m", "--space", "nowhere")
    shown.assert_refused(2, "invalid --space 'nowhere'")


def test_a_taken_port_is_named_by_its_option(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"--port": ("--port", port), "--http-port": ("--port", 0, "--http-port", port)}
        for option, flags in ports.items():
            shown = cli("worker", *flags)
            shown.assert_refused(1, str(port), "in use", f"({option} 0 takes any free one)")


def test_errors_about_a_backup_point_to_the_command_that_was_run(cli: Cli) -> None:
    Path("x.backup").write_bytes(b"no backup")
    cli("restore", "x.backup").assert_refused(1, "no backup of inorder", "(see inorder restore --help)")
    Path("inorder.toml").write_text("[store]\nurl = 'sqlite:///numbers.db'\n")
    cli("backup", "x.backup").assert_refused(1, "there already", "(see inorder backup --help)")
