"""WorkerSettings: wrong values are named before anything starts, and secrets are not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inorder.errors import InvalidOption
from inorder.masking import masked_url
from inorder_worker.service import WorkerSettings
from inorder_worker.service.settings import is_loopback


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"port": 70000}, ["port", "0 to 65535"]),
        ({"stages": 0}, ["stages", "1 to 64"]),
        ({"linger": 0}, ["linger", "seconds"]),
        ({"heads_interval": -1}, ["heads_interval"]),
        ({"number_retention": 0}, ["number_retention"]),
        ({"token": ""}, ["token"]),
        ({"store": "inorder.db"}, ["store", "sqlite:///inorder.db"]),
        ({"tls_cert": Path("c.pem")}, ["tls_cert", "tls_key"]),
        ({"tls_client_ca": Path("ca.pem")}, ["tls_client_ca", "tls_cert"]),
        ({"max_frame_bytes": 10}, ["max_frame_bytes", "1024"]),
        ({"host": "0.0.0.0"}, ["host", "127.0.0.1", "token"]),
        ({"host": "example.org"}, ["host", "127.0.0.1", "token"]),
        ({"topic_order": [["s:a"], ["s:b"]]}, ["topic_order", "1 stages"]),
        ({"topic_order": [["a"]]}, ["topic_order", "space:name"]),
        ({"stages": 2, "hosted": [2]}, ["hosted", "0 to 1", "2 stages"]),
        ({"stages": 2, "hosted": [1, 1]}, ["hosted", "different"]),
        ({"advertise": "worker-1"}, ["advertise", "host:port"]),
        ({"advertise": "worker-1:0"}, ["advertise", "host:port"]),
        ({"topic_order": [["s:a", "s:a"]]}, ["topic_order", "once"]),
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(InvalidOption) as caught:
        WorkerSettings(**changes)
    for part in parts:
        assert part in str(caught.value)


def test_an_open_address_with_a_token_is_fine() -> None:
    assert WorkerSettings(host="0.0.0.0", token="hunter2").host == "0.0.0.0"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


def test_secrets_are_not_shown() -> None:
    shown = repr(WorkerSettings(token="hunter2", store="postgresql://me:hunter2@db/x?password=hunter2"))
    assert "hunter2" not in shown
    assert "token='***'" in shown
    assert masked_url("postgresql://me:hunter2@db/x") == "postgresql://me:***@db/x"
    assert masked_url("sqlite:///inorder.db") == "sqlite:///inorder.db"


def test_seconds_become_milliseconds() -> None:
    stage = WorkerSettings(linger=1.5, publisher_grace=0.25, confirm_timeout=2, number_retention=7).stage_settings()
    assert (stage.linger_ms, stage.publisher_grace_ms, stage.confirm_timeout_ms, stage.number_retention) == (
        1500, 250, 2000, 7,
    )  # fmt: skip


def test_bad_tls_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a long path would be shortened
    cert = Path("cert.pem")
    cert.write_text("not a certificate")
    with pytest.raises(InvalidOption, match=r"tls_cert .*cert\.pem"):
        WorkerSettings(tls_cert=cert, tls_key=cert).ssl_context()


def test_a_topic_lives_at_least_as_long_as_it_may_linger() -> None:
    assert WorkerSettings(topic_ttl=0.0).stage_settings().topic_ttl_ms == 0
    assert WorkerSettings(topic_ttl=60.0).stage_settings().topic_ttl_ms == 60_000
    with pytest.raises(InvalidOption, match="at least linger"):
        WorkerSettings(topic_ttl=59.0)
