"""paho's one-shot helpers with our client."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from inorder import paho as ours


def rebound(module: ModuleType) -> dict[str, Any]:
    """Return the names of a paho module with its functions bound to a namespace in which ``paho`` is our module: paho's
    own code then makes our clients."""
    namespace = dict(vars(module))
    namespace["paho"] = ours
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            function = FunctionType(value.__code__, namespace, name, value.__defaults__, value.__closure__)
            function.__kwdefaults__, function.__doc__ = value.__kwdefaults__, value.__doc__
            function.__annotations__ = value.__annotations__
            namespace[name] = function
    return namespace
