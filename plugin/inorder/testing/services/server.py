"""One server process: it is found, started on a free port, waited for, and cleaned up in every case."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from inorder.errors import InorderError, LinkError

HOST = "127.0.0.1"

_START_ATTEMPTS = 5
_POLL_SECONDS = 0.005
PING_SECONDS = 0.5
"""How long one try to see whether a server is ready may take; something else on its port may never answer."""

_PORT_TAKEN = "address already in use"

# Reads until our end of its pipe closes. A line says that the server is gone already; the end of the pipe without one
# says that this Python process died without cleaning up (kill -9): then the server and its folder go too.
_WATCHER = 'trap "" INT TERM HUP; read -r _ && exit 0; kill -s KILL -- "-$1" 2>/dev/null; rm -rf -- "$2"'


class MissingBinary(InorderError):
    """A server program is not installed.

    Attributes:
        binary: the program that was looked for.
        install: the exact command line that installs it.
    """

    def __init__(self, binary: str, install: str) -> None:
        self.binary, self.install = binary, install
        super().__init__(f"{binary} is not installed; install it with: {install}")


class ServerFailed(LinkError):
    """A server did not start, or ended by itself. Attribute ``log``: what it wrote, in full."""

    def __init__(self, what: str, log: str) -> None:
        self.log = log
        tail = "\n".join(log.splitlines()[-20:])
        super().__init__(f"{what}; the end of its log:\n{tail}" if tail else f"{what}; it logged nothing")


class Server(ABC):
    """A server process on a loopback port, and the folder that holds its files.

    A context manager: entering starts it and returns when it is ready. All methods block (up to ``start_timeout``
    or, for :meth:`stop`, 10 s); from a coroutine call them with ``asyncio.to_thread``. When we are root the process
    runs as the service's own user (or as ``nobody``), never as root. Subclasses say what to run
    (:meth:`_command`), which files it needs (:meth:`_prepare`) and when it is ready (:meth:`_ping`).

    Args:
        port: the port to listen on; ``None`` takes a free one. :meth:`restart` keeps it.
        start_timeout: seconds that a start may take.
    """

    binary: ClassVar[str]
    package: ClassVar[str]
    service_user: str
    stop_signal: ClassVar[int] = signal.SIGTERM

    def __init__(self, *, port: int | None = None, start_timeout: float = 30.0) -> None:
        self._fixed_port = port
        self._port: int | None = port
        self._start_timeout = start_timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._log_begin = 0

    # -- what subclasses say ---------------------------------------------------------------------------------------

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command line; :attr:`port` and :attr:`folder` are set."""

    @abstractmethod
    def _ping(self) -> None:
        """Speak the server's protocol once. Raises OSError or ValueError while it is not ready."""

    def _prepare(self) -> None:  # noqa: B027 (most servers need files, not all)
        """Write the files that the server needs into :attr:`folder`; called before every start."""

    def _environment(self) -> dict[str, str]:
        """Return the environment that the server gets; ours, unless a subclass says otherwise."""
        return dict(os.environ)

    def _find_program(self) -> str:
        """Return the path of the program to run. Raises MissingBinary."""
        return find_binary(self.binary, self.package)

    def _is_passing_failure(self, log: str) -> bool:
        """Tell whether a start that ended with this log may succeed when it is tried again, on the same port."""
        return False

    @property
    @abstractmethod
    def url(self) -> str:
        """The URL for clients."""

    # -- what users see --------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        """The server's loopback port. Raises LinkError before the first start."""
        if self._port is None:
            raise LinkError(f"{self.binary} was not started yet")
        return self._port

    @property
    def pid(self) -> int:
        """The process id. Raises LinkError while it does not run."""
        if self._process is None:
            raise LinkError(f"{self.binary} is not running")
        return self._process.pid

    @property
    def folder(self) -> Path:
        """The folder of the server's files, removed at the context's end. Raises LinkError when there is none."""
        if self._folder is None:
            raise LinkError(f"{self.binary} has no folder: it was not started, or was closed")
        return self._folder

    @property
    def is_running(self) -> bool:
        """Tell whether the process runs now."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a process that ended by itself (negative: the signal), else ``None``."""
        return None if self._process is None else self._process.poll()

    def log(self) -> str:
        """Return everything the server wrote since its first start."""
        if self._folder is None:
            return ""
        return (self._folder / "log").read_text(errors="replace")

    def _log_of_start(self) -> str:
        """Return what the server wrote since its last start."""
        with (self.folder / "log").open("rb") as log:
            log.seek(self._log_begin)
            return log.read().decode(errors="replace")

    def start(self) -> Self:
        """Start the server and return it when it is ready.

        Raises MissingBinary, or ServerFailed with the server's log. Starting a running server does nothing.
        """
        if self.is_running:
            return self
        self.kill()  # what is left of one that ended by itself: else its watcher would remove the folder
        program = self._find_program()
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=f"inorder-{self.binary}-"))
        deadline = time.monotonic() + self._start_timeout
        try:
            self._start_on_some_port(program, deadline)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, timeout: float = 10.0) -> None:
        """Ask the server to end, and wait; one that does not end within ``timeout`` seconds is killed."""
        if self._process is not None and self.is_running:
            self._process.send_signal(self.stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """End the server at once (SIGKILL), as a crash would. Its files stay, so it can be started again."""
        if self._process is not None:
            if self.is_running:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None
        self._dismiss_watcher()

    def restart(self) -> None:
        """Stop the server if it runs and start it again on the same port, with the same files."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its folder; safe in every state and more than once."""
        self.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.is_running else "not running"
        return f"<{type(self).__name__} {HOST}:{self._port} {state}>"

    # -- starting --------------------------------------------------------------------------------------------------

    def _start_on_some_port(self, program: str, deadline: float) -> None:
        """Try until the server is ready; take another port when the one that seemed free was taken meanwhile."""
        attempts = 0
        while True:
            attempts += 1
            if self._port is None:
                self._port = free_port()
            log = self.folder / "log"
            self._log_begin = log.stat().st_size if log.exists() else 0
            self._prepare()
            self._launch(program)
            if self._becomes_ready(deadline):
                self._fixed_port = self._port
                return
            self.kill()
            new_log = self._log_of_start()
            is_port_taken = _PORT_TAKEN in new_log.lower()
            if is_port_taken and self._fixed_port is None and attempts < _START_ATTEMPTS:
                self._port = None
            elif not (self._is_passing_failure(new_log) and time.monotonic() < deadline):
                why = f"port {self._port} is in use" if is_port_taken else "it ended or was not ready in time"
                raise ServerFailed(f"{self.binary} did not start on {HOST}:{self._port}: {why}", new_log)

    def _launch(self, program: str) -> None:
        command = self._command()
        with (self.folder / "log").open("ab") as log:
            give_to_service_user(self.folder, self.service_user)
            self._process = subprocess.Popen(
                [program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environment(),
                start_new_session=True,  # Ctrl-C is for the test run, which then stops its servers in order
                **as_service_user(self.service_user),
            )
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHER, "watcher", str(self._process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _becomes_ready(self, deadline: float) -> bool:
        """Wait for a good ping while the process lives; a later ping would come from somebody else's server."""
        while self.is_running and time.monotonic() < deadline:
            try:
                self._ping()
            except (OSError, ValueError):
                time.sleep(_POLL_SECONDS)
            else:
                return self.is_running
        return False

    def _dismiss_watcher(self) -> None:
        if self._watcher is None:
            return
        # It may be gone already, killed with everything else.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._watcher.communicate(b"gone\n", timeout=5)
        self._watcher = None


def find_binary(binary: str, package: str, folders: Sequence[Path] = ()) -> str:
    """Return the path of a program, looking in ``folders`` first, then in PATH and the system's own folders.

    Raises MissingBinary, which holds the line that installs it.
    """
    system = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"])
    found = shutil.which(binary, path=os.pathsep.join([*map(str, folders), system]))
    if found is None:
        raise MissingBinary(binary, _install_line(package))
    return found


def _install_line(package: str) -> str:
    """Return the command that installs a package, named as Debian names it, on this machine."""
    if shutil.which("apt-get") is None and shutil.which("brew") is not None:
        return f"brew install {package.removesuffix('-server')}"
    return f"{'' if os.geteuid() == 0 else 'sudo '}apt-get install {package}"


def free_port() -> int:
    """Return a loopback port that nothing listens on.

    It lies below the range that the system gives to outgoing connections where there is room: a port of that range
    can be taken by any client while the server restarts, even by the client that keeps connecting to it.
    """
    for _ in range(200):
        port = _random_port()
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise LinkError("no free loopback port was found")


def _random_port() -> int:
    """Return a port to try; 0 lets the system choose."""
    lowest, ephemeral = 10_240, _first_ephemeral_port()
    # Not from the seeded generator: two test processes with one seed would fight for the same ports.
    return random.SystemRandom().randrange(lowest, ephemeral) if ephemeral - lowest > 1_000 else 0


@cache
def _first_ephemeral_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 49_152  # the range of RFC 6335, which macOS and the BSDs use


def give_to_service_user(folder: Path, user: str) -> None:
    """Let the user a server runs as own its folder; does nothing unless we are root."""
    if os.geteuid() != 0:
        return
    account = _account(user)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, account.pw_uid, account.pw_gid)


def as_service_user(user: str) -> dict[str, Any]:
    """Return the arguments for ``subprocess`` that drop root's privileges; none unless we are root."""
    if os.geteuid() != 0:
        return {}
    account = _account(user)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        return pwd.getpwnam("nobody")


def wait_until(condition: Callable[[], bool], *, what: str, timeout: float = 30.0) -> None:
    """Return as soon as a condition holds, which is asked again and again. Raises TimeoutError that names ``what``.

    An OSError of the condition counts as "not yet".
    """
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.suppress(OSError):
            if condition():
                return
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {timeout:g} s")
        time.sleep(_POLL_SECONDS)
