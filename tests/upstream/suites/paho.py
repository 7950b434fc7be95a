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


TESTS = ("tests/test_client.py", "tests/lib", "tests/test_websockets.py", "tests/test_mqttv5.py")
SUITE = Suite(
    distribution="paho-mqtt",
    keep=("tests", "pyproject.toml"),
    swap=swap,
    passes=(
        Pass(name="fake brokers, no workers: paho's own behaviour", tests=TESTS, is_ordered=False),
        Pass(name="fake brokers, ordered", tests=TESTS),
    ),
)
