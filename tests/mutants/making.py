"""The mistakes that a module may have: its source, changed in one place."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_NAMES = {"max": "min", "min": "max", "any": "all", "all": "any"}
_PLAIN = (ast.Assign, ast.AugAssign, ast.Delete)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A mistake.

    Attributes:
        lines: the first and the last line of what is changed.
        function: where it is; with the next one it tells the mistake from all others of the module, as long as the
            function does not change.
        what: what was there, and what is; which of several of the kind.
        source: the whole module with it.
    """

    lines: tuple[int, int]
    function: str
    what: str
    source: str

    @property
    def name(self) -> str:
        """The function, and what is wrong there."""
        return f"{self.function}: {self.what}"


def mutants_of(source: str) -> Iterator[Mutant]:
    """Yield all mistakes of the functions of a module, in the order of their lines."""
    data = source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    changes = sorted(_changes(ast.parse(source)), key=lambda each: (each[1].lineno, each[1].col_offset))
    named: Counter[tuple[str, str]] = Counter()
    for function, first, last, new in changes:
        begin = starts[first.lineno - 1] + first.col_offset
        end = starts[(last.end_lineno or 0) - 1] + (last.end_col_offset or 0)
        was = " ".join(data[begin:end].decode().split())
        changed = (data[:begin] + new.encode() + data[end:]).decode()
        what = f"{was}  ->  {' '.join(new.split())}"
        named[function, what] += 1
        if named[function, what] > 1:
            what += f"  ({named[function, what]})"
        yield Mutant((first.lineno, last.end_lineno or 0), function, what, changed)


Change = tuple[ast.stmt | ast.expr, ast.stmt | ast.expr, str]
"""From where, to where, what is there instead."""


def _changes(tree: ast.Module) -> Iterator[tuple[str, ast.stmt | ast.expr, ast.stmt | ast.expr, str]]:
    for name, function in _functions(tree, ""):
        yield from ((name, *change) for change in _in_block(function.body))


def _functions(node: ast.AST, inside: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        name = f"{inside}{child.name}" if isinstance(child, ast.FunctionDef | ast.ClassDef) else ""
        if isinstance(child, ast.FunctionDef):
            yield name, child
        yield from _functions(child, f"{name}." if name else inside)


def _in_block(body: list[ast.stmt]) -> Iterator[Change]:
    for at, statement in enumerate(body):
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Assert | ast.Raise) or _is_text(statement):
            continue
        if _is_plain(statement) or isinstance(statement, ast.Continue | ast.Break):
            yield statement, statement, "pass"
        if (
            _is_plain(statement)
            and at + 1 < len(body)
            and _is_plain(body[at + 1])
            and _is_bound(statement, body[at + 1])
        ):
            swapped = f"{ast.unparse(body[at + 1])}\n{' ' * statement.col_offset}{ast.unparse(statement)}"
            yield statement, body[at + 1], swapped
        for part in ast.iter_child_nodes(statement):
            if isinstance(part, ast.expr) and part is not getattr(statement, "annotation", None):
                yield from _in_expression(part)
        for inner in _blocks(statement):
            yield from _in_block(inner)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    if isinstance(statement, ast.Match):
        yield from (case.body for case in statement.cases)
    for name in ("body", "orelse", "finalbody"):
        if isinstance(found := getattr(statement, name, None), list):
            yield found


def _is_plain(statement: ast.stmt) -> bool:
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return is_call or isinstance(statement, _PLAIN)


def _is_bound(one: ast.stmt, other: ast.stmt) -> bool:
    """Tell whether it may matter which of two statements comes first, as far as their names tell."""
    calls = [any(isinstance(node, ast.Call) for node in ast.walk(each)) for each in (one, other)]
    names = [_names(each) for each in (one, other)]
    if all(calls) or any(
        called and any("." in name for name in read | written)
        for called, (read, written) in zip(calls, reversed(names), strict=True)
    ):
        return True
    (read, written), (its_read, its_written) = names
    return not written.isdisjoint(its_read | its_written) or not its_written.isdisjoint(read)


def _names(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """Return what a statement reads, and what it writes; of a place in a container, the container."""
    read, written = set[str](), set[str]()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Attribute):
            (read if isinstance(node.ctx, ast.Load) else written).add(ast.unparse(node))
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            written.add(ast.unparse(node.value))
    if isinstance(statement, ast.AugAssign):
        read |= written
    return read, written


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _in_expression(whole: ast.expr) -> Iterator[Change]:
    for node in ast.walk(whole):
        if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            for new in _replacements(node):
                yield node, node, f"({ast.unparse(new)})"


def _replacements(node: ast.expr) -> Iterator[ast.expr]:
    new = deepcopy(node)
    match new:
        case ast.Compare():
            for at, each in enumerate(new.ops):
                one = deepcopy(new)
                one.ops[at] = _COMPARED[type(each)]()
                yield one
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
            yield new
        case ast.UnaryOp(op=ast.Not()):
            yield new.operand
        case ast.BinOp() if type(new.op) in _COMPUTED:
            new.op = _COMPUTED[type(new.op)]()
            yield new
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            new.func = ast.Name(_NAMES[name])
            yield new
        case ast.IfExp():
            new.body, new.orelse = new.orelse, new.body
            yield new
        case ast.Constant(value=bool()):
            yield ast.Constant(not new.value)
        case ast.Constant(value=int()):
            yield ast.Constant(new.value + 1)  # type: ignore[operator]
