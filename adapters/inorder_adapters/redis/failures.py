"""Errors of inorder for failures of redis-py, sockets and servers, whose own errors stay in this folder."""

from __future__ import annotations

import ssl

from redis import exceptions

from inorder.errors import BrokerUnreachable, InorderError, LinkError, Refused, Unauthorized


def map_exceptions(error: BaseException, address: str) -> InorderError:
    """Return the error of inorder for an exception that ended a connection attempt."""
    if isinstance(error, InorderError):
        return error
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return Unauthorized(f"server {address} refused the connection: {error}")
    if isinstance(error, exceptions.NoPermissionError):
        return Unauthorized(f"server {address} refused the connection: {error}")
    if isinstance(error, exceptions.ResponseError):
        text = str(error)
        if text.startswith(("WRONGPASS", "NOAUTH", "invalid username-password", "NOPERM")):
            return Unauthorized(f"server {address} refused the connection: {text}")
        return BrokerUnreachable(address, f"it refused the connection: {text}")
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return BrokerUnreachable(address, f"its TLS certificate is not trusted: {cause.verify_message}")
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return BrokerUnreachable(address, "it did not answer in time")
    if isinstance(error, exceptions.RedisError | OSError):
        return BrokerUnreachable(address, str(error) or type(error).__name__)
    return LinkError(f"{type(error).__name__}: {error}")


def request_refusal(what: str, error: Exception) -> Refused:
    """Return the error for a reply with a refusal."""
    return Refused(f"{what} was refused by the server: {error}")


def loss(error: Exception, address: str) -> LinkError:
    """Return the error for a connection that ended."""
    if isinstance(error, LinkError):
        return error
    return LinkError(f"the connection to server {address} broke: {error or type(error).__name__}")
