"""Tests in several processes, forked from one that has collected them: `pytest --workers 3`.

To import and to collect all tests takes as long as many a room, and so it is done once. Workers take tests from a pipe,
a part of a file at a time, and send back their reports. Where there is no fork, one process runs all of them.
"""

from __future__ import annotations

import atexit
import functools
import itertools
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.assertion import rewrite

FIRST = ("run", "attacks", "wire", "docs", "stories", "", "cli")
"""Rooms whose tests take longest begin, so that in the end nobody waits for one of them; "" is for files of no room."""
WHOLE = ("wire",)
"""Rooms for one worker: their tests share conversations that take longer than all the rest."""
WITH_WIRE = ("tests/dialect/adapters/test_models.py", "tests/dialect/test_providers.py", "tests/test_docstrings.py")
"""Files for the same worker: they import the same clients of models, which takes longer than their tests."""
TOGETHER = 40
"""So many tests of a file a worker takes at once, at most: more would be left to one worker in the end."""
_NUMBERS = itertools.count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, metavar="N", help="run tests in N processes, forked from this")
    about = "let workers of root on Linux keep the files of tests in memory, which go with the last of them"
    parser.addoption("--in-memory", action="store_true", help=about)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    config = session.config
    if config.option.workers < 2 or session.testsfailed or config.option.collectonly or not hasattr(os, "fork"):
        return None
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal is not None:
        terminal.showfspath = False  # the files would be mixed
    launcher = sys.modules.get("metier.run.native.launcher")
    if launcher is not None:
        launcher.close_shared()  # started by modules that ask what can run here; workers start their own
    workers_folder(config)
    left = sorted(range(len(session.items)), key=lambda index: _order(session.items[index]))
    while left and not session.shouldfail:
        ended = _Workers(session, left).run()
        left = [index for index in left if index not in ended]
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def rewrite_ahead(config: pytest.Config) -> None:
    """Have another process rewrite and compile the files of tests from the last one on, until it meets this one.

    Without bytecode of an earlier run, that takes longer than to collect all tests, with one core idle.
    """
    folders = [Path(argument) for argument in config.args if os.path.isdir(argument)]
    if config.option.workers < 2 or sys.dont_write_bytecode or not hasattr(os, "fork") or not folders:
        return
    child = os.fork()
    if child:
        config.add_cleanup(functools.partial(_reap, child))
        return
    try:
        for file in sorted((file for folder in folders for file in folder.rglob("test_*.py")), reverse=True):
            file = file.resolve()
            bytecode = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
            if rewrite._read_pyc(file, bytecode) is None and rewrite.try_makedirs(bytecode.parent):
                source_hash, code = rewrite._rewrite_test(file, config)
                rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, bytecode)
    finally:
        os._exit(0)  # who collects them tells what is wrong with a file


def _reap(child: int) -> None:
    os.waitpid(child, 0)


def workers_folder(config: pytest.Config) -> Path:
    """The folder with the temporary folders of all workers."""
    folder: Path = config._tmp_path_factory.getbasetemp() / "workers"  # type: ignore[attr-defined]
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _order(item: pytest.Item) -> tuple[bool, int]:
    room = _room(item)
    return not _is_long(item), FIRST.index(room) if room in FIRST else len(FIRST)


def _is_long(item: pytest.Item) -> bool:
    """Whether a test takes minutes: such tests begin, and none waits for another one."""
    return item.get_closest_marker("long") is not None


def _room(item: pytest.Item) -> str:
    file = item.nodeid.partition("::")[0]
    return "wire" if file in WITH_WIRE else "".join(file.split("/")[1:-1][:1])


def _group(item: pytest.Item) -> tuple[str, str]:
    """The tests that a worker runs one after the other: those of a file, or of a whole room."""
    room = _room(item)
    return room, item.nodeid if _is_long(item) else "" if room in WHOLE else str(item.path)


class _Workers:
    """Processes that run tests until none is left; if one dies, the test that it was at has failed."""

    def __init__(self, session: pytest.Session, indexes: Sequence[int]) -> None:
        self._session = session
        self._parts: list[list[int]] = []
        for (room, _), same in itertools.groupby(indexes, lambda index: _group(session.items[index])):
            tests = list(same)
            size = len(tests) if room in WHOLE else TOGETHER
            self._parts += [tests[start : start + size] for start in range(0, len(tests), size)]
        self._queue, end = os.pipe()
        with open(end, "wb") as pipe:  # all of it fits: four bytes for each part of a file
            pipe.write(b"".join(number.to_bytes(4, "big") for number in range(len(self._parts))))

    def run(self) -> set[int]:
        """Run the tests and report them; the indexes of those that have ended."""
        config = self._session.config
        children = dict(self._fork() for _ in range(min(config.option.workers, len(self._parts))))
        started: dict[Connection, int] = {}
        ended: set[int] = set()
        try:
            while children:
                for worker in wait(list(children)):
                    assert isinstance(worker, Connection)
                    try:
                        reports, following = worker.recv()
                    except EOFError:
                        status = os.waitpid(children.pop(worker), 0)[1]
                        reports, following = [self._death(started.get(worker), status)], None
                    for report in reports:
                        report = config.hook.pytest_report_from_serializable(config=config, data=report)
                        config.hook.pytest_runtest_logreport(report=report)
                    if worker in started:
                        ended.add(started.pop(worker))
                    if following is not None:
                        started[worker] = following
                    elif worker in children:
                        os.waitpid(children.pop(worker), 0)
                if self._session.shouldfail:
                    os.read(self._queue, 65_536)
        finally:
            for child in children.values():
                os.kill(child, signal.SIGKILL)  # a test may have left a handler for anything less
                os.waitpid(child, 0)
            os.close(self._queue)
        return ended

    def _death(self, index: int | None, status: int) -> dict[str, Any]:
        """The report of a test whose process died."""
        how = f"A worker ended with {os.waitstatus_to_exitcode(status)}"
        if index is None:
            raise RuntimeError(f"{how} before it had run a test.")
        item = self._session.items[index]
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "failed", f"{how} while it ran {item.nodeid}.", "call"
        )
        data: dict[str, Any] = item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
        return data

    def _fork(self) -> tuple[Connection, int]:
        reading, writing = Pipe(duplex=False)
        number = next(_NUMBERS)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            reading.close()
            self._work(number, writing)
        writing.close()
        return reading, child

    def _work(self, number: int, results: Connection) -> NoReturn:
        """Run what nobody else has taken, and end as an interpreter does."""
        code = 1
        try:
            config = self._session.config
            _separate(config, number)
            reports = _Reports(config)
            config.pluginmanager.register(reports)
            tests = self._taken()
            index = next(tests, None)
            while index is not None and not self._session.shouldfail:
                results.send((reports.taken(), index))
                following = next(tests, None)
                item = self._session.items[index]
                nextitem = None if following is None else self._session.items[following]
                config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
                index = following
            self._session._setupstate.teardown_exact(None)
            results.send((reports.taken(), None))
            atexit._run_exitfuncs()
            code = 0
        except KeyboardInterrupt:
            pass
        except BaseException:
            traceback.print_exc()
        os._exit(code)

    def _taken(self) -> Iterator[int]:
        while number := os.read(self._queue, 4):
            yield from self._parts[int.from_bytes(number, "big")]


class _Reports:
    """The reports of a worker that were not sent yet."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: list[dict[str, Any]] = []
        # Of what goes well before and after a test, only these tell anything.
        self._unread = config.getoption("durations", None) is None and config.getoption("xmlpath", None) is None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._unread and report.when != "call" and report.passed and not report.sections:
            return
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def taken(self) -> list[dict[str, Any]]:
        reports, self._reports = self._reports, []
        return reports


def _separate(config: pytest.Config, number: int) -> None:
    """Share neither the terminal, nor files with output, nor temporary folders with other workers."""
    atexit._clear()
    if (copies := sys.modules.get("metier.session.copies")) is not None:
        atexit.register(copies._shared.end)  # each worker has copies of its own
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    if config.option.capture == "fd":
        # Modules that were imported already may hold the streams that write to these files, so they stay open.
        captured = plugins.getplugin("capturemanager")._global_capturing
        for stream in (captured.out, captured.err):
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), stream.tmpfile.fileno(), inheritable=False)
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = workers_folder(config) / str(number)
    factory._basetemp.mkdir(mode=0o700)
