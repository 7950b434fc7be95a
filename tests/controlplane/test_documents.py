"""docs/CONTROLPLANE.md says what there is: settings, problems, routes."""

from __future__ import annotations

import re
from pathlib import Path

from inorder.settings.controlplane import ControlPlaneSection
from inorder.settings.declaring import declared
from inorder_controlplane.problems import KINDS
from inorder_controlplane.settings import ControlPlaneSettings

TEXT = (Path(__file__).parents[2] / "docs" / "CONTROLPLANE.md").read_text()


def table(heading: str) -> list[list[str]]:
    """The rows of the first table that begins with this heading."""
    lines = TEXT.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith(f"| {heading} |")) + 2
    rows = []
    while lines[at].startswith("|"):
        rows.append([cell.strip() for cell in lines[at].strip("|").split("|")])
        at += 1
    return rows


def test_every_setting_has_a_row() -> None:
    rows = {name: default for names, default, _ in table("setting") for name in re.findall(r"`(\w+)`", names)}
    assert set(rows) == {field.name for field in declared(ControlPlaneSection)}
    numbers = {name: rows[name] for name in ("session_ttl", "login_rate")}
    defaults = ControlPlaneSettings()
    section = ControlPlaneSection()
    assert numbers == {name: f"{getattr(section, name):g}" for name in ("session_ttl", "login_rate")}
    for name in (field.name for field in declared(ControlPlaneSection)):
        if name not in ("workers", "traces"):  # the command line knows where workers are, and whether it made the store
            assert getattr(defaults, name) == getattr(section, name), name


def test_every_problem_has_its_status() -> None:
    cells = [cell for row in table("problem") for cell in row]
    found = {
        slug: int(status)
        for names, status in zip(cells[::2], cells[1::2], strict=True)
        for slug in re.findall(r"`([\w-]+)`", names)
    }
    assert found == {slug: status.value for slug, (status, _) in KINDS.items()}
