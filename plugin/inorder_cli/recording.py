"""An analysis in this process, and its reports to people, a control plane and the store."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Final

from inorder_cli import output

if TYPE_CHECKING:
    from inorder_analytics.results import Result
    from inorder_worker.store.analyses import Analyses, Job, Outcome, Progress, Run

BEAT_SECONDS: Final = 2.0
"""Between two signs of life; much shorter than the lease after which a control plane takes the owner for gone."""


class Recording:
    """Reports of an analysis on the terminal; subclasses report elsewhere, too.

    Attributes:
        waited: what a run that waited in the store is to do; ``None``: what the command line says.
    """

    waited: Job | None = None

    def __init__(self) -> None:
        self._lines: list[str] = []

    def progress(self, step: int, of: int, what: str) -> None:
        """Report the beginning of a step."""
        line = f"[{step}/{of}] {what}"
        self._lines.append(line)
        output.say(line)

    def done(self, result: Result) -> None:
        """Report success."""

    def failed(self, reason: str, *, cancelled: bool = False) -> None:
        """Report a failure."""

    def close(self) -> None:
        """End the reports."""


class Reporting(Recording):
    """Writes progress and result as lines of JSON to a file descriptor. When stdin ends, whoever started the analysis
    is gone: it ends too."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        threading.Thread(target=_end_with_stdin, name="inorder-analyze-stdin", daemon=True).start()

    def progress(self, step: int, of: int, what: str) -> None:
        """Report the beginning of a step."""
        super().progress(step, of, what)
        self._report({"type": "progress", "step": step, "of": of, "what": what})

    def done(self, result: Result) -> None:
        """Report success."""
        self._report({"type": "result", "result": _bounded(result)})

    def close(self) -> None:
        """End the reports."""
        self._file.close()

    def _report(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()


class Storing(Recording):
    """Keeps a run's progress, log, outcome and result in the store, as control planes do. When somebody cancels it
    there, it ends.

    Args:
        run: whose owner we are.
        has_waited: it was asked for earlier; else the command line is what made it.
    """

    def __init__(self, analyses: Analyses, run: Run, *, has_waited: bool = False) -> None:
        super().__init__()
        self._analyses, self._run, self._owner = analyses, run, run.owner
        self.waited = run.job if has_waited else None
        self._step: tuple[int, int, str] | None = None
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self.is_cancelled = False
        self._beating = threading.Thread(target=self._beat, name="inorder-analyze-beat", daemon=True)
        self._beating.start()

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._run.id

    def progress(self, step: int, of: int, what: str) -> None:
        """Report the beginning of a step."""
        super().progress(step, of, what)
        self._step = step, of, what

    def done(self, result: Result) -> None:
        """Report success."""
        self._end("done", "", _bounded(result))

    def failed(self, reason: str, *, cancelled: bool = False) -> None:
        """Report a failure."""
        self._end("cancelled" if cancelled or self.is_cancelled else "failed", reason, None)

    def close(self) -> None:
        """End the reports."""
        self._is_over.set()
        self._beating.join()

    def _end(self, outcome: Outcome, reason: str, result: dict[str, Any] | None) -> None:
        self.close()
        log = "\n".join(self._lines)
        self._analyses.end(
            self.id, self._owner, outcome, reason=reason, result=result, progress=self._reached(), log=log
        )

    def _reached(self) -> Progress | None:
        from inorder_worker.store.analyses import Progress

        return None if self._step is None else Progress(*self._step)

    def _beat(self) -> None:
        from inorder.errors import StoreError

        while not self._is_over.wait(BEAT_SECONDS):
            try:
                lines = "\n".join(self._lines)
                word = self._analyses.beat(self.id, self._owner, progress=self._reached(), log=lines)
            except StoreError as error:
                output.say(f"the store is not told how far this is: {error}")
                continue
            if word != "go on":
                self.is_cancelled = True
                os.kill(os.getpid(), signal.SIGINT)
                return


def _bounded(result: Result) -> dict[str, Any]:
    from inorder_analytics.results import to_plain

    return to_plain(result.bounded())


def _end_with_stdin() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
