"""The API does what its OpenAPI document says, whatever is sent: requests made from the document by schemathesis, to a
real ``inorder up``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis import checks as known
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks as openapi

from inorder_controlplane import ControlPlaneSettings, Database, create_app

EXAMPLES = 5
"""Requests of an operation, good and bad ones each."""
SESSION = requests.Session()
LINES = """
[client]
brokers = ["memory://openapi"]

[worker]
stages = 2
port = 0

[controlplane]
port = 0
login_rate = 1000000
"""


def bad_is_refused(ctx: Any, response: Any, case: Any) -> Any:
    """What the document forbids is refused, be it for its size: that is looked at before anything else is."""
    return None if response.status_code == 413 else openapi.negative_data_rejection(ctx, response, case)


CHECKS = [
    known.not_a_server_error,
    openapi.status_code_conformance,
    openapi.content_type_conformance,
    openapi.response_headers_conformance,
    openapi.response_schema_conformance,
    openapi.unsupported_method,
    bad_is_refused,
]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What ``inorder up`` says when it is ready."""
    folder = tmp_path_factory.mktemp("up")
    (folder / "inorder.toml").write_text(LINES)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INORDER_")}
    command = [sys.executable, "-m", "inorder", "up", "--json"]
    log = folder / "stderr"
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=stderr) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, log.read_text()
        yield json.loads(line)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert "Traceback" not in log.read_text()


def cases() -> Iterator[Any]:
    """Yield all operations of the document, with good requests and, where they can be bad, with bad ones."""

    def no_workers() -> Any:
        raise AssertionError("only its document is asked for")

    app = create_app(ControlPlaneSettings(), Database("sqlite:///nowhere.db"), no_workers)
    for found in schemathesis.openapi.from_dict(app.openapi()).get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        yield pytest.param(operation, GenerationMode.POSITIVE, id=f"{operation.label} good")
        if list(operation.body) or list(operation.query):
            yield pytest.param(operation, GenerationMode.NEGATIVE, id=f"{operation.label} bad")


@pytest.mark.parametrize(("operation", "mode"), list(cases()))
def test_the_api_is_what_its_document_says(operation: Any, mode: GenerationMode, up: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {up['link'].rpartition('#token=')[2]}"}

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(base_url=up["page"], headers=headers, checks=CHECKS, session=SESSION)

    check()
