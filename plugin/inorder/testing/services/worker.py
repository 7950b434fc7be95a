"""An ordering worker in a process of its own, as operators run it."""

from __future__ import annotations

import os
import pwd
import re
import sys
from collections.abc import Sequence

from inorder.testing.services.server import HOST, Server

_STARTED = re.compile('event=started|"event": "started"')
"""What a worker logs when it takes work, as text or as JSON."""


class WorkerServer(Server):
    """An ``inorder worker`` process, which recovers from its store when it is killed and started again.

    Args:
        store: the store's URL; ``None``: an SQLite file in the server's folder, which lives as long as the context.
        args: further arguments of ``inorder worker``.
        port, start_timeout: see :class:`Server`.
    """

    binary = "python"
    package = "python3"

    def __init__(
        self,
        *,
        store: str | None = None,
        args: Sequence[str] = (),
        port: int | None = None,
        start_timeout: float = 30.0,
    ) -> None:
        super().__init__(port=port, start_timeout=start_timeout)
        self._store, self._args = store, tuple(args)
        # Our own code, so our own user: another one may not be able to read the Python it is installed in.
        self.service_user = pwd.getpwuid(os.geteuid()).pw_name

    @property
    def url(self) -> str:
        """Host and port in the form of ``Client(workers=[...])``."""
        return f"{HOST}:{self.port}"

    @property
    def store(self) -> str:
        """The URL of the store that the next start uses."""
        return self._store or f"sqlite:///{self.folder / 'inorder.db'}"

    def _find_program(self) -> str:
        return sys.executable

    def _command(self) -> list[str]:
        address = ["--host", HOST, "--port", str(self.port)]
        return [self.binary, "-m", "inorder", "worker", *address, "--store", self.store, *self._args]

    def _ping(self) -> None:
        # Its port answers before that, and tells clients that it is starting; a hello would need its token and TLS.
        if not _STARTED.search(self._log_of_start()):
            raise ConnectionRefusedError("the worker is starting")
