"""Command-line flags of settings, parsed and checked like the settings' variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

from inorder_cli import options

Command = Callable[..., int]
Flags = Mapping[str, Any]
"""By ``section.key``: metavar and help of its flag, or an option that others have, too. A switch has no metavar."""
WORKERS: Flags = {
    "client.workers": options.Workers,
    "client.token": options.Token,
    "client.tls_ca": options.TlsCa,
}
"""Of a command that talks to workers."""
READER: Flags = {"client.brokers": options.Brokers, **WORKERS}
"""Of a command that talks to brokers, too."""
CLIENT: Flags = {**READER, "client.client_id": options.ClientId, "client.traces": options.Traces}
"""Of a command that publishes or subscribes."""


def takes_settings(flags: Flags, names: Mapping[str, str] | None = None) -> Callable[[Command], Command]:
    """Give a command flags for settings, ``--config`` and ``--debug``. It is called with all settings, as ``loaded``,
    where it has that argument. ``names``: of flags that it calls otherwise than their settings."""
    calls = names or {}

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(config: options.Config, debug: options.Debug, **given: Any) -> int:
            sections: dict[str, dict[str, Any]] = {}
            for name in flags:
                section, _, key = name.partition(".")
                value = given.pop(_parameter(name))
                sections.setdefault(section, {})[key] = None if value is False else value
            return command(loaded=options.settings(config, names, **sections), **given)

        made: list[inspect.Parameter] = []
        for each in inspect.signature(command).parameters.values():
            if each.name == "loaded":
                made += [_flag(name, told, calls.get(name)) for name, told in flags.items()]
            else:
                made.append(each.replace(annotation=eval(each.annotation, command.__globals__)))
        made += [_optional("config", options.Config), _optional("debug", options.Debug, default=False)]
        run.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
        run.__annotations__ = {}  # typer looks at what the signature has
        return run

    return decorate


def _flag(name: str, told: Any, called: str | None) -> inspect.Parameter:
    if not isinstance(told, tuple):
        return _optional(_parameter(name), told)
    metavar, text = told
    flag = called or f"--{name.partition('.')[2].replace('_', '-')}"
    if not metavar:
        return _optional(_parameter(name), Annotated[bool, typer.Option(flag, help=text)], default=False)
    return _optional(_parameter(name), Annotated[str | None, typer.Option(flag, metavar=metavar, help=text)])


def _parameter(name: str) -> str:
    return name.replace(".", "_")


def _optional(name: str, annotation: Any, *, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
