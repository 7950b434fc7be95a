"""What runs analyses: when they are due in virtual time, what becomes of their processes, and of their owners."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.helpers import PATIENCE
from tests.controlplane.conftest import Serve, Site
from tests.costs import ended as ended_soon

from inorder.errors import StoreUnreachable
from inorder_controlplane import running
from inorder_controlplane.analysis_process import masked
from inorder_controlplane.running import Runner, SilenceWatch, due, runner_of
from inorder_worker.store import records
from inorder_worker.store.analyses import Analyses, Job, Run
from inorder_worker.store.identity import new_owner
from inorder_worker.store.schedules import Schedules

pytestmark = pytest.mark.usefixtures("quick_looks")

FAKE = (sys.executable, str(Path(__file__).parent / "fake_analysis.py"))
DAY_MS = 86_400_000
T0 = 1_772_357_400_000
"""2026-03-01T09:30:00Z."""


class Clock:
    """The time, for rows and for whoever looks at them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = T0
        monkeypatch.setattr(records, "now_ms", lambda: self.ms)

    def pass_(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    (tmp_path / "traces").mkdir()
    return tmp_path / "traces"


@pytest.fixture
def replica(serve: Serve, traces: Path) -> Callable[..., Site]:
    """Make control planes over one store, whose analyses are fakes; none of them looks by itself."""

    def make(clock: Clock | None = None, **settings: Any) -> Site:
        site = serve(**{"traces": (str(traces),), "cancel_grace": 60.0, **settings})
        context = site.app.state.context
        if clock is not None:
            context.now_ms = lambda: clock.ms
        context.parts["runner"] = Runner(context, FAKE)
        return site

    return make


def runner(site: Site) -> Runner:
    return runner_of(site.app.state.context)


@asynccontextmanager
async def looking(site: Site) -> AsyncIterator[None]:
    """A control plane looks by itself."""
    async with running.running(site.app.state.context):
        yield


def ask(site: Site, traces: Path, what: str) -> str:
    return Analyses(site.store).queue(Job(source=str(traces / what)), "ann").id


def state(site: Site, id_: str) -> Run:
    run = Analyses(site.store).get(id_)
    assert run is not None
    return run


async def until(site: Site, id_: str, is_wanted: Callable[[Run], bool]) -> Run:
    async with asyncio.timeout(PATIENCE):
        while True:
            if is_wanted(found := state(site, id_)):
                return found
            await asyncio.sleep(0.02)


async def ended(site: Site, id_: str) -> Run:
    return await until(site, id_, lambda run: run.ended_ms is not None)


def runs_of(site: Site) -> list[tuple[str | None, str]]:
    return [(run.schedule, run.outcome) for run in Analyses(site.store).list()]


# -- when they are due: virtual time -----------------------------------------------------------------------------------


async def test_a_schedule_fires_when_it_is_due(replica: Callable[..., Site], clock: Clock) -> None:
    site = replica(clock, analyses=0)
    schedules = Schedules(site.store)
    nightly = schedules.add("nightly", "0 3 * * *", "UTC", Job(source="/t"), is_on=True, by="ann")
    schedules.add("off", "* * * * *", "UTC", Job(source="/t"), is_on=False, by="ann")
    clock.pass_(17.5 * 3600 - 1)
    await runner(site).look()
    assert runs_of(site) == []
    clock.pass_(1)
    for _ in range(3):
        await runner(site).look()
    assert runs_of(site) == [(nightly.id, "queued")]
    (fired,) = [each for each in schedules.list() if each.is_on]
    assert fired.fired_ms == clock.ms == T0 + 17.5 * 3_600_000


async def test_missed_times_fire_once(replica: Callable[..., Site], clock: Clock) -> None:
    site = replica(clock, analyses=0)
    Schedules(site.store).add("often", "*/5 * * * *", "UTC", Job(source="/t"), is_on=True, by="ann")
    clock.pass_(3 * 86_400)
    await runner(site).look()
    await runner(site).look()
    ((_, outcome),) = runs_of(site)
    assert outcome == "queued"
    Analyses(site.store).cancel(Analyses(site.store).list()[0].id, "ann")
    clock.pass_(299)
    await runner(site).look()
    assert len(runs_of(site)) == 1, "what was missed is over"
    clock.pass_(1)
    await runner(site).look()
    assert len(runs_of(site)) == 2


async def test_of_two_control_planes_one_fires_and_one_claims(replica: Callable[..., Site], clock: Clock) -> None:
    first, second = replica(clock, analyses=0), replica(clock, analyses=0)
    for name in "abcde":
        Schedules(first.store).add(name, "0 3 * * *", "UTC", Job(source="/t"), is_on=True, by="ann")
    clock.pass_(86_400)
    await asyncio.gather(*(runner(site).look() for site in (first, second, first, second)))
    assert len(runs_of(first)) == 5
    assert len(set(runs_of(first))) == 5


def test_times_in_a_zone_whose_clock_changes(clock: Clock, serve: Serve) -> None:
    """Back: the hour that comes twice fires once. Forward: what is in the hour that is left out fires at its end."""
    store = serve().store
    clock.ms = 1_792_879_200_000  # 2026-10-24T22:00:00Z; at 01:00Z of the 25th 03:00 becomes 02:00
    Schedules(store).add("back", "50 2 * * *", "Europe/Berlin", Job(), is_on=True, by="ann")
    fired = []
    for _ in range(12 * 60):
        clock.pass_(60)
        for schedule in due(Schedules(store).list(), clock.ms):
            run = Schedules(store).fire(schedule, clock.ms)
            assert run is not None
            Analyses(store).cancel(run.id, "ann")
            fired.append(clock.ms)
    assert fired == [1_792_879_200_000 + (2 * 60 + 50) * 60_000]


# -- processes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["a", "a.", "a://", "a://a:", "a@", ":", "a://a:b@ "])
def test_masking_costs_no_more_than_a_line_is_long(part: str) -> None:
    """Whatever an analysis writes: a megabyte without a space, too."""
    with ended_soon():
        shown = masked(f"s3://key:hunter2@bucket/{part * (1_000_000 // len(part))} s3://:hunter2@b", ["secret"])
    assert "hunter2" not in shown
    assert shown.startswith("s3://key:***@bucket/")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:a:b@c@bucket/x@y", "s3://key:***@bucket/x@y"),
        ("s3://user@bucket:80/x@", "s3://user@bucket:80/x@"),
        ("at http://h:80/ of a:b@c", "at http://h:80/ of a:b@c"),
        ("x://a:b@c://d:e@f g://h:i@j", "x://a:***@c://d:***@f g://h:***@j"),
    ],
)
def test_what_is_masked_in_a_line(text: str, shown: str) -> None:
    assert masked(text, []) == shown


async def test_a_run_is_done(replica: Callable[..., Site], traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process gets what it needs and nothing of ours; its log holds no secret, whatever it says."""
    secrets = {"INORDER_STORE__URL": "postgresql://u:storepass@db/x", "PGPASSWORD": "pgpassword1"}
    for name, value in {**secrets, "AWS_SECRET_ACCESS_KEY": "awssecret1"}.items():
        monkeypatch.setenv(name, value)
    site = replica()
    async with looking(site):
        id_ = ask(site, traces, "good")
        runner(site).wake()
        run = await ended(site, id_)
    assert (run.outcome, run.reason, run.owner) == ("done", "", runner(site).owner)
    assert (run.progress, run.summary) == ((2, 2, "publish the result"), {"events": 3})
    assert Analyses(site.store).result(id_) == {"events": 3, "by_run": [{"run": "default", "events": 3}]}
    log = Analyses(site.store).log(id_)
    assert log is not None
    lines = dict(line.split(" ", 1) for line in log.splitlines())
    arguments = json.loads(lines["arguments"])
    assert arguments[:3] == ["--window=60", "--max-pairs=200", "--master=local[*]"]
    assert arguments[-1] == "--"
    assert lines["password"] == "of s3://key:***@bucket and ***"
    environment = json.loads(lines["environment"])
    assert environment["AWS_SECRET_ACCESS_KEY"] == "***"
    assert environment["PATH"] == os.environ["PATH"]
    assert [name for name in environment if name.startswith(("INORDER_", "PG"))] == []
    assert environment["TMPDIR"] == environment["SPARK_LOCAL_DIRS"] != os.environ.get("TMPDIR")
    assert not is_there(environment["TMPDIR"])
    assert [each for each in ("storepass", "pgpassword1", "awssecret1", "hunter22") if each in log] == []


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("refused", "the analysis needs Java 17 or newer: apt-get install openjdk-17-jre-headless"),
        ("crash", "its process was ended by SIGSEGV"),
        ("silent", "it ended without a result"),
        ("odd", "its process ended with exit code 3"),
        ("long", "it ended without a result"),
    ],
)
async def test_a_run_that_fails_says_why(replica: Callable[..., Site], traces: Path, what: str, reason: str) -> None:
    site = replica()
    async with looking(site):
        run = await ended(site, ask(site, traces, what))
    assert (run.outcome, run.reason, run.summary) == ("failed", reason, None)


async def test_what_cannot_be_started(replica: Callable[..., Site], traces: Path, tmp_path: Path) -> None:
    """Where a place is no longer allowed when its turn comes, or there is no such command."""
    site = replica()
    (traces / "link").symlink_to(tmp_path)
    async with looking(site):
        run = await ended(site, ask(site, traces, "link"))
    assert (run.outcome, "not in a place that controlplane.traces allows" in run.reason) == ("failed", True)
    site.app.state.context.parts["runner"] = Runner(site.app.state.context, ["/no/such/command"])
    async with looking(site):
        run = await ended(site, ask(site, traces, "good"))
    assert (run.outcome, run.reason.startswith("the analysis could not be started")) == ("failed", True)


async def test_of_a_long_log_the_end_is_kept(replica: Callable[..., Site], traces: Path) -> None:
    site = replica()
    async with looking(site):
        run = await ended(site, ask(site, traces, "noisy"))
    log = Analyses(site.store).log(run.id)
    assert log is not None
    assert (run.outcome, len(log) <= 64 * 1024, len(log) > 60 * 1024) == ("done", True, True)
    assert log.splitlines()[-1] == "line 199999"
    assert log.splitlines()[0].startswith("line ")


async def test_one_after_the_other(replica: Callable[..., Site], traces: Path) -> None:
    site = replica()
    first, second = ask(site, traces, "waits"), ask(site, traces, "good")
    async with looking(site):
        await until(site, first, lambda run: run.progress is not None)
        await runner(site).look()
        assert state(site, second).outcome == "queued"
        Analyses(site.store).cancel(first, "ann")
        assert (await ended(site, first)).outcome == "cancelled"
        assert (await ended(site, second)).outcome == "done"


async def test_a_cancelled_run_gets_sigterm(replica: Callable[..., Site], traces: Path) -> None:
    site = replica()
    async with looking(site):
        id_ = ask(site, traces, "waits")
        await until(site, id_, lambda run: run.progress is not None)
        Analyses(site.store).cancel(id_, "ben")
        run = await ended(site, id_)
    assert (run.outcome, run.cancelled_by, run.reason) == ("cancelled", "ben", "")


async def test_one_that_does_not_end_is_killed_with_all_that_it_started(
    replica: Callable[..., Site], traces: Path
) -> None:
    site = replica(cancel_grace=0.2)
    async with looking(site):
        id_ = ask(site, traces, "stubborn")
        await until(site, id_, lambda run: run.progress is not None and run.progress.step == 2)
        Analyses(site.store).cancel(id_, "ben")
        assert (await ended(site, id_)).outcome == "cancelled"
    log = Analyses(site.store).log(id_)
    assert log is not None
    await is_gone(int(log.rpartition("child ")[2]))


async def test_the_end_of_the_control_plane_ends_its_runs(replica: Callable[..., Site], traces: Path) -> None:
    site = replica()
    async with looking(site):
        id_ = ask(site, traces, "stubborn")
        waiting = ask(site, traces, "good")
        await until(site, id_, lambda run: run.progress is not None and run.progress.step == 2)
    run = state(site, id_)
    assert (run.outcome, run.reason) == ("failed", "the control plane was stopped")
    assert state(site, waiting).outcome == "queued", "another one may run it"
    log = Analyses(site.store).log(id_)
    assert log is not None
    await is_gone(int(log.rpartition("child ")[2]))


async def test_a_run_that_was_given_up_is_stopped(replica: Callable[..., Site], traces: Path) -> None:
    """Somebody took its owner for gone: what it would write does not count, so it does not go on."""
    site = replica()
    async with looking(site):
        id_ = ask(site, traces, "stubborn")
        await until(site, id_, lambda run: run.progress is not None and run.progress.step == 2)
        log = Analyses(site.store).log(id_)
        async with asyncio.timeout(PATIENCE):
            while True:  # until it does not beat in the same moment
                if Analyses(site.store).give_up(state(site, id_), "silent"):
                    break
                await asyncio.sleep(0)
        assert log is not None
        await is_gone(int(log.rpartition("child ")[2]))
    assert (state(site, id_).outcome, state(site, id_).reason) == ("failed", "silent")


async def is_gone(pid: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if not lives(pid):
                return
            await asyncio.sleep(0.02)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def is_there(path: str) -> bool:
    return Path(path).exists()


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# -- owners that are gone ----------------------------------------------------------------------------------------------


async def test_a_process_of_this_machine_that_is_gone_is_known_at_once(replica: Callable[..., Site]) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from inorder_worker.store.identity import new_owner; print(new_owner('other'))",
        stdout=-1,
    )
    out, _ = await process.communicate()
    site = replica()
    gone = Analyses(site.store).begin(Job(), out.decode().strip(), "ann")
    lives = Analyses(site.store).begin(Job(), new_owner("me"), "ann")
    await runner(site).look()
    assert state(site, gone.id).outcome == "failed"
    assert state(site, gone.id).reason == f"the process that ran it is gone ({out.decode().strip()})"
    assert state(site, lives.id).outcome == "running"


async def test_who_is_silent_for_a_lease_is_taken_for_gone(replica: Callable[..., Site]) -> None:
    site = replica(analysis_lease=30.0)
    now = [0.0]
    part = site.app.state.context.parts["runner"] = Runner(site.app.state.context, FAKE, lambda: now[0])
    runs = Analyses(site.store)
    silent, beats = runs.begin(Job(), "elsewhere/x/1-1/a", "ann"), runs.begin(Job(), "elsewhere/x/1-1/b", "ann")
    for _ in range(6):
        await part.look()
        assert state(site, silent.id).outcome == "running"
        now[0] += 5
        runs.beat(beats.id, beats.owner)
    await part.look()
    assert (state(site, silent.id).outcome, state(site, beats.id).outcome) == ("failed", "running")
    assert state(site, silent.id).reason == "who ran it has shown no sign of life for 30 s (elsewhere/x/1-1/a)"


async def test_a_store_that_is_away_is_said_once(
    replica: Callable[..., Site], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often the control plane looks; and again when something else is wrong, or is wrong again."""
    one = runner(replica())
    said = iter(["away", "away", "full", "full", "", "full"])

    async def look() -> None:
        error = next(said, None)
        if error is None:
            one.begin_to_close()
        elif error:
            raise StoreUnreachable("memory", error)

    monkeypatch.setattr(one, "look", look)
    monkeypatch.setattr(running, "IDLE_SECONDS", 0.0)
    await one.run()
    assert [each.rpartition(" ")[2] for each in caplog.messages] == ['away"', 'full"', 'full"']


def test_nobody_is_suspected_for_the_time_that_we_stood_still(serve: Serve) -> None:
    run = Analyses(serve().store).begin(Job(), "o", "ann")
    silence = SilenceWatch(30.0)
    assert silence.seen([run], 0.0) == set()
    assert silence.seen([run], 3600.0) == set()
    assert silence.seen([run._replace(beat=1)], 3601.0) == set()
    seen = [silence.seen([run._replace(beat=1)], 3601.0 + 5 * at) for at in range(1, 7)]
    assert seen == [set()] * 5 + [{run.id}]


HOST = """
import asyncio, json, sys
import inorder_cli.up
from inorder_controlplane import running
from inorder_controlplane.control_plane import ControlPlane
from inorder_controlplane.settings import ControlPlaneSettings

store, traces, *command = sys.argv[1:]
make = running.Runner
running.Runner = lambda context: make(context, command)

async def main():
    async with ControlPlane(ControlPlaneSettings(port=0, traces=(traces,)), store=store):
        heavy = ("pyspark", "pyarrow", "numpy", "inorder_analytics")
        print(json.dumps([each for each in heavy if each in sys.modules]), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_killed_control_planes_run_is_found(replica: Callable[..., Site], traces: Path) -> None:
    """Its analysis ends with it, and the next control plane on the store says that the run has failed. Spark is in the
    analysis alone."""
    site = replica()
    id_ = ask(site, traces, "waits")
    store = f"sqlite:///{traces.parent}/inorder.db"
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, store, str(traces), *FAKE, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert host.stdout is not None
        assert json.loads(await host.stdout.readline()) == [], "nothing of Spark is loaded here"
        run = await until(site, id_, lambda run: run.progress is not None)
        (child,) = children_of(host.pid)
        host.kill()
        await host.wait()
        await is_gone(child)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(host.pid, signal.SIGKILL)
        await host.wait()
    async with looking(site):
        run = await ended(site, id_)
    assert (run.outcome, run.reason) == ("failed", f"the process that ran it is gone ({run.owner})")
