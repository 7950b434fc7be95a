"""Docstrings begin with a sentence that needs no decoding (``docstrings`` says what a program can tell of that)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import docstrings
from tests.sizes import PROJECT


def test_no_docstring_must_be_decoded() -> None:
    assert list(docstrings.flawed(PROJECT)) == []


@pytest.mark.parametrize(
    ("docstring", "flaw"),
    [
        (
            "What a client has beside what it is: a configuration, which all that it makes has, too.",
            "begins with 'What'",
        ),
        ("Return what is left of it, which they that asked get", "does not end with a period"),
        ("Keep what it was told by those that it knows.", "has the pronouns what, it, those, that, it"),
        (f"Return {'very ' * 40}much.", "has 212 characters"),
    ],
)
def test_a_docstring_to_decode_is_found_by_name(tmp_path: Path, docstring: str, flaw: str) -> None:
    path = tmp_path / "plugin/inorder/client/one.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        f'class A:\n    def f(self):\n        """{docstring}\n\n        More, which is not read.\n        """\n'
    )
    ((found, text),) = docstrings.flawed(tmp_path)
    assert found == path.relative_to(tmp_path)
    assert text.startswith("A.f: ")
    assert flaw in text


@pytest.mark.parametrize(
    "docstring",
    [
        "A redis-py client's inorder configuration, shared by all objects that the client makes.",
        "Return the filter ``what`` of `it`, which the askers of ``those`` get. What follows is not read.",
        "Matches ``A-Z _ . ~`` in names.",
    ],
)
def test_a_plain_docstring_is_not_found(docstring: str) -> None:
    assert docstrings.flaws(docstring) == []
