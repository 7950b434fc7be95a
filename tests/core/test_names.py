"""Filters: the fast matching against slow, obvious ones, and the brokers' own corner cases."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.costs import ended, steps

from inorder.errors import InvalidFilter
from inorder.protocol.filters import MAX_SLASHES, mqtt_filter, name_problem, number_problem, redis_filter
from inorder.protocol.globs import MAX_GLOB_BYTES
from inorder.protocol.names import Filter, FilterKind, exact, mqtt_covers


def _mqtt(text: str) -> Filter:
    return Filter(text, FilterKind.MQTT, text)


def _redis(text: str) -> Filter:
    return Filter(text, FilterKind.REDIS, text)


def _slow_mqtt(wanted: list[str], levels: list[str]) -> bool:
    if wanted == ["#"]:
        return True
    if not wanted:
        return not levels
    if not levels:
        return False
    return wanted[0] in ("+", levels[0]) and (_slow_mqtt(wanted[1:], levels[1:]))


def _slow_redis(glob: bytes, name: bytes) -> bool:
    """``stringmatchlen`` of Redis, read as a recursion over single bytes."""
    if not glob:
        return not name
    first, rest = glob[:1], glob[1:]
    if first == b"*":
        return any(_slow_redis(rest, name[at:]) for at in range(len(name) + 1))
    if not name:
        return False
    if first == b"[":
        return _slow_class(rest, name)
    if first == b"\\" and rest:
        first, rest = rest[:1], rest[1:]
        return first == name[:1] and _slow_redis(rest, name[1:])
    return first in (b"?", name[:1]) and _slow_redis(rest, name[1:])


def _slow_class(rest: bytes, name: bytes) -> bool:
    negated = rest[:1] == b"^"
    rest = rest[1:] if negated else rest
    found, byte = False, name[0]
    while rest and rest[:1] != b"]":
        if rest[:1] == b"\\" and len(rest) > 1:
            found, rest = found or rest[1] == byte, rest[2:]
        elif rest[1:2] == b"-" and len(rest) > 2:
            low, high = sorted((rest[0], rest[2]))
            found, rest = found or low <= byte <= high, rest[3:]
        else:
            found, rest = found or rest[0] == byte, rest[1:]
    return found != negated and _slow_redis(rest[1:], name[1:])


_levels = st.lists(st.sampled_from(["a", "b", "", "$x"]), min_size=1, max_size=4)
_wanted = st.lists(st.sampled_from(["a", "b", "", "+", "$x"]), min_size=1, max_size=4)


@given(_wanted, st.booleans(), _levels)
def test_mqtt_filters_match_as_the_slow_reading_does(wanted: list[str], with_rest: bool, levels: list[str]) -> None:
    text = "/".join([*wanted, "#"] if with_rest else wanted)
    name = "/".join(levels)
    dollar = name.startswith("$") and text[:1] in ("+", "#")
    covers_parent = with_rest and _slow_mqtt(wanted, levels)  # `a/#` covers `a` too
    expected = not dollar and (_slow_mqtt(text.split("/"), levels) or covers_parent)
    assert _mqtt(text).covers(name) == mqtt_covers(text, name) == expected


@given(st.text("ab*?[]^-\\é", max_size=9), st.text("ab]^-é", max_size=7))
@example("*a*?b", "abaab")
@example("*[ab]a*[^a]b*", "babab")
@example("a*a", "a")
@example("[^]", "x")
@example("[]a", "a")
@example("[b-a]", "a")
@example("a\\", "a\\")
@example("[a", "a")
@example("?", "é")
@example("??", "é")
def test_redis_globs_match_as_the_slow_reading_does(glob: str, name: str) -> None:
    assert _redis(glob).covers(name) == _slow_redis(glob.encode(), name.encode())


@pytest.mark.parametrize("part", ["*a", "*[ab]", "*?a", "*[^c]*a"])
def test_a_glob_of_many_stars_is_matched_without_going_back(part: str) -> None:
    """A name that nearly matches: places of each star, tried one after the other, would be more than there is time."""

    def cost(stars: int, size: int) -> int:
        glob = _redis(f"{part * stars}c*")
        return steps(lambda: glob.covers("a" * size))

    with ended():
        assert cost(64, 512) < 2.5 * cost(32, 256)
        assert not _redis(f"{part * 64}c*").covers("a" * 65_535)
        assert _redis(f"{part * 64}c*").covers("a" * 65_534 + "c")


@pytest.mark.parametrize("text", ["+/" * 32_767 + "#", "a/" * 32_767 + "+"])
def test_an_mqtt_filter_of_many_levels_looks_at_each_once(text: str) -> None:
    def cost(size: int) -> int:
        filter = _mqtt(f"{text[:size]}#")
        return steps(lambda: filter.covers("a/" * size))

    assert cost(16_384) < 2.5 * cost(8_192)


def test_an_mqtt_filter_has_as_many_levels_as_mosquitto_takes() -> None:
    """Those of exact topics too."""
    for text in ("a/" * MAX_SLASHES + "a", "+/" * MAX_SLASHES + "#"):
        assert mqtt_filter(text).text == text
        with pytest.raises(InvalidFilter, match="it has 201 slashes, MQTT topics and filters may have 200"):
            mqtt_filter(f"a/{text}")
    longest = mqtt_filter("+/" * MAX_SLASHES + "b")
    assert longest.covers("a/" * MAX_SLASHES + "b")
    assert not longest.covers("a/" * (MAX_SLASHES - 1) + "b")


def test_the_wildcards_of_a_client_are_bounded_together() -> None:
    """Workers keep them, and so does their store: a frame of 8 MB for each client made it gigabytes."""
    longest = [mqtt_filter(f"{each}{'a' * 65_532}/#") for each in range(4)]
    assert number_problem([*longest, *(exact(f"{each}{'b' * 65_000}") for each in range(9))]) is None
    problem = number_problem([*longest, mqtt_filter("+/+/+")])
    assert problem == (
        "its filters with wildcards have 262145 bytes, those of a client may have 262144 together in total order"
    )


def test_a_glob_is_bounded_and_a_channel_is_as_long_as_a_topic() -> None:
    longest = "a" * (MAX_GLOB_BYTES - 1)
    assert redis_filter(f"{longest}*").kind is FilterKind.REDIS
    assert redis_filter("a" * 65_535).kind is FilterKind.EXACT
    with pytest.raises(InvalidFilter, match=f"is {MAX_GLOB_BYTES + 1} bytes long, a glob may have {MAX_GLOB_BYTES}"):
        redis_filter(f"{longest}**")


@given(st.text(alphabet="ab*?[]\\/+#", min_size=1, max_size=20))
def test_the_names_of_filters_are_those_of_their_texts(text: str) -> None:
    """What is counted of a filter, and shown, is its text; a name beside it would be kept uncounted."""
    read = redis_filter(text)
    assert name_problem(read) is name_problem(exact(text)) is None
    for name in (f"{read.name}c", f"{read.name}\\", read.name.replace("a", "c"), read.name[1:]):
        if name not in (text, read.name) and name.replace("\\", "") != text.replace("\\", ""):
            assert name_problem(Filter(text, read.kind, name))
    assert name_problem(Filter("a", FilterKind.EXACT, "a\\"))
    assert name_problem(Filter("a\\*", FilterKind.REDIS, "a*"))


@given(st.text(max_size=20), st.text(max_size=20))
def test_an_exact_filter_covers_its_name_only(text: str, name: str) -> None:
    assert exact(text).covers(name) == (text == name)
    assert exact(text).covers(text)


@pytest.mark.parametrize(
    ("text", "name", "covered"),
    [
        ("#", "a/b", True),
        ("#", "$SYS/load", False),
        ("+/load", "$SYS/load", False),
        ("$SYS/#", "$SYS/load", True),
        ("a/#", "a", True),
        ("a/#", "ab", False),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("+", "a/b", False),
        ("+/+", "/x", True),
    ],
)
def test_mqtt_5_section_4_7(text: str, name: str, covered: bool) -> None:
    assert _mqtt(text).covers(name) is covered


def test_an_escaped_glob_without_wildcards_is_an_exact_name() -> None:
    assert Filter("a\\*", FilterKind.EXACT, "a*").covers("a*")
    assert not Filter("a\\*", FilterKind.EXACT, "a*").covers("ab")
