"""paho-mqtt's own tests of its client, against :mod:`inorder.paho`."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ..suite import Pass, Suite


def swap() -> None:
    """Put our modules where the tests, and the programs that they start, import paho's from."""
    swap_modules()
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "sitecustomize.py").write_text(f"from {__name__} import swap_modules\n\nswap_modules()\n")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.getcwd(), os.environ.get("PYTHONPATH", "")])


def swap_modules() -> None:
    """Swap the modules of this process."""
    import paho.mqtt

    import inorder.paho
    import inorder.paho.publish
    import inorder.paho.subscribe

    for name, module in (
        ("client", inorder.paho),
        ("publish", inorder.paho.publish),
        ("subscribe", inorder.paho.subscribe),
    ):
        sys.modules[f"paho.mqtt.{name}"] = module
        setattr(paho.mqtt, name, module)


TESTS = (
    "tests/test_client.py",
    "tests/test_websocket_integration.py",
    "tests/test_websockets.py",
    "tests/lib",
)
STAMPED = "the fake broker compares the bytes of a PUBLISH, which carries a stamp; it passes without workers"
NOT_APPLICABLE = {
    **dict.fromkeys(
        (
            "tests/test_client.py::TestPublish::*",
            "tests/test_client.py::TestPublishBroker2Client::test_valid_utf8_topic_publish*",
            "tests/test_client.py::TestCompatibility::test_callback_v*_mqtt3*",
            "tests/lib/test_01_asyncio.py::*",
            "tests/lib/test_01_decorators.py::*",
            "tests/lib/test_01_reconnect_on_failure.py::*[True]",
            "tests/lib/test_03_publish_c2b_qos*_disconnect.py::*",
            "tests/lib/test_03_publish_helper_*",
            "tests/lib/test_03_publish_qos0.py::*",
            "tests/lib/test_03_publish_qos0_no_payload.py::*",
            "tests/lib/test_04_retain_qos0.py::*",
        ),
        STAMPED,
    ),
}
SUITE = Suite(
    distribution="paho-mqtt",
    keep=("tests", "pyproject.toml"),
    swap=swap,
    passes=(
        Pass(name="without workers", tests=TESTS, is_ordered=False),
        Pass(name="ordered", tests=TESTS, not_applicable=NOT_APPLICABLE),
    ),
)
