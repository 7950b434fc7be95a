"""Plants a mistake in functions that are imported already: only their code is another one."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType


class Planter:
    """The functions of a module, wherever they are by now: in classes, properties, caches, other modules' names."""

    def __init__(self, path: Path) -> None:
        self.source = path.read_text()
        self._path = str(path)
        self._keys = [_key(each) for each in _functions(compile(self.source, self._path, "exec"))]
        self._live: dict[tuple[str, int], list[FunctionType]] = {}
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename == self._path:
                self._live.setdefault(_key(each.__code__), []).append(each)

    def plant(self, source: str) -> None:
        """Give all functions the code they have in another source of the module, that differs within functions only.

        Raises ValueError where a function does not use its class any more (``super()`` is left out).
        """
        codes = _functions(compile(source, self._path, "exec", dont_inherit=True))
        for key, code in zip(self._keys, codes, strict=True):
            for function in self._live.get(key, ()):
                function.__code__ = code


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of the functions of a module and of its classes, in order."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & inspect.CO_OPTIMIZED:
                yield each
            else:
                yield from _functions(each)
