"""Imports point one way, and the rules say so of what breaks them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.imports import CIRCLES, LIBRARIES, MAY_IMPORT, PROJECT, find_circles, find_violations, may_import

from inorder.protocol import wire
from inorder_worker.sequencer import rides


def test_imports_point_one_way() -> None:
    assert not (violations := find_violations(PROJECT)), "\n".join(["", *violations])


def test_the_rules_themselves_have_no_cycle() -> None:
    """A part that may import another, directly or through others, is never imported by it."""
    parts = list(MAY_IMPORT)
    reached = {part: {other for other in parts if other != part and may_import(part, other)} for part in parts}
    for _ in reached:
        for others in reached.values():
            others.update(*(reached[other] for other in list(others)))
    assert [part for part, others in reached.items() if part in others] == []


def test_the_diagram_of_the_rooms_is_what_the_rules_say() -> None:
    text = (PROJECT / "ARCHITECTURE.md").read_text()
    drawn = text.partition("flowchart TB\n")[2].partition("```")[0]
    names = dict(re.findall(r'(\w+)\["([\w.]+)"\]', drawn))
    reached: dict[str, set[str]] = {name: set() for name in names.values()}
    for line in drawn.splitlines():
        groups = [
            [names[each] for each in re.findall(r"\w+", re.sub(r"\[.*?\]", "", part))] for part in line.split("-->")
        ]
        for before, after in pairwise(groups):
            for name in before:
                reached[name].update(after)
    arrows = [(name, other) for name, others in reached.items() for other in others]
    assert [arrow for arrow in arrows if not may_import(*arrow)] == []
    for _ in reached:
        for others in reached.values():
            others.update(*(reached[other] for other in list(others)))
    allowed = [(a, b) for a in reached for b in reached if a != b and may_import(a, b)]
    assert [(a, b) for a, b in allowed if b not in reached[a]] == []


def test_the_diagram_of_an_event_names_frames_and_rides() -> None:
    drawn = (PROJECT / "ARCHITECTURE.md").read_text().partition("sequenceDiagram\n")[2].partition("```")[0]
    names = re.findall(r": ([A-Z][a-z]+(?:[A-Z][a-z]+)*)\b", drawn)
    assert len(names) > 5
    assert [name for name in names if not (hasattr(wire, name) or hasattr(rides, name))] == []


def test_circles_of_modules_only_get_fewer() -> None:
    """One that is new or larger is to be taken apart, one that is gone or smaller to be taken out of CIRCLES."""
    found = find_circles(PROJECT)
    assert sorted(map(sorted, found - CIRCLES)) == []
    assert sorted(map(sorted, CIRCLES - found)) == []


@pytest.mark.parametrize(
    ("back", "is_found"),
    [
        ("from inorder.endpoint import a", True),
        ("def f():\n    from . import a", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from inorder.endpoint.a import x", True),
        ("from inorder.endpoint import d", False),
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, back: str, is_found: bool) -> None:
    folder = tmp_path / "plugin/inorder/endpoint"
    folder.mkdir(parents=True)
    sources = {
        "a": "from inorder.endpoint.b import x",
        "b": "import inorder.endpoint.c",
        "c": back,
        "d": "",
        "__init__": "",
    }
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    circle = frozenset(f"inorder.endpoint.{name}" for name in "abc")
    assert find_circles(tmp_path) == ({circle} if is_found else set())


PLANTED = {
    "endpoint reads a clock": (
        "plugin/inorder/endpoint/bad.py",
        "def f():\n    import time",
        "inorder.endpoint.bad imports time",
    ),
    "sequencer logs": ("plugin/inorder_worker/sequencer/bad.py", "from logging import getLogger", "imports logging"),
    "endpoint imports a part above": (
        "plugin/inorder/endpoint/bad.py",
        "from inorder.ports import Ens",
        "imports inorder.ports",
    ),
    "protocol imports a library": (
        "plugin/inorder/protocol/bad.py",
        "import paho.mqtt.client",
        "imports paho.mqtt.client, but only",
    ),
    "client imports worker": (
        "plugin/inorder/client/bad.py",
        "from inorder_worker.service import x",
        "imports inorder_worker",
    ),
    "endpoint imports sequencer": (
        "plugin/inorder/endpoint/bad.py",
        "from inorder_worker.sequencer.topic_manager import x",
        "imports inorder_worker.sequencer",
    ),
    "store imports service": (
        "plugin/inorder_worker/store/bad.py",
        "from inorder_worker.service.settings import x",
        "imports inorder_worker.service",
    ),
    "worker imports client": (
        "plugin/inorder_worker/service/bad.py",
        "import inorder.client.x",
        "imports inorder.client.x",
    ),
    "service imports admin relatively": (
        "plugin/inorder_worker/service/bad.py",
        "from ..admin import x",
        "imports inorder_worker.admin",
    ),
    "names imports wire": (
        "plugin/inorder/protocol/names.py",
        "from inorder.protocol.wire import x",
        "imports inorder.protocol.wire",
    ),
    "part imports the package": ("plugin/inorder/client/bad.py", "import inorder", "bad imports inorder, but"),
    "adapter imports the protocol": (
        "adapters/inorder_adapters/mqtt/bad.py",
        "import inorder.protocol.wire",
        "may import only",
    ),
    "adapter imports adapter": (
        "adapters/inorder_adapters/mqtt/bad.py",
        "from inorder_adapters.redis import x",
        "imports inorder_adapters.redis",
    ),
    "adapter imports the other's library": ("adapters/inorder_adapters/mqtt/bad.py", "import redis", "imports redis"),
    "client names an adapter": (
        "plugin/inorder/client/bad.py",
        "import importlib\nimportlib.import_module('inorder_adapters.mqtt')",
        "imports inorder_adapters.mqtt",
    ),
    "checks import the core": (
        "analytics/inorder_analytics/checks/bad.py",
        "from inorder.protocol.wire import NumberState",
        "imports inorder.protocol.wire, but inorder_analytics.checks may import only itself",
    ),
    "checks import the jobs": (
        "analytics/inorder_analytics/checks/bad.py",
        "from inorder_analytics import jobs",
        "imports inorder_analytics, but",
    ),
    "checks use a library": ("analytics/inorder_analytics/checks/bad.py", "import msgspec", "standard library only"),
    "checks use Spark": ("analytics/inorder_analytics/checks/bad.py", "import pyspark", "standard library only"),
    "checks read a clock": ("analytics/inorder_analytics/checks/bad.py", "import time", "checks is sans-I/O"),
    "web UI imports the worker": ("webui/inorder_webui/bad.py", "import inorder_worker", "imports inorder_worker"),
    "typing only": (
        "plugin/inorder/client/bad.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import sqlalchemy",
        "imports sqlalchemy",
    ),
    "unknown library": ("plugin/inorder/client/bad.py", "import requests", "only nobody may"),
    "module without a part": ("plugin/inorder/newcomer.py", "", "no part of MAY_IMPORT covers inorder.newcomer"),
    "code in an __init__": ("plugin/inorder/client/__init__.py", "def f(): ...", "an __init__.py only re-exports"),
    "code for type checkers in an __init__": (
        "plugin/inorder/client/__init__.py",
        "if TYPE_CHECKING:\n    x = 1",
        "an __init__.py only re-exports",
    ),
}


@pytest.mark.parametrize(("path", "source", "expected"), PLANTED.values(), ids=PLANTED.keys())
def test_a_planted_violation_is_found(tmp_path: Path, path: str, source: str, expected: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(source)
    assert [expected in violation for violation in find_violations(tmp_path)] == [True]


def test_what_the_rules_allow_is_not_reported(tmp_path: Path) -> None:
    good = {
        "plugin/inorder/protocol/good.py": "import math\nimport msgspec\nfrom inorder.errors import x\nfrom . import y",
        "plugin/inorder/client/__init__.py": '"""Doc."""\nfrom inorder.client.good import x\n__all__ = ["x"]',
        "plugin/inorder/client/good.py": "import ssl\nfrom inorder.protocol import wire\nfrom inorder.ports import x",
        "adapters/inorder_adapters/mqtt/good.py": "import paho.mqtt.client\nfrom inorder_adapters import text",
    }
    for path, source in good.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source)
    assert find_violations(tmp_path) == []


def test_import_inorder_works_with_the_core_alone() -> None:
    """As after a plain ``pip install inorder``."""
    code = """
        import inorder
        for name in inorder.__all__:
            getattr(inorder, name)
        print([name for name in sys.modules if name.startswith("inorder_")])
    """
    assert run_without(LIBRARIES, code) == "[]", "import inorder loads more than the core"


@pytest.mark.parametrize(
    ("library", "modules"),
    [(None, "inorder.sync"), ("paho", "inorder.paho"), ("redis", "inorder.redis, inorder.redis.asyncio")],
)
def test_clients_for_existing_programs_need_one_library_at_most(library: str | None, modules: str) -> None:
    """Also to find their workers; as after ``pip install inorder[mqtt]``, say."""
    code = f"""
        import {modules}
        from inorder.client.configured import configured
        print(configured().workers)
    """
    assert run_without({*LIBRARIES} - {library}, code) == "('localhost:7401',)"


def run_without(libraries: Iterable[str], code: str) -> str:
    """Return what code prints in a process where optional libraries are missing."""
    missing = f"""
        import sys

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in {sorted(libraries)!r}:
                    raise ModuleNotFoundError(f"{{name}} is optional", name=name)

        sys.meta_path.insert(0, Missing())
    """
    command = [sys.executable, "-c", textwrap.dedent(missing) + textwrap.dedent(code)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INORDER_")}
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env=environment
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()
