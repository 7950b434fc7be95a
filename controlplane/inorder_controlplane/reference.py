"""The generator of docs/REST.md: ``python -m inorder_controlplane.reference > docs/REST.md``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from inorder_controlplane.app import create_app
from inorder_controlplane.database import Database
from inorder_controlplane.settings import ControlPlaneSettings

METHODS: Final = ("get", "post", "put", "patch", "delete")
IN_ALL_LISTS: Final = frozenset(("limit", "cursor", "q", "sort"))
WIDTH: Final = 110
INTRODUCTION: Final = """\
# REST

Every route of the control plane's API, written from its OpenAPI document (`/openapi.json`), which has the schema of
each answer too. [CONTROLPLANE.md](CONTROLPLANE.md) tells what holds for all of them: tokens, lists and their queries,
errors, ETags.

Each route names the role that it needs; a higher one may do the same. In paths, names are percent-encoded: a client
called `desk/1` is `/subscriptions/desk%2F1`.
"""
SOCKETS: Final = """\
## WebSockets

Both need the role viewer: `Authorization: Bearer ...`, or a browser's cookie with an `Origin` that is this server. They
only tell; what is sent to them is of no concern. Messages are JSON; readers ignore types that they do not know.

### `/api/v1/live`

Once a second `sample` (not while the workers do not answer) and `alarms`; at first, and when they change, `states`,
`order` and `runs`. Values are those of `GET /overview`, `/stages` and `/workers`.

| type | holds |
|---|---|
| `sample` | an entry of `series`, with `rates` and `totals` |
| `alarms` | `alarms`, and `state`: ok, degraded or down |
| `states` | `stages`, `workers` |
| `order` | `order_epoch` |
| `runs` | `runs`: of analyses that are open, and the one that ended last: `id`, `outcome`, `progress`, `cancelled_by` |

### `/api/v1/tail?space=&filter=`

Events on the topics that a filter covers, as the broker delivers them: a subscription with ordering none, which the
workers do not know of. The broker of the space must be one of `controlplane.brokers`.

- `event`: `topic` (`space`, `name`), `number` (null without a timestamp), `late` (a higher number of the topic came
  before: the broker's order, not that of inorder), `retained`, `at`, `payload_text` or `payload_base64`, `size` in
  bytes, `truncated` (16 KiB are shown).
- `dropped`: `count` of events that were not sent, because more than 500 a second came or the reader is slow.
"""


def reference(document: dict[str, Any]) -> str:
    """Return the text for an OpenAPI document."""
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                operation = operations[method]
                tag = (operation.get("tags") or ["other"])[0]
                by_tag.setdefault(tag, []).append("\n".join(_route(path, method, operation, document)))
    sections = [f"## {tag.capitalize()}\n\n" + "\n".join(routes) for tag, routes in by_tag.items()]
    return "\n".join([INTRODUCTION, *sections, SOCKETS])


def _route(path: str, method: str, operation: dict[str, Any], document: dict[str, Any]) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`\n"
    role = operation.get("x-required-role")
    yield f"*{f'Role {role}' if role else 'No token'}.* {operation.get('description', '').strip()}\n"
    parameters = [each for each in operation.get("parameters", []) if each["name"] not in IN_ALL_LISTS - _own(path)]
    if parameters:
        yield "| parameter | in | |\n|---|---|---|"
        for each in parameters:
            about = each.get("description") or each["schema"].get("description", "")
            yield f"| `{each['name']}`{' (needed)' if each.get('required') else ''} | {each['in']} | {about} |"
        yield ""
    for title, part in (("Body", operation.get("requestBody")), ("Answer", _answer(operation))):
        schema = (part or {}).get("content", {}).get("application/json", {}).get("schema")
        for at, sample in enumerate(_examples(schema, document)):
            yield f"{'or' if at else title}:\n\n```json\n{_text(sample)}\n```\n"
    for kind in _answer(operation).get("content", {}):
        if kind.startswith("text/"):
            yield f"Answer: `{kind}`.\n"


def _answer(operation: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next((each for status, each in operation["responses"].items() if status[0] == "2"), {})
    return found


def _examples(schema: dict[str, Any] | None, document: dict[str, Any]) -> Iterator[Any]:
    """Yield the examples of a schema; a page of a list has one with one item."""
    if schema is None:
        return
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for choice in schema.get("oneOf", ()):
        yield from _examples(choice, document)
    if "examples" in schema:
        yield schema["examples"][0]
    elif {"items", "next", "total"} <= schema.get("properties", {}).keys():
        item = next(_examples(schema["properties"]["items"]["items"], document), None)
        if item is not None:
            yield {"items": [item], "next": None, "total": 1}


def _own(path: str) -> frozenset[str]:
    """Return the route's own meaning of a parameter that all lists have."""
    return frozenset(("limit",)) if path.endswith(("/log", "/overlap")) else frozenset()


def _text(value: Any, indent: str = "") -> str:
    """Return JSON for people, on one line if it fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, dict | list) or not value:
        return line
    inner = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + _text(each, inner) for each in value) + f"\n{indent}]"
    parts = (f"{inner}{json.dumps(name)}: {_text(each, inner)}" for name, each in value.items())
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def main() -> None:
    """Write the reference to stdout."""
    database = Database("sqlite:///nothing-is-opened.db")

    def nowhere() -> Any:
        raise AssertionError("nothing is asked")

    app = create_app(ControlPlaneSettings(), database, nowhere)
    sys.stdout.write(reference(app.openapi()))


if __name__ == "__main__":
    main()
