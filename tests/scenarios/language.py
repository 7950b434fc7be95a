"""The language of the scenarios: which lines there are, and what is said about one that is not.

A verb is a pattern of words. Words in capitals stand for one word (``CLIENT``, ``EVENT``) or for the rest of the line
(``TOPICS``, ``ITEMS``); a part in brackets may be left out. ``#`` at the beginning of a line or behind two spaces
starts a comment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

ONE = frozenset(["CLIENT", "EVENT", "TOPIC", "STAGE", "NUMBER", "NAME", "STATE", "REASON", "FROM", "TO"])
REST = frozenset(["TOPICS", "CLIENTS", "EVENTS", "ITEMS", "STAGES", "ENTRIES"])
_COMMENT = re.compile(r"(^|\s\s)#.*$")


class ScenarioError(Exception):
    """A line that cannot be read or done: the scenario is wrong."""


class ScenarioFailed(AssertionError):
    """An expectation that does not hold, or a promise that was broken: the core is wrong (or the expectation)."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One kind of line: its pattern, and what does it."""

    pattern: str
    regex: re.Pattern[str]
    does: Callable[..., None]

    @property
    def first(self) -> str:
        """The word that tells it from others: the first one that stands for itself."""
        return next(word for word in self.literals if word != "the")

    @property
    def literals(self) -> list[str]:
        """The words that stand for themselves."""
        return [word for word in re.findall(r"\w+", self.pattern) if word not in ONE | REST]


def compiled(pattern: str) -> re.Pattern[str]:
    """Return the expression that a pattern stands for."""
    parts = []
    for token in re.findall(r"\[[^]]*\]|\S+", pattern):
        optional = token.startswith("[")
        words = [_word(each) for each in token.strip("[]").split()]
        text = r"\s+".join(["", *words])
        parts.append(f"(?P<flag>{text})?" if optional else text)
    return re.compile("".join(parts).removeprefix(r"\s+"))


def _word(word: str) -> str:
    name = word.strip(":,")
    if name not in ONE | REST:
        return re.escape(word)
    kind = r".*?" if name in REST else r"[^\s:,]+"
    return re.escape(word).replace(name, f"(?P<{name.lower()}>{kind})")


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) without comments and empty lines."""
    for number, line in enumerate(text.splitlines(), start=1):
        bare = _COMMENT.sub("", line).strip()
        if bare:
            yield number, bare


def verb_of(line: str, verbs: Sequence[Verb]) -> tuple[Verb, dict[str, str]]:
    """Return the verb of a line and its arguments. Raises ScenarioError, with the lines that are allowed."""
    for verb in sorted(verbs, key=lambda each: -len(each.literals)):
        match = verb.regex.fullmatch(line)
        if match is not None:
            return verb, {name: value or "" for name, value in match.groupdict().items()}
    words = line.replace(":", " ").split()
    named = [each for each in verbs if each.first in words]
    if not named:
        close = {near for word in words for near in get_close_matches(word, [each.first for each in verbs])}
        named = [each for each in verbs if each.first in close] or list(verbs)
    raise ScenarioError(f"cannot read {line!r}; allowed:\n" + "\n".join(f"    {each.pattern}" for each in named))


def known(kind: str, name: str, names: Sequence[str]) -> str:
    """Return the name. Raises ScenarioError if there is nothing of that name, with what there is."""
    if name not in names:
        raise ScenarioError(f"there is no {kind} {name!r}; there is: {', '.join(names) or 'none yet'}")
    return name
