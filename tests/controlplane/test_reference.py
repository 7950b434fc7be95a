"""docs/REST.md and the OpenAPI document: whole, current, with examples that are what they say."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from inorder_controlplane import ControlPlaneSettings, Database, create_app, models
from inorder_controlplane.reference import METHODS, reference

FILE = Path(__file__).parents[2] / "docs" / "REST.md"


def nowhere() -> Any:
    raise AssertionError("nothing is asked")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(ControlPlaneSettings(), Database("sqlite:///none.db"), nowhere).openapi()


def examples() -> list[tuple[type[BaseModel], Any]]:
    found = []
    for module in pkgutil.iter_modules(models.__path__):
        its = vars(importlib.import_module(f"{models.__name__}.{module.name}"))
        for model in its.values():
            if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__.endswith(module.name):
                extra: Any = model.model_config.get("json_schema_extra") or {}
                found += [(model, value) for value in extra.get("examples", ())]
    return found


def test_the_reference_is_current(document: dict[str, Any]) -> None:
    hint = "renew it: python -m inorder_controlplane.reference > docs/REST.md"
    assert FILE.read_text(encoding="utf-8") == reference(document), hint


@pytest.mark.parametrize(("model", "value"), examples(), ids=lambda each: getattr(each, "__name__", ""))
def test_examples_are_what_they_say(model: type[BaseModel], value: Any) -> None:
    shown = model.model_validate(value).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert shown == value


def test_every_route_says_what_it_needs_and_answers(document: dict[str, Any]) -> None:
    text = reference(document)
    public = []
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method not in operations:
                continue
            operation = operations[method]
            assert operation["description"].strip()
            assert "default" in operation["responses"]
            part = text.split(f"### `{method.upper()} {path}`\n", 1)[1].split("\n##", 1)[0]
            assert "Answer:" in part or path.startswith(("/health", "/problems")) or "204" in operation["responses"], (
                path
            )
            if "x-required-role" not in operation:
                public.append(path)
    assert sorted(public) == ["/api/v1/session", "/health/live", "/health/ready", "/problems/{slug}"]
