"""What is known of mistakes: what became of them in earlier runs, and which are none."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.making import Mutant

EQUIVALENT = Path(__file__).with_name("equivalent.txt")


class Results:
    """A file with a line for each mistake that was tried; an interrupted run goes on behind its last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._by = {(each["file"], each["digest"]): each["by"] for each in map(json.loads, lines)}

    def of(self, file: str, mutant: Mutant) -> str | None:
        """Return what noticed a mistake, "" if nothing did, ``None`` if it was not tried in the module as it is."""
        return self._by.get((file, _digest(mutant)))

    def add(self, file: str, mutant: Mutant, by: str, seconds: float) -> None:
        """Note what noticed a mistake."""
        self._by[file, _digest(mutant)] = by
        row = {"file": file, "line": mutant.lines[0], "name": mutant.name, "digest": _digest(mutant), "by": by}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as out:
            out.write(json.dumps({**row, "seconds": round(seconds, 2)}) + "\n")


def _digest(mutant: Mutant) -> str:
    return hashlib.sha256(mutant.source.encode()).hexdigest()[:16]


def equivalents(text: str) -> dict[str, set[str]]:
    """Return the names of mistakes that change nothing, by file: lines without, with one and with two indents."""
    found: dict[str, set[str]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            file = line
        elif not line.startswith("        "):
            found.setdefault(file, set()).add(line.strip())
    return found


@dataclass(slots=True)
class Score:
    """What became of the mistakes of a module."""

    noticed: int = 0
    equivalent: int = 0
    survivors: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        others = f", {self.equivalent} equivalent" if self.equivalent else ""
        return f"{self.noticed} of {self.noticed + len(self.survivors)}{others}"


def total(scores: Iterable[Score]) -> str:
    """Return one line for all modules."""
    sums: Counter[str] = Counter()
    for each in scores:
        sums += Counter(noticed=each.noticed, survived=len(each.survivors), equivalent=each.equivalent)
    counted = sums["noticed"] + sums["survived"]
    share = f"{100 * sums['noticed'] / counted:.1f} %" if counted else "none"
    return f"{sums['noticed']} of {counted} mistakes were noticed ({share}), {sums['equivalent']} more change nothing"
