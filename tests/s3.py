"""A server of S3's protocol on loopback, in a process of its own: stop, kill and start it again. Its objects are in
memory, so that a new start has none."""

from __future__ import annotations

import getpass
import sys
from contextlib import suppress
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from inorder.testing.services.server import HOST, PING_SECONDS, Server

SECRET = "secret-of-the-store"


class S3Server(Server):
    """moto's server."""

    binary = "moto_server"
    package = "python3-moto"
    service_user = getpass.getuser()  # it needs our Python, which others may not read

    @property
    def url(self) -> str:
        """See :class:`~inorder.testing.services.server.Server`."""
        return f"http://{HOST}:{self.port}"

    def _find_program(self) -> str:
        return sys.executable

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(self.port)]

    def _ping(self) -> None:
        with urlopen(f"{self.url}/moto-api/", timeout=PING_SECONDS) as answer:
            answer.read()

    def make_bucket(self, name: str) -> None:
        """Make a bucket, if it is not there."""
        with suppress(HTTPError), urlopen(Request(f"{self.url}/{name}", method="PUT"), timeout=10) as answer:
            answer.read()

    def reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let whoever uses S3 come here, as it is told by its environment."""
        import s3fs

        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_CONFIG_FILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_ENDPOINT_URL", self.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        s3fs.S3FileSystem.clear_instance_cache()
