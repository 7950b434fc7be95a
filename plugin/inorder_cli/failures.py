"""Exit codes, and one line on stderr for every failure."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

from inorder import errors


class ExitCode(IntEnum):
    """The command's exit codes, which ``inorder --help`` lists."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNKNOWN = 3
    TIMED_OUT = 124
    INTERRUPTED = 130
    BROKEN_PIPE = 141
    TERMINATED = 143


class CommandFailed(Exception):
    """A command ends with a message and an exit code, without a traceback."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        self.code = code
        super().__init__(message)


@contextmanager
def needs(extra: str, what: str) -> Iterator[None]:
    """Turn a failed import in this block into MissingExtra with ``what`` as the user of the extra. A library that is
    there and broken, or a fault in modules of our own, is said as it is: to install the extra would be no help."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("inorder"):
            raise
        raise errors.MissingExtra(what, extra) from None
    except errors.MissingExtra:
        raise errors.MissingExtra(what, extra) from None


# The base of typer's own usage errors. Older typers take it from click, newer ones bring it along, neither exports it.
ParsingError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

_FULL = "make room on its disk: move something else away, never a file of the store; workers go on by themselves then"
_HINTS: tuple[tuple[type[BaseException], str], ...] = (
    (errors.WorkerUnreachable, "start one with: inorder up; or name another with --worker host:port"),
    (errors.BrokerUnreachable, "is the broker running? name another with --broker URL"),
    (errors.Unauthorized, "see the user and password in the broker's URL, --broker"),
    (errors.VersionMismatch, "install the same release of inorder on both sides"),
    (errors.StoreReadOnly, "the worker must be able to write the file and its directory"),
    (errors.StoreRefused, errors.StoreRefused.HINT),
    (errors.StoreFull, _FULL),
    (errors.StoreUnreachable, "name the store with --store, as in --store sqlite:///inorder.db"),
)
_THERE = "try again in a moment, or name another with --worker host:port; the log of the one there may say more"
_SERVER_HINTS: tuple[tuple[type[BaseException], str], ...] = (
    (errors.StoreReadOnly, "the role in its URL must have all rights to its tables, and the server must take writes"),
    (errors.StoreFull, _FULL),
    (errors.StoreUnreachable, "is this the store? name another with --store postgresql://host/database"),
)
"""For a store on PostgreSQL, which has no files of ours; they go before the others."""


def report(error: BaseException, *, debug: bool = False) -> ExitCode:
    """Print a failure on stderr and return its exit code."""
    if debug:
        traceback.print_exception(error)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    code, text = _explained(error)
    if text:
        sys.stderr.write(f"error: {' '.join(text.split())}\n")
    return code


def _explained(error: BaseException) -> tuple[ExitCode, str]:
    match error:
        case KeyboardInterrupt() | typer.Abort():
            return ExitCode.INTERRUPTED, ""
        case BrokenPipeError():
            return ExitCode.BROKEN_PIPE, ""
        case CommandFailed():
            return error.code, str(error)
        case errors.InorderError():
            code = ExitCode.USAGE if isinstance(error, errors.UsageError) else ExitCode.FAILED
            return code, _hinted(_flagged(error))
        case OSError():
            return ExitCode.FAILED, str(error)
    if isinstance(error, ParsingError):
        return ExitCode.USAGE, _parsing_message(error)
    return ExitCode.FAILED, f"unexpected {type(error).__name__}: {error} (this is a bug; --debug shows where)"


_TOKEN_HINT = "give the worker's token with INORDER_CLIENT__TOKEN or --token"


# What clients and operators call their arguments, and which option of the command line they come from. (Settings say so
# themselves.)
_FLAGS = {name: f"--{name}" for name in ("ordering", "order", "qos", "retain", "space", "alpha", "beta", "traces")}
_FLAGS |= {"from_": "--from", "window_s": "--window"}


def _flagged(error: errors.InorderError) -> errors.InorderError:
    """Return an error about an argument as an error about the option that the user typed."""
    if isinstance(error, errors.InvalidOption) and error.option in _FLAGS:
        return errors.InvalidOption(_FLAGS[error.option], error.value, error.allowed)
    return error


def _hinted(error: errors.InorderError) -> str:
    is_on_server = isinstance(error, errors.StoreError) and error.url.startswith("postgresql")
    hints = (*_SERVER_HINTS, *_HINTS) if is_on_server else _HINTS
    hint = next((hint for kind, hint in hints if isinstance(error, kind)), "")
    if isinstance(error, errors.PortInUse):
        hint = f"--{error.option.replace('_', '-')} 0 takes any free one"
    if isinstance(error, errors.WorkerUnreachable) and error.is_there:
        hint = _THERE
    if isinstance(error, errors.Unauthorized) and error.peer == "worker":
        hint = _TOKEN_HINT
    return f"{error} ({hint})" if hint else str(error)


def _parsing_message(error: Exception) -> str:
    message = getattr(error, "format_message", error.__str__)()
    if not message:  # no arguments at all: the help was printed
        return ""
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "inorder"
    return f"{message} (see {command} --help)"
