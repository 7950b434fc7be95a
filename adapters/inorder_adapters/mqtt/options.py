"""Options of an MQTT connection: ``mqtt://user:password@host:port?protocol=3.1.1&keepalive=10``."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from inorder.errors import InvalidOption, InvalidTopic
from inorder.masking import masked_url
from inorder_adapters import mqtt_rules
from inorder_adapters.url_options import Address, Options, read_options, split_url, tls_context

_Seconds = Annotated[float, Meta(gt=0, description="seconds, more than 0")]
_Window = Annotated[int, Meta(ge=1, le=65_535, description="a whole number from 1 to 65535")]
_Flag = Annotated[bool, Meta(description="true or false")]
_File = Annotated[str, Meta(min_length=1, description="a file's path")]

_PROTOCOLS = {"5": 5, "5.0": 5, "v5": 5, "4": 4, "3.1.1": 4, "v3.1.1": 4, "311": 4}
_UINT32 = 4_294_967_295


class MqttOptions(Options, frozen=True, kw_only=True):
    """The options of one connection.

    Attributes:
        protocol: ``5`` or ``3.1.1`` (also its protocol level, ``4``).
        keepalive: a broker that is silent for twice this long is taken for gone; 0 turns that off.
        clean_start: start without the broker's memory of this client id. Without it, incoming messages of QoS 2 that
            were half handed over when a connection broke are lost with it, as no state outlives a connection here.
        session_expiry: how long the broker remembers this client after a disconnect (MQTT 5 only).
        connect_timeout: for name, TCP, TLS and the broker's answer together.
        ack_timeout: for the broker's answer to a subscribe or an unsubscribe.
        close_timeout: how long :meth:`MqttEns.close` lets what was published leave.
        max_inflight: publishes of QoS 1 and 2 without an answer. MQTT 5 brokers say what they allow and are never
            sent more; of the others some close the connection over their limit (mosquitto over 20, for QoS 2).
        receive_maximum: messages of QoS 1 and 2 that the broker may send without an answer (MQTT 5 only).
        max_packet_size: what the broker may send, in bytes (MQTT 5 only).
        tls: encrypt; ``mqtts://`` sets it.
        tls_ca, tls_cert, tls_key: PEM files; without ``tls_ca`` the system's authorities are trusted.
        tls_insecure: do not check the broker's certificate.
        username, password: also in the URL, percent-encoded.
        will_topic, will_payload, will_qos, will_retain: what the broker publishes if this client vanishes. A will
            carries no stamp, so subscribers see it as unsequenced.
        barrier_topic: where messages of QoS 1 or 2 never rest: a topic of this client alone, which it may publish and
            subscribe to. A message there tells that those before it were read; without it that is known a minute later,
            and so is what was lost (R24).
        envelope: ``auto`` puts stamps beside the payload where the protocol can, ``payload`` always in front of it.
        space: the space of the topics.
    """

    protocol: Annotated[str | int | float, Meta(description="5 or 3.1.1")] = "5"
    keepalive: Annotated[int, Meta(ge=0, le=65_535, description="whole seconds from 0 to 65535")] = 30
    clean_start: _Flag = True
    session_expiry: Annotated[int, Meta(ge=0, le=_UINT32, description="whole seconds from 0 to 2^32-1")] | None = None
    connect_timeout: _Seconds = 10.0
    ack_timeout: _Seconds = 10.0
    close_timeout: Annotated[float, Meta(ge=0, description="seconds, 0 or more")] = 0.5
    max_inflight: _Window = 20
    receive_maximum: _Window | None = None
    max_packet_size: Annotated[int, Meta(ge=128, le=_UINT32, description="bytes, 128 or more")] | None = None
    tls: _Flag = False
    tls_ca: _File | None = None
    tls_cert: _File | None = None
    tls_key: _File | None = None
    tls_insecure: _Flag = False
    username: Annotated[str, Meta(description="text")] | None = None
    password: Annotated[str, Meta(description="text")] | None = None
    will_topic: Annotated[str, Meta(min_length=1, description="a topic")] | None = None
    will_payload: Annotated[str, Meta(description="text")] = ""
    will_qos: Annotated[int, Meta(ge=0, le=2, description="0, 1 or 2")] = 0
    will_retain: _Flag = False
    barrier_topic: Annotated[str, Meta(min_length=1, description="a topic")] | None = None
    envelope: Annotated[str, Meta(pattern="^(auto|payload)$", description="auto or payload")] = "auto"
    space: Annotated[str, Meta(min_length=1, description="a name")] = "mqtt"


class Target(NamedTuple):
    """A broker's address with the options of the connection."""

    address: Address
    protocol: int
    options: MqttOptions
    tls: ssl.SSLContext | None


def parse(url: str, options: Mapping[str, Any]) -> Target:
    """Return the target that a URL and options name. Raises InvalidOption."""
    parts, address = split_url(url, {"mqtt": 1883, "mqtts": 8883})
    if parts.path not in ("", "/"):
        raise InvalidOption("url", masked_url(url), f"{parts.scheme}://host:port without a path")
    parsed = read_options(MqttOptions, parts, options, tls=parts.scheme == "mqtts")
    protocol = _PROTOCOLS.get(str(parsed.protocol))
    if protocol is None:
        raise InvalidOption("option protocol", parsed.protocol, "5 or 3.1.1")
    _check_together(parsed, protocol)
    tls = None
    if parsed.tls:
        tls = tls_context(ca=parsed.tls_ca, cert=parsed.tls_cert, key=parsed.tls_key, insecure=parsed.tls_insecure)
    return Target(address, protocol, parsed, tls)


def _check_together(options: MqttOptions, protocol: int) -> None:
    if protocol != 5:
        for name in ("session_expiry", "receive_maximum", "max_packet_size"):
            if getattr(options, name) is not None:
                raise InvalidOption(f"option {name}", getattr(options, name), "only with protocol=5")
    if options.password is not None and options.username is None and protocol != 5:
        raise InvalidOption("option password", "***", "only together with username")
    for name in ("will_topic", "barrier_topic"):
        topic = getattr(options, name)
        try:
            if topic is not None:
                mqtt_rules.check_topic(topic)
        except InvalidTopic as error:
            raise InvalidOption(f"option {name}", topic, f"a topic ({error.reason})") from None
