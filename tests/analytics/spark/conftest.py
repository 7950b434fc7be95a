"""One Spark session for each process that runs tests; nothing of it is left at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from inorder_analytics.spark.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGING = Path(open_session.__code__.co_filename).with_name("log4j2.properties")

QUICK = {
    # Compiling each query takes longer here than running it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={LOGGING.as_uri()}",
    "spark.driver.memory": "1g",
    "spark.sql.autoBroadcastJoinThreshold": "10m",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session whose time zone, and that of this process, are far from UTC's until it is opened."""
    local = {"spark.local.dir": str(tmp_path_factory.mktemp("spark"))}
    session = open_session("local[2]", partitions=2, settings={**QUICK, **local})
    yield session
    gateway: Any = session.sparkContext._gateway
    process = gateway.proc
    session.stop()
    gateway.shutdown()
    process.stdin.close()
    assert process.wait(60) is not None
    os.environ.pop("PYSPARK_PYTHON", None)
