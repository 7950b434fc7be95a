"""The envelope of an event: printable, compact, and nothing else is taken for one."""

from __future__ import annotations

import string
from base64 import urlsafe_b64encode

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from inorder.protocol.pairs import firsts, joined
from inorder.protocol.stamp import MANY, FifoStamp, TotalStamp, decode_stamp, encode_stamp

_PRINTABLE = set((string.ascii_letters + string.digits + "-_").encode())
_positive = st.integers(1, 2**63 - 1)
_deps = st.lists(st.tuples(_positive, _positive), max_size=20).map(joined)


@given(st.builds(TotalStamp, st.integers(0, 2**63 - 1), _positive, _positive, _deps))
def test_a_timestamp_survives_the_envelope(stamp: TotalStamp) -> None:
    assume(stamp.topic not in firsts(stamp.deps))
    text = encode_stamp(stamp)
    assert set(text) <= _PRINTABLE
    assert decode_stamp(text) == stamp


@given(st.builds(FifoStamp, st.integers(-(2**63), 2**63 - 1), _positive))
def test_a_fifo_stamp_survives_the_envelope(stamp: FifoStamp) -> None:
    assert decode_stamp(encode_stamp(stamp)) == stamp


def _text(value: object) -> bytes:
    return urlsafe_b64encode(msgspec.msgpack.encode(value)).rstrip(b"=")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"A",
        b"not a stamp",
        b"\xff\xfe",
        b"====",
        _text("text"),
        _text([]),
        _text([2, 1, 1]),
        _text([0, 1, 1]),
        _text([0, 1, 1, 0, []]),
        _text([0, 1, 0, 1, []]),
        _text([0, 1, 1, 1, [2]]),
        _text([0, 1, 1, -1, []]),
        _text([1, 5, 0]),
        _text([0, "1", 1, 1, []]),
        _text([0, 2**63, 1, 1, []]),
        _text([0, 1, 2**63, 1, []]),
        _text([0, 1, 1, 2**63, []]),
        _text([0, 1, 1, 1, [2, 2**64 - 1]]),
        _text([1, 2**63, 1]),
        _text([1, 5, 2**63]),
        urlsafe_b64encode(b"\x96\x00\x01\x01\x01\x90" + b"\x91" * 20_000),
    ],
)
def test_what_is_no_stamp_is_none(text: bytes) -> None:
    assert decode_stamp(text) is None


@pytest.mark.parametrize("deps", [[0, 1], [-1, 1], [1, 0], [1, -5]])
def test_dependencies_that_no_topic_manager_gives_make_no_stamp(deps: list[int]) -> None:
    assert decode_stamp(_text([0, 1, 1, 1, deps])) is None


@pytest.mark.parametrize("number", [5, 6, 2**62])
def test_a_timestamp_that_waits_for_itself_is_none(number: int) -> None:
    """A strict reader would hold it, and all behind it, for ever: nothing is missing that could be asked for."""
    assert decode_stamp(_text([0, 1, 7, 5, [9, 1, 7, number]])) is None
    assert decode_stamp(_text([0, 1, 7, 5, [9, 7, 7, 4, 8, 7]])) == TotalStamp(1, 7, 5, [9, 7, 7, 4, 8, 7])


def test_a_topic_that_occurs_again_and_again_has_its_highest_number() -> None:
    """Or each of its numbers that comes would have a reader look at all of them once more."""
    deps = [part for number in range(1, MANY) for part in (8, number, 9, MANY - number)]
    decoded = decode_stamp(_text([0, 1, 7, 5, deps]))
    assert decoded == TotalStamp(1, 7, 5, [8, MANY - 1, 9, MANY - 1])
    few = deps[:MANY]
    assert decode_stamp(_text([0, 1, 7, 5, few])) == TotalStamp(1, 7, 5, few)


@given(st.binary(max_size=60))
def test_random_text_never_raises(text: bytes) -> None:
    decode_stamp(text)


def test_a_damaged_stamp_is_none_or_a_well_formed_one() -> None:
    text = encode_stamp(TotalStamp(2**62, 300, 70_000, [1, 5, 2, 9]))
    for at in range(len(text)):
        decode_stamp(text[:at])
        decode_stamp(text[:at] + b"!" + text[at + 1 :])
    assert len(text) <= 40
