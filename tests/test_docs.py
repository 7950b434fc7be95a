"""What README.md and docs/*.md show is true: their code blocks are run, their commands exist.

The convention is described in CONTRIBUTING.md: a ``<!-- run -->`` comment above a Python block has it run as a script
against real servers, ``<!-- run until "TEXT" -->`` ends it when it has printed TEXT. Every other Python block must be
well formed and use only names that inorder has; every ``inorder`` or ``make`` command in a shell block must exist, with
all of its options. Links lead to files and headings that there are.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner

from inorder.settings.reading import SECTIONS
from inorder.testing.services import Mosquitto, RedisServer, WorkerServer
from inorder.traces.options import Traces
from inorder_cli.app import app

PROJECT = Path(__file__).parent.parent
RUN_SECONDS = 60
SHELLS = ("console", "sh", "bash", "shell")
FENCE = re.compile(
    r"(?:^[ ]*<!-- run(?P<run> until \"(?P<until>[^\"]+)\")? -->[ ]*\n+)?"
    r"^(?P<indent>[ ]*)```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^[ ]*```[ ]*$",
    re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"^[ ]*<!--\s*run\b.*?-->", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        where: file and line of its fence, for messages.
        is_run: it is marked to be run.
        until: the text that ends its run; ``None``: it ends by itself.
    """

    where: str
    language: str
    code: str
    is_run: bool
    until: str | None


def find_blocks(path: Path, base: Path) -> list[Block]:
    """Return the blocks of a file. A mark that belongs to no Python block is an error, not a block that is not run."""
    text = path.read_text()
    blocks = []
    for match in FENCE.finditer(text):
        indent = len(match["indent"])
        lines = [line[indent:] for line in match["code"].splitlines()]
        line = text.count("\n", 0, match.start("language")) + 1
        is_run = match[0].lstrip().startswith("<!--")
        blocks.append(
            Block(f"{path.relative_to(base)}:{line}", match["language"], "\n".join(lines), is_run, match["until"])
        )
    marks = len(MARK.findall(text))
    runs = sum(block.is_run and block.language == "python" for block in blocks)
    assert marks == runs, f"{path.relative_to(base)}: {marks} run marks, but {runs} Python blocks right below one"
    return blocks


# -- shell commands ----------------------------------------------------------------------------------------------------


def find_commands(block: Block) -> Iterator[list[str]]:
    """Return the words of each command of a shell block; in a console block those behind a ``$`` prompt."""
    for line in block.code.replace("\\\n", " ").splitlines():
        if block.language == "console" and not line.startswith("$ "):
            continue
        words = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        for word in words:
            if word[0] in "|&;()<>":
                yield command
                command = []
            else:
                command.append(word)
        yield command


def problem_of(command: list[str]) -> str | None:
    """Say what is wrong with a command, if it is one of ours."""
    while command and re.fullmatch(r"\w+=.*", command[0]):
        command = command[1:]
    program = Path(command[0]).name if command else ""
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE)
        wrong = [word for word in command[1:] if "=" not in word and word not in targets]
        return f"make has no target {', '.join(wrong)}" if wrong else None
    if program != "inorder":
        return None
    words = [word for word in command[1:] if not word.startswith("-")]
    depth = 1
    name, known = " ".join(words[:1]), help_of(*words[:1])
    while known is not None and "COMMAND [ARGS]" in known and depth <= len(words):  # a group of commands
        depth += 1
        name, known = " ".join(words[:depth]), help_of(*words[:depth])
    if known is None:
        return f"inorder has no command {name}"
    options = [word.partition("=")[0] for word in command[1:] if re.match(r"--?[A-Za-z]", word)]
    wrong = [option for option in options if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", known)]
    return f"inorder {name} has no option {', '.join(wrong)}" if wrong else None


@cache
def help_of(*names: str) -> str | None:
    """Return the help text of a command of inorder; ``None`` if there is no such command."""
    wide = {"COLUMNS": "200", "TERMINAL_WIDTH": "200", "NO_COLOR": "1", "TERM": "dumb"}
    shown = CliRunner().invoke(app, [*names, "--help"], prog_name="inorder", env=wide)
    return shown.output if shown.exit_code == 0 else None


# -- Python blocks -----------------------------------------------------------------------------------------------------


def unknown_names(code: str) -> list[str]:
    """Return what a block takes from inorder that inorder does not have. Raises SyntaxError."""
    tree = compile(code, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
    used: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0].startswith("inorder"):
            used.update((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "inorder":
            used.add(("inorder", node.attr))
    return sorted(f"{module}.{name}" for module, name in used if not has_name(module, name))


def has_name(module: str, name: str) -> bool:
    try:
        if hasattr(importlib.import_module(module), name):
            return True
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True


def run_block(block: Block, code: str, folder: Path) -> None:
    """Run a block as a script; raises AssertionError with its output when it fails or does not end."""
    script = folder / "block.py"
    script.write_text(code)
    with subprocess.Popen(
        [sys.executable, "-u", str(script)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    ) as process:
        assert process.stdout is not None
        alarm = threading.Timer(RUN_SECONDS, process.kill)
        alarm.start()
        try:
            output, is_reached = read_until(process.stdout, block.until)
            if is_reached:
                process.terminate()
            code_of_exit = process.wait()
        finally:
            alarm.cancel()
            alarm.join()
            process.kill()
    wanted = f"print {block.until!r}" if block.until else "end with exit code 0"
    is_good = is_reached if block.until else code_of_exit == 0
    assert is_good, f"{block.where}: the block did not {wanted} (exit code {code_of_exit}); it printed:\n{output}"


def read_until(stream: IO[str], text: str | None) -> tuple[str, bool]:
    """Return what was printed up to the end, or up to ``text``, and whether that was reached."""
    output = ""
    for line in stream:
        output += line
        if text is not None and text in output:
            return output, True
    return output, False


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerServer]:
    with WorkerServer() as server:
        yield server


@pytest.fixture
def on_real_servers(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Replace the usual addresses in a block by those of servers that are started only when a block names them."""

    def replace(code: str) -> str:
        for pattern, fixture, kind in (
            (r"mqtt://localhost(?::1883)?\b", "mosquitto", Mosquitto),
            (r"redis://localhost(?::6379)?\b", "redis_server", RedisServer),
            (r"\blocalhost:7401\b", "worker", WorkerServer),
        ):
            if re.search(pattern, code):
                server = request.getfixturevalue(fixture)
                assert isinstance(server, kind)
                code = re.sub(pattern, server.url, code)
        return code

    return replace


# -- the documents -----------------------------------------------------------------------------------------------------

CODE = re.compile(r"^[ ]*```.*?^[ ]*```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
WITH_LINKS = sorted({*PROJECT.glob("*.md"), *(PROJECT / "docs").glob("**/*.md"), *(PROJECT / "tests").glob("**/*.md")})
DOCUMENTS = [path for path in (PROJECT / "README.md", PROJECT / "CONTRIBUTING.md") if path.exists()]
DOCUMENTS += sorted((PROJECT / "docs").glob("**/*.md"))
BLOCKS = [block for path in DOCUMENTS for block in find_blocks(path, PROJECT)]


def of(*languages: str, is_run: bool | None = None) -> list[object]:
    """Return the blocks of these languages as parameters, named by where they stand."""
    return [
        pytest.param(block, id=block.where)
        for block in BLOCKS
        if block.language in languages and is_run in (None, block.is_run)
    ]


def test_the_readme_shows_an_example_that_is_run() -> None:
    assert (PROJECT / "README.md").exists()
    assert [block.where for block in BLOCKS if block.is_run and block.where.startswith("README.md")], (
        "README.md has no Python block below a <!-- run --> mark"
    )


@pytest.mark.parametrize("block", of("python"))
def test_a_python_block_is_well_formed_and_uses_names_that_exist(block: Block) -> None:
    assert unknown_names(block.code) == [], block.where


@pytest.mark.parametrize("block", of("python", is_run=True))
def test_a_marked_block_runs(block: Block, on_real_servers: Callable[[str], str], tmp_path: Path) -> None:
    run_block(block, on_real_servers(block.code), tmp_path)


@pytest.mark.parametrize("block", of(*SHELLS))
def test_a_shown_command_exists(block: Block) -> None:
    problems = [problem for command in find_commands(block) if (problem := problem_of(command))]
    assert problems == [], block.where


def broken_links(path: Path) -> list[str]:
    """Return the links of a document that lead to no file, or to no heading, of this repository."""
    return [
        f"{target}#{anchor}" if anchor else target
        for target, anchor in LINK.findall(CODE.sub("", path.read_text()))
        if not (path.parent / target).exists()
        or (anchor and anchor not in headings_of(path.parent / target if target else path))
    ]


@cache
def headings_of(path: Path) -> frozenset[str]:
    """Return what GitHub makes of a document's headings, to be linked to."""
    titles = re.findall(r"^#+ (.+?)\s*$", CODE.sub("", path.read_text()), re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles)


@pytest.mark.parametrize("path", WITH_LINKS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_links_lead_somewhere(path: Path) -> None:
    assert broken_links(path) == []


# -- tables of settings ------------------------------------------------------------------------------------------------

DEFAULTS = re.compile(r"^\| (?:setting|key) \| default \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
TABLES: list[tuple[str, type[Any]]] = [
    ("CONTROLPLANE.md", SECTIONS["controlplane"]),
    ("MIGRATING.md", SECTIONS["client"]),
    ("OPERATIONS.md", SECTIONS["worker"]),
    ("OPERATIONS.md", SECTIONS["client"]),
    ("TRACES.md", Traces),
]


def wrong_defaults(table: str, kind: type[Any]) -> list[str]:
    """Return the settings of a table that are not declared, or have a default that the table does not say."""
    declared = {each.name: each.default if each.default is not MISSING else None for each in fields(kind)}
    wrong = []
    for named, told in re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", table, re.MULTILINE):
        names = re.findall(r"`(\w+)`", named)
        texts = [re.sub(r"`|(?<=\d),(?=\d)| s$", "", each) for each in told.split(", ")]
        for name, text in zip(names, texts * len(names) if texts == ["none"] else texts, strict=False):
            default = declared.get(name, "undeclared")
            value = default[0] if isinstance(default, tuple) and default else default
            shown = f"{value:.15g}" if type(value) in (int, float) else str(value or "none")
            if text != shown and not (shown == "none" and " " in text):
                wrong.append(f"{name}: {text}, is {shown}")
    return wrong


def test_tables_of_settings_say_the_defaults() -> None:
    texts = {name: (PROJECT / "docs" / name).read_text() for name, _ in TABLES}
    tables = [table for text in texts.values() for table in DEFAULTS.findall(text)]
    assert [each for table, (_, kind) in zip(tables, TABLES, strict=True) for each in wrong_defaults(table, kind)] == []


def test_wrong_defaults_are_found() -> None:
    table = "| `host`, `port` | 127.0.0.1, 8081 | x |\n| `gone` | 1 | |\n| `hosts`, `proxies` | none | |\n"
    assert wrong_defaults(table, SECTIONS["controlplane"]) == ["port: 8081, is 8080", "gone: 1, is undeclared"]


# -- the checks themselves can fail ------------------------------------------------------------------------------------

SAMPLE = """# Title

<!-- run -->
```python
print("plain")
```

1. In a list:

   <!-- run until "tick 2" -->

   ```python
   import itertools
   for number in itertools.count():
       print("tick", number)
   ```

```python
import inorder.nothing
```

```console
$ make demo | tee log
not a command
$ inorder \\
    demo
```
"""


def sample(tmp_path: Path, text: str = SAMPLE) -> list[Block]:
    (tmp_path / "sample.md").write_text(text)
    return find_blocks(tmp_path / "sample.md", tmp_path)


def test_blocks_are_found_with_their_marks(tmp_path: Path) -> None:
    blocks = sample(tmp_path)
    assert [(block.where, block.language, block.is_run, block.until) for block in blocks] == [
        ("sample.md:4", "python", True, None),
        ("sample.md:12", "python", True, "tick 2"),
        ("sample.md:18", "python", False, None),
        ("sample.md:22", "console", False, None),
    ]
    assert blocks[1].code.startswith("import itertools\nfor")
    assert list(find_commands(blocks[3])) == [["make", "demo"], ["tee", "log"], ["inorder", "demo"]]


@pytest.mark.parametrize(
    "mark", ["<!-- run -->\n\ntext", "<!-- run until tick -->", "<!--run-->", "<!-- run -->\n```sh"]
)
def test_a_mark_without_its_block_is_an_error(tmp_path: Path, mark: str) -> None:
    text = f"{mark}\n```\n" if mark.endswith("sh") else f"{mark}\n```python\npass\n```\n"
    with pytest.raises(AssertionError, match="1 run marks, but 0 Python blocks"):
        sample(tmp_path, text)


def test_blocks_that_work_pass(tmp_path: Path) -> None:
    for block in sample(tmp_path)[:2]:
        run_block(block, block.code, tmp_path)


@pytest.mark.parametrize(
    ("code", "until", "expected"),
    [
        ("raise SystemExit('sorry')", None, "did not end with exit code 0.*sorry"),
        ("print('tick 1')", "tick 2", "did not print 'tick 2'.*tick 1"),
        ("await 1", None, "'await' outside function"),
    ],
)
def test_a_block_that_fails_fails(tmp_path: Path, code: str, until: str | None, expected: str) -> None:
    with pytest.raises(AssertionError, match=f"(?s){expected}"):
        run_block(Block("sample.md:1", "python", code, True, until), code, tmp_path)


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# R1: a `rule`, kept\n\n```sh\n# no heading\n```\n")
    wrong = ["gone.md", "#nowhere", "other.md#no-heading", "other.md#r2"]
    right = ["other.md", "other.md#r1-a-rule-kept", "#here", "https://inorder.example/x#y", "."]
    (tmp_path / "a.md").write_text("# Here\n" + "".join(f"[x]({link})\n" for link in wrong + right))
    assert broken_links(tmp_path / "a.md") == wrong


def test_names_that_inorder_lacks_are_found() -> None:
    code = "import inorder\nfrom inorder.errors import InorderError, Nonsense\nawait inorder.Bogus()\n"
    assert unknown_names(code) == ["inorder.Bogus", "inorder.errors.Nonsense"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("make demo ARGS=x", None),
        ("make tea", "make has no target tea"),
        ("cat file", None),
        ("inorder --help", None),
        ("INORDER_X=1 .venv/bin/inorder demo --json", None),
        ("inorder frobnicate", "inorder has no command frobnicate"),
        ("inorder gaps frobnicate", "inorder has no command gaps frobnicate"),
        ("inorder gaps list --as void", "inorder gaps list has no option --as"),
        ("inorder demo --frobnicate=3 --json", "inorder demo has no option --frobnicate"),
    ],
)
def test_commands_that_do_not_exist_are_found(command: str, expected: str | None) -> None:
    assert problem_of(command.split()) == expected
