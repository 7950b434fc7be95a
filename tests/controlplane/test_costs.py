"""What a request costs the control plane: twice as much in it, on a site that has twice as much, is twice the work.

Every route of the API is asked, with all that may be long in it: paths, queries, headers and bodies as its document
describes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import pytest
from tests.controlplane.live import Live, live_site
from tests.costs import ROOM, Steps
from tests.worker.raw_client import RawClient

SIZE = 100
"""Of what is in the smaller site, and in the requests to it."""
RULES = 4
"""Of event logs: operators make them, and each is tried on every topic."""
NOISE = 2_500
"""Steps that are not for the size's sake, such as a look at what changed meanwhile."""
OF = (
    "/inorder_controlplane/", "/inorder_worker/admin/", "/inorder/protocol/", "/inorder_worker/sequencer/",
    "/starlette/", "/fastapi/", "/json/", "/http/", "/email/", "/urllib/", "/cronsim/", "/re/",
)  # fmt: skip
"""Whose steps count: threads of the store, and the worker that is asked, have their own."""
METHODS = ("get", "put", "post", "patch", "delete")


def named(count: int, text: str = "t") -> list[dict[str, str]]:
    return [{"space": "s", "name": f"{text}{each}"} for each in range(count)]


def log_rules(count: int) -> list[dict[str, Any]]:
    bounds = {"max_age_s": 1.0, "max_count": 1, "max_bytes": 1}
    return [{"space": "s", "filter": f"t{each}/#", "glob": False, **bounds} for each in range(count)]


SPECIAL: dict[tuple[str, str], list[Callable[[int], Any]]] = {
    ("post", "/api/v1/order/preview"): [
        lambda n: {"stages": [[str(each) for each in range(n, 0, -1)]]},
        lambda n: {"stages": [["1"] * n]},
    ],
    ("put", "/api/v1/order"): [lambda n: {"stages": [[str(each) for each in range(n, 0, -1)]]}],
    ("post", "/api/v1/definitions"): [
        lambda n: {"version": 1, "order": [named(n)], "pinned": named(n), "logs": []},
        lambda n: {"version": 1, "order": [named(n, "new")], "pinned": [], "logs": log_rules(RULES)},
        lambda n: {"version": 1, "order": [named(1) * n], "pinned": named(1) * n, "logs": log_rules(1) * n},
    ],
}
"""Bodies that a document does not tell of: what is in them is there, or is there twice."""


SOME: dict[str, Any] = {"paths": {"/api/v1/session": {"get": {}}}}
for each, where in SPECIAL:
    SOME["paths"].setdefault(where, {})[each] = {}


def filled(schema: dict[str, Any], size: int, document: dict[str, Any]) -> Any:
    """Return something of this schema, as long as it may be, up to a size."""
    if "$ref" in schema:
        return filled(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], size, document)
    for several in ("oneOf", "anyOf", "allOf"):
        if several in schema:
            return filled(next(each for each in schema[several] if each.get("type") != "null"), size, document)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "object":
            return {name: filled(each, size, document) for name, each in schema.get("properties", {}).items()}
        case "array":
            count = max(min(size, schema.get("maxItems", size)), schema.get("minItems", 0))
            return [filled(schema["items"], 2, document)] * count
        case "string":
            return "1" if "pattern" in schema else "x" * min(size, schema.get("maxLength", size))
        case "boolean":
            return True
    return schema.get("minimum", 1) or 1


def bodies(path: str, method: str, operation: dict[str, Any], size: int, document: dict[str, Any]) -> Iterator[Any]:
    yield from (made(size) for made in SPECIAL.get((method, path), ()))
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        yield from () if (method, path) in SPECIAL else (None,)
    else:
        yield from (filled(each, size, document) for each in schema.get("oneOf", [schema]))


def headers_of(live: Live, size: int) -> dict[str, str]:
    cookie = 'a="' + "\\" * size + '"'
    return {
        "host": "localhost:8080",
        "authorization": f"Bearer {live.secrets['admin']}",
        "cookie": f"{cookie}; {'b;' * size}",
        "accept": "a/b," * size,
        "x-csrf-token": "x" * size,
        "if-match": "x" * size,
    }


async def ask(live: Live, method: str, path: str, query: dict[str, Any], body: Any, headers: dict[str, str]) -> int:
    """Ask the app itself, as a server does; return the steps that it takes."""
    content = b"" if body is None else json.dumps(body).encode()
    if content:
        headers = {**headers, "content-type": "application/json", "content-length": str(len(content))}
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method.upper(), "scheme": "http",
        "path": unquote(path), "raw_path": path.encode(), "root_path": "", "query_string": urlencode(query).encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080),
    }  # fmt: skip
    statuses: list[int] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    with Steps(of=OF) as steps:
        await live.app(scope, receive, send)
    assert statuses[0] != 500, (method, path)
    return steps.count


async def costs(live: Live, size: int, document: dict[str, Any]) -> dict[str, int]:
    """Return what each request takes, by its name."""
    found: dict[str, int] = {}
    for path, operations in document["paths"].items():
        for method in sorted(set(METHODS) & set(operations)):
            operation, headers = operations[method], headers_of(live, size)
            given = operation.get("parameters", [])
            query = {each["name"]: filled(each["schema"], size, document) for each in given if each["in"] == "query"}
            query = {name: value if type(value) is not bool else str(value).lower() for name, value in query.items()}
            place = path.format(**{each["name"]: "1" * min(size, 18) for each in given if each["in"] == "path"})
            await ask(live, method, place, {}, {}, headers)  # what is made at the first request
            for at, body in enumerate(bodies(path, method, operation, size, document)):
                if (method, path) == ("put", "/api/v1/order"):
                    headers["if-match"] = (await live.client("admin").get(path)).headers["etag"]
                found[f"{method} {path} {at}"] = await ask(live, method, place, query, body, headers)
    return found


@pytest.mark.parametrize("document", [SOME, pytest.param({}, marks=pytest.mark.long)], ids=["some", "all"])
async def test_a_request_costs_no_more_than_it_is_long(tmp_path: Path, document: dict[str, Any]) -> None:
    found: list[dict[str, int]] = []
    least = 7 if document else 50
    for size in (SIZE, 2 * SIZE):
        folder = tmp_path / str(size)
        folder.mkdir()
        async with (
            live_site(folder, is_running=False, stages=1, topic_order=()) as live,
            RawClient(live.events.address) as client,
        ):
            topic, *_ = await client.resolve(*(f"t{each}" for each in range(size)))
            await client.subscribe(*(f"t{each}" for each in range(size)))
            await client.create(topic, *range(1, size + 1))
            document = document or live.app.openapi()
            found.append(await costs(live, size, document))
    once, twice = found
    assert len(once) == len(twice) >= least
    assert {name: (once[name], twice[name]) for name in once if twice[name] > ROOM * once[name] + NOISE} == {}
