"""Wrong usage is one clear line and exit code 2, before anything is connected or changed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

import inorder
from inorder.errors import (
    BrokerUnreachable,
    InvalidTopic,
    MissingExtra,
    QueueFull,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
    Unauthorized,
    WorkerUnreachable,
)
from inorder_cli import failures, options

COMMANDS = ("demo", "up", "worker", "pub", "sub", "check", "status", "verify", "config", "analyze", "report", "bench")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_explanation(cli: Cli, command: str) -> None:
    shown = cli(command, "--help")
    assert shown.code == 0
    assert f"Usage: inorder {command}" in shown.out


def test_help_names_the_commands_and_the_exit_codes(cli: Cli) -> None:
    shown = cli("--help")
    assert shown.code == 0
    assert all(command in shown.out for command in COMMANDS)
    assert all(str(int(code)) in shown.out for code in failures.ExitCode)


def test_without_arguments_the_help_is_shown(cli: Cli) -> None:
    shown = cli()
    assert shown.code == 2
    assert "Usage: inorder" in shown.out + shown.err
    assert "error:" not in shown.err


def test_completion_is_offered(cli: Cli) -> None:
    assert "--install-completion" in cli("--help").out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["nosuch"], ["nosuch", "inorder --help"]),
        (["sub"], ["TOPIC", "inorder sub --help"]),
        (["sub", "a", "--ordering", "loose"], ["--ordering", "loose"]),
        (["sub", "a", "-C", "0"], ["--count", "equal to 1"]),
        (["sub", "a", "-q", "3"], ["--qos", "equal to 2"]),
        (["sub", "a", "-F", "%y"], ["format", "%y", "%p"]),
        (["sub", "a", "-F", "%"], ["format", "%%"]),
        (["sub", "a", "--mode", "bounded"], ["client.mode", "--buffer", "--max-wait", "flag --mode"]),
        (["sub", "a", "--buffer", "3"], ["client.buffer 3 (flag --buffer)", "--mode bounded", "the mode is strict"]),
        (["sub", "a", "--max-wait", "1", "--mode", "tag"], ["client.max_wait 1.0 (flag --max-wait)", "mode is tag"]),
        (["sub", "a", "--max-wait", "nan", "--mode", "bounded"], ["client.max_wait nan", "a number from 0"]),
        (["sub", "a", "--client-id", "a\tb"], ["client_id", "control characters"]),
        (["sub", "a", "--tls-ca", "no.pem"], ["client.tls_ca 'no.pem'", "there is no file no.pem"]),
        (["sub", "a", "--broker", "localhost"], ["client.brokers", "localhost", "--broker"]),
        (["sub", "a", "--broker", "kafka://x"], ["kafka", "mqtt"]),
        (["sub", "a", "--broker", "mqtt://x", "--broker", "mqtt://y"], ["space", "plant=mqtt"]),
        (["sub", "a", "--worker", "localhost"], ["client.workers", "localhost", "--worker"]),
        (["pub", "a"], ["exactly one of"]),
        (["pub", "a", "x", "-n"], ["exactly one of"]),
        (["pub", "a", "-l", "-r", "2"], ["-r does not go with -l"]),
        (["pub", "a", "-f", "missing.bin"], ["missing.bin", "No such file"]),
        (["pub", "a", "x", "-r", "0"], ["--repeat"]),
        (["pub", "a", "x", "--order", "loose"], ["--order", "loose"]),
        (["demo", "--rate", "fast"], ["--rate"]),
        (["demo", "--rate", "0"], ["--rate", "equal to 1"]),
        (["demo", "--events", "1"], ["--events", "equal to 2"]),
        (["demo", "--broker", "kafka"], ["--broker", "kafka", "memory"]),
        (["worker", "--port", "70000"], ["worker.port", "70000", "0 to 65535", "--port"]),
        (["worker", "--host", "0.0.0.0"], ["host", "0.0.0.0", "token"]),
        (["worker", "--tls-cert", "x.pem"], ["tls_cert 'x.pem'", "tls_key", "there is no file x.pem"]),
        (["worker", "--tls-key", "x.pem"], ["tls_key 'x.pem'", "together with tls_cert", "there is no file x.pem"]),
        (["worker", "--tls-cert", "/dev/null", "--tls-key", "x.pem"], ["tls_key 'x.pem'", "there is no file x.pem"]),
        (["worker", "--store", "inorder.db"], ["store.url", "inorder.db", "--store"]),
        (["worker", "--store", "oracle://x/y"], ["store", "oracle"]),
        (["up", "--config", "nowhere.toml"], ["nowhere.toml", "no such file"]),
        (["check", "--broker", "kafka://x"], ["kafka", "mqtt"]),
        (["check", "--broker", "memory://x?dely_ms=1"], ["dely_ms", "delay_ms"]),
        (["config", "wroker"], ["wroker", "worker"]),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], parts: list[str]) -> None:
    cli(*arguments).assert_refused(2, *parts)
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("command", [["pub", "a", "x"], ["sub", "a"], ["worker"], ["up"], ["check"], ["config"]])
def test_an_unknown_key_in_the_file_stops_every_command(cli: Cli, command: list[str]) -> None:
    Path("inorder.toml").write_text("[worker]\nprot = 1\n")
    cli(*command).assert_refused(2, "worker.prot", "did you mean port", "inorder.toml")


def test_every_failure_is_one_line_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    for error, code, hint in (
        (BrokerUnreachable("localhost:1883", "refused\nreally"), 1, "--broker"),
        (WorkerUnreachable(["a:1"], "Connection refused"), 1, "inorder up"),
        (WorkerUnreachable(["a:1"], "it is starting", is_there=True), 1, "try again in a moment"),
        (Unauthorized("the token was refused", peer="worker"), 1, "--token"),
        (Unauthorized("bad password"), 1, "--broker"),
        (StoreReadOnly("sqlite:///x", "read-only"), 1, "write the file"),
        (StoreReadOnly("postgresql://db/x", "read-only"), 1, "the role"),
        (StoreUnreachable("postgresql+psycopg://db/x", "no route to host"), 1, "--store postgresql://"),
        (StoreFull("sqlite:///x", "the disk"), 1, "(make room"),
        (StoreFull("postgresql://db/x", "the disk"), 1, "(make room"),
        (InvalidTopic("", "empty"), 2, "empty"),
        (QueueFull(3), 2, "3 publishes"),
        (PermissionError(13, "Permission denied", "/x"), 1, "Permission denied"),
        (ZeroDivisionError("oops"), 1, "--debug"),
    ):
        assert failures.report(error) == code
        said = capsys.readouterr().err
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        assert hint in said
    failures.report(Unauthorized("the token was refused", peer="worker"))
    assert "broker" not in capsys.readouterr().err
    assert failures.report(KeyboardInterrupt()) == 130
    assert failures.report(BrokenPipeError()) == 141
    assert capsys.readouterr().err == ""


def test_debug_shows_the_traceback(cli: Cli) -> None:
    shown = cli("check", "--broker", "kafka://x", "--debug")
    assert shown.code == 2
    assert "Traceback" in shown.err
    assert "Traceback" not in cli("check", "--broker", "kafka://x").err


def test_config_shows_value_and_origin_and_masks(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("inorder.toml").write_text("[client]\nbrokers = ['mqtt://me:hunter2@host']\n[worker]\nport = 7500\n")
    monkeypatch.setenv("INORDER_CLIENT__TOKEN", "hunter2")
    shown = cli("config", "--json")
    assert shown.code == 0
    assert "hunter2" not in shown.out
    assert shown.json["client.brokers"] == {"value": ["mqtt://me:***@host"], "origin": "file inorder.toml"}
    assert shown.json["client.token"] == {"value": "***", "origin": "env INORDER_CLIENT__TOKEN"}
    assert shown.json["worker.port"] == {"value": 7500, "origin": "file inorder.toml"}
    assert shown.json["store.url"] == {"value": "sqlite:///inorder.db", "origin": "default"}
    text = cli("config", "worker")
    assert "worker.port = 7500  # file inorder.toml" in text.out
    assert "client." not in text.out


def test_version_is_fast_and_needs_no_extra() -> None:
    script = "import sys; sys.argv=['inorder','--version']\nfrom inorder_cli import main\n"
    script += "try: main()\nfinally: print([m for m in ('typer','rich','pydantic') if m in sys.modules])"
    begun = time.monotonic()
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("inorder ")
    assert shown.stdout.endswith("[]\n")
    assert time.monotonic() - begun < 5


def test_without_the_extra_the_hint_names_it() -> None:
    script = (
        "import sys, importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'typer' else real(name, *a)\n"
        "sys.argv = ['inorder', 'check']\n"
        "from inorder_cli import main\nmain()"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert shown.returncode == 1
    assert shown.stderr == "error: the command line needs typer: pip install 'inorder[cli]'\n"


def test_python_dash_m_works() -> None:
    shown = subprocess.run([sys.executable, "-m", "inorder", "--help"], capture_output=True, text=True, check=True)
    assert "demo" in shown.stdout


def test_settings_are_those_of_worker_and_client() -> None:
    from inorder.settings.client import ClientSection
    from inorder.settings.declaring import declared
    from inorder.settings.reading import load
    from inorder.settings.worker import WorkerSection
    from inorder_cli.worker import worker_settings
    from inorder_worker.service import WorkerSettings

    assert {field.name for field in declared(WorkerSettings)} == {
        *(field.name for field in declared(WorkerSection)), "store",
    }  # fmt: skip
    defaults = {field.name: field.default for field in declared(inorder.ClientTimes)}
    assert {field.name: field.default for field in declared(ClientSection) if field.name in defaults} == defaults
    made = worker_settings(load(environ={"INORDER_WORKER__TOKEN": "t"}).settings)
    assert made.token == "t"
    made_of_defaults = worker_settings(load(environ={"INORDER_WORKER__NAME": "w"}).settings)
    assert made_of_defaults == WorkerSettings(name="w")


def test_a_run_leaves_no_debugging_behind(cli: Cli) -> None:
    cli("config", "--debug")
    assert options.debugging is True
    cli("config")
    assert options.debugging is False


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("", name="inorder.ports.nosuch"), ImportError("libpq is broken")]
)
def test_a_fault_is_not_called_a_missing_extra(error: ImportError) -> None:
    with pytest.raises(ImportError) as raised, failures.needs("worker", "a look at the store"):
        raise error
    assert raised.value is error


def test_a_missing_extra_is_named_by_what_needs_it() -> None:
    lacks: list[ImportError] = [ModuleNotFoundError("", name="sqlalchemy"), MissingExtra("the worker", "worker")]
    for lack in lacks:
        with (
            pytest.raises(MissingExtra, match=r"a look at the store needs .*worker"),
            failures.needs("worker", "a look at the store"),
        ):
            raise lack
