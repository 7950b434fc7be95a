"""Lookup of a broker's adapter by the scheme of its URL (entry points, group ``inorder.adapters``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import urlsplit

from inorder.client.checking import checked_space
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


def make_brokers(
    brokers: str | Ens | Mapping[str, str | Ens], space: str | None, *, client_id: str, options: Mapping[str, Any]
) -> dict[str, Ens]:
    """Return unconnected broker connections by space. Raises InvalidOption, MissingExtra."""
    if isinstance(brokers, (str, Ens)):
        ens = _make(brokers, client_id, options)
        return {checked_space(ens.space if space is None else space): ens}
    if not isinstance(brokers, Mapping) or not brokers:
        # what holds URLs may hold passwords, so only its type is named
        given = type(brokers) if isinstance(brokers, Iterable) and brokers else brokers
        raise InvalidOption("brokers", given, "a URL, or a mapping with at least one URL by space")
    if space is not None:
        raise InvalidOption("space", space, "only together with a single broker URL; several are given by space")
    return {checked_space(name): _make(broker, client_id, options) for name, broker in brokers.items()}


def _make(broker: str | Ens, client_id: str, options: Mapping[str, Any]) -> Ens:
    if isinstance(broker, str) or not isinstance(broker, Ens):
        return open_ens(broker, client_id=client_id, options=options)
    return broker
