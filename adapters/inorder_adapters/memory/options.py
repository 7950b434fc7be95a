"""Options of the in-process broker: ``memory://name?seed=1&delay_ms=0..20&reorder=0.1``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from inorder.errors import InvalidOption
from inorder_adapters.url_options import Options, read_options, split_url

_Share = Annotated[float, Meta(ge=0, le=1, description="a probability from 0 to 1")]
_is_range = re.compile(r"(\d+(?:\.\d+)?)(?:\.\.(\d+(?:\.\d+)?))?").fullmatch


class MemoryOptions(Options, frozen=True, kw_only=True):
    """The options of one client's connection.

    Attributes:
        seed: starts this client's random stream, together with its client id.
        delay_ms: how long deliveries to this client take, ``"5"`` or ``"0..20"``. Events of one publisher keep their
            order; events of different publishers overtake each other, as between bridged brokers.
        reorder: share of the deliveries that other events of the same publisher may overtake.
        duplicate: share of the deliveries that arrive twice.
        loss: share of the deliveries that never arrive.
        overlap: whether an event that several filters of this client cover comes once for each of them (``each``)
            or ``once``.
        properties: whether stamps travel beside the payload.
        space: the space of the topics.
    """

    seed: Annotated[int, Meta(description="a whole number")] = 0
    delay_ms: Annotated[str, Meta(description='milliseconds, one number ("5") or a range ("0..20")')] = "0"
    reorder: _Share = 0.0
    duplicate: _Share = 0.0
    loss: _Share = 0.0
    overlap: Annotated[str, Meta(pattern="^(each|once)$", description='"each" or "once"')] = "each"
    properties: Annotated[bool, Meta(description="true or false")] = True
    space: Annotated[str, Meta(min_length=1, description="a name")] = "memory"

    @property
    def delay(self) -> tuple[float, float]:
        """The shortest and the longest delay, in seconds."""
        return delay_range(self.delay_ms)


def delay_range(text: str) -> tuple[float, float]:
    """Read ``"5"`` or ``"0..20"`` (milliseconds) as a range of seconds. Raises InvalidOption."""
    match = _is_range(text)
    low = float(match[1]) if match else 0.0
    high = float(match[2]) if match and match[2] else low
    if match is None or low > high:
        raise InvalidOption("option delay_ms", text, 'milliseconds, one number ("5") or a range ("0..20")')
    return low / 1000, high / 1000


def parse(url: str, options: Mapping[str, Any]) -> tuple[str, MemoryOptions]:
    """Return the broker's name and the client's options. Raises InvalidOption."""
    given = dict(options)
    if isinstance(given.get("delay_ms"), int | float):
        given["delay_ms"] = str(given["delay_ms"])
    parts, address = split_url(url, {"memory": 0})
    parsed = read_options(MemoryOptions, parts, given)
    delay_range(parsed.delay_ms)
    return address.host, parsed
