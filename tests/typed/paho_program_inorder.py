"""A program with typed callbacks of every kind, before and after: mypy says the same about both."""

from typing import Any

import inorder.paho as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

SEEN: list[object] = []


class Program:
    """What it is told of, by callbacks that are methods."""

    def __init__(self) -> None:
        client = self.client = mqtt.Client(CallbackAPIVersion.VERSION2, "", userdata=self, protocol=mqtt.MQTTv5)
        client.on_connect, client.on_disconnect = self.on_connect, self.on_disconnect
        client.on_subscribe = client.on_unsubscribe = self.on_subscribe
        client.on_message, client.on_publish, client.on_log = self.on_message, self.on_publish, self.on_log
        client.on_connect_fail = client.on_pre_connect = self.on_connect_fail
        client.on_socket_open = client.on_socket_close = self.on_socket
        client.on_socket_register_write = client.on_socket_unregister_write = self.on_socket
        client.message_callback_add("a/#", self.on_message)

    def on_connect(
        self,
        client: mqtt.Client,
        userdata: Any,
        flags: mqtt.ConnectFlags,
        code: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if client is self.client and not code.is_failure:
            client.subscribe([("a/#", 1), ("b", 0)])

    def on_connect_fail(self, client: mqtt.Client, userdata: Any) -> None:
        client.disconnect()

    def on_disconnect(
        self,
        client: mqtt.Client,
        userdata: Any,
        flags: mqtt.DisconnectFlags,
        code: ReasonCode,
        properties: Properties | None,
    ) -> None:
        SEEN.append((flags.is_disconnect_packet_from_server, code))

    def on_log(self, client: mqtt.Client, userdata: Any, level: int, text: str) -> None:
        SEEN.append((level, text))

    def on_message(self, client: mqtt.Client, userdata: Any, message: mqtt.MQTTMessage) -> None:
        info: mqtt.MQTTMessageInfo = client.publish(message.topic, message.payload, message.qos)
        code: MQTTErrorCode = info.rc
        if code != mqtt.MQTT_ERR_SUCCESS:
            SEEN.append(mqtt.error_string(code))

    def on_publish(
        self, client: mqtt.Client, userdata: Any, mid: int, code: ReasonCode, properties: Properties
    ) -> None:
        SEEN.append((mid, code))

    def on_socket(self, client: mqtt.Client, userdata: Any, sock: mqtt.SocketLike) -> None:
        SEEN.append(sock.fileno())

    def on_subscribe(
        self, client: mqtt.Client, userdata: Any, mid: int, codes: list[ReasonCode], properties: Properties | None
    ) -> None:
        SEEN.append((mid, codes))


def decorated(client: mqtt.Client) -> None:
    """Set callbacks by decorators."""

    @client.topic_callback("c/+")
    def on_c(client: mqtt.Client, userdata: Any, message: mqtt.MQTTMessage) -> None:
        SEEN.append(mqtt.topic_matches_sub("c/+", message.topic))

    @client.message_callback()
    def on_message(client: mqtt.Client, userdata: Any, message: mqtt.MQTTMessage) -> None:
        on_c(client, userdata, message)


def first_version() -> mqtt.Client:
    """Return a client with callbacks of version 1."""

    def on_connect(client: mqtt.Client, userdata: Any, flags: dict[str, Any], code: MQTTErrorCode) -> None:
        SEEN.append((flags, code))

    def on_subscribe(client: mqtt.Client, userdata: Any, mid: int, granted: tuple[int, ...]) -> None:
        SEEN.append((mid, granted))

    client = mqtt.Client(CallbackAPIVersion.VERSION1)
    client.on_connect, client.on_subscribe = on_connect, on_subscribe
    callback: mqtt.CallbackOnConnect = on_connect
    client.on_message = on_connect  # type: ignore[assignment]
    client.publish(1)  # type: ignore[arg-type]
    mqtt.Cliant()  # type: ignore[attr-defined]
    mqtt.Client(callback_api="VERSION1")  # type: ignore[call-arg]
    SEEN.append(callback)
    return client
