"""Lists of exceptions to a limit, each with a number that may fall and never rise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple


class Ratchet(NamedTuple):
    """A list of exceptions, a name and a number in each line, which only gets shorter.

    Attributes:
        path: the list's file; ``python -m tests.NAME``, with the name of this file, lowers and removes what can be.
        unit: the unit of the numbers.
        advice: how to do without a new exception.
        limit_of: the limit of a name, which needs no line in the list.
    """

    path: Path
    unit: str
    advice: str
    limit_of: Callable[[str], int]

    def read(self, text: str) -> dict[str, int]:
        """Read the list. Raises ValueError for a line that is none, or that stands twice."""
        found: dict[str, int] = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                name, _, number = line.rpartition(" ")
                if name in found:
                    raise ValueError(f"{self.path.name} has {name} twice")
                found[name] = int(number)
        return found

    def problems(self, found: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
        """Return the names that have grown beyond the list, and the lines of the list that are not needed any more."""
        said = []
        for name in sorted({*found, *allowed}):
            number, most, limit = found.get(name), allowed.get(name), self.limit_of(name)
            named, list_ = f"{name} has {number} {self.unit}", f"tests/{self.path.name}"
            if number is None:
                said.append(f"{name} is gone, or within its limit of {limit} {self.unit}: take its line out of {list_}")
            elif most is None:
                said.append(f"{named}, and {limit} at most are allowed: {self.advice}")
            elif number > most:
                said.append(f"{named}, and {list_} allows {most}: let it not grow")
            elif self.rounded(number) < most:
                command = f"python -m tests.{self.path.stem}"
                said.append(f"{named}: {list_} may say {self.rounded(number)} ({command})")
        return said

    def lower(self, text: str, found: Mapping[str, int]) -> str:
        """Return the list's text with its numbers lowered as far as they go, without the lines that nobody needs."""
        lines = []
        for line in text.splitlines():
            if not line or line.startswith("#"):
                lines.append(line)
            elif (name := line.rpartition(" ")[0]) in found:
                lines.append(f"{name} {min(self.rounded(found[name]), int(line.rpartition(' ')[2]))}")
        return "\n".join([*lines, ""])

    def rounded(self, number: int) -> int:
        """Return the number rounded up to tens, so that a small change alters no line of the list."""
        return -(-number // 10) * 10

    def check(self, found: Mapping[str, int]) -> list[str]:
        """Return the problems of the list as it stands in its file."""
        return self.problems(found, self.read(self.path.read_text()))

    def turn(self, found: Mapping[str, int]) -> list[str]:
        """Lower the list's file, and return the problems that are left."""
        self.path.write_text(self.lower(self.path.read_text(), found))
        return self.check(found)
