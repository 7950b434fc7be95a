"""Declaration of settings: fields of a section with default, description and allowed values.

Everything that gives settings, programs as well as flags, variables and files, makes sections of them. So a value is
read and checked in one place, and refused in the same words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from math import isfinite
from pathlib import Path
from typing import Any

from inorder.errors import InvalidOption
from inorder.masking import display
from inorder.settings.texts import is_address, is_broker

SECONDS = "a number of seconds over 0"
SECONDS_OR_NEVER = f"{SECONDS}, or 0 for never"
Reader = Callable[[Any], Any]
"""Makes a value of what was given. Raises ValueError, TypeError or OverflowError."""
_FLAGS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True)
class Setting:
    """The properties of a setting beside its name, type and default.

    Attributes:
        words: what it means.
        allowed: what is allowed.
        read: makes its value.
        of_text: returns what a text stands for that a variable has, or a file in a value's place.
        flag: the command line's name for it, where it is not the setting's own.
    """

    words: str
    allowed: str
    read: Reader
    of_text: Reader = str
    flag: str = ""

    def taken(self, found: Any) -> Any:
        """Return the value in a variable, a file or a flag; a value that is not allowed stays as it is."""
        try:
            return self.of_text(found) if isinstance(found, str) else found
        except (ValueError, KeyError):
            return found


class NotAllowed(ValueError):
    """One item of a list is not allowed. Attribute ``item``: which."""

    def __init__(self, item: Any) -> None:
        self.item = item
        super().__init__()


class Section:
    """A group of settings: a frozen dataclass of fields that this module's functions declare. Making one with a value
    that is not allowed raises InvalidOption."""

    def __post_init__(self) -> None:
        for each in declared(type(self)):
            given = getattr(self, each.name)
            if given is each.default:
                continue
            setting = setting_of(each)
            try:
                object.__setattr__(self, each.name, setting.read(given))
            except (ValueError, TypeError, OverflowError) as error:
                wrong = error.item if isinstance(error, NotAllowed) else given
                raise InvalidOption(each.name, display(each.name, wrong), setting.allowed) from None

    def __repr__(self) -> str:
        shown = (f"{each.name}={display(each.name, getattr(self, each.name))!r}" for each in declared(type(self)))
        return f"{type(self).__name__}({', '.join(shown)})"


def declared(section: type[Section]) -> tuple[Field[Any], ...]:
    """Return the settings of a section."""
    return fields(section)  # type: ignore[arg-type]  # all that are made are dataclasses


def setting_of(declaration: Field[Any]) -> Setting:
    """Return the properties of a setting."""
    known: Setting = declaration.metadata["setting"]
    return known


def values_of(section: Section, kind: type[Section]) -> dict[str, Any]:
    """Return the values of those settings of a section that another section has, too."""
    mine = {each.name for each in declared(type(section))}
    return {each.name: getattr(section, each.name) for each in declared(kind) if each.name in mine}


# -- how what was given is read ----------------------------------------------------------------------------------


def _any(_: str) -> bool:
    return True


def number_reader(kind: type[int] | type[float], fits: Callable[[Any], bool]) -> Reader:
    """Return a function that reads a finite number."""

    def read(given: Any) -> float:
        value = kind(given)
        if isinstance(given, (bool, str)) or value != given or not isfinite(value) or not fits(value):
            raise ValueError
        return value

    return read


def text_reader(fits: Callable[[str], bool]) -> Reader:
    """Return a function that reads a text."""

    def read(given: Any) -> str:
        if not isinstance(given, str) or not fits(given):
            raise ValueError
        return given

    return read


def list_reader(item: Reader, make: Callable[[Iterable[Any]], Sequence[Any]], least: int = 0) -> Reader:
    """Return a function that reads a list of items."""

    def read(given: Any) -> Sequence[Any]:
        if not isinstance(given, (list, tuple)) or len(given) < least:
            raise ValueError
        return make([read_item(each) for each in given])

    def read_item(given: Any) -> Any:
        try:
            return item(given)
        except NotAllowed:
            raise
        except (ValueError, TypeError, OverflowError):
            raise NotAllowed(given) from None

    return read


def words_of(text: str) -> list[str]:
    """Return the items of a list with blanks or commas between them."""
    return [word for word in re.split(r"[,\s]+", text) if word]


# -- what a setting may be ---------------------------------------------------------------------------------------


def setting(default: Any, words: str, allowed: str, read: Reader, of_text: Reader = str, flag: str = "") -> Any:
    """Declare a setting. ``None`` as its default means that it may be absent."""
    known = {"setting": Setting(words, allowed, read, of_text, flag)}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=known)
    return field(default=default, metadata=known)


def seconds(default: float, words: str) -> Any:
    """Declare a duration."""
    return number(default, words, SECONDS, lambda value: value > 0)


def seconds_or_never(default: float, words: str, allowed: str = SECONDS_OR_NEVER) -> Any:
    """Declare a duration for which 0 means off."""
    return number(default, words, allowed, lambda value: value >= 0)


def count(default: int, words: str) -> Any:
    """Declare a number of things, at least one."""
    return whole(default, words, "a whole number over 0", lambda value: value > 0)


def whole(default: int | None, words: str, allowed: str, fits: Callable[[int], bool]) -> Any:
    """Declare a whole number."""
    return setting(default, words, allowed, number_reader(int, fits), int)


def number(default: float | None, words: str, allowed: str, fits: Callable[[float], bool]) -> Any:
    """Declare a number."""
    return setting(default, words, allowed, number_reader(float, fits), float)


def port(default: int | None, words: str) -> Any:
    """Declare a TCP port to listen on."""
    return whole(default, words, "a port, 0 to 65535 (0: any free one)", lambda value: 0 <= value <= 65535)


def host(default: str, words: str) -> Any:
    """Declare an address to listen on."""
    return text(default, words, "a host name or IP address", bool)


def text(default: str | None, words: str, allowed: str, fits: Callable[[str], bool] = _any, flag: str = "") -> Any:
    """Declare a text."""
    return setting(default, words, allowed, text_reader(fits), flag=flag)


def choice(default: str, words: str, *names: str) -> Any:
    """Declare a choice of names."""
    return text(default, words, f"{', '.join(names[:-1])} or {names[-1]}", names.__contains__)


def pem_file(words: str) -> Any:
    """Declare a file of certificates or a key, which need not be there."""

    def read(given: Any) -> Path:
        if not given:
            raise ValueError
        return Path(given)

    return setting(None, words, "a path to a PEM file", read)


def switch(words: str) -> Any:
    """Declare a switch that is off by default."""

    def read(given: Any) -> bool:
        if not isinstance(given, bool):
            raise ValueError
        return given

    return setting(default=False, words=words, allowed="true or false", read=read,
                   of_text=lambda text: _FLAGS[text.lower()])  # fmt: skip


def texts(default: Sequence[str] | None, words: str, allowed: str, fits: Callable[[str], bool] = _any,
          least: int = 0, flag: str = "") -> Any:  # fmt: skip
    """Declare texts, at least ``least`` of them: a list if the default is one, else a tuple."""
    make = list if isinstance(default, list) else tuple
    return setting(default, words, allowed, list_reader(text_reader(fits), make, least), words_of, flag)


def brokers(default: Sequence[str], words: str, allowed: str, least: int = 0) -> Any:
    """Declare brokers: texts, or a table of space = URL."""
    read_texts = list_reader(text_reader(is_broker), tuple, least)

    def read(given: Any) -> Any:
        return read_texts([f"{space}={url}" for space, url in given.items()] if isinstance(given, Mapping) else given)

    return setting(default, words, allowed, read, words_of, "--broker")


def workers(default: Sequence[str], words: str, allowed: str, least: int = 0) -> Any:
    """Declare the addresses of workers."""
    return texts(default, words, allowed, is_address, least, "--worker")
