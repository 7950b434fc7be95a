"""Sources of settings: flags, then ``INORDER_*`` variables, then ``inorder.toml``, then defaults.

Every value knows its origin, and a wrong one is refused with its name, the value, what is allowed and where it was
found, before anything is started. A variable is named by section and key with two underscores between them
(``INORDER_WORKER__PORT``). Two, because Kubernetes sets ``INORDER_WORKER_PORT=tcp://...`` by itself in every pod
beside a service called inorder-worker.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, cast

from inorder.errors import InvalidOption, InvalidSetting
from inorder.settings.client import ClientSection
from inorder.settings.controlplane import ControlPlaneSection
from inorder.settings.declaring import Section, Setting, declared, setting_of
from inorder.settings.worker import StoreSection, WorkerSection

DEFAULT_FILE = "inorder.toml"
PREFIX = "INORDER_"
SectionT = TypeVar("SectionT", bound=Section)


@dataclass(frozen=True)
class Settings:
    """All settings."""

    client: ClientSection = field(default_factory=ClientSection)
    worker: WorkerSection = field(default_factory=WorkerSection)
    store: StoreSection = field(default_factory=StoreSection)
    controlplane: ControlPlaneSection = field(default_factory=ControlPlaneSection)


SECTIONS = {each.name: cast("type[Section]", each.default_factory) for each in fields(Settings)}


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings with the origin of every value.

    Attributes:
        settings: the values.
        origins: by ``section.key``: ``flag --port``, ``env INORDER_WORKER__PORT``, ``file inorder.toml``, ``default``.
    """

    settings: Settings
    origins: dict[str, str]

    @contextmanager
    def located(self, section: str) -> Iterator[None]:
        """Add the origin of the value to an InvalidOption from inside: a worker, a store or a client knows neither
        flags nor files. Raises InvalidSetting in its place."""
        try:
            yield
        except InvalidSetting:
            raise
        except InvalidOption as error:
            name, what = _setting_of(section, error.option)
            if name not in self.origins:
                raise
            raise InvalidSetting(what, error.value, error.allowed, self.origins[name]) from None


@dataclass(frozen=True)
class Source:
    """One source of settings.

    Attributes:
        values: what is there, by section and key, and not yet checked.
        origin: says for ``section.key`` what to call its place.
    """

    values: Mapping[str, Any]
    origin: Callable[[str], str]


def load(
    flags: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> Loaded:
    """Read and check all settings. Flags that are ``None`` were not given; ``flag_names`` has those that a command
    calls otherwise. Raises InvalidSetting."""
    if config is not None and not os.path.isfile(config):
        raise InvalidSetting("--config", str(config), "a readable TOML file", "no such file")
    names, known = flag_names or {}, {(section, key): setting for section, key, setting in settings()}
    given = {
        section: {key: known[section, key].taken(value) for key, value in values.items() if value is not None}
        for section, values in (flags or {}).items()
    }
    sources = (
        from_file(config),
        from_environment(environ),
        Source(given, lambda name: f"flag {names.get(name) or flag_name(name)}"),
    )
    for source in sources:
        for section in source.values.keys() - SECTIONS.keys():
            raise _unknown("section", section, list(SECTIONS), source.origin(section))
    origins = {f"{section}.{key}": "default" for section, key, _ in settings()}
    found = {section: read_section(section, kind, sources, origins) for section, kind in SECTIONS.items()}
    return Loaded(Settings(**cast("dict[str, Any]", found)), origins)


def read_section(name: str, kind: type[SectionT], sources: Sequence[Source], origins: dict[str, str]) -> SectionT:
    """Make a section from the sources, the last the strongest, and note each value's origin. Raises InvalidSetting."""
    known, values = {each.name: setting_of(each) for each in declared(kind)}, {}
    given: dict[str, Any] = {}
    for source in sources:
        found = source.values.get(name, {})
        if not isinstance(found, Mapping):
            raise InvalidSetting(name, None, "a table of keys", source.origin(name))
        for key, value in found.items():
            origin = origins[f"{name}.{key}"] = source.origin(f"{name}.{key}")
            if key not in known:
                raise _unknown("key", f"{name}.{key}", list(known), origin)
            given[key], values[key] = value, known[key].taken(value)
    try:
        return kind(**values)
    except InvalidOption as error:
        what = f"{name}.{error.option}"
        is_number = isinstance(error.value, int | float)  # which is shown as it is written
        value = given[error.option] if is_number else error.value
        raise InvalidSetting(what, value, error.allowed, origins[what]) from None


def from_environment(environ: Mapping[str, str] | None) -> Source:
    """Find ``INORDER_SECTION__KEY`` variables. Without two underscores a variable is not a setting."""
    found: dict[str, dict[str, str]] = {}
    for name, value in (os.environ if environ is None else environ).items():
        section, separator, key = name.removeprefix(PREFIX).lower().partition("__")
        if name.startswith(PREFIX) and separator:
            found.setdefault(section, {})[key] = value
    return Source(found, lambda name: f"env {PREFIX}{name.replace('.', '__').upper()}")


def from_file(config: Path | None) -> Source:
    """Find the file's settings; without an ``inorder.toml`` there are none. Raises InvalidSetting."""
    path = config or Path(DEFAULT_FILE)
    try:
        with open(path, "rb") as file:
            return Source(tomllib.load(file), lambda _: f"file {path}")
    except FileNotFoundError:
        return Source({}, str)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting("file", str(path), "TOML", str(error)) from None
    except OSError as error:
        raise InvalidSetting("file", str(path), "a readable TOML file", error.strerror or str(error)) from None


def settings() -> Iterator[tuple[str, str, Setting]]:
    """Yield section, key and declaration of every setting."""
    for section, kind in SECTIONS.items():
        yield from ((section, each.name, setting_of(each)) for each in declared(kind))


def flag_name(name: str) -> str:
    """Return the command line's name for a setting."""
    section, _, key = name.partition(".")
    own = next(setting.flag for at, each, setting in settings() if (at, each) == (section, key))
    return own or f"--{key.replace('_', '-')}"


def _setting_of(section: str, option: str) -> tuple[str, str]:
    """Return the setting of a worker's, a store's or a client's option, and its name for users."""
    if option == "store":
        return "store.url", "store.url"
    if option.startswith(("url", "option ", "broker")):  # inside of a broker's URL
        return "client.brokers", f"client.brokers: {option}"
    name = option if "." in option else f"{section}.{option}"
    return name, name


def _unknown(what: str, name: str, allowed: list[str], origin: str) -> InvalidSetting:
    close = get_close_matches(name.rpartition(".")[2], allowed, n=1)
    guess = f" (did you mean {close[0]}?)" if close else ""
    return InvalidSetting(name, None, f"one of {', '.join(allowed)}{guess}", origin, f"unknown {what}")
