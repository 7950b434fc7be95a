"""paho's one-shot helpers, run with our client instead of paho's."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from inorder import paho as ours


def rebound(module: ModuleType) -> dict[str, Any]:
    """Return what a module of paho's holds, its functions bound to a namespace in which ``paho`` is our module: they
    are paho's own, and the clients that they make are ours."""
    namespace = dict(vars(module))
    namespace["paho"] = ours
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            function = FunctionType(value.__code__, namespace, name, value.__defaults__, value.__closure__)
            function.__kwdefaults__, function.__doc__ = value.__kwdefaults__, value.__doc__
            function.__annotations__ = value.__annotations__
            namespace[name] = function
    return namespace
