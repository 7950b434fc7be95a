"""The payload form of the envelope: what is stripped, and what never is."""

from __future__ import annotations

import random
import sys
from zlib import crc32

import pytest

from inorder.errors import MissingExtra
from inorder.protocol.stamp import TotalStamp, decode_stamp, encode_stamp
from inorder.testing.ens_recorder import look_alikes
from inorder_adapters import mqtt, redis
from inorder_adapters.payload_form import MAX_STAMP_BYTES, join, protect, split, wire_payload
from inorder_adapters.stamp_property import MAX_PROPERTY_BYTES

STAMPS = [b"x", b"AZaz09_-", b"s" * MAX_STAMP_BYTES]
PAYLOADS = [b"", b"x", b"\n", bytes(range(256)), "caf\u00e9".encode(), *look_alikes()]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_is_joined_is_split(payload: bytes) -> None:
    for stamp in STAMPS:
        assert split(join(stamp, payload)) == (stamp, payload)


def test_the_frame_is_as_documented() -> None:
    crc = b"%08x" % crc32(b"stamppay\nload")
    assert join(b"stamp", b"pay\nload") == b"inorder/1 stamp " + crc + b"\npay\nload"


def test_the_frame_of_text_is_text() -> None:
    """B44."""
    head, _, tail = join(b"stamp", "caf\u00e9".encode()).decode().partition("\n")
    assert head.isascii()
    assert head.isprintable()
    assert tail == "caf\u00e9"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_is_protected_is_read_as_it_was(payload: bytes) -> None:
    """B28: also when it was protected before."""
    assert split(protect(payload)) == (None, payload)
    assert split(protect(protect(payload))) == (None, protect(payload))


def test_only_what_needs_it_is_protected() -> None:
    valid = join(b"s", b"x")
    for payload in PAYLOADS:
        is_frame = split(payload) != (None, payload)
        assert (protect(payload) == payload) is not is_frame
    assert protect(valid) != valid


def test_no_change_of_a_frame_goes_unseen() -> None:
    """Every byte of the head counts, and the payload is covered by the checksum."""
    frame = join(b"stamp", b"payload")
    for position in range(len(frame)):
        for change in (1, 0x20, 0x80):
            broken = bytearray(frame)
            broken[position] ^= change
            assert split(bytes(broken)) == (None, bytes(broken)), (position, change)
    for length in range(len(frame)):
        assert split(frame[:length]) == (None, frame[:length])


def test_random_bytes_come_back_whole() -> None:
    chance = random.Random(1)
    for _ in range(2_000):
        noise = b"inorder/1 "[: chance.randrange(11)] + chance.randbytes(chance.randrange(40))
        assert split(noise) == (None, noise)


@pytest.mark.parametrize("stamp", [b"", b" ", b"a b", b"a\n", b"a=", "\u00e9".encode(), b"a" * (MAX_STAMP_BYTES + 1)])
def test_what_cannot_be_a_stamp(stamp: bytes) -> None:
    raw = join(stamp, b"x")
    assert split(raw) == (None, raw)


def test_a_stamp_that_is_too_long_for_a_property_comes_back() -> None:
    """Durable readers of very many topics have such, whose entries nothing implies (R21)."""
    stamp = TotalStamp(2**31, 1, 1, [part for topic in range(2, 50_000) for part in (topic, 2**16 + topic)])
    text = encode_stamp(stamp)
    assert len(text) > MAX_PROPERTY_BYTES
    found, payload = split(wire_payload(text, b"x", retain=False))
    assert (payload, found and decode_stamp(found)) == (b"x", stamp)


def test_an_empty_kept_message_stays_empty() -> None:
    """B19."""
    assert wire_payload(b"s", b"", retain=True) == b""
    assert wire_payload(b"s", b"", retain=False) == join(b"s", b"")
    assert wire_payload(b"s", b"x", retain=True) == join(b"s", b"x")
    assert wire_payload(None, b"", retain=True) == b""


@pytest.mark.parametrize(("adapter", "library", "extra"), [(mqtt, "paho", "mqtt"), (redis, "redis", "redis")])
def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, adapter: object, library: str, extra: str) -> None:
    """B82."""
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra) as caught:
        adapter.open_ens(f"{extra}://localhost", client_id="c", options={})  # type: ignore[attr-defined]
    assert caught.value.extra == extra
