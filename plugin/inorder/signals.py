"""The effects of signals on a serving process: it ends cleanly, or reads its certificates again."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
from collections.abc import Callable
from typing import Final

HANGUP: Final = getattr(signal, "SIGHUP", None)
"""``None`` on Windows."""


def may_hang_up() -> bool:
    """Tell whether SIGHUP may end this process: the signal exists and is not ignored (``nohup``)."""
    return HANGUP is not None and signal.getsignal(HANGUP) is not signal.SIG_IGN


def on_signals(stop: Callable[[], object], renew: Callable[[], bool] = lambda: False) -> None:
    """Call ``stop`` on SIGTERM and Ctrl-C from now on, on the running event loop.

    SIGHUP calls ``renew``, which reads certificates again; where it returns that there are none, and where the terminal
    is gone from which we were started, ``stop`` is called. Whoever was started with SIGHUP ignored (``nohup``) is not
    stopped by it. Signals that end a process at once (SIGBUS, SIGSEGV) say on stderr where they met it.
    """
    if not faulthandler.is_enabled():
        with contextlib.suppress(RuntimeError, OSError, ValueError, AttributeError):  # there is no stderr
            faulthandler.enable()
    loop = asyncio.get_running_loop()
    had_terminal, may_stop = _has_terminal(), may_hang_up()

    def hang_up() -> None:
        is_cut_off = had_terminal and not _has_terminal()
        if (is_cut_off or not renew()) and may_stop:
            stop()

    with contextlib.suppress(NotImplementedError):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        if HANGUP is not None:
            loop.add_signal_handler(HANGUP, hang_up)


def stop_event(renew: Callable[[], bool] = lambda: False) -> asyncio.Event:
    """Return an event that is set on the signals of ``on_signals``."""
    stop = asyncio.Event()
    on_signals(stop.set, renew)
    return stop


def _has_terminal() -> bool:
    """Tell whether this process has a controlling terminal, which a closed one is no longer."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | getattr(os, "O_NOCTTY", 0)))
    except OSError:
        return False
    return True
