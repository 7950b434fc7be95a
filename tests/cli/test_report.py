"""``inorder report``: one HTML file, written whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.analytics.traces import Trace, write
from tests.cli.conftest import Cli


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    trace = Trace().streams(x="a1 a2 a3", y="a1 a2 a3").arrive(x="a1 a2 a3", y="a2 a1 a3")
    return write(tmp_path / "traces", trace.rows)


def test_a_report_of_traces(cli: Cli, traces: Path) -> None:
    shown = cli("report", str(traces), "--out", "order.html", "--title", "A <quiet> day", "--window", "0.5")
    assert (shown.code, shown.out, shown.err) == (0, "", "the report is in order.html\n")
    text = Path("order.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "<title>A &lt;quiet&gt; day</title>" in text
    assert "<dt>Window</dt><dd>0.5 s</dd>" in text
    assert text.endswith("</html>\n")
    assert [each.name for each in Path().glob("*order*")] == ["order.html"]


def test_a_report_that_is_there_is_replaced(cli: Cli, traces: Path) -> None:
    Path("inorder-report.html").write_text("older")
    assert cli("report", str(traces)).code == 0
    assert "older" not in Path("inorder-report.html").read_text(encoding="utf-8")


def test_what_goes_wrong_is_said_and_leaves_nothing(cli: Cli, traces: Path) -> None:
    Path("kept.html").write_text("older")
    cli("report", "nowhere", "--out", "kept.html").assert_refused(2, "PATH", "nowhere")
    Path("other.json").write_text("[]")
    cli("report", "other.json", "--out", "kept.html").assert_refused(2, "other.json", "result of an analysis")
    assert Path("kept.html").read_text() == "older"
    cli("report", str(traces), "--out", "no/such/folder.html").assert_refused(
        2, "--out", "no/such/folder.html", "in a folder that exists"
    )
    Path("folder").mkdir()
    cli("report", str(traces), "--out", "folder").assert_refused(2, "--out", "'folder'", "Is a directory")
    assert sorted(each.name for each in Path().iterdir() if "folder" in each.name) == ["folder"]


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_read(cli: Cli) -> None:
    cli("report", "nowhere", "--out", "no/such/report.html").assert_refused(2, "--out")


def test_without_the_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; from inorder_cli.app import run; sys.exit(run(['report', '.']))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "pip install 'inorder[analytics]'" in ended.stderr
