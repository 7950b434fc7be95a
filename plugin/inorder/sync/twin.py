"""Derivation of a blocking twin from an asyncio class: its methods are made from the class's own.

A coroutine function becomes a method that waits, with a ``timeout``; one that returns an asyncio future, one that
returns a :class:`PendingPublish`; one that returns an asynchronous iterator, one that returns :class:`Notifications`;
any other is called on the event loop's thread.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from inorder.client.ens_link import EnsEvents
from inorder.client.workers import WorkerEvents
from inorder.sync._thread import THREAD
from inorder.sync.engine import Engine, Session
from inorder.sync.reading import Inbox, Notifications, taking

TwinT = TypeVar("TwinT", bound="type[Twin]")
Kind = Literal["waits", "publishes", "iterates", "calls"]

OF_ASYNCIO = frozenset({"hand_to", "send_now", *vars(EnsEvents), *vars(WorkerEvents)})
"""Methods that a blocking client does not have: what links and libraries that embed a client use."""
TIMEOUT_DOC = """

With ``timeout``, TimedOut is raised after so many seconds, and what was not done by then is cancelled."""


def kind_of(function: Callable[..., Any]) -> Kind:
    """Return the form that a public method has in the blocking twin."""
    if inspect.iscoroutinefunction(function):
        return "waits"
    returned = str(inspect.get_annotations(function).get("return", ""))
    if returned.startswith("asyncio.Future["):
        return "publishes"
    return "iterates" if returned.startswith("AsyncIterator[") else "calls"


def public_methods(source: type) -> dict[str, Callable[..., Any]]:
    """Return the methods of a blocking twin's source class, by name."""
    return {
        name: function
        for name, function in vars(source).items()
        if inspect.isfunction(function) and not name.startswith("_") and name not in OF_ASYNCIO
    }


class Twin:
    """The part of a blocking client that cannot be derived: its beginning and end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._session = Session(Engine(*args, **kwargs))

    @property
    def client_id(self) -> str:
        """The application's name at the workers."""
        return self._session.engine.client_id

    @property
    def incarnation(self) -> int:
        """The random number of this process's session (see event ids)."""
        return self._session.engine.incarnation

    def __repr__(self) -> str:
        return repr(self._session.engine)

    def __enter__(self) -> Self:
        """Connect, as ``async with`` does. Raises the same."""
        self._session.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        self._session.close()

    def close(self, *, timeout: float | None = None) -> None:
        """Finish open work (for at most ``close_timeout``), leave the brokers and end all iterators, also in other
        threads. Safe more than once, and from any thread. Raises TimedOut; it then goes on by itself."""
        self._session.close(timeout)

    def __del__(self) -> None:
        session = getattr(self, "_session", None)  # none where an argument was refused
        if session is not None and session.is_open:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)
            session.abandon()


def twin_of(source: type) -> Callable[[TwinT], TwinT]:
    """Add the blocking forms of another class's methods to a class, except for the class's own methods."""

    def decorate(twin: TwinT) -> TwinT:
        for name, function in public_methods(source).items():
            if not hasattr(twin, name):
                setattr(twin, name, _described(_MAKE[kind_of(function)](name, function), function, twin))
        twin.__signature__ = inspect.signature(source)  # type: ignore[attr-defined]
        return twin

    return decorate


def _described(method: Callable[..., Any], function: Callable[..., Any], twin: type) -> Callable[..., Any]:
    """Copy signature and documentation to a derived method."""
    functools.update_wrapper(method, function, ("__name__", "__doc__"), ())
    signature, waits = inspect.signature(function), kind_of(function) == "waits"
    if waits:
        timeout = inspect.Parameter("timeout", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="float | None")
        signature = signature.replace(parameters=[*signature.parameters.values(), timeout])
        method.__doc__ = (inspect.getdoc(function) or "") + TIMEOUT_DOC
    method.__signature__ = signature  # type: ignore[attr-defined]
    method.__module__, method.__qualname__ = twin.__module__, f"{twin.__qualname__}.{function.__name__}"
    del method.__wrapped__  # type: ignore[attr-defined]
    return method


def _waiting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Twin, *args: Any, timeout: float | None = None, **kwargs: Any) -> Any:
        return self._session.wait(name, args, kwargs, timeout)

    return method


def _publishing(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Twin, *args: Any, **kwargs: Any) -> Any:
        self._session.check()
        return function(self._session.engine, *args, **kwargs)  # on this thread; the engine has it cross over

    return method


def _iterating(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Twin, *args: Any, **kwargs: Any) -> Any:
        engine = self._session.engine
        items = self._session.call(getattr(engine, name), *args, **kwargs)
        inbox: Inbox[Any] = engine.inbox if engine.is_stream(items) else Inbox(THREAD, taking(items))
        return Notifications(inbox, self, self._session.check)

    return method


def _calling(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Twin, *args: Any, **kwargs: Any) -> Any:
        return self._session.call(getattr(self._session.engine, name), *args, **kwargs)

    return method


_MAKE = {"waits": _waiting, "publishes": _publishing, "iterates": _iterating, "calls": _calling}
