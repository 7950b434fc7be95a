"""Errors of inorder for failures of paho-mqtt, sockets and brokers, whose own errors stay in this folder."""

from __future__ import annotations

import socket
import ssl

from paho.mqtt.reasoncodes import ReasonCode

from inorder.errors import BrokerUnreachable, InorderError, InvalidOption, LinkError, Refused, Unauthorized

_UNAUTHORIZED = frozenset({0x86, 0x87, 0x8A, 0x8C})
"""CONNACK: bad user name or password, not authorized, banned, bad authentication method."""

_OPTION_OF_CODE = {
    0x84: ("option protocol", "a protocol version that this broker speaks"),
    0x85: ("client id", "one that this broker accepts"),
    0x90: ("option will_topic", "a topic that this broker accepts"),
    0x9A: ("option will_retain", "false, as this broker keeps no retained messages"),
    0x9B: ("option will_qos", "a quality that this broker supports"),
}
"""CONNACK: what the broker says about one of our settings."""


def map_exceptions(error: BaseException, address: str) -> InorderError:
    """Return the error of inorder for an exception that ended a connection attempt."""
    if type(error) is LinkError:
        return BrokerUnreachable(address, str(error))
    if isinstance(error, InorderError):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return BrokerUnreachable(address, f"its TLS certificate is not trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return BrokerUnreachable(address, f"TLS failed: {error.reason or error}")
    if isinstance(error, socket.gaierror):
        return BrokerUnreachable(address, f"its name cannot be resolved ({error.strerror})")
    if isinstance(error, TimeoutError):
        return BrokerUnreachable(address, "it did not answer in time")
    if isinstance(error, OSError):
        return BrokerUnreachable(address, error.strerror or str(error))
    return LinkError(f"{type(error).__name__}: {error}")


def connect_refusal(code: ReasonCode, address: str, client_id: str) -> InorderError:
    """Return the error for a CONNACK with a refusal."""
    reason = str(code)
    if code.value in _UNAUTHORIZED:
        return Unauthorized(f"broker {address} refused the connection: {reason}")
    if code.value in _OPTION_OF_CODE:
        option, allowed = _OPTION_OF_CODE[code.value]
        return InvalidOption(option, client_id if option == "client id" else "given", allowed)
    return BrokerUnreachable(address, f"it refused the connection: {reason}")


def request_refusal(what: str, reason: str) -> Refused:
    """Return the error for a SUBACK, UNSUBACK, PUBACK or PUBREC with a refusal."""
    return Refused(f"{what} was refused by the broker: {reason}")


def loss(code: ReasonCode, address: str, *, said_by_broker: bool) -> LinkError:
    """Return the error for a connection that ended."""
    how = "was closed by the broker" if said_by_broker else "broke"
    return LinkError(f"the connection to broker {address} {how}: {code}")
