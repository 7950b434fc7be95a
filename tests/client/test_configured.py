"""The configuration of clients whose program says nothing of it: the same keys as the command line's settings."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from inorder import Bounded, ClientTimes
from inorder.client.configured import ClientConfiguration, configured
from inorder.errors import InvalidOption, InvalidSetting
from inorder.settings.client import ClientSection
from inorder.settings.reading import load
from inorder_adapters.memory.ens import MemoryEns
from inorder_adapters.memory.options import MemoryOptions


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str) -> None:
    Path("inorder.toml").write_text(text)


def test_defaults_are_those_of_the_command_line() -> None:
    made, section = configured(environ={}), ClientSection()
    assert made == ClientConfiguration()
    for name in ("workers", "client_id", "token", "mode", "traces", "space", "subscribe_timeout"):
        assert getattr(made, name) == getattr(section, name), name
    for field in fields(ClientTimes):
        assert getattr(made.times, field.name) == getattr(section, field.name), field.name
    assert made.tls is None
    assert (section.tls, section.tls_ca, section.tls_cert, section.tls_key) == (False, None, None, None)


def test_the_environment_wins_over_the_file_and_the_program_over_both() -> None:
    write("[client]\nworkers = ['file:1']\ntoken = 'of the file'\nspace = 'plant'\n[worker]\nport = 'not ours'\n")
    environ = {"INORDER_CLIENT__WORKERS": "one:1, two:2", "INORDER_CLIENT__TOKEN": "of the environment"}
    made = configured(environ=environ, token="of the program")
    assert (made.workers, made.token, made.space) == (("one:1", "two:2"), "of the program", "plant")


def test_what_the_program_says_is_not_contradicted() -> None:
    environ = {"INORDER_CLIENT__MODE": "bounded", "INORDER_CLIENT__BUFFER": "3", "INORDER_CLIENT__TLS": "true"}
    made = configured(environ=environ, mode="tag", times=ClientTimes(gap_timeout=9.0), tls=None)
    assert (made.mode, made.times.gap_timeout, made.tls) == ("tag", 9.0, None)


def test_the_process_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INORDER_CLIENT__CLIENT_ID", "desk-1")
    monkeypatch.setenv("INORDER_CLIENT_WORKERS", "tcp://set-by-something-else")
    assert configured().client_id == "desk-1"


def test_no_workers_mean_that_nothing_is_ordered() -> None:
    assert not configured(environ={"INORDER_CLIENT__WORKERS": ""}).is_ordering
    assert not configured(environ={}, workers=[]).is_ordering
    write("[client]\nworkers = []\n")
    assert not configured(environ={}).is_ordering
    assert configured(environ={}, workers="localhost:1").workers == ("localhost:1",)


SAID = [
    ({"MODE": "bounded", "BUFFER": "7", "MAX_WAIT": "0.5"}, "mode", Bounded(buffer=7, max_wait=0.5)),
    ({"MODE": "tag"}, "mode", "tag"),
    ({"GAP_TIMEOUT": "2", "MAX_PENDING": "3"}, "times", ClientTimes(gap_timeout=2.0, max_pending=3)),
    ({"REPORT_INTERVAL": "0"}, "times", ClientTimes(report_interval=0.0)),
    ({"TRACES": "/tmp/here"}, "traces", "/tmp/here"),
    ({"SUBSCRIBE_TIMEOUT": "1.5"}, "subscribe_timeout", 1.5),
]


@pytest.mark.parametrize(("variables", "attribute", "value"), SAID)
def test_variables_mean_what_they_mean_on_the_command_line(
    variables: dict[str, str], attribute: str, value: object
) -> None:
    environ = {f"INORDER_CLIENT__{name}": text for name, text in variables.items()}
    assert getattr(configured(environ=environ), attribute) == value
    load(environ=environ)  # which refuses what it does not know


REFUSED = [
    ("", {"MODE": "lax"}, ["client.mode 'lax'", "env INORDER_CLIENT__MODE", "strict, tag or bounded"]),
    ("", {"MODE": "bounded"}, ["client.mode", "buffer, max_wait"]),
    ("", {"MAX_WAIT": "1"}, ["client.max_wait", "env INORDER_CLIENT__MAX_WAIT", "mode bounded only"]),
    ("", {"WORKERS": "nohost"}, ["client.workers 'nohost'", "host:port"]),
    ("", {"GAP_TIMEOUT": "0"}, ["client.gap_timeout '0'", "a number of seconds over 0"]),
    ("", {"GAP_TIMEOUT": "inf"}, ["client.gap_timeout"]),
    ("", {"MAX_PENDING": "1.5"}, ["client.max_pending '1.5'", "a whole number over 0"]),
    ("", {"TLS": "perhaps"}, ["client.tls 'perhaps'", "true or false"]),
    ("", {"CLIENT_ID": ""}, ["client.client_id", "1 to 128"]),
    ("", {"WORKER": "a:1"}, ["unknown key client.worker", "did you mean workers?"]),
    ("[client]\nmax_wait = 1\n", {}, ["client.max_wait 1 (file inorder.toml)"]),
    ("[client]\nworkers = 5\n", {}, ["client.workers 5", "host:port", "file inorder.toml"]),
    ("[client]\nheartbeat = []\n", {}, ["client.heartbeat []"]),
    ("[client]\nheartbeet = 1\n", {}, ["unknown key client.heartbeet", "heartbeat", "file inorder.toml"]),
    ("client = 1\n", {}, ["client", "a table of keys"]),
    ("[client\n", {}, ["inorder.toml", "TOML", "line 1"]),
]


@pytest.mark.parametrize(("file", "variables", "parts"), REFUSED)
def test_what_is_wrong_is_named(file: str, variables: dict[str, str], parts: list[str]) -> None:
    write(file)
    environ = {f"INORDER_CLIENT__{name}": text for name, text in variables.items()}
    with pytest.raises(InvalidSetting) as caught:
        configured(environ=environ)
    for part in parts:
        assert part in str(caught.value)
    with pytest.raises(InvalidSetting):  # and there alike
        load(environ=environ)


def test_secrets_are_not_shown() -> None:
    write("[client]\ntoken = 12345\n")
    with pytest.raises(InvalidSetting) as caught:
        configured(environ={})
    assert "12345" not in str(caught.value)
    assert "hunter2" not in repr(configured(environ={"INORDER_CLIENT__TOKEN": "hunter2"}))


def test_files_that_are_named_and_not_there() -> None:
    with pytest.raises(InvalidSetting, match=r"no such file .*nowhere\.toml"):
        configured(config=Path("nowhere.toml"), environ={})
    with pytest.raises(InvalidOption, match=r"client\.tls_ca.*there is no file nowhere\.pem"):
        configured(environ={"INORDER_CLIENT__TLS_CA": "nowhere.pem"})


@pytest.mark.parametrize(
    "given",
    [{"workers": 5}, {"workers": ["nohost"]}, {"workers": b"a:1"}, {"times": 3}, {"subscribe_timeout": 0}],
)
def test_what_a_program_gives_is_checked(given: Any) -> None:
    with pytest.raises(InvalidOption):
        configured(environ={}, **given)


def test_it_makes_clients() -> None:
    ens = MemoryEns("configured", MemoryOptions(), "library")
    made = configured(environ={"INORDER_CLIENT__SPACE": "plant"})
    assert made.client(ens, client_id="desk").client_id == "desk"
    named = configured(environ={"INORDER_CLIENT__CLIENT_ID": "mine"}).client(ens, client_id="desk")
    assert named.client_id == "mine"
    assert "plant" in repr(made.client(ens))
