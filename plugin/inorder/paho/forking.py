"""Clients in a forked child: without a connection, as theirs is the parent's, until they connect anew."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from typing import Any, Protocol


class Forked(Protocol):
    """What is told of a fork."""

    def in_child(self) -> None:
        """This process is a child: leave everything to the parent."""


_ALL: weakref.WeakSet[Any] = weakref.WeakSet()
_LOCKS = {type(make()): make for make in (threading.Lock, threading.RLock)}


def tell_of_forks(each: Forked) -> None:
    """Have an object told in children that it was forked, as long as it is used otherwise."""
    _ALL.add(each)


def renew_locks(owner: object) -> None:
    """Replace the locks of an object: a thread that is not here may have held them."""
    for name, value in list(vars(owner).items()):
        if type(value) in _LOCKS:
            setattr(owner, name, _LOCKS[type(value)]())


def _tell() -> None:
    for each in list(_ALL):
        with suppress(Exception):  # one must not keep the others from it
            each.in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell)
