"""Settings: precedence, origins, clear refusals, masked secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.costs import ended

from inorder.errors import InvalidOption, InvalidSetting
from inorder.masking import display, masked_url
from inorder.settings.reading import load, settings
from inorder.settings.texts import split_brokers


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str) -> None:
    Path("inorder.toml").write_text(text)


def test_flag_beats_variable_beats_file_beats_default() -> None:
    write("[worker]\nport = 1\nhost = 'h1'\nstages = 2\n")
    environ = {"INORDER_WORKER__PORT": "2", "INORDER_WORKER__HOST": "h2"}
    loaded = load({"worker": {"port": 3, "host": None}}, environ=environ)
    worker = loaded.settings.worker
    assert (worker.port, worker.host, worker.stages) == (3, "h2", 2)
    assert loaded.origins["worker.port"] == "flag --port"
    assert loaded.origins["worker.host"] == "env INORDER_WORKER__HOST"
    assert loaded.origins["worker.stages"] == "file inorder.toml"
    assert loaded.origins["worker.token"] == "default"
    assert set(loaded.origins) == {f"{section}.{key}" for section, key, _ in settings()}


def test_another_file_by_name(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[store]\nurl = 'sqlite:///x.db'\n")
    write("[store]\nurl = 'sqlite:///y.db'\n")
    loaded = load(config=other, environ={})
    assert loaded.settings.store.url == "sqlite:///x.db"
    assert loaded.origins["store.url"] == f"file {other}"


def test_lists_in_variables_and_brokers_as_a_table() -> None:
    assert load(environ={"INORDER_CLIENT__WORKERS": "a:1, b:2"}).settings.client.workers == ("a:1", "b:2")
    write("[client.brokers]\nplant = 'mqtt://p'\noffice = 'redis://o'\n")
    assert load(environ={}).settings.client.brokers == ("plant=mqtt://p", "office=redis://o")


def test_a_kubernetes_service_variable_is_not_a_setting() -> None:
    assert load(environ={"INORDER_WORKER_PORT": "tcp://10.0.0.1:7401"}).settings.worker.port == 7401


@pytest.mark.parametrize(
    ("file", "environ", "parts"),
    [
        ("[worker]\nprot = 1\n", {}, ["unknown key worker.prot", "inorder.toml", "did you mean port"]),
        ("[wroker]\nport = 1\n", {}, ["unknown section wroker", "did you mean worker", "inorder.toml"]),
        ("port = 1\n", {}, ["unknown section port", "inorder.toml"]),
        ("worker = 1\n", {}, ["worker", "a table of keys"]),
        ("[worker]\nport = 70000\n", {}, ["worker.port", "70000", "0 to 65535", "inorder.toml"]),
        ("", {"INORDER_WORKER__PORT": "x"}, ["worker.port", "'x'", "0 to 65535", "env INORDER_WORKER__PORT"]),
        ("", {"INORDER_WORKER__PROT": "1"}, ["unknown key worker.prot", "env INORDER_WORKER__PROT"]),
        ("", {"INORDER_CLIENT__MODE": "lax"}, ["client.mode", "'lax'", "strict, tag or bounded"]),
        ("[client]\nmode = 'bounded'\n", {}, ["client.mode 'bounded'", "max_wait", "inorder.toml"]),
        ("[client]\nbuffer = 3\n", {}, ["client.buffer 3 (file inorder.toml)", "mode bounded"]),
        ("[client]\nworkers = ['nohost']\n", {}, ["client.workers", "'nohost'", "host:port"]),
        ("[client]\nbrokers = ['localhost']\n", {}, ["client.brokers", "'localhost'", "scheme://"]),
        ("[client]\nbrokers = []\n", {}, ["client.brokers", "one or more"]),
        ("[controlplane]\nproxies = 'nginx'\n", {}, ["controlplane.proxies", "'nginx'", "IP addresses, or networks"]),
        ("[controlplane]\nproxies = '10.0.0.300'\n", {}, ["controlplane.proxies", "'10.0.0.300'", "no names"]),
        ("[controlplane]\nproxies = '10.0.0.1/8'\n", {}, ["controlplane.proxies", "'10.0.0.1/8'", "10.0.0.0/8"]),
        ("[controlplane]\nproxies = ['*']\n", {}, ["controlplane.proxies", "'*'", "no *: whoever is believed"]),
        ("[controlplane]\nhosts = 'https://a.example'\n", {}, ["controlplane.hosts", "without scheme and port"]),
        ("[controlplane]\nhosts = 'a.example:8080'\n", {}, ["controlplane.hosts", "'a.example:8080'"]),
        ("[controlplane]\nroot_path = 'inorder/'\n", {}, ["controlplane.root_path", "'inorder/'", "/inorder"]),
        ("[controlplane]\nroot_path = '/a/../b'\n", {}, ["controlplane.root_path", "'/a/../b'"]),
        ("[store]\nurl = 'inorder.db'\n", {}, ["store.url", "SQLAlchemy URL"]),
        ("[worker\n", {}, ["inorder.toml", "TOML", "line 1"]),
    ],
)
def test_what_is_wrong_is_named(file: str, environ: dict[str, str], parts: list[str]) -> None:
    write(file)
    with pytest.raises(InvalidSetting) as caught:
        load(environ=environ)
    for part in parts:
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_proxies_and_names_that_may_be_set() -> None:
    write("[controlplane]\nproxies = '10.0.0.0/8 ::1'\nhosts = 'a.example [::2]'\nroot_path = '/a/b'\n")
    found = load(environ={}).settings.controlplane
    assert (found.proxies, found.hosts, found.root_path) == (("10.0.0.0/8", "::1"), ("a.example", "[::2]"), "/a/b")


def test_a_missing_file_is_refused_only_when_it_was_named() -> None:
    assert load(environ={}).settings.worker.port == 7401
    with pytest.raises(InvalidSetting, match=r"nowhere\.toml.* \(no such file\)"):
        load(config=Path("nowhere.toml"), environ={})


def test_a_wrong_secret_is_not_shown() -> None:
    write("[client]\ntoken = 12345\nbrokers = ['mqtt//me:hunter2@host']\n")
    with pytest.raises(InvalidSetting) as caught:
        load(environ={})
    assert "12345" not in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("mqtt://me:hunter2@host:1883/?qos=1", "mqtt://me:***@host:1883/?qos=1"),
        ("plant=mqtt://me:hunter2@host", "plant=mqtt://me:***@host"),
        ("redis://:hunter2@host/0", "redis://:***@host/0"),
        ("mqtt://host/?password=hunter2&x=1", "mqtt://host/?password=***&x=1"),
        ("mqtt://host/?tls_key_password=hunter2", "mqtt://host/?tls_key_password=***"),
        ("mqtt://host/?key=hunter2=hunter2#x?a=?token=hunter2", "mqtt://host/?key=***=***#x?a=?token=***"),
        ("mqtt://host/?a=b&x=1", "mqtt://host/?a=b&x=1"),
        ("mqtt://me:hun/ter2@host", "mqtt://me:***@host"),
        ("postgresql+psycopg://u:hunter2@db/inorder", "postgresql+psycopg://u:***@db/inorder"),
        ("sqlite:///inorder.db", "sqlite:///inorder.db"),
        ("plain", "plain"),
    ],
)
def test_passwords_inside_urls_are_masked(given: str, shown: str) -> None:
    assert masked_url(given) == shown


@pytest.mark.parametrize("part", ["?key", "&token=", "a://a:", "=", "@"])
def test_masking_costs_no_more_than_a_text_is_long(part: str) -> None:
    with ended():
        assert "hunter2" not in masked_url(f"mqtt://a:hunter2@b/{part * 200_000}")


def test_display_masks_tokens() -> None:
    loaded = load(environ={"INORDER_CLIENT__TOKEN": "hunter2"})
    assert display("client.token", loaded.settings.client.token) == "***"
    assert "hunter2" not in repr(loaded)


def test_brokers_by_space() -> None:
    assert split_brokers(("mqtt://a",)) == "mqtt://a"
    assert split_brokers(("plant=mqtt://a",)) == {"plant": "mqtt://a"}
    assert split_brokers(("mqtt://a?x=1", "office=redis://b")) == {"mqtt": "mqtt://a?x=1", "office": "redis://b"}
    with pytest.raises(InvalidOption, match="space of its own"):
        split_brokers(("mqtt://a", "mqtt://b"))
