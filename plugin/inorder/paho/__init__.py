"""Drop-in for :mod:`paho.mqtt.client`: ``import inorder.paho as mqtt``.

Everything that paho's module offers, with a ``Client`` whose messages come in the one order of all subscribers.
"""

from typing import TYPE_CHECKING

from inorder.errors import MissingExtra

try:
    from paho.mqtt.client import MQTTMessageInfo as MQTTMessageInfo
except ImportError as error:
    raise MissingExtra("inorder.paho", "mqtt") from error

from paho.mqtt.enums import CallbackAPIVersion as CallbackAPIVersion
from paho.mqtt.enums import ConnackCode as ConnackCode
from paho.mqtt.enums import LogLevel as LogLevel
from paho.mqtt.enums import MessageState as MessageState
from paho.mqtt.enums import MessageType as MessageType
from paho.mqtt.enums import MQTTErrorCode as MQTTErrorCode
from paho.mqtt.enums import MQTTProtocolVersion as MQTTProtocolVersion
from paho.mqtt.enums import PahoClientMode as PahoClientMode
from paho.mqtt.properties import Properties as Properties
from paho.mqtt.reasoncodes import ReasonCode as ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions as SubscribeOptions

from inorder.client.configured import ClientConfiguration as ClientConfiguration
from inorder.client.configured import configured as configured
from inorder.endpoint.notifications import Gap as Gap
from inorder.endpoint.notifications import GapReason as GapReason
from inorder.endpoint.notifications import Verdict as Verdict
from inorder.paho import surface
from inorder.paho.callbacks import CallbackOnGap as CallbackOnGap
from inorder.paho.client import Client as Client
from inorder.paho.failures import NotConnected as NotConnected
from inorder.paho.failures import WorkersUnreachable as WorkersUnreachable
from inorder.paho.installation import install as install
from inorder.paho.message import InOrder as InOrder
from inorder.paho.message import MQTTMessage as MQTTMessage

# Of a name that is imported twice the first one is meant.
if TYPE_CHECKING:
    from inorder.paho.callbacks import *  # noqa: F403
if TYPE_CHECKING:
    from paho.mqtt.client import *  # type: ignore[assignment]  # noqa: F403
else:
    __getattr__ = surface.lookup
__dir__ = surface.names
__all__ = surface.names()
