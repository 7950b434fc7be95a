"""The OpenAPI document: FastAPI's, with this API's own errors."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from inorder_controlplane.problems import KINDS, MEDIA_TYPE
from inorder_controlplane.routes import registry

PROBLEM_SCHEMA: Final[dict[str, Any]] = {
    "title": "ProblemDetails",
    "description": "Problem details (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance"],
    "properties": {
        "type": {"type": "string", "enum": [f"/problems/{slug}" for slug in KINDS]},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "what is the matter with this request"},
        "instance": {"type": "string", "description": "the request's path"},
        "allowed": {
            "description": "what would have been allowed",
            "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        },
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["where", "message"],
                "properties": {"where": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
    "example": {
        "type": "/problems/stale",
        "title": "It was changed since you read it",
        "status": 412,
        "detail": "it was changed since you read it: read it again, and see whether your change still fits",
        "instance": "/api/v1/order",
    },
}
PREFIX: Final = "/api/v1"
PUBLIC: Final = (f"{PREFIX}/session",)
"""Below PREFIX, where a token may be shown that was not before: in the body."""
_METHODS: Final = frozenset(("get", "put", "post", "delete", "patch"))


def install(app: FastAPI, root_path: str = "") -> None:
    """Make an app describe itself, also below a proxy's path."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
            if root_path:
                app.openapi_schema["servers"] = [{"url": root_path}]
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["ProblemDetails"] = PROBLEM_SCHEMA
    roles = _roles()
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            if method in _METHODS:
                if role := roles.get((path, method)):
                    operation["x-required-role"] = role
                responses = operation["responses"]
                responses.pop("422", None)
                responses["default"] = {"description": "any error, as problem details", "content": content}
    return found


def _roles() -> dict[tuple[str, str], str]:
    """Return the role that each route needs, by path and method."""
    routes = [route for router in registry.API for route in router.routes if isinstance(route, APIRoute)]
    return {
        (PREFIX + route.path_format, method.lower()): role
        for route in routes
        for method in route.methods or ()
        if (role := _role(route.dependant))
    }


def _role(dependant: Dependant) -> str:
    found = [getattr(each.call, "required_role", "") or _role(each) for each in dependant.dependencies]
    return next(filter(None, found), "")
