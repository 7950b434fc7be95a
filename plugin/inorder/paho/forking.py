"""Clients in a forked child: the connection is the parent's, so the child's client starts unconnected."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from typing import Any, Protocol


class ForkAware(Protocol):
    """An object that is notified of forks."""

    def on_fork(self) -> None:
        """Leave everything to the parent, in a process that was just forked."""


_ALL: weakref.WeakSet[Any] = weakref.WeakSet()
_LOCKS = {type(make()): make for make in (threading.Lock, threading.RLock)}


def register_for_forks(each: ForkAware) -> None:
    """Register an object for :meth:`ForkAware.on_fork` as long as the object lives."""
    _ALL.add(each)


def renew_locks(owner: object) -> None:
    """Replace the locks of an object, which a thread of the parent may have held."""
    for name, value in list(vars(owner).items()):
        if type(value) in _LOCKS:
            setattr(owner, name, _LOCKS[type(value)]())


def _tell() -> None:
    for each in list(_ALL):
        with suppress(Exception):  # one must not keep the others from it
            each.on_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell)
