"""Imports point one way: the rules, as data, checked over the real tree by reading the code (nothing is imported).

An import counts wherever it stands: inside functions, under ``TYPE_CHECKING``, or by name in
``importlib.import_module("...")``.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
ROOTS = ("plugin", "adapters", "controlplane", "webui", "analytics", "benchmarks")

# -- the rules ---------------------------------------------------------------------------------------------------------

# Part -> what of our own it may import, itself apart. A module belongs to the longest prefix of its name that stands
# here; one that no part covers is a violation, so the table stays whole. `inorder` alone is the public API.
MAY_IMPORT: Mapping[str, frozenset[str]] = {
    part: frozenset(allowed.split())
    for part, allowed in {
        "inorder.errors": "",
        "inorder.core": "inorder.errors",
        "inorder.core.globs": "",
        "inorder.core.names": "inorder.core.globs",
        "inorder.core.popularity": "",
        "inorder.core.filters": "inorder.errors inorder.core.names inorder.core.globs",
        "inorder.ports": "inorder.errors inorder.core.names",
        "inorder.traces": "inorder.errors inorder.core inorder.logs inorder.private",
        "inorder.logs": "",
        "inorder.listening": "",
        "inorder.private": "",
        "inorder.signals": "",
        "inorder.client": "inorder.errors inorder.core inorder.ports inorder.traces inorder.logs",
        "inorder.worker": "inorder.errors inorder.core inorder.logs inorder.listening inorder.private inorder.signals",
        "inorder.admin": "inorder.errors inorder.core",
        "inorder.settings": "inorder.errors",
        # The package itself only re-exports the public API; what it is made of never imports it.
        "inorder": "inorder.errors inorder.core inorder.ports inorder.client inorder.traces",
        "inorder.sync": "inorder inorder.errors inorder.client inorder.core inorder.ports inorder.logs",
        # The drop-in clients: another library's class with our client inside; what the broker carries is as the
        # adapters have it.
        "inorder.paho": "inorder inorder.errors inorder.client inorder.core inorder.ports inorder.logs inorder.sync"
        " inorder_adapters inorder_adapters.mqtt",
        "inorder.redis": "inorder inorder.errors inorder.client inorder.core inorder.ports inorder.logs inorder.sync"
        " inorder_adapters inorder_adapters.redis",
        "inorder.testing": "inorder inorder.errors inorder.core inorder.ports inorder.client inorder.worker",
        "inorder.testing.services": "inorder.errors inorder.listening",
        "inorder.demo": "inorder inorder.errors inorder.core inorder.ports inorder.client inorder.worker inorder.traces"
        " inorder.testing.services",
        "inorder.cli": "inorder inorder.errors inorder.core inorder.ports inorder.client inorder.worker inorder.admin"
        " inorder.settings inorder.logs inorder.listening inorder.signals inorder.demo inorder.testing.services"
        " inorder.traces inorder_controlplane inorder_analytics inorder_analytics.spark inorder_bench",
        "inorder.__main__": "inorder.cli",
        "inorder_adapters": "inorder.errors inorder.ports inorder.core.names inorder.core.filters",
        # The three know what all adapters share, and nothing of each other.
        "inorder_adapters.memory": "inorder.errors inorder.ports inorder.core.names inorder.core.filters"
        " inorder_adapters",
        "inorder_adapters.mqtt": "inorder.errors inorder.ports inorder.core.names inorder.core.filters"
        " inorder_adapters",
        "inorder_adapters.redis": "inorder.errors inorder.ports inorder.core.names inorder.core.filters"
        " inorder_adapters",
        # Of inorder only the command line knows it.
        "inorder_controlplane": "inorder inorder.errors inorder.core inorder.client inorder.admin inorder.worker"
        " inorder.settings inorder.logs inorder.listening inorder_webui",
        "inorder_webui": "",
        # What topic order a trace suggests is what the stages would do (R15).
        "inorder_analytics": "inorder.errors inorder.traces inorder.core.popularity inorder_analytics.checks",
        # The only part that knows Spark; nothing but the command line imports it, and only where it is asked for.
        "inorder_analytics.spark": "inorder.errors inorder.private inorder.traces inorder.core.popularity"
        " inorder_analytics",
        # Measures all of it; only the command line knows it.
        "inorder_bench": "inorder inorder.errors inorder.core inorder.client inorder.worker inorder.testing.services"
        " inorder_adapters inorder_adapters.mqtt",
        # The checks judge the core, so they know nothing of it.
        "inorder_analytics.checks": "",
    }.items()
}
# What an allowance covers exactly, and not the parts below it too.
EXACT = frozenset({"inorder", "inorder_adapters", "inorder_analytics"})

# Library -> the parts that may import it. Of the others, only the standard library and msgspec may be used.
LIBRARIES: Mapping[str, frozenset[str]] = {
    library: frozenset(parts.split())
    for library, parts in {
        # The demo's first half and the benchmarks use the bare client libraries, without inorder.
        "paho": "inorder_adapters.mqtt inorder.demo inorder.paho inorder_bench",
        "redis": "inorder_adapters.redis inorder.demo inorder.redis inorder_bench",
        "sqlalchemy": "inorder.worker inorder_controlplane",
        "alembic": "inorder.worker",
        "psycopg": "inorder.worker",
        "prometheus_client": "inorder.worker",
        "uvloop": "inorder.worker inorder.cli inorder.demo inorder_bench",
        "typer": "inorder.cli",
        "click": "inorder.cli",
        "rich": "inorder.cli inorder_bench",
        "pydantic": "inorder.settings inorder_controlplane",
        "pydantic_settings": "inorder.settings",
        "fastapi": "inorder_controlplane inorder_webui",
        "starlette": "inorder_controlplane inorder_webui",
        "uvicorn": "inorder_controlplane",
        "cronsim": "inorder_controlplane",
        "pyarrow": "inorder.traces inorder_analytics inorder_analytics.spark",
        "nats": "inorder_bench",
        "hdrh": "inorder_bench",
        "fsspec": "inorder.traces inorder_analytics",
        "numpy": "inorder_analytics inorder_analytics.spark",
        "pyspark": "inorder_analytics.spark",
        "pytest": "inorder.testing",
        "hypothesis": "inorder.testing",
    }.items()
}
EVERYWHERE = "msgspec"
# Needs nothing but the standard library.
BARE = "inorder_analytics.checks"

# The core is sans-I/O: no clock, no chance, no logging, no waiting, and so are the checks. These modules have none.
SANS_IO = ("inorder.core", BARE)
PURE_STDLIB = frozenset(
    """
    __future__ abc array base64 binascii bisect collections contextlib copy dataclasses enum functools hashlib heapq
    itertools math operator re string struct types typing zlib
    """.split()  # noqa: SIM905 (a list of 25 quoted names reads worse)
)

# Modules that import each other in a circle today, also under TYPE_CHECKING. This list only gets shorter.
CIRCLES: frozenset[frozenset[str]] = frozenset(
    frozenset(f"{package}.{module}" for module in modules.split())
    for package, modules in (
        ("inorder.cli", "app bench entry"),
        ("inorder.client", "publishing recording"),
        ("inorder.paho", "callbacks client embedding loops receiving sending subscriptions"),
        ("inorder.paho", "life ordering"),
        ("inorder.traces", "arrow making recorder writer"),
        ("inorder.traces", "folder options"),
        ("inorder.worker", "event_logs host"),
        ("inorder.worker", "history journal log_rows memory_log store"),
        ("inorder_adapters.memory", "delivery hub"),
    )
)


# -- the check ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """One import statement of one module."""

    importer: str
    imported: str
    where: str


def find_violations(project: Path) -> list[str]:
    """Return one sentence for each broken rule in the packages under the project's roots."""
    modules = {name: path for root in ROOTS for name, path in find_modules(project / root)}
    violations = [
        f"{path.relative_to(project)}: no part of MAY_IMPORT covers {name}"
        for name, path in modules.items()
        if part_of(name) is None or (part_of(name) == "inorder" and name != "inorder")
    ]
    known = with_parents(modules)
    for name, path in modules.items():
        tree = parsed(path)
        where = str(path.relative_to(project))
        if path.name == "__init__.py":
            violations += check_init(tree, where)
        for found in find_imports(tree, name, path.name == "__init__.py", known, where):
            violations += check_import(found)
    return violations


def find_circles(project: Path) -> set[frozenset[str]]:
    """Return the modules that import each other, directly or through others: a set for each circle, the widest."""
    modules = {name: path for root in ROOTS for name, path in find_modules(project / root)}
    known, reached = with_parents(modules), {}
    for name, path in modules.items():
        found = find_imports(parsed(path), name, path.name == "__init__.py", known, "")
        reached[name] = {each.imported for each in found} & modules.keys() - {name}
    for through in modules:
        for others in reached.values():
            if through in others:
                others |= reached[through]
    return {
        frozenset(other for other in others if name in reached[other])
        for name, others in reached.items()
        if name in others
    }


def check_import(found: Import) -> Iterator[str]:
    part, top = part_of(found.importer), found.imported.partition(".")[0]
    said = f"{found.where}: {found.importer} imports {found.imported}"
    is_own = top == "inorder" or top.startswith("inorder_")
    if is_own:
        if not may_import(part, found.imported):
            yield f"{said}, but {part} may import only {', '.join(sorted(MAY_IMPORT.get(part or '', ()))) or 'itself'}"
    elif top in sys.stdlib_module_names:
        sans_io = next((each for each in SANS_IO if is_within(found.importer, each)), None)
        if sans_io is not None and top not in PURE_STDLIB:
            yield f"{said}, but {sans_io} is sans-I/O (PURE_STDLIB lists what it may use)"
    elif part == BARE:
        yield f"{said}, but {BARE} uses the standard library only"
    elif top != EVERYWHERE and part not in LIBRARIES.get(top, ()):
        yield f"{said}, but only {', '.join(sorted(LIBRARIES.get(top, ()))) or 'nobody'} may (see LIBRARIES)"


def may_import(part: str | None, module: str) -> bool:
    target = part_of(module)
    if part is None or target is None or target == part:
        return target is not None
    allowed = MAY_IMPORT[part] | {part}
    return target in allowed or any(is_within(target, wide) for wide in allowed - EXACT)


def check_init(tree: ast.Module, where: str) -> Iterator[str]:
    """An ``__init__.py`` holds a docstring, imports and dunder names; code lives in modules with a name."""
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (is_import(node) or is_docstring or is_dunder(node) or is_guard(node) or is_typing(node)):
            yield f"{where}:{node.lineno}: an __init__.py only re-exports"


def is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def is_dunder(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and all(
        isinstance(target, ast.Name) and target.id.startswith("__") for target in node.targets
    )


def is_typing(node: ast.stmt) -> bool:
    """Imports for type checkers; dunder names for others."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
        and all(map(is_import, node.body))
        and all(map(is_dunder, node.orelse))
    )


def is_guard(node: ast.stmt) -> bool:
    """Imports, and an error that names the extra when they are missing."""
    return (
        isinstance(node, ast.Try)
        and all(map(is_import, node.body))
        and all(isinstance(statement, ast.Raise) for handler in node.handlers for statement in handler.body)
        and not (node.orelse or node.finalbody)
    )


def find_modules(root: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(root.glob("inorder*/**/*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def with_parents(modules: Iterable[str]) -> frozenset[str]:
    """Return the names of modules and of all packages that they are in."""
    return frozenset(prefix for name in modules for prefix in accumulate(name.split("."), "{}.{}".format))


def find_imports(
    tree: ast.Module, importer: str, is_package: bool, known: frozenset[str], where: str
) -> Iterator[Import]:
    for node in ast.walk(tree):
        line = f"{where}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            yield from (Import(importer, alias.name, line) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = absolute(node, importer, is_package)
            for alias in node.names:
                submodule = f"{source}.{alias.name}"
                # `from package import module` imports the module; what else the package holds is not asked for.
                yield Import(importer, submodule if submodule in known else source, line)
        elif isinstance(node, ast.Call) and (name := named_import(node)):
            yield Import(importer, name, line)


def absolute(node: ast.ImportFrom, importer: str, is_package: bool) -> str:
    if node.level == 0:
        return node.module or ""
    base = importer.split(".")
    base = base[: len(base) - node.level + is_package]
    return ".".join([*base, *(node.module.split(".") if node.module else [])])


def named_import(call: ast.Call) -> str | None:
    """Return the module of ``importlib.import_module("...")`` or ``__import__("...")``."""
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if called in ("import_module", "__import__") and call.args and isinstance(call.args[0], ast.Constant):
        return str(call.args[0].value)
    return None


def part_of(module: str) -> str | None:
    return max((part for part in MAY_IMPORT if is_within(module, part)), key=len, default=None)


def is_within(module: str, part: str) -> bool:
    return module == part or module.startswith(f"{part}.")


# -- the tests ---------------------------------------------------------------------------------------------------------


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


def test_circles_of_modules_only_get_fewer() -> None:
    """One that is new or larger is to be taken apart, one that is gone or smaller to be taken out of CIRCLES."""
    found = find_circles(PROJECT)
    assert sorted(map(sorted, found - CIRCLES)) == []
    assert sorted(map(sorted, CIRCLES - found)) == []


@pytest.mark.parametrize(
    ("back", "is_found"),
    [
        ("from inorder.core import a", True),
        ("def f():\n    from . import a", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from inorder.core.a import x", True),
        ("from inorder.core import d", False),
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, back: str, is_found: bool) -> None:
    folder = tmp_path / "plugin/inorder/core"
    folder.mkdir(parents=True)
    sources = {"a": "from inorder.core.b import x", "b": "import inorder.core.c", "c": back, "d": "", "__init__": ""}
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    circle = frozenset(f"inorder.core.{name}" for name in "abc")
    assert find_circles(tmp_path) == ({circle} if is_found else set())


PLANTED = {
    "core reads a clock": ("plugin/inorder/core/bad.py", "def f():\n    import time", "inorder.core.bad imports time"),
    "core logs": ("plugin/inorder/core/bad.py", "from logging import getLogger", "imports logging"),
    "core imports a part above": (
        "plugin/inorder/core/bad.py",
        "from inorder.ports import Ens",
        "imports inorder.ports",
    ),
    "core imports a library": (
        "plugin/inorder/core/bad.py",
        "import paho.mqtt.client",
        "imports paho.mqtt.client, but only",
    ),
    "client imports worker": ("plugin/inorder/client/bad.py", "from inorder.worker import x", "imports inorder.worker"),
    "worker imports client": ("plugin/inorder/worker/bad.py", "import inorder.client.x", "imports inorder.client.x"),
    "worker imports client relatively": (
        "plugin/inorder/worker/bad.py",
        "from ..client import x",
        "imports inorder.client",
    ),
    "names imports core": ("plugin/inorder/core/names.py", "from inorder.core.wire import x", "imports inorder.core"),
    "part imports the package": ("plugin/inorder/client/bad.py", "import inorder", "bad imports inorder, but"),
    "adapter imports core": ("adapters/inorder_adapters/mqtt/bad.py", "import inorder.core.wire", "may import only"),
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
        "from inorder.core.wire import NumberState",
        "imports inorder.core.wire, but inorder_analytics.checks may import only itself",
    ),
    "checks import the jobs": (
        "analytics/inorder_analytics/checks/bad.py",
        "from inorder_analytics import jobs",
        "imports inorder_analytics, but",
    ),
    "checks use a library": ("analytics/inorder_analytics/checks/bad.py", "import msgspec", "standard library only"),
    "checks use Spark": ("analytics/inorder_analytics/checks/bad.py", "import pyspark", "standard library only"),
    "checks read a clock": ("analytics/inorder_analytics/checks/bad.py", "import time", "checks is sans-I/O"),
    "web UI imports the worker": ("webui/inorder_webui/bad.py", "import inorder.worker", "imports inorder.worker"),
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
        "plugin/inorder/core/good.py": "import math\nimport msgspec\nfrom inorder.errors import x\nfrom . import names",
        "plugin/inorder/client/__init__.py": '"""Doc."""\nfrom inorder.client.good import x\n__all__ = ["x"]',
        "plugin/inorder/client/good.py": "import asyncio\nfrom inorder.core import wire\nfrom inorder.ports import Ens",
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
