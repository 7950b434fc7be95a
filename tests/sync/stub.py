"""``python -m tests.sync.stub`` writes the blocking client's ``client.pyi`` from ``inorder.Client``'s annotations."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import inorder
from inorder.client import client as source
from inorder.sync import twin

TARGET = Path(twin.__file__).with_name("client.pyi")
HEAD = '"""Made by ``python -m tests.sync.stub`` from ``inorder.Client``."""\n\n'
PENDING, NOTIFICATIONS = "PendingPublish", "Notifications"
OWN = {
    "__enter__": "def __enter__(self) -> Self: ...",
    "__exit__": "def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,"
    " trace: TracebackType | None) -> None: ...",
    "client_id": "@property\ndef client_id(self) -> str: ...",
    "incarnation": "@property\ndef incarnation(self) -> int: ...",
}


def stub() -> str:
    """Return the stub."""
    tree = ast.parse(inspect.getsource(source))
    (cls,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Client")
    functions = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    methods = [_method(functions[name]) for name in ("__init__", *twin.public_methods(inorder.Client))]
    own = [each for text in OWN.values() for each in ast.parse(text).body]
    body = [*methods[:1], *own, *methods[1:]]
    made = ast.ClassDef("Client", bases=[], keywords=[], body=body, decorator_list=[])
    text = ast.unparse(ast.fix_missing_locations(made))
    ours = f"from inorder.sync.pending import {PENDING}", f"from inorder.sync.reading import {NOTIFICATIONS}"
    imports = [*_imports(tree, text), *ours]
    return _formatted(HEAD + "\n".join(imports) + "\n\n" + text + "\n")


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    arguments, returns = node.args, node.returns
    assert returns is not None
    if node.name != "__init__":
        kind = twin.kind_of(getattr(inorder.Client, node.name))
        if kind == "waits":
            arguments.kwonlyargs.append(ast.arg("timeout", ast.parse("float | None", mode="eval").body))
            arguments.kw_defaults.append(ast.Constant(None))
        elif kind == "publishes":
            returns = ast.Name(PENDING)
        elif kind == "iterates":
            assert isinstance(returns, ast.Subscript)
            returns = ast.Subscript(ast.Name(NOTIFICATIONS), returns.slice)
    return ast.FunctionDef(node.name, arguments, [ast.Expr(ast.Constant(...))], [], returns)  # type: ignore[call-overload, no-any-return, unused-ignore]


def _imports(tree: ast.Module, text: str) -> list[str]:
    """Return the source's imports of what the stub mentions, and of what the source defines itself."""
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} | {"Self"}
    lines = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [each for each in node.names if (each.asname or each.name) in used]
            if names:
                node.names = names
                lines.append(ast.unparse(node))
    defined = {
        name
        for node in tree.body
        for name in (
            [node.name] if isinstance(node, ast.ClassDef)
            else [each.id for each in node.targets if isinstance(each, ast.Name)] if isinstance(node, ast.Assign)
            else []
        )
    }  # fmt: skip
    own = sorted((defined & used) - {"Client"})
    return [*lines, *([f"from inorder.client.client import {', '.join(own)}"] if own else [])]


def _formatted(text: str) -> str:
    """Have ruff sort and format it, as the check asks for."""
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        run = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(run, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    TARGET.write_text(stub())
