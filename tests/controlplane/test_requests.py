"""What holds for every request: errors are problem details, bodies bounded and strict, answers carry the headers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.controlplane.conftest import assert_problem

from inorder_controlplane import ControlPlaneSettings, Database, create_app
from inorder_controlplane.guards import HEADERS
from inorder_controlplane.problems import KINDS
from inorder_controlplane.routes.problems import ADVICE


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """An app whose store is not there yet."""

    def no_cluster() -> None:
        raise AssertionError("nothing here needs the workers")

    database = Database(f"sqlite:///{tmp_path}/inorder.db")
    app = create_app(ControlPlaneSettings(), database, no_cluster)  # type: ignore[arg-type]

    @app.get("/fails")
    def fails() -> None:
        raise ZeroDivisionError("no secret of ours")

    @app.post("/echo")
    def echo(value: dict[str, int]) -> dict[str, int]:
        return value

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
        yield client
    await database.close()


async def test_unknown_paths_and_methods(client: httpx.AsyncClient) -> None:
    assert_problem(await client.get("/problems/%00"), "not-found")
    assert_problem(await client.get("/api/v1/nothing"), "not-found")
    answer = await client.put("/health/live")
    assert assert_problem(answer, "method-not-allowed")["allowed"] == ["GET"]
    assert answer.headers["allow"] == "GET"


async def test_a_defect_is_a_problem_without_its_text(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await client.get("/fails")
    assert_problem(answer, "internal")
    assert "secret" not in answer.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"\xff\xfe", b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}', b'{"a": "\\ud800"}',
        b'{"a": 1, "a": 2}', b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=["open", "no UTF-8", "NaN", "Infinity", "too great", "half a pair", "twice", "deep", "long number"],
)  # fmt: skip
async def test_malformed_bodies(client: httpx.AsyncClient, body: bytes) -> None:
    assert_problem(await client.post("/echo", content=body, headers={"content-type": "application/json"}), "malformed")


async def test_only_json(client: httpx.AsyncClient) -> None:
    form = await client.post("/echo", data={"a": "1"})
    assert assert_problem(form, "unsupported-media-type")["allowed"] == "application/json"
    assert (await client.post("/echo", json={"a": 1})).json() == {"a": 1}


async def test_what_is_not_valid_is_named(client: httpx.AsyncClient) -> None:
    body = assert_problem(await client.post("/echo", json={"a": "x"}), "invalid")
    assert [each["where"] for each in body["errors"]] == ["body.a"]


async def test_bodies_over_the_limit(client: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b" " * 65536

    headers = {"content-type": "application/json"}
    fits = json.dumps({"a": 1}).encode().ljust(1024 * 1024)
    assert (await client.post("/echo", content=fits, headers=headers)).status_code == 200
    assert_problem(await client.post("/echo", content=fits + b" ", headers=headers), "too-large")
    assert_problem(await client.post("/echo", content=chunks(), headers=headers), "too-large")


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080", "", "[::1"])
async def test_other_hosts_are_refused(client: httpx.AsyncClient, host: str) -> None:
    assert_problem(await client.get("/health/live", headers={"host": host}), "wrong-host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:9", "[::1]:8080"])
async def test_names_of_this_machine_are_known(client: httpx.AsyncClient, host: str) -> None:
    answer = await client.get("/health/live", headers={"host": host})
    assert answer.json() == {"status": "live"}
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
    assert answer.headers["cache-control"] == "no-store"


async def test_not_ready_without_a_store(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()["status"]) == (503, "store failed")
    assert "there is no file" in answer.json()["store_error"]


async def test_every_problem_is_explained(client: httpx.AsyncClient) -> None:
    assert sorted(ADVICE) == sorted(KINDS)
    for slug in KINDS:
        assert (await client.get(f"/problems/{slug}")).json()["slug"] == slug
    assert_problem(await client.get("/problems/none"), "not-found")
