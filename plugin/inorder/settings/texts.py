"""The texts that settings hold: brokers, addresses, places."""

from __future__ import annotations

import contextlib
import os
import re
from ipaddress import ip_network
from urllib.parse import urlsplit

from inorder.errors import InvalidOption
from inorder.masking import masked_url

_BROKER = re.compile(r"(?:(?P<space>[A-Za-z0-9_.-]+)=)?(?P<url>[a-z][a-z0-9+.-]*://.*)", re.DOTALL)


def is_broker(text: str) -> bool:
    """Tell whether a text is ``[space=]URL``."""
    return bool(_BROKER.fullmatch(text))


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port`` or ``[v6]:port``. Raises InvalidOption."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(f"//{text}")
        is_plain = parts.netloc == text and text.isprintable() and re.fullmatch(r"\S+", text)
        if is_plain and parts.hostname and parts.port and parts.username is None:
            return parts.hostname, parts.port
    raise InvalidOption("worker address", text, "host:port, for example localhost:7401")


def is_address(text: str) -> bool:
    """Tell whether a text is ``host:port``."""
    with contextlib.suppress(InvalidOption):
        return bool(address_of(text))
    return False


def is_store(text: str) -> bool:
    """Tell whether a text begins like a URL of SQLAlchemy."""
    return bool(re.match(r"[a-z][a-z0-9+]*://", text))


def is_place(text: str) -> bool:
    """Tell whether a text is an absolute path or the beginning of a URL."""
    return os.path.isabs(text) or bool(re.match(r"[a-z][a-z0-9+.-]*://[^/]", text))


def is_proxy(text: str) -> bool:
    """Tell whether a text is an IP address or a network. May raise ValueError where it is not."""
    return bool(ip_network(text))


def is_name(text: str) -> bool:
    """Tell whether a text is a host's name or address without a port. May raise ValueError where it is not."""
    parts = urlsplit(f"//{text}")
    is_plain = parts.netloc == text and "@" not in text and (":" not in text or text.startswith("["))
    return bool(parts.hostname) and is_plain and parts.port is None


def is_root(text: str) -> bool:
    """Tell whether a text is empty or a path without a slash at its end."""
    return not text or bool(re.fullmatch(r"(/(?!\.+(/|$))[A-Za-z0-9._~-]+)+", text))


def broker_parts(text: str) -> tuple[str | None, str]:
    """Split ``[space=]URL``. Raises InvalidOption."""
    matched = _BROKER.fullmatch(text)
    if matched is None:
        raise InvalidOption("broker", masked_url(text), "[space=]scheme://host[:port]")
    return matched["space"], matched["url"]


def split_brokers(texts: tuple[str, ...]) -> str | dict[str, str]:
    """Return brokers in the form of :class:`inorder.Client`: one URL, or URLs by space. Raises InvalidOption."""
    parts = [broker_parts(text) for text in texts]
    if len(parts) == 1 and parts[0][0] is None:
        return parts[0][1]
    found: dict[str, str] = {}
    for given, url in parts:
        space = given or url.partition("://")[0]
        if space in found:
            allowed = "a space of its own for each broker, as in --broker plant=mqtt://host"
            raise InvalidOption("broker space", space, allowed)
        found[space] = url
    return found
