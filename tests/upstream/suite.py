"""What is to be known to run a library's own tests against our class in its place.

Each module of ``suites/`` has one suite as ``SUITE``. It imports this one relatively (``from ..suite import Suite``):
in the process of the tests ``tests`` is the library's own package. ``run --unswapped SUITE`` shows what fails with the
library itself, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Services:
    """Running servers, told to the tests.

    Attributes:
        environment: variables for the process of the tests.
        arguments: further arguments of pytest.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


@contextmanager
def no_services() -> Iterator[Services]:
    """None are needed: the tests bring their own."""
    yield Services()


@dataclass(frozen=True)
class Pass:
    """One run of some of the tests.

    Attributes:
        name: what is shown.
        tests: files, folders and node ids, relative to the source distribution.
        is_ordered: with a worker; else no workers are configured, and the library must behave as ever.
        not_applicable: why tests cannot pass by design, by node id or a pattern of them (as of ``fnmatch``, where ``[``
            stands for itself). They are not run. A pattern that no test matches is an error: it says something wrong.
        services: starts what the tests connect to.
        arguments: further arguments of pytest.
        timeout: s, for all of them.
    """

    name: str
    tests: tuple[str, ...]
    is_ordered: bool = True
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    services: Callable[[], AbstractContextManager[Services]] = no_services
    arguments: tuple[str, ...] = ()
    timeout: float = 900.0


@dataclass(frozen=True)
class Suite:
    """The tests of one library.

    Attributes:
        distribution: its name at the package registry; the version is the installed one.
        keep: what is unpacked of its source distribution: the tests and their configuration, never the library, which
            is the installed one.
        swap: puts our class where the tests import the library's from. Called before any of them is imported.
        passes: the runs.
    """

    distribution: str
    keep: tuple[str, ...]
    swap: Callable[[], None]
    passes: tuple[Pass, ...]
