"""Several who use one shell at the same time, and one who closes it meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from metier.errors import ShellRefused
from metier.run import PlainRunner
from metier.run.job import Outcome
from metier.run.virtual import VirtualShell


class Busy:
    """A command that runs until it is told to stop, and is known to run."""

    def __init__(self, shell: VirtualShell, command: str = "echo begun; sleep 60") -> None:
        self.stop, begun = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._outcome = self._pool.submit(
            lambda: shell.execute(
                command, seconds=100, should_stop=self.stop.is_set, on_output=lambda line: begun.set()
            )
        )
        assert begun.wait(30)

    def end(self) -> Outcome:
        self.stop.set()
        outcome = self._outcome.result(30)
        self._pool.shutdown()
        return outcome


@pytest.fixture
def own() -> Iterator[VirtualShell]:
    """A shell that nobody else has."""
    with VirtualShell() as shell:
        yield shell


@pytest.mark.covers("S2-06")
def test_a_second_command_fails_at_once_while_one_runs(own: VirtualShell) -> None:
    own.write("/f", b"before")
    busy = Busy(own)
    for act in (lambda: own.execute("true"), lambda: own.read("/f"), lambda: own.write("/f", b"x"), own.usage):
        with pytest.raises(ShellRefused) as caught:
            act()
        assert caught.value.code == "shell-busy"
    busy.end()
    assert own.execute("cat /f").stdout == "before"


@pytest.mark.covers("S2-06")
def test_a_command_that_is_stopped_leaves_nothing_behind(own: VirtualShell) -> None:
    own.execute("v=1; echo old > /f")
    outcome = Busy(own, "v=2; echo new > /f; echo begun; sleep 60").end()
    assert (outcome.killed_by, outcome.exit_code, outcome.stdout) == ("cancel", 137, "begun\n")
    assert "as they were before this command" in outcome.stderr
    assert own.execute("echo $v; cat /f").stdout == "1\nold\n"


@pytest.mark.covers("S2-06")
def test_files_are_read_and_written_by_many_at_once(shell: VirtualShell) -> None:
    shell.write("/f", b"x")
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda _: shell.read("/f"), range(40)))
        list(pool.map(lambda number: shell.write(f"/d/{number}", b"%d" % number), range(40)))
    assert read == [b"x"] * 40
    assert shell.execute("cat /d/* | wc -w; ls /d | wc -l").stdout.split() == ["1", "40"]


@pytest.mark.covers("S2-06")
def test_what_ran_too_long_is_dead_before_anything_else_is_taken(shell: VirtualShell) -> None:
    shell.execute("echo kept > /f; i=0")
    late = shell.execute("while :; do i=$((i+1)); echo $i > /g; done", seconds=0.3)
    assert (late.exit_code, late.timed_out, late.killed_by) == (124, True, "timeout")
    assert "exceeds its limit of 0.3 seconds" in late.stderr
    first, second = shell.execute("cat /f /g").stdout, shell.execute("cat /f /g").stdout
    assert first == second
    assert first.startswith("kept\n")


@pytest.mark.covers("S2-06")
def test_closing_ends_a_command_and_is_safe_from_everywhere(own: VirtualShell) -> None:
    busy = Busy(own)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: own.close(), range(4)))
    assert busy.end().killed_by == "cancel"
    own.close()
    for act in (lambda: own.execute("true"), lambda: own.execute("true", isolated=True), own.snapshot):
        with pytest.raises(ShellRefused) as caught:
            act()
        assert caught.value.code == "shell-closed"


@pytest.mark.covers("S2-06")
def test_an_isolated_command_changes_nothing(shell: VirtualShell) -> None:
    shell.execute("mkdir /d; cd /d; v=1; echo old > f; g() { echo g; }")
    outcome = shell.execute("cat f; g; v=2; echo new > f; touch h; cd /; pwd", isolated=True)
    assert outcome.stdout == "old\ng\n/\n"
    assert shell.execute("pwd; echo $v; ls; cat f").stdout == "/d\n1\nf\nold\n"


@pytest.mark.covers("S2-06")
def test_isolated_commands_run_beside_others(own: VirtualShell) -> None:
    own.execute("echo shared > /f")
    busy = Busy(own)
    with ThreadPoolExecutor(3) as pool:
        beside = list(pool.map(lambda n: own.execute(f"cat /f; echo {n} > /f; cat /f", isolated=True), range(3)))
    assert sorted(outcome.stdout for outcome in beside) == ["shared\n0\n", "shared\n1\n", "shared\n2\n"]
    busy.end()
    assert own.execute("cat /f").stdout == "shared\n"


def test_an_isolated_command_that_crashes_touches_nothing(shell: VirtualShell) -> None:
    shell.execute("echo kept > /f")
    outcome = shell.execute("echo gone > /f; sleep 60", isolated=True, seconds=0.2)
    assert outcome.timed_out
    assert shell.execute("cat /f").stdout == "kept\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_neither_uses_nor_ends_the_worker(own: VirtualShell) -> None:
    own.execute("v=1; echo x > /f")
    child = os.fork()
    if child == 0:
        # A copy of the checkpoint is all that the child has.
        code = 1
        try:
            code = 0 if own.execute("v=2; cat /f").stdout == "x\n" else 1
            own.close()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert own.execute("echo $v").stdout == "1\n"


@pytest.mark.skipif(os.name != "posix", reason="programs are started as POSIX does")
def test_a_program_sees_no_skill_that_was_unmounted_while_its_command_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, unmounting, may_go_on = threading.Event(), threading.Event(), threading.Event()
    with VirtualShell(native=PlainRunner(), before=lambda _: asked.set()) as shell, ThreadPoolExecutor(2) as pool:
        shell.mount("demo", {"scripts/tool.py": b"print('seen')\n"})
        assert shell.execute("python3 /.sandbox/skills/demo/scripts/tool.py").stdout == "seen\n"
        put_skill = shell._checkpoints.put_skill

        def slowly(*given: Any) -> bool:
            unmounting.set()
            assert may_go_on.wait(30)
            return put_skill(*given)

        monkeypatch.setattr(shell._checkpoints, "put_skill", slowly)
        unmounted = pool.submit(shell.unmount, "demo")
        assert unmounting.wait(30)
        asked.clear()
        command = pool.submit(shell.execute, "python3 /.sandbox/skills/demo/scripts/tool.py")
        assert asked.wait(30)
        time.sleep(0.1)  # until it waits for its turn
        may_go_on.set()
        assert unmounted.result(30)
        assert command.result(30).stdout == ""
