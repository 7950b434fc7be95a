"""``inorder up`` and ``inorder controlplane`` as processes: page, API and health of one port, and how they start."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.conftest import Child, Cli, Start

from inorder.testing.services import Certificates, wait_until

UP = ("up", "--port", 0, "--worker-port", 0, "--json")


def ready(child: Child) -> dict[str, Any]:
    """The line that says that it is up."""
    line = child.line()
    assert line, child.wait().err
    found: dict[str, Any] = json.loads(line)
    assert found["type"] == "ready"
    return found


def secret_of(link: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {link.rpartition('#token=')[2]}"}


def test_one_port_for_page_api_and_health(start: Start) -> None:
    child = start(*UP)
    said = ready(child)
    with httpx.Client(base_url=said["page"]) as client:
        page = client.get("/")
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert client.get("/topics/of/the/page").text == page.text
        assert client.get("/api/v1/session").status_code == 401
        session = client.get("/api/v1/session", headers=secret_of(said["link"]))
        assert session.json() == {"name": "first admin", "role": "admin", "csrf": None, "expires_at": None}
        health = client.get("/health/ready")
        assert (health.status_code, health.json()["status"], health.json()["state"]) == (200, "ready", "active")
        assert "inorder_ready 1.0" in client.get("/metrics").text
        assert client.get("/metrics/topics", params={"limit": 0}).status_code == 400
    ended = child.interrupt()
    assert (ended.code, ended.err) == (0, "")


def test_only_the_first_start_makes_a_token(start: Start) -> None:
    first = start(*UP)
    link = ready(first)["link"]
    assert first.interrupt().code == 0
    again = start(*UP)
    said = ready(again)
    assert said["link"] is None
    audit = httpx.get(f"{said['page']}api/v1/audit", headers=secret_of(link)).json()["items"]
    assert [(each["who"], each["via"], each["action"]) for each in audit] == [("first start", "store", "token.issue")]
    assert httpx.get(f"{said['page']}api/v1/session", headers=secret_of(link)).status_code == 200
    assert again.interrupt().code == 0


def test_alone_beside_a_worker(start: Start) -> None:
    worker = start(*UP)
    said = ready(worker)
    alone = start("controlplane", "--port", 0, "--json")
    page = ready(alone)["page"]
    assert httpx.get(f"{page}api/v1/tokens", headers=secret_of(said["link"])).json()["total"] == 1
    assert httpx.get(f"{page}health/ready").json()["status"] == "ready"
    assert httpx.get(f"{page}metrics").status_code == 404
    stopped = alone.interrupt()
    assert stopped.code == 0, stopped
    assert "Traceback" not in stopped.err
    assert worker.interrupt().code == 0


def test_alone_before_there_is_a_store(start: Start) -> None:
    """It says what is missing, and works once it is there."""
    alone = start("controlplane", "--port", 0, "--json")
    page = ready(alone)["page"]
    answer = httpx.get(f"{page}api/v1/session", headers={"Authorization": "Bearer ino_x"})
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/store-unavailable")
    assert httpx.get(f"{page}health/ready").status_code == 503
    assert not Path("inorder.db").exists()
    worker = start(*UP)
    link = ready(worker)["link"]
    assert httpx.get(f"{page}api/v1/session", headers=secret_of(link)).status_code == 200
    assert worker.interrupt().code == 0
    assert alone.interrupt().code == 0


def test_others_reach_it_only_with_a_token(cli: Cli, start: Start) -> None:
    worker = start("worker", "--port", 0, "--json")
    worker.line()
    refused = cli("controlplane", "--host", "0.0.0.0", "--port", 0)
    refused.assert_refused(2, "controlplane.host '0.0.0.0'", "token of an admin")
    assert worker.interrupt().code == 0
    up = start(*UP, "--host", "0.0.0.0")
    said = ready(up)
    secret = secret_of(said["link"])
    assert httpx.get(f"{said['page']}api/v1/session", headers=secret).status_code == 200
    assert httpx.get(f"{said['page']}metrics").status_code == 401
    assert httpx.get(f"{said['page']}metrics", headers=secret).status_code == 200
    told = {"status": "ready", "store": None, "store_error": None}
    assert httpx.get(f"{said['page']}health/ready").json() == told
    assert httpx.get(f"{said['page']}health/ready", headers=secret).json()["state"] == "active"
    ended = up.interrupt()
    assert ended.code == 0
    assert "event=no_tls" in ended.err


@pytest.mark.parametrize("command", ["up", "controlplane"])
def test_a_missing_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    for name in [name for name in sys.modules if name.startswith("inorder_controlplane")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    cli(command, "--port", 0).assert_refused(1, "the control plane needs", "pip install 'inorder[controlplane]'")
    assert not Path("inorder.db").exists()


def test_tls_on_both_ports(start: Start) -> None:
    with Certificates() as made:
        own = f'tls_cert = "{made.certificate}"\ntls_key = "{made.key}"\n'
        Path("inorder.toml").write_text(f'[worker]\n{own}tls_peer_ca = "{made.ca}"\n[controlplane]\n{own}')
        child = start(*UP)
        said = ready(child)
        assert said["page"].startswith("https://127.0.0.1:")
        with httpx.Client(base_url=said["page"], verify=made.client_context()) as client:
            definitions = client.get("/api/v1/definitions", headers=secret_of(said["link"]))
            assert definitions.json()["order"] == [[]]  # the worker was asked
            assert definitions.headers["strict-transport-security"]
            login = client.post("/api/v1/session", json={"token": said["link"].rpartition("#token=")[2]})
            assert "; secure" in login.headers["set-cookie"].lower()
            with Certificates() as renewed:
                renewed.copy_to(made.ca.parent)
                os.kill(child.pid, signal.SIGHUP)
                wait_until(lambda: is_trusted(said["page"], renewed), what="the renewed certificate")
                assert client.get("/api/v1/session", headers=secret_of(said["link"])).status_code == 200, "still open"
                with httpx.Client(base_url=said["page"], verify=renewed.client_context()) as again:
                    definitions = again.get("/api/v1/definitions", headers=secret_of(said["link"]))
                    assert definitions.json()["order"] == [[]]  # the worker was asked, with the new authority
        ended = child.interrupt()
        assert (ended.code, ended.err.count("INFO event=certificates_renewed")) == (0, 2)  # of worker and page


def is_trusted(page: str, made: Certificates) -> bool:
    with contextlib.suppress(httpx.ConnectError):
        return httpx.get(f"{page}health/live", verify=made.client_context()).status_code == 200
    return False


def test_wrong_settings_are_named(cli: Cli) -> None:
    cli("up", "--worker-port", 70000).assert_refused(2, "worker.port 70000 (flag --worker-port)", "0 to 65535")
    cli("up", "--port", 70000).assert_refused(2, "controlplane.port 70000 (flag --port)", "0 to 65535")
    Path("folder").mkdir()
    cli("controlplane", "--port", 0, "--store", "sqlite:///folder").assert_refused(1, "folder is a folder, not a file")
    cli("controlplane", "--port", 0, "--store", "sqlite:///no/a.db").assert_refused(1, "there is no folder")
    cli("controlplane", "--worker", "nowhere").assert_refused(2, "controlplane.workers", "host:port")
    cli("controlplane", "--port", 0, "--tls-cert", "none.pem").assert_refused(2, "controlplane.tls_cert 'none.pem'")
