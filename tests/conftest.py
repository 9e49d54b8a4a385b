"""What every test stands on: a home of its own, and skills written as real files."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
import itertools
import logging
import os
import re
import shlex
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.disk import hurry, keep_in_memory, take_care
from tests.forked import forking
from tests.workers import pytest_addoption, pytest_runtestloop, rewrite_ahead, workers_folder

from metier.source import distribution
from metier.source.distribution import InstalledDistribution

__all__ = ["pytest_addoption", "pytest_runtestloop"]

# Where some of the tests are run by another user, it is not there.
with contextlib.suppress(ModuleNotFoundError):
    from hypothesis import settings

    # The same few each time; `make test-slow` looks further, and so does METIER_EXAMPLES=1000.
    examples = int(os.environ.get("METIER_EXAMPLES", "5"))
    settings.register_profile("metier", derandomize=True, deadline=None, database=None, max_examples=examples)
    settings.load_profile("metier")

FORKING = pytest.StashKey[Path]()
NUMBERS = itertools.count()

HOME = {
    "HOME": "",
    "USERPROFILE": "",
    "APPDATA": "/appdata",
    "LOCALAPPDATA": "/localappdata",
    "METIER_CACHE": "/metier-cache",
    "METIER_CONFIG": "/metier-config",
    "XDG_CACHE_HOME": "/cache",
    "XDG_CONFIG_HOME": "/config",
    "XDG_DATA_HOME": "/data",
    "XDG_STATE_HOME": "/state",
}


def pytest_configure(config: pytest.Config) -> None:
    about = "all cases in one test, which tells every one that fails; with `every=3`, only each third if it is quick"
    config.addinivalue_line("markers", f"each(names, cases, every=1): {about}")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell has what it starts in the background ignore Ctrl-C, and all that is started from there would, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if "coverage" in sys.modules:
        from tests import sandbox_trace

        sandbox_trace.measure(config)


@pytest.hookimpl(tryfirst=True)
def pytest_report_to_serializable(report: pytest.CollectReport | pytest.TestReport) -> None:
    """Workers send no keywords: they are a large part of each report, and nobody reads them."""
    if isinstance(report, pytest.TestReport):
        report.keywords = {}


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Iterator[Path]:
    """The folder with a program `metier` that works as the installed one does, and need not import all over again."""
    if FORKING in pytestconfig.stash:
        yield pytestconfig.stash[FORKING]  # one for all workers
    else:
        with _programs() as folder:
            yield folder


def _programs() -> contextlib.AbstractContextManager[Path]:
    return forking() if hasattr(os, "fork") else contextlib.nullcontext(Path(sys.executable).parent)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of a table, or a test of each case that the command line names: `test_it[each3]` is the fourth."""
    names, cases, every = table_of(metafunc.definition)
    if names:
        asked = f"::{metafunc.function.__name__}["
        chosen = {
            int(found)
            for argument in metafunc.config.args
            if asked in argument
            for found in re.findall(r"\beach(\d+)\b", argument.partition(asked)[2])
        }
        if chosen:
            alone = {f"each{number}": case for number, case in enumerate(cases) if number in chosen}
            metafunc.parametrize(names, alone.values(), ids=alone)
        else:
            tests = {"each": pytest.param(*[None] * len(names))}
            if every > 1:
                tests["each_other"] = pytest.param(*[None] * len(names), marks=pytest.mark.slow)
            metafunc.parametrize(names, tests.values(), ids=tests)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Goes through a table of many cases that take next to no time each: a test for every one would take far longer."""
    names, cases, every = table_of(pyfuncitem)
    which = re.search(r"\beach(_other)?\b", pyfuncitem.name.partition("[")[2])
    if not names or which is None:
        return None
    given: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    others = [one[-1].argnames for one in pyfuncitem._fixtureinfo.name2fixturedefs.values()]
    # A folder for each case, unless something that all cases share lies in it.
    folder = given.get("tmp_path") if not any("tmp_path" in needed for needed in others) else None
    failures: list[BaseException] = []
    skips: list[str] = []
    chosen = [number for number in range(len(cases)) if (number % every == 0) is (which[1] is None)]
    for number in chosen:
        case = cases[number]
        given.update(zip(names, case, strict=True))
        if folder is not None:
            given["tmp_path"] = folder / str(number)
            given["tmp_path"].mkdir()
        try:
            pyfuncitem.obj(**given)
        except pytest.skip.Exception as skip:
            skips.append(str(skip))
        except (Exception, pytest.fail.Exception) as failure:
            alone = re.sub(rf"\b{which[0]}\b", f"each{number}", pyfuncitem.name, count=1)
            again = pyfuncitem.nodeid.removesuffix(pyfuncitem.name) + alone
            failure.add_note(f"with {', '.join(names)} = {case!r:.1000}\nalone: pytest {shlex.quote(again)}")
            failures.append(failure)
    if len(skips) == len(chosen):
        raise pytest.skip.Exception("; ".join(dict.fromkeys(skips)), _use_item_location=True)
    for reason in skips:
        _report_skip(pyfuncitem, reason)
    if failures:
        raise BaseExceptionGroup(f"{len(failures)} cases of {pyfuncitem.originalname}", failures)
    return True


def _report_skip(test: pytest.Function, reason: str) -> None:
    """Count a case of a table as skipped, beside the table, which may pass or fail."""
    path, line, _ = test.reportinfo()
    where = (os.fspath(path), (line or 0) + 1, f"Skipped: {reason}")
    report = pytest.TestReport(test.nodeid, test.location, {}, "skipped", where, "call")
    test.ihook.pytest_runtest_logreport(report=report)


PARAMETERS = type(pytest.param())


def table_of(definition: pytest.Function) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int]:
    """The names and the cases of a table, or of all that several tables have together, and which are quick."""
    names: tuple[str, ...] = ()
    tables, every = [], 1
    for marker in definition.iter_markers("each"):
        columns = (marker.args[0],) if isinstance(marker.args[0], str) else tuple(marker.args[0])
        names += columns
        tables.append([tuple(case) if len(columns) > 1 else (case,) for case in marker.args[1]])
        every = max(every, marker.kwargs.get("every", 1))
    cases = [sum(rows, ()) for rows in itertools.product(*tables)]
    # Such a value would be passed on as it is, and most tests of what is refused would be content with it.
    strange = [case for case in cases if any(isinstance(value, PARAMETERS) for value in case)]
    assert not strange, f"{definition.nodeid}: `pytest.param` is for `parametrize`: {strange[0]!r:.200}"
    assert cases or not names, f"{definition.nodeid}: a table without a case, or one that can be gone through only once"
    return names, cases, every


def pytest_collection(session: pytest.Session) -> None:
    rewrite_ahead(session.config)
    gc.disable()  # all that is made now stays until the end


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if config.option.workers > 1 and config.option.in_memory and not config.option.collectonly:
        keep_in_memory(workers_folder(config))  # before anything is started that tests write files for
    if config.option.workers > 1 and any("programs" in getattr(item, "fixturenames", ()) for item in session.items):
        running = contextlib.ExitStack()
        config.stash[FORKING] = running.enter_context(_programs())
        config.add_cleanup(running.close)
    database = sys.modules.get("tests.store.postgres")
    if config.option.workers > 1 and not config.option.collectonly and database is not None:
        database.start()  # one for all workers
        config.add_cleanup(database.stop)
    monkeypatch = pytest.MonkeyPatch()
    config.add_cleanup(monkeypatch.undo)
    _read_once(monkeypatch)
    hurry(monkeypatch.setattr)
    gc.freeze()  # a collection would look at everything for next to nothing
    gc.enable()


# Neither is a fixture, as every test would ask for it.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let nobody hear what is logged but tests of that: for a listener, all diagnostics of a library are collected."""
    logging.getLogger("metier").propagate = "caplog" in getattr(item, "fixturenames", ())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or nextitem.path != item.path:
        set_aside()


def set_aside() -> None:
    """Tests, modules and what they keep stay until the end, so that no garbage collection needs to walk them again."""
    gc.collect()
    gc.freeze()


def _read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep all that is read of certificates and of installed packages."""
    find, known = distribution._distributions, frozenset(filter(None, sys.path))
    once = functools.cache(lambda path, finders: find())

    def distributions() -> list[InstalledDistribution]:
        path = tuple(sys.path)
        # What a test puts on the path is its own, and may change.
        return once(path, tuple(sys.meta_path)) if known.issuperset(path) else find()

    monkeypatch.setattr(ssl, "create_default_context", functools.cache(ssl.create_default_context))
    monkeypatch.setattr(distribution, "_distributions", distributions)


@pytest.fixture
def careful(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is on the disk, for a test of just that."""
    take_care(monkeypatch.setattr)


@pytest.fixture(scope="session", autouse=True)
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    """Paths for one home after the other; the first is for what many tests share."""
    folder = tmp_path_factory.mktemp("homes")
    paths = (folder / str(number) for number in itertools.count())
    with pytest.MonkeyPatch.context() as monkeypatch:
        for variable, path in variables(next(paths)).items():
            monkeypatch.setenv(variable, path)
        monkeypatch.delenv("METIER_ENTERPRISE", raising=False)
        for variable in ("METIER_AUDIT", "METIER_STORE", "METIER_DATA", "METIER_POLICY", "METIER_API_TOKEN"):
            monkeypatch.delenv(variable, raising=False)
        # The same results whether or not the extra for searching by meaning is installed.
        monkeypatch.setenv("METIER_VECTORS", "off")
        # And whatever skills come with other packages that are installed here.
        monkeypatch.setenv("METIER_PLUGINS", "metier")
        yield paths


@pytest.fixture(autouse=True)
def own_home(homes: Iterator[Path]) -> Iterator[Path]:
    """A home folder that is empty, so that no test reads or writes the user's own."""
    shared = {variable: os.environ[variable] for variable in HOME}
    home = next(homes)
    os.environ.update(variables(home))
    yield home
    os.environ.update(shared)


def variables(home: Path) -> dict[str, str]:
    """The environment of a new, empty home."""
    home.mkdir()
    return {variable: f"{home}{folder}" for variable, folder in HOME.items()}


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for this test, made with far less ado than by the fixture of pytest that has this name."""
    name = re.sub(r"\W", "_", request.node.name)[:24]
    path = tmp_path_factory.getbasetemp() / f"{name}_{next(NUMBERS)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(scope="session")
def write_skill() -> Callable[..., Path]:
    """Writes a skill into a folder and returns the path of its SKILL.md."""

    def write(
        folder: Path,
        *,
        name: str | None = None,
        description: str = "Does it.",
        body: str = "Do it.",
        more: str = "",
        file: str = "SKILL.md",
    ) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / file
        path.write_text(
            f"---\nname: {name or folder.name}\ndescription: {description}\n{more}---\n{body}\n", encoding="utf-8"
        )
        return path

    return write


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock ahead of the file system's, so that files just written count as written long ago."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 10_000_000_000)


@pytest.fixture
def quiet_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock a moment ahead of the file system's, so that nobody waits to see whether a file is still being written.

    What was just written still counts as such: it is read again at the next look.
    """
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 20_000_000)


@pytest.fixture
def next_tick(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], None]:
    """Waits until a file written now would get a later time stamp than the given one has."""
    probe = tmp_path_factory.mktemp("clock") / "probe"

    def wait(path: Path) -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            probe.write_bytes(b"x")
            if os.stat(probe).st_ctime_ns > os.lstat(path).st_ctime_ns:
                return
        raise AssertionError("the file system's clock stands still")

    return wait


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Skips a test that needs permissions to be enforced where they are not."""
    if not hasattr(os, "geteuid") or os.geteuid() == 0:
        pytest.skip("permissions do not bind this user")
    yield
