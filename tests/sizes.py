"""How long modules, classes and functions are, and which are longer than they should be (``python -m tests.sizes``).

A module has the lines of its file. A class or a function has those from its ``class`` or ``def`` to its end: with its
docstring, comments and empty lines, and what is nested in it, without its decorators.

``sizes.txt`` lists what is beyond the limits, in tens of lines, rounded up, so that a small change alters no number
there. The list only gets shorter: the command lowers and removes what can be, and adds nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.ratchet import Ratchet

PROJECT = Path(__file__).parent.parent
FOLDERS = ("plugin", "adapters", "controlplane", "webui/inorder_webui", "analytics", "benchmarks", "tests", "examples")
LIMITS = {"class": 350, "function": 60, "module": 500}
RATCHET = Ratchet(
    Path(__file__).with_name("sizes.txt"), "lines", "part it by meaning", lambda name: LIMITS[name.partition(" ")[0]]
)
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def measure(project: Path) -> dict[str, int]:
    """Return what is beyond the limits, as it stands in the list: ``"class path::Name"`` -> lines."""
    paths = sorted(path for folder in FOLDERS for path in (project / folder).rglob("*.py"))
    sizes: dict[str, int] = {}
    for path in paths:
        for name, lines in sizes_of(path.read_text(), path.relative_to(project).as_posix()):
            sizes[name] = max(lines, sizes.get(name, 0))  # overloads share a name
    return {name: lines for name, lines in sorted(sizes.items()) if lines > LIMITS[name.partition(" ")[0]]}


def sizes_of(source: str, where: str) -> Iterator[tuple[str, int]]:
    lines = len(source.splitlines())
    yield f"module {where}", lines
    for name, node in definitions(ast.parse(source, where)) if lines > min(LIMITS.values()) else ():
        kind = "class" if isinstance(node, ast.ClassDef) else "function"
        yield f"{kind} {where}::{name}", (node.end_lineno or node.lineno) - node.lineno + 1


def definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Yield classes and functions wherever they stand, by their qualified names (``Class.method``)."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, block, ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(inner, Definition):
                yield f"{prefix}{inner.name}", inner
                yield from definitions(inner, f"{prefix}{inner.name}.")
            else:
                yield from definitions(inner, prefix)


def main() -> int:
    sizes = measure(PROJECT)
    left = RATCHET.turn(sizes)
    print("\n".join(left) or f"{len(sizes)} modules, classes and functions are beyond their limits")  # noqa: T201
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
