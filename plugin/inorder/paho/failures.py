"""Errors of inorder in the forms that paho's applications expect: refused connections and paho's error codes."""

from __future__ import annotations

import errno
from typing import Final

from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from inorder import errors
from inorder.client.configured import advised
from inorder.errors import InorderError


class NotConnected(InorderError, ConnectionRefusedError):
    """The workers cannot be used. For paho's users it is what it is when the broker refuses the connection: an OSError,
    after which its loops try again."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.errno = errno.ECONNREFUSED


class WorkersUnreachable(errors.WorkerUnreachable, NotConnected):
    """No worker answered. Attribute ``addresses``: those that were tried."""


class Unauthorized(errors.Unauthorized, NotConnected):
    """The workers do not know the token, or do not accept it any more."""


class VersionMismatch(errors.VersionMismatch, NotConnected):
    """Client and workers have no protocol version in common. Attributes: ``ours`` and ``theirs``."""


def not_connected(error: InorderError) -> InorderError:
    """Return the error for a connect that failed at the workers. What the caller did wrong stays what it is."""
    if isinstance(error, errors.WorkerUnreachable):
        return WorkersUnreachable(error.addresses, advised(error), is_there=error.is_there)
    if isinstance(error, errors.Unauthorized):
        return Unauthorized(str(error), error.peer)
    if isinstance(error, errors.VersionMismatch):
        return VersionMismatch(error.ours, error.theirs)
    if isinstance(error, errors.UsageError) and not isinstance(error, errors.Closed):
        return error
    return NotConnected(str(error))


_CODES: Final = (
    (errors.Forbidden, MQTTErrorCode.MQTT_ERR_ACL_DENIED),
    (errors.Unauthorized, MQTTErrorCode.MQTT_ERR_AUTH),
    (errors.VersionMismatch, MQTTErrorCode.MQTT_ERR_PROTOCOL),
    (errors.TooManyUnconfirmed, MQTTErrorCode.MQTT_ERR_QUEUE_SIZE),
    (errors.PayloadTooLarge, MQTTErrorCode.MQTT_ERR_PAYLOAD_SIZE),
    (errors.InvalidOption, MQTTErrorCode.MQTT_ERR_NOT_SUPPORTED),
    (errors.LinkError, MQTTErrorCode.MQTT_ERR_CONN_LOST),
)
_REASONS: Final = (
    (errors.Forbidden | errors.Unauthorized, "Not authorized"),
    (errors.VersionMismatch, "Protocol error"),
    (errors.Replaced, "Session taken over"),
)


def error_code(error: InorderError) -> MQTTErrorCode:
    """Return paho's code for an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), MQTTErrorCode.MQTT_ERR_UNKNOWN)


def disconnect_reason(error: InorderError) -> ReasonCode:
    """Return the reason of a disconnection for ``on_disconnect``."""
    name = next((name for kind, name in _REASONS if isinstance(error, kind)), "Unspecified error")
    return ReasonCode(PacketTypes.DISCONNECT, name)
