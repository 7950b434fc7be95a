"""Parsing of topics and filters by the brokers' rules, for adapters, workers and operators alike (R13).

A filter that no broker would take covers nothing that a client can subscribe to, so it is refused wherever it comes in.
"""

from __future__ import annotations

from collections.abc import Collection

from inorder.errors import InvalidFilter
from inorder.protocol.globs import MAX_GLOB_BYTES
from inorder.protocol.names import Filter, FilterKind, exact

MAX_TOPIC_BYTES = 65_535
MAX_SLASHES = 200
"""In a topic or filter of MQTT. mosquitto refuses more, to bound what a level costs (``TOPIC_HIERARCHY_LIMIT``,
CVE-2019-11779)."""
MAX_FILTERS = 32_768
"""Filters of one client in total order: they are always sent as a whole, and looked at one by one."""
MAX_WILDCARDS = 1_000
"""Filters with wildcards that one client may have in total order: all are read for every topic."""
MAX_WILDCARDS_BYTES = 256 * 1024
"""Of these together: workers keep them for each client, in memory and in their store."""
MAX_GLOBS_BYTES = 2_048
"""Of the Redis globs among them together: as many bits are moved for each byte of every topic's name."""
_GLOB_CHARACTERS = "*?["


def text_problem(value: object, *, nul_allowed: bool) -> str | None:
    """Return the reason why a value is no topic or filter of any broker, or ``None``."""
    if not isinstance(value, str):
        return f"it is {type(value).__name__}, not str"
    if not value:
        return "it is empty"
    if not nul_allowed and "\0" in value:
        return "it contains NUL"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return "it contains a lone surrogate"
    if size > MAX_TOPIC_BYTES:
        return f"it is {size} bytes long, over the limit of {MAX_TOPIC_BYTES}"
    return None


def mqtt_filter(text: object) -> Filter:
    """Read a filter by MQTT's rules. Raises InvalidFilter, also for what costs too much.

    Shared subscriptions are refused: the broker deals their events out among the members, so no member has a
    stream whose order could be checked.
    """
    problem = text_problem(text, nul_allowed=False)
    if problem is not None or not isinstance(text, str):
        raise InvalidFilter(text, problem or "it is not text")
    if (problem := slashes_problem(text)) is not None:
        raise InvalidFilter(text, problem)
    if text == "$share" or text.startswith("$share/"):
        raise InvalidFilter(text, "shared subscriptions cannot be ordered for each member; subscribe without $share")
    if "+" not in text and "#" not in text:
        return exact(text)
    levels = text.split("/")
    if any(len(level) > 1 and ("+" in level or "#" in level) for level in levels):
        raise InvalidFilter(text, "a wildcard must stand alone in its level")
    if "#" in levels[:-1]:
        raise InvalidFilter(text, "# must be the last level")
    return Filter(text, FilterKind.MQTT, text)


def redis_filter(text: object) -> Filter:
    """Read a filter by Redis' rules: a glob if it holds an unescaped glob character, else a channel. Raises
    InvalidFilter, see :func:`mqtt_filter`."""
    problem = text_problem(text, nul_allowed=True)
    if problem is not None or not isinstance(text, str):
        raise InvalidFilter(text, problem or "it is not text")
    channel = _unescaped(text)
    if channel is not None:
        return Filter(text, FilterKind.EXACT, channel)
    found = Filter(text, FilterKind.REDIS, text)
    if (problem := length_problem(found)) is not None:
        raise InvalidFilter(text, problem)
    return found


def length_problem(filter: Filter) -> str | None:
    """Return why a filter costs too much to match, or ``None``: its levels, or bytes, are read for each topic."""
    if filter.kind is FilterKind.MQTT:
        return slashes_problem(filter.text)
    size = len(filter.text.encode()) if filter.kind is FilterKind.REDIS else 0
    return f"it is {size} bytes long, a glob may have {MAX_GLOB_BYTES}" if size > MAX_GLOB_BYTES else None


def name_problem(filter: Filter) -> str | None:
    """Return why a filter's name is none that its text can have, or ``None``: whoever keeps filters counts, and shows,
    their texts alone. Names of exact filters lack escapes, and nothing else."""
    name, text = filter.name, filter.text
    if name == text:
        return None
    is_shorter = filter.kind is FilterKind.EXACT and len(name) < len(text)
    if is_shorter and name.replace("\\", "") == text.replace("\\", ""):
        return None
    return f"one of {len(text)} characters has another name, of {len(name)}"


def slashes_problem(text: str) -> str | None:
    """Return why a topic or filter of MQTT has too many levels, or ``None``."""
    slashes = text.count("/")
    return (
        f"it has {slashes} slashes, MQTT topics and filters may have {MAX_SLASHES}" if slashes > MAX_SLASHES else None
    )


def number_problem(filters: Collection[Filter]) -> str | None:
    """Return why one client's filters are too many for the workers, which try wildcards on every topic, or ``None``."""
    if len(filters) > MAX_FILTERS:
        return f"{len(filters)} filters are too many, a client may have {MAX_FILTERS} in total order"
    wild = [each for each in filters if each.kind is not FilterKind.EXACT]
    if len(wild) > MAX_WILDCARDS:
        return f"{len(wild)} filters have wildcards, a client may have {MAX_WILDCARDS} of these in total order"
    size = sum(len(each.text.encode()) for each in wild)
    if size > MAX_WILDCARDS_BYTES:
        allowed = f"those of a client may have {MAX_WILDCARDS_BYTES} together in total order"
        return f"its filters with wildcards have {size} bytes, {allowed}"
    size = sum(len(each.text.encode()) for each in wild if each.kind is FilterKind.REDIS)
    if size > MAX_GLOBS_BYTES:
        return f"its globs have {size} bytes, those of a client may have {MAX_GLOBS_BYTES} together in total order"
    return None


def filter_of(space: str, text: str, *, glob: bool | None = None) -> Filter:
    """Read an operator's filter: by Redis' rules if ``glob`` is true or, by default, in a space whose name begins with
    ``redis``, else by MQTT's. Raises InvalidFilter, see :func:`mqtt_filter`."""
    is_glob = space.startswith("redis") if glob is None else glob
    return redis_filter(text) if is_glob else mqtt_filter(text)


def _unescaped(text: str) -> str | None:
    """Return the one channel of a Redis filter without its escapes, or ``None`` for a glob."""
    name: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        if character in _GLOB_CHARACTERS:
            return None
        if character == "\\" and position + 1 < len(text):
            position += 1
            character = text[position]
        name.append(character)
        position += 1
    return "".join(name)
