"""Finding the adapter of a broker by the scheme of its URL (entry points, group ``inorder.adapters``)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import urlsplit

from inorder.errors import InvalidOption
from inorder.ports import Ens, EnsFactory

GROUP = "inorder.adapters"


def schemes() -> list[str]:
    """Return the URL schemes that installed adapters serve."""
    return sorted({each.name for each in entry_points(group=GROUP)})


def open_ens(url: str, *, client_id: str, options: Mapping[str, Any]) -> Ens:
    """Make an unconnected ENS for a broker URL.

    Raises:
        InvalidOption: the scheme is unknown, or the adapter refuses a part of the URL or an option.
        MissingExtra: the adapter's library is not installed.
    """
    try:
        scheme = urlsplit(url).scheme.lower() if isinstance(url, str) else ""
    except ValueError as error:  # unbalanced brackets of an IPv6 address
        shortened = f"{url.partition('://')[0]}://..."  # the rest may hold a password
        raise InvalidOption("broker URL", shortened, f"a URL like scheme://host:port ({error})") from None
    for each in entry_points(group=GROUP, name=scheme) if scheme else ():
        factory: EnsFactory = each.load()
        return factory(url, client_id=client_id, options=options)
    known = ", ".join(f"{each}://" for each in schemes())
    # the URL may hold a password, so only its scheme is repeated
    raise InvalidOption("broker URL scheme", scheme, f"one of {known}")
