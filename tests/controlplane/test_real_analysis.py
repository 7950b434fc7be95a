"""One analysis by the real command and the real Spark, asked for through the API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.controlplane.conftest import Serve

from inorder_cli.app import run
from inorder_controlplane.running import running

SECONDS = 900
QUICK = (
    # Compiling each query takes longer here than running it.
    "--conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN "
    "--conf spark.sql.shuffle.partitions=1 pyspark-shell"
)


@pytest.mark.long
async def test_an_analysis_from_the_request_to_its_result(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", QUICK)
    traces = tmp_path / "traces"
    made = ["--events", "40", "--subscribers", "2", "--topics", "2", "--disorder", "0.5", "--seed", "1"]
    assert run(["traces", "generate", str(traces / "plant"), *made]) == 0
    site = serve(traces=(str(traces),))
    operator = site.client("operator")
    async with running(site.app.state.context), asyncio.timeout(SECONDS):
        body = {"source": str(traces / "plant"), "out": str(traces / "results"), "master": "local[1]"}
        asked = await operator.post("/api/v1/analytics/runs", json=body)
        assert asked.status_code == 201, asked.text
        path = asked.headers["location"]
        while True:
            found = (await operator.get(path)).json()
            if found["ended_at"] is not None:
                break
            await asyncio.sleep(0.2)
    assert (found["outcome"], found["reason"]) == ("done", None), found["log"]
    assert (found["progress"]["step"], found["progress"]["of"]) == (6, 6)
    assert (found["summary"]["events"], found["summary"]["ordering_degree_delivered"]) == (40, 1.0)
    assert found["summary"]["ordering_degree_raw"] < 1
    kept = await operator.get(f"{path}/result")
    assert [each["events"] for each in kept.json()["by_run"]] == [40]
    assert (traces / "results" / "result.json").exists()
