"""URLs and options of adapters: each adapter has one typed, frozen struct.

An adapter's options are the fields of a :class:`msgspec.Struct`; the description of a field's type says in words
what is allowed. Options given beside the URL override those of its query. Secrets are kept out of errors and
reprs.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, get_type_hints
from unicodedata import category
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from inorder.errors import InvalidOption
from inorder.masking import MASK, masked_url

SECRETS = frozenset({"password"})


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of all option structs."""

    def __repr__(self) -> str:
        shown = (
            f"{name}={MASK if name in SECRETS and getattr(self, name) else repr(getattr(self, name))}"
            for name in self.__struct_fields__
        )
        return f"{type(self).__name__}({', '.join(shown)})"


OptionsT = TypeVar("OptionsT", bound=Options)


class Address(NamedTuple):
    """The host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def split_url(url: str, schemes: Mapping[str, int]) -> tuple[SplitResult, Address]:
    """Split a URL into its parts. ``schemes`` maps those allowed to their default ports. Raises InvalidOption."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidOption("url", masked_url(url), "a URL like scheme://host:port") from None
    if parts.scheme not in schemes:
        raise InvalidOption("url scheme", parts.scheme, " or ".join(schemes))
    if not parts.hostname:
        raise InvalidOption("url", masked_url(url), f"{parts.scheme}://host:port")
    if port == 0:
        raise InvalidOption("url", masked_url(url), "a port from 1 to 65535")
    if parts.fragment:
        raise InvalidOption("url", masked_url(url), "a URL without a fragment (encode # as %23)")
    return parts, Address(unquote(parts.hostname), schemes[parts.scheme] if port is None else port)


def check_client_id(client_id: str) -> str:
    """Return a client id that brokers may show in their logs. Raises InvalidOption."""
    if not isinstance(client_id, str) or any(category(each) in ("Cc", "Cs") for each in client_id):
        raise InvalidOption("client_id", client_id, "a text without control characters")
    return client_id


def read_options(kind: type[OptionsT], parts: SplitResult, options: Mapping[str, Any], **preset: Any) -> OptionsT:
    """Fill an option struct from a URL's user info and query, then from ``options``; ``preset`` gives defaults.

    Raises InvalidOption: for an unknown name with the known ones, for a value with what is allowed.
    """
    given: dict[str, Any] = dict(preset)
    for name, text in (("username", parts.username), ("password", parts.password)):
        if text is not None and name in kind.__struct_fields__:
            given[name] = unquote(text)
    given.update(_query(parts.query))
    given.update(options)
    hints = get_type_hints(kind, include_extras=True)
    values = {name: _converted(kind, hints, name, value) for name, value in given.items()}
    return kind(**values)


def _query(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in found:
            raise InvalidOption(f"option {name}", "given twice", "one value")
        found[name] = value
    return found


def _converted(kind: type[Options], hints: dict[str, Any], name: str, value: Any) -> Any:
    if name not in kind.__struct_fields__:
        known = ", ".join(sorted(kind.__struct_fields__))
        raise InvalidOption("option name", name, f"one of: {known}")
    try:
        return msgspec.convert(value, hints[name], strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        shown = MASK if name in SECRETS else value
        raise InvalidOption(f"option {name}", shown, _in_words(hints[name], error)) from None


def _in_words(hint: Any, error: Exception) -> str:
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description:
            return meta.description
    return str(error)


def tls_context(*, ca: str | None, cert: str | None, key: str | None, insecure: bool) -> ssl.SSLContext:
    """Make a client's TLS context. Raises InvalidOption where a file cannot be used."""
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise InvalidOption("option tls_ca", ca, f"a readable file of PEM certificates ({error})") from None
    if cert is not None:
        try:
            context.load_cert_chain(cert, key, password="")  # never asked for on the terminal
        except (OSError, ssl.SSLError) as error:
            keys = "with its key, without a pass phrase, in the same file or in tls_key"
            allowed = f"a readable PEM certificate, {keys} ({error})"
            raise InvalidOption("option tls_cert", cert, allowed) from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
