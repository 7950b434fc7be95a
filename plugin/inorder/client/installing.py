"""Replacement of a library's classes by ours, for other libraries that import the originals."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType

from inorder.errors import UsageError

Replacements = Mapping[str, Mapping[str, object]]
"""By the library's module: its names, and what they stand for from now on."""
MAX_NAMED = 3
OUR_PACKAGES = ("inorder", "inorder_adapters", "inorder_bench")
"""They mean the library's own where they name it."""


def install(replacements: Replacements, *, force: bool) -> None:
    """Replace names in a library's imported modules.

    Args:
        force: also where modules have taken some of the library's own classes before, which go on with these.

    Raises:
        UsageError: without ``force``, some have; nothing was replaced. The message names them.
    """
    replaced = [
        (module, name, ours)
        for module_name, names in replacements.items()
        for module in [sys.modules[module_name]]
        for name, ours in names.items()
        if vars(module).get(name) is not ours
    ]
    taken = [] if force else _taken([vars(module)[name] for module, name, _ in replaced], replacements)
    if taken:
        more = f" and {len(taken) - MAX_NAMED} more" if len(taken) > MAX_NAMED else ""
        raise UsageError(
            f"install() comes too late: {', '.join(taken[:MAX_NAMED])}{more} already; call it before they are"
            " imported, or with force=True where they need no order"
        )
    for module, name, ours in replaced:
        setattr(module, name, ours)


def _taken(stock: list[object], replacements: Replacements) -> list[str]:
    """Name the modules that have imported the library's own classes, or derived classes from them."""
    packages = {*OUR_PACKAGES, *(each.partition(".")[0] for each in replacements)}
    originals = {id(each): each for each in stock}
    found = []
    for module_name, module in sorted(sys.modules.items()):
        if isinstance(module, ModuleType) and module_name.partition(".")[0] not in packages:
            for value in list(vars(module).values()):
                if id(value) in originals or _is_derived(value, stock, module_name):
                    found.append(f"{module_name} has {getattr(value, '__module__', '')}.{_name(value)}")
                    break
    return found


def _is_derived(value: object, stock: list[object], module_name: str) -> bool:
    """Tell whether a class is of this module and derives from one of the library's own."""
    return (
        isinstance(value, type)
        and value.__module__ == module_name
        and any(base is each for base in value.__mro__ for each in stock)
    )


def _name(value: object) -> str:
    return str(getattr(value, "__qualname__", value))
