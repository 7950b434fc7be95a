"""Drop-in for :mod:`paho.mqtt.client`: ``import inorder.paho as mqtt``.

Everything that paho's module offers, with a ``Client`` whose messages come in the one order of all subscribers.
"""

try:
    from paho.mqtt.client import *  # noqa: F403
    from paho.mqtt.client import _base62 as _base62
except ImportError as error:
    from inorder.errors import MissingExtra

    raise MissingExtra("inorder.paho", "mqtt") from error

from inorder.client.configured import ClientConfiguration as ClientConfiguration
from inorder.client.configured import configured as configured
from inorder.core.notifications import Gap as Gap
from inorder.core.notifications import GapReason as GapReason
from inorder.core.notifications import Verdict as Verdict
from inorder.paho.client import CallbackOnGap as CallbackOnGap
from inorder.paho.client import Client as Client
from inorder.paho.message import InOrder as InOrder
from inorder.paho.message import MQTTMessage as MQTTMessage
from inorder.paho.ordering import WorkersUnreachable as WorkersUnreachable
