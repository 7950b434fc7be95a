"""``inorder traces``: the audit's exit codes, and what there is to see."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.analytics.test_audit import healthy, rows_of, swap
from tests.analytics.test_reading import TOPICS
from tests.analytics.traces import Trace, write
from tests.cli.conftest import Cli, Run, Start


def lines(shown: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown.out.splitlines()]


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write(tmp_path / "good", healthy().rows, per_file=7)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    trace = healthy()
    swap(rows_of(trace, "s2")[2], rows_of(trace, "s2")[3])
    return write(tmp_path / "bad", trace.rows)


# -- audit -----------------------------------------------------------------------------------------------------------


def test_all_is_well(cli: Cli, good: Path) -> None:
    shown = cli("traces", "audit", good, "--json")
    assert shown.code == 0, shown
    assert (shown.json["ok"], shown.json["violations"], shown.json["rows"]) == (True, [], 30)
    assert shown.json["verdict"] == "ok"
    text = cli("traces", "audit", good)
    assert text.code == 0
    assert text.out.endswith(f"{good}: 30 rows of 5 files; all is well\n")


def test_a_violation_is_named_with_its_events_and_subscribers(cli: Cli, bad: Path) -> None:
    shown = cli("traces", "audit", bad, "--json")
    assert shown.code == 1
    assert shown.json["ok"] is False
    (found,) = [each for each in shown.json["violations"] if each["rule"] == "TNO"]
    assert [(each["topic"], each["number"]) for each in found["events"]] == [("mqtt:a", 2), ("mqtt:b", 2)]
    assert found["subscribers"] == ["s1", "s2"]
    text = cli("traces", "audit", bad)
    assert text.code == 1
    assert "TNO s1 (strict) was notified of mqtt:a#2 ('p', 1, 3) before mqtt:b#2 ('q', 1, 4), s2 (strict)" in text.out


def test_wrong_usage(cli: Cli, good: Path) -> None:
    cli("traces", "audit", "nowhere").assert_refused(2, "nowhere", "a file or folder that exists")
    cli("traces", "audit", good, "--run", "other").assert_refused(2, "--run", "other")
    cli("traces", "show", "nosuch://x").assert_refused(2, "nosuch://x", "URL")


def test_damaged_files_are_named_and_no_violation(cli: Cli, good: Path) -> None:
    (good / "zero.parquet").touch()
    shown = cli("traces", "audit", good, "--json")
    assert shown.code == 0
    assert [Path(each["file"]).name for each in shown.json["files"]["damaged"]] == ["zero.parquet"]
    assert "zero.parquet: it is empty" in cli("traces", "audit", good).err


def test_nothing_that_could_be_judged_is_not_well(cli: Cli, tmp_path: Path) -> None:
    shown = cli("traces", "audit", ".", "--json")
    assert (shown.code, shown.json["rows"], shown.json["runs"]) == (3, 0, [])
    assert (shown.json["ok"], shown.json["verdict"]) == (False, "unknown")
    trace = Trace()
    trace.published("p", "a", 1, counter=1)
    path = write(tmp_path / "published", trace.rows)
    text = cli("traces", "audit", path)
    assert text.code == 3
    assert text.out.endswith("1 rows of 1 files; unknown: there is no notification to judge\n")
    (path / "000000.parquet").write_bytes(b"PAR1")
    assert cli("traces", "audit", path).code == 3
    assert shown.json["ordering_degree_delivered"] is None


# -- show, tail, stats -----------------------------------------------------------------------------------------------


def test_show_filters(cli: Cli, good: Path) -> None:
    def count(*flags: object) -> int:
        shown = cli("traces", "show", good, "--json", *flags)
        assert shown.code == 0
        return len(lines(shown))

    assert count() == 30
    assert count("--kind", "notified") == 12
    assert count("--kind", "notified", "--client", "s1", "--topic", "a") == 3
    assert count("--topic", "mqtt:a", "--number", "2") == 3
    assert count("--topic", "redis:a") == 0
    assert count("--run", "r") == 30
    assert count("--run", "other") == 0


def test_show_rows(cli: Cli, good: Path) -> None:
    (row,) = lines(cli("traces", "show", good, "--json", "--kind", "published", "--number", "2", "--topic", "a"))
    assert row["published_at"] == "2025-10-09T08:54:00.103000Z"
    assert (row["space"], row["topic"], row["number"], row["dependencies"]) == ("mqtt", "a", 2, [2, 1])
    assert "verdict" not in row
    text = cli("traces", "show", good, "--limit", 1)
    assert text.out == "2025-10-09T08:54:00.000000Z r p opened detail=strict\n"
    assert "--limit 0 shows all" in text.err
    assert cli("traces", "show", good, "--limit", 0).out.count("\n") == 30


def test_names_are_shown_exactly_and_drive_no_terminal(cli: Cli, tmp_path: Path) -> None:
    trace = Trace()
    for topic in [*TOPICS, "\x1b[2J"]:
        trace.row("gap", "c", space="mqtt", topic=topic, domain=1, topic_id=1, number=1, last_number=9)
    path = write(tmp_path / "names", trace.rows)
    assert [row["topic"] for row in lines(cli("traces", "show", path, "--json"))] == [*TOPICS, "\x1b[2J"]
    for topic in TOPICS:
        shown = lines(cli("traces", "show", path, "--json", "--topic", topic, "--number", "5"))
        assert [row["topic"] for row in shown] == [topic]
    assert "\x1b" not in cli("traces", "show", path).out
    assert cli("traces", "stats", path, "--json").json["topics"] == {f"mqtt:{each}": 1 for each in (*TOPICS, "\x1b[2J")}


def test_tail(cli: Cli, good: Path) -> None:
    shown = lines(cli("traces", "tail", good, "--json", "-n", "2"))
    assert [(row["client"], row["topic"], row["number"]) for row in shown] == [("s1", "b", 3), ("s2", "b", 3)]
    assert lines(cli("traces", "tail", good, "--json", "-n", "1", "--kind", "published"))[0]["number"] == 3
    assert lines(cli("traces", "tail", good, "--json", "-n", "0")) == []


def test_tail_follows_new_files(start: Start, good: Path) -> None:
    child = start("traces", "tail", good, "-f", "-n", "1", "--interval", "0.05", "--json")
    assert json.loads(child.line())["number"] == 3
    trace = Trace("later")
    trace.published("p", "c", 1)
    write(good / "later", trace.rows)
    assert json.loads(child.line())["run"] == "later"
    assert child.interrupt().code == 130


def test_stats(cli: Cli, good: Path) -> None:
    shown = cli("traces", "stats", good, "--json").json
    assert (shown["files"], shown["rows"], shown["dropped"], shown["damaged"]) == (5, 30, 0, [])
    assert shown["kinds"] == {"notified": 12, "published": 6, "clock": 4, "opened": 4, "subscribed": 4}
    assert shown["topics"] == {"mqtt:a": 11, "mqtt:b": 11}
    assert (shown["first"], shown["last"]) == ("2025-10-09T08:54:00.000000Z", "2025-10-09T08:54:00.206000Z")
    assert "client 's1': 10" in cli("traces", "stats", good).out


# -- generate, compact -----------------------------------------------------------------------------------------------


def test_generate_and_audit(cli: Cli) -> None:
    made = cli(
        "traces", "generate", "made", "--events", 200, "--subscribers", 3, "--violations", 2, "--seed", 4, "--json"
    )
    assert made.code == 0, made
    truth = json.loads(Path("made/_truth.json").read_text())
    assert truth == made.json
    assert (truth["events"], truth["planted"], truth["tno_violations_delivered"]) == (200, 2, 4)
    shown = cli("traces", "audit", "made", "--json")
    assert shown.code == 1
    assert (shown.json["tno_violations_delivered"], shown.json["events"]) == (4, 200)
    assert shown.json["tno_violations_raw"] == truth["tno_violations_raw"]
    again = cli("traces", "generate", "made")
    again.assert_refused(2, "OUT", "without traces")


def test_generate_in_order(cli: Cli) -> None:
    text = cli("traces", "generate", "made", "--events", 100, "--disorder", 0, "--runs", 2)
    assert text.code == 0, text
    assert cli("traces", "audit", "made").code == 0
    assert [run["run"] for run in cli("traces", "audit", "made", "--json").json["runs"]] == ["run-1", "run-2"]
    cli("traces", "generate", "/dev/null/x", "--events", 10).assert_refused(2, "/dev/null/x")


def test_compact(cli: Cli, good: Path) -> None:
    (good / "bad.parquet").write_bytes(b"PAR1")
    before = cli("traces", "show", good, "--limit", 0, "--json").out
    shown = cli("traces", "compact", good, "--out", "full", "--json")
    assert shown.code == 0, shown
    assert (shown.json["rows"], len(shown.json["sources"]), len(shown.json["files"])) == (30, 5, 1)
    assert (shown.json["removed"], len(list(good.glob("*.parquet")))) == (0, 6)
    assert cli("traces", "show", "full", "--limit", 0, "--json").out == before
    removed = cli("traces", "compact", good, "--out", "again", "--remove")
    assert removed.code == 0
    assert "30 rows of 5 files in 1 files; 5 originals were removed" in removed.out
    assert [path.name for path in good.glob("*.parquet")] == ["bad.parquet"]
    cli("traces", "compact", "full", "--out", "full/in").assert_refused(2, "--out", "apart")


def test_without_the_extra_the_hint_names_it() -> None:
    code = """
        import sys

        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("pyarrow", "fsspec", "numpy", "pyspark"):
                    raise ModuleNotFoundError(f"{name} is optional", name=name)

        sys.meta_path.insert(0, Missing())
        from inorder_cli.app import run
        sys.exit(run(["traces", "audit", "."]))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert run.returncode == 1, run
    assert "pip install 'inorder[analytics]'" in run.stderr
