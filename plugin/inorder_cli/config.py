"""``inorder config``: all settings, with the origin of each value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inorder_cli import options, output

if TYPE_CHECKING:
    from inorder.settings.reading import Loaded


def config(
    section: Annotated[str | None, typer.Argument(help="Only this section, such as client or worker.")] = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Show every setting with its value and its origin. Secrets are masked.

    Origins: a flag, a variable (INORDER_WORKER__PORT), the file (inorder.toml, [worker], port = ...) or the default.
    """
    rows = list(_rows(options.settings(config)))
    sections = list(dict.fromkeys(row["name"].partition(".")[0] for row in rows))
    if section is not None and section not in sections:
        raise typer.BadParameter(f"unknown section {section!r}: allowed is {', '.join(sections)}")
    rows = [row for row in rows if section in (None, row["name"].partition(".")[0])]
    if json:
        output.emit({row["name"]: {"value": row["value"], "origin": row["origin"]} for row in rows})
    elif output.is_terminal():
        _print_table(rows)
    else:
        for row in rows:
            typer.echo(f"{row['name']} = {_text(row['value'])}  # {row['origin']}")
    return 0


def _rows(loaded: Loaded) -> Iterator[dict[str, Any]]:
    from inorder.masking import display
    from inorder.settings.reading import settings

    for section, key, setting in settings():
        name = f"{section}.{key}"
        value = display(name, getattr(getattr(loaded.settings, section), key))
        yield {"name": name, "value": value, "origin": loaded.origins[name], "help": setting.words}


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("setting", "value", "origin", "meaning", box=None, header_style="bold")
    for row in rows:
        origin = escape(row["origin"])
        style = "dim" if origin == "default" else "cyan"
        table.add_row(row["name"], escape(_text(row["value"])), f"[{style}]{origin}[/]", f"[dim]{row['help']}[/]")
    output.console().print(table)
