"""How many connections there may be, and who goes when there are too many."""

from __future__ import annotations

import resource
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import FastAPI

from inorder.client.configured import tls_context as to_workers
from inorder.errors import InvalidOption
from inorder.listening import MOST, RESERVED, Doors, places, raise_open_files
from inorder.testing.services.tls import Certificates
from inorder.worker.settings import WorkerSettings
from inorder_adapters.url_options import tls_context as to_brokers
from inorder_controlplane.serving import Service
from inorder_controlplane.settings import ControlPlaneSettings


def test_the_oldest_stranger_makes_room() -> None:
    doors = Doors[str](3)
    assert [doors.came(each) for each in "abcd"] == [None, None, None, "a"]
    assert doors.knows("b")
    assert doors.came("e") == "c"
    assert doors.came("d") is None  # it has been served, and waits anew
    assert doors.came("f") == "e"
    doors.left("b")
    assert doors.came("g") is None


def test_the_last_places_are_for_those_who_are_needed() -> None:
    doors = Doors[str](4, spare=1)
    for each in "abcd":
        doors.came(each)
    assert [doors.knows(each) for each in "abc"] == [True, True, True]
    assert doors.knows("a")
    assert not doors.knows("d")
    assert doors.knows("d", is_needed=True)
    assert doors.came("e") == "e"
    assert len(doors) == 4


@pytest.mark.parametrize(
    ("limit", "found"), [(300, 177), (RESERVED + 1, 2), (0, 2), (resource.RLIM_INFINITY, MOST), (2**40, MOST)]
)
def test_places_leave_files_for_the_rest(monkeypatch: pytest.MonkeyPatch, limit: int, found: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert places(0.75) == found


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [((1024, 4096), 4096), ((1024, -1), 2 * MOST), ((1024, 2**30), 2 * MOST), ((2**20, 2**20), None), ((-1, -1), None)],
)
def test_a_process_may_raise_what_it_may_have_open(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: int | None
) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: told.append(given))
    raise_open_files()
    assert told == ([] if wanted is None else [(wanted, limits[1])])


def of_worker(cert: Path, key: Path) -> ssl.SSLContext | None:
    return WorkerSettings(tls_cert=cert, tls_key=key).ssl_context()


def of_peers(cert: Path, key: Path) -> ssl.SSLContext | None:
    return WorkerSettings(tls_cert=cert, tls_key=key).peer_ssl_context()


def of_control_plane(cert: Path, key: Path) -> ssl.SSLContext | None:
    service = Service(FastAPI(), ControlPlaneSettings(port=0, tls_cert=cert, tls_key=key))
    service.close()
    return service.tls_context()


def of_client(cert: Path, key: Path) -> ssl.SSLContext:
    return to_workers(None, cert, key)


def of_broker(cert: Path, key: Path) -> ssl.SSLContext:
    return to_brokers(ca=None, cert=str(cert), key=str(key), insecure=False)


@pytest.mark.parametrize("made", [of_worker, of_peers, of_control_plane, of_client, of_broker])
def test_nobody_is_asked_for_a_pass_phrase(
    made: Callable[[Path, Path], ssl.SSLContext | None], capfd: pytest.CaptureFixture[str]
) -> None:
    """OpenSSL would ask on the terminal, and everything that the event loop does would wait for the answer."""
    with Certificates() as files:
        locked = files.key.with_name("locked.key")
        command = ["openssl", "pkey", "-in", str(files.key), "-aes128", "-passout", "pass:secret", "-out", str(locked)]
        subprocess.run(command, check=True, capture_output=True)
        with pytest.raises(InvalidOption, match=r"tls_cert.*without a pass phrase"):
            made(files.certificate, locked)
        assert made(files.certificate, files.key) is not None
    assert "pass phrase" not in "".join(capfd.readouterr())
