"""Scratch files and folders: gone with their process, however that ends, and never somebody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from inorder.scratch import Scratch, unfinished

_HOLDS = """
import sys, time
from pathlib import Path
from inorder.scratch import Scratch, unfinished
scratch = Scratch("there-")
(scratch.path / "large").write_text("x")
with unfinished(Path(sys.argv[1])) as file:
    print("holds", flush=True)
    time.sleep(3600)
"""


def test_what_a_killed_process_has_left_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what a living one has, nor what merely has a similar name."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    out, others = tmp_path / "out.html", tmp_path / ".out.html.other.tmp"
    others.write_text("kept")
    command = [sys.executable, "-c", _HOLDS, str(out)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds\n"
        held = sorted(each.name for each in tmp_path.iterdir())
        assert len(held) == 3
        ours = Scratch("there-")
        with unfinished(out) as file:
            file.write(b"ours")
        ours.remove()
        assert sorted(each.name for each in tmp_path.iterdir()) == sorted([*held, "out.html"])
        process.send_signal(signal.SIGKILL)
    assert len(list(tmp_path.iterdir())) == 4
    ours = Scratch("there-")
    with pytest.raises(ZeroDivisionError), unfinished(out) as file:
        file.write(b"%d" % (1 // 0))
    ours.remove()
    left = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert left == {"out.html": "ours", others.name: "kept"}
