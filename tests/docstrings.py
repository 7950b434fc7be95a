"""Docstrings that a reader must decode, as far as a program can tell (``python -m tests.docstrings`` names them).

The first sentence of a docstring ends with a period, is no longer than ``LONGEST`` characters, does not begin like a
clause without its main sentence, and makes a reader look back for no more than ``PRONOUNS`` words.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.sizes import PROJECT, definitions

FOLDERS = ("plugin", "adapters", "controlplane", "analytics")
LONGEST = 200
PRONOUNS = 2
_END = re.compile(r"[.?!](?=\s+[A-Z`(:\"'*])")
_BEGINNING = re.compile(
    r"(What|Who|Whoever|Whose|Whom|Which|Of|Where|When|That|How|Whether|Its?|They|Their|He|This|These|Those|There|Nothing|"
    r"Nobody|Somebody|Something|Everybody|Everything|Also|Behind|Within|As|So|For|From|Not|Now|Is|Are|If|In|By|To)\b"
)
_PRONOUN = re.compile(
    r"\b(it|itself|they|them|themselves|he|him|she|who|whom|whose|whoever|which|what|whatever|those|that)\b",
    re.IGNORECASE,
)


def first_sentence(docstring: str) -> str:
    text = " ".join(docstring.split("\n\n")[0].split())
    end = _END.search(text)
    return text[: end.end()] if end else text


def flaws(docstring: str) -> list[str]:
    """Return the reasons why the first sentence of a docstring must be decoded."""
    sentence = first_sentence(docstring)
    pronouns = _PRONOUN.findall(re.sub("`+[^`]*`+", "", sentence))
    beginning = _BEGINNING.match(sentence)
    found = {
        "does not end with a period": not sentence.endswith("."),
        f"has {len(sentence)} characters": len(sentence) > LONGEST,
        f"begins with {beginning and beginning[0]!r}": beginning,
        f"has the pronouns {', '.join(pronouns)}": len(pronouns) > PRONOUNS,
    }
    return [text for text, is_so in found.items() if is_so]


def flawed(project: Path) -> Iterator[tuple[Path, str]]:
    """Yield the docstrings that must be decoded: the module, and the name with its flaws."""
    for path in sorted(path for folder in FOLDERS for path in (project / folder).rglob("*.py")):
        module = ast.parse(path.read_text())
        for name, node in (("module", module), *definitions(module)):
            docstring = ast.get_docstring(node)
            if docstring and (found := flaws(docstring)):
                yield path.relative_to(project), f"{name}: {'; '.join(found)}"


def main() -> int:
    found = [f"{path} {text}" for path, text in flawed(PROJECT)]
    print("\n".join(found))  # noqa: T201
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
