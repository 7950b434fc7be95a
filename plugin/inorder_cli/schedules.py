"""``inorder analytics schedules``: schedules of analyses."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inorder.errors import InvalidOption
from inorder_cli import options, output
from inorder_cli.failures import CommandFailed, ExitCode, needs
from inorder_cli.stores import WHO, audited, opened_store, utc_text

if TYPE_CHECKING:
    from inorder_controlplane.cron import Cron
    from inorder_worker.store.analyses import Job
    from inorder_worker.store.schedules import Schedule

schedules = options.group(
    name="schedules",
    help="Say when which traces are analysed. Control planes on the store do it; they analyse only what their setting "
    "controlplane.traces allows.",
)
"""The group of these commands."""

WHAT = "the schedules of a store"
NEXT_TIMES = 3

Named = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Its name or id.")]
Cronned = Annotated[
    str, typer.Argument(metavar="CRON", help="Minute, hour, day of month, month, day of week: '0 3 * * *'.")
]
Timezone = Annotated[str | None, typer.Option(metavar="ZONE", help="In which CRON is meant, such as Europe/Berlin.")]
Out = Annotated[str | None, typer.Option(metavar="FOLDER", help="For the results as Parquet.")]
Window = Annotated[float | None, typer.Option(min=1, metavar="SECONDS", help="Length of a time window (60).")]
MaxPairs = Annotated[int | None, typer.Option(min=1, metavar="N", help="Pairs of subscribers that are compared (200).")]
Master = Annotated[str | None, typer.Option(metavar="URL", help="Of Spark (local[*]).")]


@schedules.command("list")
def list_all(
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Show all schedules, with the next times at which they are due."""
    from inorder_worker.store.schedules import Schedules

    with opened_store(config, store, WHAT) as opened:
        found = Schedules(opened).list()
    for each in found:
        _say(each, is_json=json)
    if not found and not json:
        output.say("there are no schedules; make one with: inorder analytics schedules add NAME CRON SOURCE")
    return ExitCode.OK


@schedules.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call it; no other schedule has it.")],
    cron: Cronned,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Folder or URL of the traces.")],
    timezone: Timezone = None,
    out: Out = None,
    window: Window = None,
    max_pairs: MaxPairs = None,
    master: Master = None,
    off: Annotated[bool, typer.Option("--off", help="Make it, but do not turn it on yet.")] = False,
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Make a schedule. Times from now on count."""
    from inorder_worker.store.analyses import Job
    from inorder_worker.store.schedules import Schedules
    from inorder_worker.store.store_errors import Conflict

    _check_name(name, "NAME")
    when = _cron(cron, timezone or "UTC", "CRON")
    job = _changed(Job(), source, out, window, max_pairs, master)
    with opened_store(config, store, WHAT) as opened:
        try:
            with audited(opened, "schedule.create", name) as result:
                made = Schedules(opened).add(name, when.text, when.timezone, job, is_on=not off, by=WHO)
                result.update(plain(made))
        except Conflict:
            raise _taken(name) from None
    _say(made, is_json=json)
    return ExitCode.OK


@schedules.command("set")
def change(
    schedule: Named,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Another name.")] = None,
    cron: Annotated[str | None, typer.Option(metavar="CRON", help="Other times.")] = None,
    timezone: Timezone = None,
    source: Annotated[str | None, typer.Option(metavar="SOURCE", help="Other traces.")] = None,
    out: Out = None,
    window: Window = None,
    max_pairs: MaxPairs = None,
    master: Master = None,
    on: Annotated[bool | None, typer.Option("--on/--off", help="Turn it on or off.")] = None,
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Change a schedule; values that are not given stay. Times that it missed while it was off do not count."""
    from inorder_worker.store.analyses import Job
    from inorder_worker.store.schedules import Schedules
    from inorder_worker.store.store_errors import Conflict

    if name is not None:
        _check_name(name, "--name")
    if cron is not None or timezone is not None:
        _cron(cron or "0 0 * * *", timezone or "UTC")
    _changed(Job(), source, out, window, max_pairs, master)
    with opened_store(config, store, WHAT) as opened:
        own, changed = _known(Schedules(opened).find(schedule), schedule).id, None
        try:
            with audited(opened, "schedule.change", own) as result:
                while changed is None:  # until it is not due in the same moment
                    seen = _known(Schedules(opened).find(own), schedule)
                    when = _cron(cron or seen.cron, timezone or seen.timezone)
                    job = _changed(seen.job, source, out, window, max_pairs, master)
                    is_on = seen.is_on if on is None else on
                    changed = Schedules(opened).change(
                        seen, name=name or seen.name, cron=when.text, timezone=when.timezone, job=job, is_on=is_on
                    )
                result.update(plain(changed))
        except Conflict:
            raise _taken(name or "") from None
    _say(changed, is_json=json)
    return ExitCode.OK


@schedules.command()
def remove(
    schedule: Named, store: options.Store = None, config: options.Config = None, debug: options.Debug = False
) -> int:
    """Delete a schedule. Its runs stay, also one that goes on."""
    from inorder_worker.store.schedules import Schedules

    with opened_store(config, store, WHAT) as opened:
        found = _known(Schedules(opened).find(schedule), schedule)
        with audited(opened, "schedule.remove", found.id, {"name": found.name}):
            Schedules(opened).remove(found.id)
    output.say("done")
    return ExitCode.OK


@schedules.command()
def run(
    schedule: Named,
    store: options.Store = None,
    json: options.Json = False,
    config: options.Config = None,
    debug: options.Debug = False,
) -> int:
    """Queue a run now, also of a schedule that is off: a control plane on the store runs it. Prints the run's id."""
    from inorder_worker.store.analyses import Analyses
    from inorder_worker.store.schedules import Schedules

    with opened_store(config, store, WHAT) as opened:
        found = _known(Schedules(opened).find(schedule), schedule)
        with audited(opened, "schedule.run", found.id, {"name": found.name}) as result:
            queued = Analyses(opened).queue(found.job, WHO, schedule=found.id)
            result["id"] = queued.id
    if json:
        output.emit({"id": queued.id, "outcome": queued.outcome})
    else:
        output.write(queued.id)
    return ExitCode.OK


def plain(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule in plain JSON types, for this command and the API."""
    return {
        "id": schedule.id, "name": schedule.name, "cron": schedule.cron, "timezone": schedule.timezone,
        "job": plain_job(schedule.job),
        "is_on": schedule.is_on, "created_at": utc_text(schedule.created_ms), "by": schedule.by,
        "fired_at": utc_text(schedule.fired_ms), "next": [utc_text(each) for each in _next(schedule)],
    }  # fmt: skip


def plain_job(job: Job) -> dict[str, Any]:
    """Return an analysis job in plain JSON types."""
    return {
        "source": job.source, "out": job.out, "window_s": job.window_s, "max_pairs": job.max_pairs,
        "master": job.master,
    }  # fmt: skip


def _next(schedule: Schedule) -> list[int]:
    if not schedule.is_on:
        return []
    now_ms = time.time_ns() // 1_000_000
    return _cron(schedule.cron, schedule.timezone).upcoming(max(schedule.after_ms, now_ms), NEXT_TIMES)


def _say(schedule: Schedule, *, is_json: bool) -> None:
    when = ", ".join(text for each in _next(schedule) if (text := utc_text(each))) or "off"
    zone = "" if schedule.timezone == "UTC" else f" {schedule.timezone}"
    text = f"{schedule.id}: {schedule.name}, {schedule.cron}{zone}, {schedule.job.source}; next: {when}"
    output.tell(plain(schedule), text, is_json=is_json)


def _cron(text: str, timezone: str, argument: str = "--cron") -> Cron:
    """Return an option's cron expression. Raises MissingExtra, and InvalidOption with the typed name."""
    with needs("controlplane", "schedules"):
        from inorder_controlplane.cron import Cron
    try:
        return Cron(text, timezone)
    except InvalidOption as error:
        named = "--timezone" if error.option == "timezone" else error.option.replace("cron", argument)
        raise InvalidOption(named, error.value, error.allowed) from None


def _changed(
    job: Job, source: str | None, out: str | None, window: float | None, max_pairs: int | None, master: str | None
) -> Job:
    """Return a job with the given changes; folders as absolute paths."""
    import msgspec

    given: dict[str, object] = {"source": _place(source, "--source"), "out": _place(out, "--out"), "window_s": window}
    given |= {"max_pairs": max_pairs, "master": master}
    return msgspec.structs.replace(job, **{name: value for name, value in given.items() if value is not None})


def _place(text: str | None, option: str) -> str | None:
    if text is None or "://" in text:
        return text
    if not text.strip():
        raise InvalidOption(option, text, "a folder or a URL")
    return os.path.abspath(text)


def _check_name(name: str, option: str) -> None:
    if not (0 < len(name) <= 128 and name.isprintable()):
        raise InvalidOption(option, name, "a text of 1 to 128 printable characters")


def _known(found: Schedule | None, given: str) -> Schedule:
    if found is None:
        raise CommandFailed(f"there is no schedule {given!r}; inorder analytics schedules list shows all")
    return found


def _taken(name: str) -> CommandFailed:
    return CommandFailed(f"another schedule is called {name!r} already")
