"""What is too long only gets shorter (``sizes.txt``; ``sizes`` has the limits, and says how lines are counted)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import sizes


def test_sizes_only_shrink() -> None:
    assert sizes.RATCHET.check(sizes.measure(sizes.PROJECT)) == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("module plugin/inorder/long.py", "x = 1\n" * 501),
        ("class plugin/inorder/long.py::A.B", "class A:\n  class B:\n" + "    x = 1\n" * 350),
        ("function plugin/inorder/long.py::A.f", "class A:\n  async def f():\n" + "    x = 1\n" * 60),
        ("function plugin/inorder/long.py::f", "if x:\n  def f():\n" + "    x = 1\n" * 60),
    ],
)
def test_what_is_too_long_is_found_by_name(tmp_path: Path, name: str, source: str) -> None:
    path = tmp_path / "plugin/inorder/long.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert name in sizes.measure(tmp_path)
    path.write_text(source.rstrip("\n").rpartition("\n")[0])
    assert name not in sizes.measure(tmp_path)


def test_the_list_of_what_is_too_long_is_kept_short() -> None:
    ratchet = sizes.RATCHET

    def said(lines: int | None, allowed: str) -> list[str]:
        return ratchet.problems({} if lines is None else {"class a.py::A": lines}, ratchet.read(allowed))

    assert said(403, "class a.py::A 410") == []
    assert said(403, "") == ["class a.py::A has 403 lines, and 350 at most are allowed: part it by meaning"]
    assert said(413, "class a.py::A 410") == [
        "class a.py::A has 413 lines, and tests/sizes.txt allows 410: let it not grow"
    ]
    assert said(400, "class a.py::A 410")[0].startswith("class a.py::A has 400 lines: tests/sizes.txt may say 400")
    assert said(None, "class a.py::A 410")[0].startswith("class a.py::A is gone, or within its limit of 350 lines")
    with pytest.raises(ValueError, match="twice"):
        ratchet.read("class a.py::A 410\nclass a.py::A 420")
    text = "# why\nclass a.py::A 410\nclass b.py::B 410\n"
    assert ratchet.lower(text, {"class a.py::A": 360}) == "# why\nclass a.py::A 360\n"
    assert ratchet.lower(text, {"class a.py::A": 500}) == "# why\nclass a.py::A 410\n"
