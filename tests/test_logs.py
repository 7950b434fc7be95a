"""Log lines: every call names its fields, and no value can forge one."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from inorder.logs import SELDOM, WRITTEN_AGAIN, JsonFormatter, bound, fields_of, logger, quoted

PLUGIN = Path(__file__).parent.parent / "plugin"
MODULES = sorted(
    path for part in ("inorder", "inorder_worker") for path in (PLUGIN / part).rglob("*.py") if path.name != "logs.py"
)
TEMPLATE = re.compile(r"event=[a-z_]+( [a-z_]+=(%[sdr]|0x%02X|[a-z_]+))*")
METHODS = {"debug": 0, "info": 0, "warning": 0, "error": 0, "exception": 0, "critical": 0, "log": 1}


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call of a module's logger in workers and clients."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in METHODS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in ("log", "_log")
            ):
                yield f"{path.name}:{node.lineno}", node


def test_every_line_is_made_of_fields() -> None:
    wrong, seen = [], 0
    for where, call in calls():
        assert isinstance(call.func, ast.Attribute)
        at = METHODS[call.func.attr]
        text = call.args[at]
        template = text.value if isinstance(text, ast.Constant) else None
        seen += 1
        if not (isinstance(template, str) and TEMPLATE.fullmatch(template)):
            wrong.append(f"{where}: {template!r} is not event=name field=%s ...")
        elif len(re.findall("%[sdr]|%02X", template)) != len(call.args) - at - 1:
            wrong.append(f"{where}: {template!r} has other fields than values")
    assert not wrong, "\n".join(["", *wrong])
    assert seen > 80, "the check found hardly any calls: has the loggers' name changed?"


def test_every_logger_quotes() -> None:
    """A module that took its logger from ``logging`` would let values run into each other."""
    for path in MODULES:
        assert "getLogger" not in path.read_text(), path.name


@pytest.mark.parametrize(
    "value",
    ["plain", "", "two words", 'say "x"', "a=b", "back\\slash", "line\nevent=forged", "\x1b[31m", "ü 😀", "\u2028"],
)
def test_a_value_comes_back_and_forges_nothing(value: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    log = logger("inorder.test_logs")
    log.addHandler(handler)
    try:
        log.warning("event=thing first=%s count=%d last=%s", value, 3, value)
    finally:
        log.removeHandler(handler)
    line = stream.getvalue()
    assert line.endswith("\n")
    assert len(line.splitlines()) == 1
    assert fields_of(line[:-1]) == {"event": "thing", "first": value, "count": "3", "last": value}


def test_a_text_of_others_has_no_fields() -> None:
    assert fields_of("Using selector: EpollSelector") is None
    assert fields_of("") is None
    assert quoted(None) == "None"


def test_json_lines() -> None:
    formatter = JsonFormatter()
    record = logging.LogRecord("inorder.worker", logging.WARNING, "x.py", 1, "event=lost name=%s", ('"a b"',), None)
    record.created, record.msecs = 0.25, 250.0
    assert json.loads(formatter.format(record)) == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "inorder.worker",
        "event": "lost",
        "name": "a b",
    }
    other = logging.LogRecord("asyncio", logging.INFO, "x.py", 1, "Using %s", ("epoll",), None)
    assert json.loads(formatter.format(other))["message"] == "Using epoll"


def test_json_lines_keep_their_own_fields_and_the_traceback() -> None:
    try:
        raise ValueError("broken")
    except ValueError as error:
        facts = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("inorder.worker", logging.ERROR, "x.py", 1, "event=stage_broken level=high", (), facts)
    line = json.loads(JsonFormatter().format(record))
    assert (line["level"], line["level_"]) == ("error", "high")
    assert "ValueError: broken" in line["traceback"]


def test_lines_of_strangers_are_written_seldom_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a kind in some seconds, with how many were left out, also those of other libraries; all others always."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    ours, theirs, written = logger("inorder.test.seldom"), logging.getLogger("test.seldom"), list[str]()
    bound(theirs.name)
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.getMessage())  # type: ignore[method-assign]
    for each in (ours, theirs):
        each.addHandler(handler)

    def say() -> list[str]:
        written.clear()
        for peer in "abc":
            ours.warning("event=x peer=%s", peer, extra=SELDOM)
            ours.warning("event=x peer=%s", peer, extra={"seldom": "other"})
            theirs.warning("what %s says is no HTTP\n", peer)
        ours.warning("event=usual")
        return written

    assert say() == ["event=x peer=a", "event=x peer=a", "what a says is no HTTP\n", "event=usual"]
    now += WRITTEN_AGAIN - 1
    assert say() == ["event=usual"]
    now += 1
    assert say() == [
        "event=x peer=a left_out=5", "event=x peer=a left_out=5", "what a says is no HTTP left_out=5", "event=usual",
    ]  # fmt: skip
    for each in (ours, theirs):
        each.removeHandler(handler)
