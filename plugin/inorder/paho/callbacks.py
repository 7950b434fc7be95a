"""The types of paho's callbacks, with our client and our messages. A program that names ``mqtt.Client`` and
``mqtt.MQTTMessage`` in its callbacks is as well typed with ours as it was with paho's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from paho.mqtt import client as paho
from paho.mqtt.client import ConnectFlags, DisconnectFlags
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from inorder.endpoint.notifications import Gap
from inorder.paho.message import MQTTMessage
from inorder_adapters.mqtt.barriers import Pings
from inorder_adapters.mqtt.user_properties import UserProperties

if TYPE_CHECKING:
    from inorder.paho.client import Client

_Optional = Properties | None

CallbackOnConnect_v1_mqtt3 = Callable[["Client", Any, dict[str, Any], MQTTErrorCode], None]
CallbackOnConnect_v1_mqtt5 = Callable[["Client", Any, dict[str, Any], ReasonCode, _Optional], None]
CallbackOnConnect_v2 = Callable[["Client", Any, ConnectFlags, ReasonCode, _Optional], None]
CallbackOnConnect = CallbackOnConnect_v1_mqtt5 | CallbackOnConnect_v1_mqtt3 | CallbackOnConnect_v2
CallbackOnConnectFail = Callable[["Client", Any], None]
CallbackOnDisconnect_v1_mqtt3 = Callable[["Client", Any, MQTTErrorCode], None]
CallbackOnDisconnect_v1_mqtt5 = Callable[["Client", Any, ReasonCode | int | None, _Optional], None]
CallbackOnDisconnect_v2 = Callable[["Client", Any, DisconnectFlags, ReasonCode, _Optional], None]
CallbackOnDisconnect = CallbackOnDisconnect_v1_mqtt3 | CallbackOnDisconnect_v1_mqtt5 | CallbackOnDisconnect_v2
CallbackOnGap = Callable[["Client", Any, Gap], None]
CallbackOnLog = Callable[["Client", Any, int, str], None]
CallbackOnMessage = Callable[["Client", Any, MQTTMessage], None]
CallbackOnPreConnect = Callable[["Client", Any], None]
CallbackOnPublish_v1 = Callable[["Client", Any, int], None]
CallbackOnPublish_v2 = Callable[["Client", Any, int, ReasonCode, Properties], None]
CallbackOnPublish = CallbackOnPublish_v1 | CallbackOnPublish_v2
CallbackOnSocket = Callable[["Client", Any, "paho.SocketLike"], None]
CallbackOnSubscribe_v1_mqtt3 = Callable[["Client", Any, int, tuple[int, ...]], None]
CallbackOnSubscribe_v1_mqtt5 = Callable[["Client", Any, int, list[ReasonCode], Properties], None]
CallbackOnSubscribe_v2 = Callable[["Client", Any, int, list[ReasonCode], _Optional], None]
CallbackOnSubscribe = CallbackOnSubscribe_v1_mqtt3 | CallbackOnSubscribe_v1_mqtt5 | CallbackOnSubscribe_v2
CallbackOnUnsubscribe_v1_mqtt3 = Callable[["Client", Any, int], None]
CallbackOnUnsubscribe_v1_mqtt5 = Callable[["Client", Any, int, Properties, ReasonCode | list[ReasonCode]], None]
CallbackOnUnsubscribe_v2 = Callable[["Client", Any, int, list[ReasonCode], _Optional], None]
CallbackOnUnsubscribe = CallbackOnUnsubscribe_v1_mqtt3 | CallbackOnUnsubscribe_v1_mqtt5 | CallbackOnUnsubscribe_v2

if TYPE_CHECKING:

    class _Typed(Pings, UserProperties):
        """paho's client with newly typed callbacks."""

        on_connect: CallbackOnConnect | None  # type: ignore[assignment]
        on_connect_fail: CallbackOnConnectFail | None  # type: ignore[assignment]
        on_disconnect: CallbackOnDisconnect | None  # type: ignore[assignment]
        on_log: CallbackOnLog | None  # type: ignore[assignment]
        on_message: CallbackOnMessage | None  # type: ignore[assignment]
        on_pre_connect: CallbackOnPreConnect | None  # type: ignore[assignment]
        on_publish: CallbackOnPublish | None  # type: ignore[assignment]
        on_socket_close: CallbackOnSocket | None  # type: ignore[assignment]
        on_socket_open: CallbackOnSocket | None  # type: ignore[assignment]
        on_socket_register_write: CallbackOnSocket | None  # type: ignore[assignment]
        on_socket_unregister_write: CallbackOnSocket | None  # type: ignore[assignment]
        on_subscribe: CallbackOnSubscribe | None  # type: ignore[assignment]
        on_unsubscribe: CallbackOnUnsubscribe | None  # type: ignore[assignment]

        def connect_callback(self) -> Callable[[CallbackOnConnect], CallbackOnConnect]: ...  # type: ignore[override]
        def connect_fail_callback(self) -> Callable[[CallbackOnConnectFail], CallbackOnConnectFail]: ...  # type: ignore[override]
        def disconnect_callback(self) -> Callable[[CallbackOnDisconnect], CallbackOnDisconnect]: ...  # type: ignore[override]
        def log_callback(self) -> Callable[[CallbackOnLog], CallbackOnLog]: ...  # type: ignore[override]
        def message_callback(self) -> Callable[[CallbackOnMessage], CallbackOnMessage]: ...  # type: ignore[override]
        def message_callback_add(self, sub: str, callback: CallbackOnMessage) -> None: ...
        def pre_connect_callback(self) -> Callable[[CallbackOnPreConnect], CallbackOnPreConnect]: ...  # type: ignore[override]
        def publish_callback(self) -> Callable[[CallbackOnPublish], CallbackOnPublish]: ...  # type: ignore[override]
        def socket_close_callback(self) -> Callable[[CallbackOnSocket], CallbackOnSocket]: ...  # type: ignore[override]
        def socket_open_callback(self) -> Callable[[CallbackOnSocket], CallbackOnSocket]: ...  # type: ignore[override]
        def socket_register_write_callback(self) -> Callable[[CallbackOnSocket], CallbackOnSocket]: ...  # type: ignore[override]
        def socket_unregister_write_callback(self) -> Callable[[CallbackOnSocket], CallbackOnSocket]: ...  # type: ignore[override]
        def subscribe_callback(self) -> Callable[[CallbackOnSubscribe], CallbackOnSubscribe]: ...  # type: ignore[override]
        def topic_callback(self, sub: str) -> Callable[[CallbackOnMessage], CallbackOnMessage]: ...  # type: ignore[override]
        def unsubscribe_callback(self) -> Callable[[CallbackOnUnsubscribe], CallbackOnUnsubscribe]: ...  # type: ignore[override]

    Base = _Typed
else:

    class Base(Pings, UserProperties, paho.Client):
        """paho's client with pings of ours."""
