"""The Spark session of an analysis."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from inorder.errors import InorderError, InvalidOption, MissingExtra
from inorder_analytics.spark.java import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
"""All processors of this machine; the default."""

_MIN_MEMORY, _MAX_MEMORY = 1 << 10, 4 << 10
_LOOK_SECONDS = 60.0
# Most of a job's code runs once: optimising it costs more than it gains. The cache is as large as with optimisation.
_COMPILED_ONCE: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
_LOGGING = Path(__file__).with_name("log4j2.properties")


class WrongPython(InorderError):
    """``PYSPARK_PYTHON`` names a Python that cannot work for this one."""

    def __init__(self, python: str, reason: str) -> None:
        self.python = python
        super().__init__(
            f"PYSPARK_PYTHON is {python}, and {reason}; unset it, or set it to a Python {_version()} that has inorder, "
            f"such as {sys.executable}"
        )


def open_session(
    master: str | None = None, *, partitions: int | None = None, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session, or return the existing one.

    Times are in UTC, data go to and from Python by Arrow, and a local master listens on the loopback address only.

    Args:
        master: ``local[*]`` unless given; ``spark-submit`` has said it already.
        partitions: tasks of a shuffle; for a local master twice the processors unless given, else as configured there.
        settings: further properties of Spark, which count before ours.

    Raises:
        JavaNeeded, WrongPython, MissingExtra: what has to be there first.
        InvalidOption: Spark knows no such master.
    """
    if find_spec("pyspark") is None:
        raise MissingExtra("an analysis", "analytics")
    from pyspark.sql import SparkSession

    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not is_submitted and SparkSession.getActiveSession() is None:
        check_java()
    builder = SparkSession.builder.appName("inorder analyze")
    if not is_submitted or master is not None:
        builder = builder.master(master or LOCAL)
    is_local = not is_submitted and (master or LOCAL).startswith("local")
    if is_local:
        _check_python()
    properties = {**_properties(is_submitted, is_local, partitions), **(settings or {})}
    for key, value in properties.items():
        builder = builder.config(key, value)
    try:
        if not is_submitted and not _has_name():
            _start_nameless({"spark.master": master or LOCAL, **properties})
        session = builder.getOrCreate()
    except Exception as error:
        text = str(error)
        if "Could not parse Master URL" in text:
            raise InvalidOption("--master", master, "local[N], spark://HOST:PORT, yarn or k8s://...") from None
        raise InorderError(f"Spark did not start: {reason_of(text)}") from error
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _properties(is_submitted: bool, is_local: bool, partitions: int | None) -> dict[str, str]:
    properties = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        # Joins by event reuse the partitions of one shuffle by event.
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
    }
    if is_local:
        properties |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.driver.memory": f"{_memory()}m",
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        }
    if not is_submitted:
        logging = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
        home = "" if _has_name() else f' "-Duser.home={_home()}"'
        properties["spark.driver.extraJavaOptions"] = (f"{_COMPILED_ONCE} {logging}" if is_local else logging) + home
    if partitions is not None:
        properties["spark.sql.shuffle.partitions"] = str(partitions)
    return properties


def reason_of(text: str) -> str:
    """Return in one line why Spark did not start: Java's own reason, if there is one."""
    lines = [line.strip() for line in text.strip().splitlines()]
    if "JAVA_GATEWAY_EXITED" in text:
        return "Java ended at once, and has said why on standard error"
    of_java = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (of_java or lines or ["it does not say why"])[0]


def _has_name() -> bool:
    """Tell whether the system knows the user, as containers may run under any number."""
    try:
        import pwd
    except ImportError:  # pragma: no cover (Windows)
        return True
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _home() -> str:
    """Return a home folder for Java if the system knows none."""
    home = os.environ.get("HOME", "")
    return home if os.path.isabs(home) and os.path.isdir(home) and '"' not in home else tempfile.gettempdir()


def _start_nameless(properties: Mapping[str, str]) -> None:
    """Start Java and tell Hadoop the user, whom Hadoop would ask of the system and fail without a name. PySpark has no
    public way to come in between."""
    from pyspark import SparkConf, SparkContext

    context: Any = SparkContext
    if context._active_spark_context is not None:
        return
    name = str(os.getuid())
    os.environ.setdefault("SPARK_USER", name)
    context._ensure_initialized(conf=SparkConf().setAll([*properties.items()]))
    users = context._jvm.org.apache.hadoop.security.UserGroupInformation
    users.setLoginUser(users.createRemoteUser(name))


def _memory() -> int:
    """Return a quarter of the machine's memory in MiB, within bounds: Python's tasks need some beside the JVM."""
    try:
        whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (AttributeError, ValueError, OSError):
        whole = 0
    return min(max(whole // 4, _MIN_MEMORY), _MAX_MEMORY)


def _check_python() -> None:
    """Check that the tasks of a local master run this Python, unless PYSPARK_PYTHON names another."""
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if python == sys.executable:
        return
    code = "import sys, pyarrow, inorder; print('%d.%d' % sys.version_info[:2])"
    try:
        told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, timeout=_LOOK_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WrongPython(python, f"it does not run ({error})") from None
    if told.returncode:
        reason = (told.stderr.strip().splitlines() or ["it failed"])[-1]
        raise WrongPython(python, f"it cannot do the work ({reason})")
    if told.stdout.strip() != _version():
        raise WrongPython(python, f"it is Python {told.stdout.strip()}, not {_version()}")


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
