"""What holds for every request: errors are problem details, bodies bounded and strict, answers carry the headers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from tests.controlplane.conftest import Serve, Site, assert_problem
from tests.costs import steps

from inorder_controlplane import ControlPlaneSettings, Database, create_app
from inorder_controlplane.bodies import MAX_NAMES, MAX_PUBLIC_BYTES, parsed
from inorder_controlplane.guards import HEADERS
from inorder_controlplane.problems import KINDS, Problem
from inorder_controlplane.routes.problems import ADVICE

ECHO = "/api/v1/echo"
JSON = {"content-type": "application/json"}


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

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
        yield client
    await database.close()


@pytest.fixture
def known(site: Site) -> httpx.AsyncClient:
    """Somebody who may ask, and something that takes a body."""

    @site.app.post(ECHO)
    def echo(value: dict[str, int]) -> dict[str, int]:
        return value

    return site.client("viewer")


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
async def test_malformed_bodies(known: httpx.AsyncClient, body: bytes) -> None:
    assert_problem(await known.post(ECHO, content=body, headers=JSON), "malformed")


async def test_only_json(known: httpx.AsyncClient) -> None:
    form = await known.post(ECHO, data={"a": "1"})
    assert assert_problem(form, "unsupported-media-type")["allowed"] == "application/json"
    assert (await known.post(ECHO, json={"a": 1})).json() == {"a": 1}


async def test_what_is_not_valid_is_named(known: httpx.AsyncClient) -> None:
    body = assert_problem(await known.post(ECHO, json={"a": "x"}), "invalid")
    assert [each["where"] for each in body["errors"]] == ["body.a"]


async def test_bodies_over_the_limit(known: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b" " * 65536

    fits = json.dumps({"a": 1}).encode().ljust(1024 * 1024)
    assert (await known.post(ECHO, content=fits, headers=JSON)).status_code == 200
    assert_problem(await known.post(ECHO, content=fits + b" ", headers=JSON), "too-large")
    assert_problem(await known.post(ECHO, content=chunks(), headers=JSON), "too-large")


@pytest.mark.parametrize("role", [None, "wrong"])
async def test_nobody_reads_the_body_of_a_stranger(site: Site, role: str | None) -> None:
    """Neither how it looks, nor how much of it there is, is found out before who sends it."""
    site.secrets["wrong"] = "ino_wrong"
    given = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(4):
            given += 1
            yield b"{" * 65536

    stranger = site.client(role)
    for method, path in (("POST", "topics"), ("PATCH", "topics/1"), ("PUT", "order"), ("POST", "nothing")):
        answer = await stranger.request(method, f"/api/v1/{path}", content=chunks(), headers=JSON)
        assert_problem(answer, "unauthorized")
        assert answer.headers["connection"] == "close"
    assert given == 0
    for path in ("/api/v1/session", "/health/live"):
        large = assert_problem(
            await stranger.post(path, content=b" " * (MAX_PUBLIC_BYTES + 1), headers=JSON), "too-large"
        )
        assert large["allowed"] == f"at most {MAX_PUBLIC_BYTES} bytes"


@pytest.mark.parametrize("body", ["different", "first and last", "last two", "objects", "texts"])
def test_a_body_costs_no_more_than_it_is_long(body: str) -> None:
    def made(count: int) -> bytes:
        names = [f'"{each}": 1' for each in range(count)]  # more than are taken: that must be seen as cheaply
        wrong = {"first and last": [*names, '"0": 1'], "last two": [*names, f'"{count - 1}": 1']}
        parts = {"objects": ["{}"] * count, "texts": ['"x"'] * count}
        return (
            f"[{', '.join(parts[body])}]".encode()
            if body in parts
            else ("{" + ", ".join(wrong.get(body, names)) + "}").encode()
        )

    def cost(count: int) -> int:
        def parse() -> None:
            with contextlib.suppress(Problem):
                parsed(made(count))

        return steps(parse)

    assert cost(2_000) < 2.5 * cost(1_000)


async def test_of_much_that_is_wrong_little_is_told(serve: Serve) -> None:
    """A body may be wrong in as many ways as it has bytes; each would cost more than a hundred bytes."""
    site = serve(object())
    many = {"stages": [["x"] * 1_000]}
    body = assert_problem(await site.client("viewer").post("/api/v1/order/preview", json=many), "invalid")
    assert len(body["errors"]) < 10
    names = {str(each): 1 for each in range(MAX_NAMES + 1)}
    body = assert_problem(await site.client("viewer").post("/api/v1/order/preview", json=names), "malformed")
    assert "101 names" in body["detail"]


async def test_a_long_name_that_stands_twice_is_shortened(known: httpx.AsyncClient) -> None:
    name = "x" * 10_000
    body = assert_problem(await known.post(ECHO, content=f'{{"{name}": 1, "{name}": 1}}', headers=JSON), "malformed")
    assert "stands twice" in body["detail"]
    assert len(body["detail"]) < 100


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
