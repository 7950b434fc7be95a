"""Which part of the code may import which: the rules, as data, and their check by reading the code (nothing is
imported).

An import counts wherever it stands: inside functions, under ``TYPE_CHECKING``, or by name in
``importlib.import_module("...")``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

PROJECT = Path(__file__).parent.parent
ROOTS = ("plugin", "adapters", "controlplane", "webui", "analytics", "benchmarks")

# -- the rules ---------------------------------------------------------------------------------------------------------

# Part -> what of our own it may import, itself apart. A module belongs to the longest prefix of its name that stands
# here; one that no part covers is a violation, so the table stays whole. `inorder` alone is the public API.
MAY_IMPORT: Mapping[str, frozenset[str]] = {
    part: frozenset(allowed.split())
    for part, allowed in {
        "inorder.errors": "",
        "inorder.backoff": "",
        "inorder.patience": "",
        # What clients and workers have in common; both sides of it are sans-I/O, and neither knows the other.
        "inorder.protocol": "inorder.errors",
        "inorder.protocol.arrival": "",
        "inorder.protocol.globs": "",
        "inorder.protocol.names": "inorder.protocol.globs",
        "inorder.protocol.filters": "inorder.errors inorder.protocol.names inorder.protocol.globs",
        "inorder.endpoint": "inorder.errors inorder.protocol",
        "inorder.ports": "inorder.errors inorder.protocol.arrival inorder.protocol.names",
        "inorder.traces": "inorder.errors inorder.protocol inorder.endpoint inorder.logs inorder.private",
        "inorder.logs": "",
        "inorder.masking": "",
        "inorder.listening": "",
        "inorder.private": "",
        "inorder.scratch": "",
        "inorder.signals": "",
        "inorder.client": "inorder.errors inorder.protocol inorder.endpoint inorder.ports inorder.traces inorder.logs"
        " inorder.settings inorder.backoff inorder.patience",
        "inorder.settings": "inorder.errors inorder.protocol inorder.masking",
        # The package itself only re-exports the public API; what it is made of never imports it.
        "inorder": "inorder.errors inorder.protocol inorder.endpoint inorder.ports inorder.client inorder.traces",
        "inorder.sync": "inorder inorder.errors inorder.client inorder.protocol inorder.endpoint inorder.ports"
        " inorder.logs",
        # The drop-in clients: another library's class with our client inside; what the broker carries is as the
        # adapters have it.
        "inorder.paho": "inorder inorder.errors inorder.client inorder.protocol inorder.endpoint inorder.ports"
        " inorder.logs inorder.sync inorder_adapters inorder_adapters.mqtt",
        "inorder.redis": "inorder inorder.errors inorder.client inorder.protocol inorder.endpoint inorder.ports"
        " inorder.logs inorder.sync inorder_adapters inorder_adapters.redis",
        "inorder.testing": "inorder inorder.errors inorder.protocol inorder.ports inorder.client"
        " inorder_worker.sequencer inorder_worker.store",
        "inorder.testing.services": "inorder.errors inorder.listening",
        # `python -m inorder` is the command line.
        "inorder.__main__": "inorder_cli",
        "inorder_worker": "",
        "inorder_worker.sequencer": "inorder.errors inorder.protocol",
        "inorder_worker.sequencer.popularity": "",
        "inorder_worker.store": "inorder.errors inorder.protocol inorder.logs inorder.masking inorder.private"
        " inorder.backoff inorder_worker.sequencer",
        "inorder_worker.service": "inorder.errors inorder.protocol inorder.logs inorder.masking inorder.listening"
        " inorder.signals inorder.settings inorder.backoff inorder.patience inorder_worker.sequencer"
        " inorder_worker.store",
        # A client of workers: it asks them, and has nothing of their side.
        "inorder_worker.admin": "inorder.errors inorder.protocol inorder_worker.sequencer",
        # On top of everything; nothing imports them.
        "inorder_cli.demo": "inorder inorder.errors inorder.protocol inorder.ports inorder.client inorder.traces"
        " inorder.testing.services inorder_worker.service",
        "inorder_cli": "inorder inorder.errors inorder.protocol inorder.ports inorder.client inorder.settings"
        " inorder.masking inorder.logs inorder.listening inorder.scratch inorder.signals inorder.testing.services"
        " inorder.traces inorder_worker.store inorder_worker.service inorder_worker.admin inorder_cli.demo"
        " inorder_controlplane inorder_analytics inorder_analytics.spark inorder_bench",
        "inorder_adapters": "inorder.errors inorder.masking inorder.ports inorder.protocol.names"
        " inorder.protocol.filters",
        # The three know what all adapters share, and nothing of each other.
        "inorder_adapters.memory": "inorder.errors inorder.ports inorder.protocol.names inorder.protocol.filters"
        " inorder_adapters",
        "inorder_adapters.mqtt": "inorder.errors inorder.masking inorder.patience inorder.ports inorder.protocol.names"
        " inorder.protocol.filters inorder_adapters",
        "inorder_adapters.redis": "inorder.errors inorder.masking inorder.patience inorder.ports inorder.protocol.names"
        " inorder.protocol.filters inorder_adapters",
        # Of inorder only the command line knows it.
        "inorder_controlplane": "inorder inorder.errors inorder.protocol inorder.endpoint inorder.client"
        " inorder.settings inorder.logs inorder.listening inorder.scratch inorder_worker.sequencer"
        " inorder_worker.store inorder_worker.service inorder_worker.admin inorder_webui",
        "inorder_webui": "",
        # What topic order a trace suggests is what the stages would do (R15).
        "inorder_analytics": "inorder.errors inorder.private inorder.traces inorder_worker.sequencer.popularity"
        " inorder_analytics.checks",
        # The only part that knows Spark; nothing but the command line imports it, and only where it is asked for.
        "inorder_analytics.spark": "inorder.errors inorder.private inorder.scratch inorder.traces"
        " inorder_worker.sequencer.popularity inorder_analytics",
        # Measures all of it; only the command line knows it.
        "inorder_bench": "inorder inorder.errors inorder.protocol inorder.endpoint inorder.client"
        " inorder.testing.services inorder_worker.sequencer inorder_worker.store inorder_worker.service"
        " inorder_adapters inorder_adapters.mqtt",
        # The checks judge the core, so they know nothing of it.
        "inorder_analytics.checks": "",
        # What developers measure of every part, the adapters' inside too; it is in no wheel.
        "inorder_bench.costs": "inorder inorder.errors inorder.protocol inorder.endpoint inorder.ports inorder.client"
        " inorder.traces inorder.testing.services inorder.listening inorder.backoff inorder_worker.sequencer"
        " inorder_adapters inorder_adapters.mqtt inorder_adapters.redis inorder_analytics inorder_analytics.spark"
        " inorder_bench",
    }.items()
}
# What an allowance covers exactly, and not the parts below it too.
EXACT = frozenset({"inorder", "inorder_worker", "inorder_adapters", "inorder_analytics", "inorder_bench"})

# Library -> the parts that may import it. Of the others, only the standard library and msgspec may be used.
LIBRARIES: Mapping[str, frozenset[str]] = {
    library: frozenset(parts.split())
    for library, parts in {
        # The demo's first half and the benchmarks use the bare client libraries, without inorder.
        "paho": "inorder_adapters.mqtt inorder_cli.demo inorder.paho inorder_bench inorder_bench.costs",
        "redis": "inorder_adapters.redis inorder_cli.demo inorder.redis inorder_bench inorder_bench.costs",
        "sqlalchemy": "inorder_worker.store inorder_controlplane",
        "alembic": "inorder_worker.store",
        "psycopg": "inorder_worker.store",
        "prometheus_client": "inorder_worker.service",
        "uvloop": "inorder_worker.service inorder_cli inorder_cli.demo inorder_bench",
        "typer": "inorder_cli",
        "click": "inorder_cli",
        "rich": "inorder_cli inorder_bench inorder_bench.costs",
        "pydantic": "inorder_controlplane",
        "fastapi": "inorder_controlplane inorder_webui",
        "starlette": "inorder_controlplane inorder_webui",
        "uvicorn": "inorder_controlplane",
        "cronsim": "inorder_controlplane",
        "pyarrow": "inorder.traces inorder_analytics inorder_analytics.spark",
        "nats": "inorder_bench",
        "hdrh": "inorder_bench",
        "duckdb": "inorder_bench.costs",
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

# The protocol and both its sides are sans-I/O: no clock, no chance, no logging, no waiting; so are the checks.
SANS_IO = ("inorder.protocol", "inorder.endpoint", "inorder_worker.sequencer", BARE)
PURE_STDLIB = frozenset(
    """
    __future__ abc array base64 binascii bisect collections contextlib copy dataclasses enum functools hashlib heapq
    itertools math operator re string struct types typing weakref zlib
    """.split()  # noqa: SIM905 (a list of 25 quoted names reads worse)
)

# Modules that import each other in a circle today, also under TYPE_CHECKING. This list only gets shorter.
CIRCLES: frozenset[frozenset[str]] = frozenset(
    frozenset(f"{package}.{module}" for module in modules.split())
    for package, modules in (
        ("inorder_cli", "app bench entry"),
        ("inorder.client", "publishing recording"),
        ("inorder.paho", "callbacks client embedding loops receiving sending subscriptions"),
        ("inorder.paho", "ordering session"),
        ("inorder.traces", "arrow making recorder writer"),
        ("inorder.traces", "folder options"),
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
