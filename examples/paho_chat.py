"""A chat in two rooms: ``paho_chat.py NAME [PORT]``. What is typed goes to the hall, what begins with ! to the stage;
everybody reads both."""

import sys

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode


def on_connect(
    client: mqtt.Client, name: str, flags: mqtt.ConnectFlags, reason_code: ReasonCode, properties: Properties | None
) -> None:
    if reason_code.is_failure:
        print(f"not let in: {reason_code}")
        client.disconnect()
    else:
        client.subscribe([("chat/hall", 1), ("chat/stage", 1)])


def on_subscribe(
    client: mqtt.Client, name: str, mid: int, reason_codes: list[ReasonCode], properties: Properties | None
) -> None:
    print(f"{name} is here")


def on_message(client: mqtt.Client, name: str, message: mqtt.MQTTMessage) -> None:
    room = message.topic.removeprefix("chat/")
    print(f"[{room}] {message.payload.decode()}")


def main() -> None:
    name = sys.argv[1]
    client = mqtt.Client(CallbackAPIVersion.VERSION2, userdata=name)
    client.will_set("chat/hall", f"{name} was cut off", qos=1)
    client.on_connect, client.on_subscribe, client.on_message = on_connect, on_subscribe, on_message
    client.connect("localhost", int(sys.argv[2]) if len(sys.argv) > 2 else 1883)
    client.loop_start()
    for line in sys.stdin:
        room, text = ("stage", line[1:]) if line.startswith("!") else ("hall", line)
        client.publish(f"chat/{room}", f"{name}: {text.strip()}", qos=1).wait_for_publish()
    client.publish("chat/hall", f"{name} leaves", qos=1)
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    main()
