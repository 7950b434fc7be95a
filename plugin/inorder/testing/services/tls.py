"""Certificates for tests: a throw-away authority and a server certificate for loopback, made by ``openssl``."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from inorder.testing.services.server import find_binary

_DAYS = 3650


class Certificates:
    """A certificate authority and a server certificate for ``localhost`` and 127.0.0.1.

    A context manager; made at once, removed at its end. Raises MissingBinary without ``openssl``.

    Attributes:
        ca: the authority's certificate (PEM), which clients are told to trust.
        certificate, key: the server's.
    """

    def __init__(self) -> None:
        openssl = find_binary("openssl", "openssl")
        self._folder = Path(tempfile.mkdtemp(prefix="inorder-tls-"))
        self.ca, self.certificate, self.key = (self._folder / name for name in ("ca.pem", "server.pem", "server.key"))
        try:
            self._make(openssl)
        except BaseException:
            self.close()
            raise

    def client_context(self) -> ssl.SSLContext:
        """Return a context that trusts this authority only."""
        return ssl.create_default_context(cafile=str(self.ca))

    def copy_to(self, folder: Path) -> None:
        """Copy the three files where the user that a server runs as can read them."""
        for path in (self.ca, self.certificate, self.key):
            shutil.copyfile(path, folder / path.name)
            (folder / path.name).chmod(0o600)

    def close(self) -> None:
        """Remove the files; safe more than once."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _make(self, openssl: str) -> None:
        ca_key = self._folder / "ca.key"
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        new = [openssl, "req", "-x509", *curve, "-nodes", "-days", str(_DAYS)]
        _run(*new, "-subj", "/CN=inorder test authority", "-keyout", ca_key, "-out", self.ca)
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        signed: list[str | Path] = ["-CA", self.ca, "-CAkey", ca_key, "-addext", "basicConstraints=critical,CA:FALSE"]
        _run(*new, "-subj", "/CN=localhost", *names, *signed, "-keyout", self.key, "-out", self.certificate)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
