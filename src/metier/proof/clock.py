"""A clock that stands still, for scripts of a case that says which moment it is.

Programs ask the kernel for the time, and no sandbox can change its answer. Python is told the moment by its modules
`time` and `datetime`, and each program by the variables METIER_NOW and SOURCE_DATE_EPOCH. Whatever asks otherwise, such
as `date` in a shell, Node, and the dates of files, has the real time.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier.errors import InvalidArgument
from metier.run.job import JobPath
from metier.run.selection import AutoRunner
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from metier.run.job import Job, Outcome, OutputLine, RunnerCapabilities

_PYTHON = '''"""The clock of a test stands still."""
import datetime as dates, os, time
at = float(os.environ["SOURCE_DATE_EPOCH"])

def fixed(function):
    return lambda seconds=None: function(at if seconds is None else seconds)

localtime, strftime, asctime = fixed(time.localtime), time.strftime, time.asctime
time.time, time.time_ns, time.localtime = lambda: at, lambda: int(at) * 10**9, localtime
time.gmtime, time.ctime = fixed(time.gmtime), fixed(time.ctime)
time.strftime = lambda form, moment=None: strftime(form, localtime() if moment is None else moment)
time.asctime = lambda moment=None: asctime(localtime() if moment is None else moment)

class Kind(type):
    def __instancecheck__(cls, one):
        return isinstance(one, cls.__base__) if cls in (date, datetime) else super().__instancecheck__(one)

class date(dates.date, metaclass=Kind):
    @classmethod
    def today(cls):
        return cls.fromtimestamp(at)

class datetime(dates.datetime, metaclass=Kind):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(at, tz)

    @classmethod
    def today(cls):
        return cls.fromtimestamp(at)

    @classmethod
    def utcnow(cls):
        return cls.fromtimestamp(at, dates.timezone.utc).replace(tzinfo=None)

dates.date, dates.datetime = date, datetime
'''


class ClockRunner:
    """A runner whose jobs are told that it is another moment."""

    def __init__(self, now: str, folder: Path) -> None:
        """`now` is in ISO 8601, in UTC unless it says otherwise; `folder` is one for what jobs are given."""
        try:
            moment = datetime.fromisoformat(now)
            moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
            seconds = int(moment.timestamp())
        except (ValueError, OverflowError):
            hint = "Write `now: 2026-01-31T12:00:00Z`."
            raise InvalidArgument(f"{shown(now)!r} is no moment.", hint=hint) from None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "sitecustomize.py").write_text(_PYTHON)
        self._folder = os.fspath(folder)
        self._variables = {"SOURCE_DATE_EPOCH": str(seconds), "METIER_NOW": moment.isoformat()}
        self._inner = AutoRunner()

    @property
    def name(self) -> str:
        """The name of the runner that it hands jobs to."""
        return self._inner.name

    def capabilities(self) -> RunnerCapabilities:
        """The guarantees of that runner."""
        return self._inner.capabilities()

    def run_blocking(
        self,
        job: Job,
        *,
        should_stop: Callable[[], bool] | None = None,
        on_output: Callable[[OutputLine], None] | None = None,
    ) -> Outcome:
        """Run a job that is told this moment."""
        return self._inner.run_blocking(self._with_clock(job), should_stop=should_stop, on_output=on_output)

    async def run(self, job: Job, *, on_output: Callable[[OutputLine], None] | None = None) -> Outcome:
        """Run a job that is told this moment, without holding up the event loop."""
        return await self._inner.run(self._with_clock(job), on_output=on_output)

    def _with_clock(self, job: Job) -> Job:
        modules = os.pathsep.join(filter(None, (self._folder, job.env.get("PYTHONPATH"))))
        env = {**job.env, "PYTHONPATH": modules, **self._variables}
        return replace(job, env=env, places=(*job.places, JobPath(self._folder)))
