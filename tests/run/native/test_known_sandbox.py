"""A process believes an earlier one that sandboxes can be made here; never that weaker ones must do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metier.cli import sandbox_report
from metier.errors import IsolationMissing
from metier.run import CANNOT_START, Job, NativeRunner
from metier.run.native import runner
from metier.run.selection import AutoRunner
from metier.run.virtual.worker_process import sandbox_tier

pytestmark = pytest.mark.skipif(not runner.works("namespaces"), reason="no namespaces here")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a process that knows nothing yet."""
    monkeypatch.setenv("METIER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(runner, "_worked", {})
    monkeypatch.setattr(runner, "_believed", set())
    return tmp_path / "cache"


def begin_anew() -> None:
    """Forget all that a process knows."""
    runner._worked.clear()
    runner._believed.clear()


@pytest.fixture
def tests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of sandboxes that were tested; from now on none can be made."""
    made: list[str] = []

    def refuse(tier: str) -> bool:
        made.append(tier)
        return False

    monkeypatch.setattr(runner, "_try", refuse)
    return made


@pytest.fixture
def known(cache: Path) -> Path:
    """The file in which a process noted that sandboxes can be made."""
    assert runner.works("namespaces")
    begin_anew()
    return cache / "sandbox"


def test_a_later_process_believes_an_earlier_one(known: Path, tests: list[str]) -> None:
    assert NativeRunner().capabilities().hides_files
    assert tests == []
    assert known.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", ["other circumstances", "damaged", "longer", "a link", "a folder"])
def test_another_answer_is_not_believed(
    known: Path, tests: list[str], change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = known.read_bytes()
    if change == "other circumstances":
        monkeypatch.setattr("metier.run.native.kernel.circumstances", lambda: ["other"])
    else:
        known.unlink()
    if change == "damaged":
        known.write_bytes(content[:-1] + b"x")
    elif change == "longer":
        known.write_bytes(content + b"x")
    elif change == "a link":
        (tmp_path / "elsewhere").write_bytes(content)
        known.symlink_to(tmp_path / "elsewhere")
    elif change == "a folder":
        known.mkdir()
    assert not runner.works("namespaces")
    assert tests == ["namespaces"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_the_file_of_another_user_is_not_believed(known: Path, tests: list[str]) -> None:
    os.chown(known, 65_534, 65_534)
    assert not runner.works("namespaces")
    assert tests == ["namespaces"]


@pytest.fixture
def broken(known: Path, tests: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that no longer holds: no sandbox can be made, whatever an earlier process noted."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(runner, "enter_sandbox", refuse)


@pytest.mark.usefixtures("broken")
def test_an_answer_that_no_longer_holds_leads_to_an_error_and_no_weaker_sandbox(
    known: Path, tests: list[str], tmp_path: Path
) -> None:
    job = Job(argv=("true",), folder=str(tmp_path))
    native, other = NativeRunner(), NativeRunner()
    assert other.tier == "namespaces"
    outcome = native.run_blocking(job)
    assert (outcome.exit_code, tests) == (CANNOT_START, ["namespaces"])
    assert "Operation not permitted" in outcome.stderr
    assert not known.exists()
    for one in (native, other):
        with pytest.raises(IsolationMissing):
            one.run_blocking(job)
    assert tests == ["namespaces"]


@pytest.mark.usefixtures("broken")
def test_a_job_that_was_given_to_one_kind_of_sandbox_runs_in_no_weaker_one(
    tests: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_try", lambda tier: tier == "landlock")
    job = Job(argv=("true",), folder=str(tmp_path))
    chooser = AutoRunner(required=("hosts",))
    chosen = chooser.choose(job)
    assert chosen.run_blocking(job).exit_code == CANNOT_START
    with pytest.raises(IsolationMissing):
        chosen.run_blocking(job)
    with pytest.raises(IsolationMissing):
        chooser.choose(Job(argv=("/bin/true",), folder=str(tmp_path)))
    weaker = AutoRunner().native
    assert isinstance(weaker, NativeRunner)
    assert weaker.tier == "landlock"


def test_an_answer_that_cannot_be_taken_back_is_not_believed(
    known: Path, tests: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(known.parent))
    assert not runner.works("namespaces")
    assert tests == ["namespaces"]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("who", ["metier doctor", "a virtual shell"])
def test_one_who_needs_to_know_tests_it(tests: list[str], who: str) -> None:
    if who == "metier doctor":
        assert not sandbox_report.runners()[0]["isolates"]
    else:
        assert sandbox_tier.__wrapped__() is None
    assert tests == ["namespaces", "bubblewrap", "landlock"]


def test_a_weaker_kind_is_tested_by_each_process(cache: Path, tests: list[str]) -> None:
    for _ in range(2):
        assert not runner.works("landlock")
        begin_anew()
    assert tests == ["landlock", "landlock"]
    assert not cache.exists()


def test_a_program_that_cannot_be_started_is_no_matter_of_the_sandbox_for_long(known: Path, tmp_path: Path) -> None:
    native = NativeRunner()
    assert native.run_blocking(Job(argv=("no-such-program",), folder=str(tmp_path))).exit_code == CANNOT_START
    assert native.run_blocking(Job(argv=("true",), folder=str(tmp_path))).is_success
    assert known.exists()


def test_without_a_cache_each_process_tests(tests: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METIER_CACHE", "off")
    assert not runner.works("namespaces")
    assert tests == ["namespaces"]
