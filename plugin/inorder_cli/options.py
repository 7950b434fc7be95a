"""Options that several commands share, and the settings made from them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from inorder.settings.reading import Loaded

debugging = False
"""Whether ``--debug`` was given: failures then show their traceback."""


class Order(StrEnum):
    """The orders that a user can choose."""

    TOTAL = "total"
    FIFO = "fifo"
    NONE = "none"


def _debug(value: bool) -> None:
    global debugging
    debugging = debugging or value


CONNECTION = "Connection"
COMMON = "Common"

Brokers = Annotated[
    list[str] | None,
    typer.Option(
        "--broker",
        "-b",
        metavar="[SPACE=]URL",
        rich_help_panel=CONNECTION,
        help="Broker, such as mqtt://localhost:1883 or redis://localhost; again for more, each with a space of its own "
        "(plant=mqtt://..., office=redis://...).",
    ),
]
Workers = Annotated[
    list[str] | None,
    typer.Option(
        "--worker", "-w", metavar="HOST:PORT", rich_help_panel=CONNECTION, help="Ordering worker; again for more."
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TEXT",
        rich_help_panel=CONNECTION,
        help="Secret that the worker asks for. Better in INORDER_CLIENT__TOKEN or inorder.toml: other users of this "
        "machine can see flags.",
    ),
]
TlsCa = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca",
        metavar="FILE",
        rich_help_panel=CONNECTION,
        help="Talk TLS to the worker; its authority's certificate (PEM).",
    ),
]
ClientId = Annotated[
    str | None,
    typer.Option(
        "--client-id", metavar="TEXT", rich_help_panel=CONNECTION, help="Name of this client; else a random one."
    ),
]
Traces = Annotated[
    str | None,
    typer.Option(
        "--traces",
        metavar="DIR",
        rich_help_panel=CONNECTION,
        help="Record what happens to each event: a folder, or a URL of fsspec. INORDER_RUN names the run.",
    ),
]
Space = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", rich_help_panel=CONNECTION, help="The topics' space, where there are several brokers."
    ),
]
Topic = Annotated[str, typer.Argument(metavar="SPACE:TOPIC", help="A topic, with its space.")]
Topics = Annotated[list[str], typer.Argument(metavar="SPACE:TOPIC...", help="Topics, each with its space.")]
Qos = Annotated[int, typer.Option("--qos", "-q", min=0, max=2, help="MQTT quality of service.")]
Store = Annotated[str | None, typer.Option(metavar="URL", help="The store: sqlite:///FILE or postgresql://...")]
Timeout = Annotated[
    float, typer.Option("--timeout", "-W", min=0.1, metavar="SECONDS", help="How long it may take in all.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", rich_help_panel=COMMON, help="Settings file instead of inorder.toml."
    ),
]
Debug = Annotated[
    bool, typer.Option("--debug", callback=_debug, rich_help_panel=COMMON, help="Show the traceback of a failure.")
]


def group(name: str, help: str) -> typer.Typer:
    """Make a group of commands, such as ``inorder order``."""
    context = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(name=name, help=help, no_args_is_help=True, context_settings=context)


def settings(config: Path | None, flag_names: Mapping[str, str] | None = None, **sections: dict[str, Any]) -> Loaded:
    """Read all settings with a command's flags on top; ``flag_names`` has flags that differ from their settings' names.
    Raises InvalidSetting."""
    from inorder.settings.reading import load

    return load(
        {section: {key: _plain(value) for key, value in flags.items()} for section, flags in sections.items()},
        config=config,
        flag_names=flag_names,
    )


def _plain(value: Any) -> Any:
    """Return the values of a repeatable option; some typers give an empty list, others ``None``, for none."""
    if isinstance(value, list) and not value:
        return None
    return str(value) if isinstance(value, StrEnum) else value
