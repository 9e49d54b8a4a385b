"""What happens where the interpreter is not installed."""

from __future__ import annotations

import sys

import pytest

from metier.errors import ShellUnavailable
from metier.run import Job
from metier.run.virtual import VirtualRunner, VirtualShell, VirtualShells


@pytest.fixture(autouse=True)
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bashkit", None)


def test_a_shell_says_how_to_install_it() -> None:
    with pytest.raises(ShellUnavailable) as caught:
        VirtualShell()
    assert caught.value.hint == "Install it with: pip install 'metier[shell]'"
    with pytest.raises(ShellUnavailable):
        VirtualShells().create()


def test_a_runner_promises_nothing_and_says_why() -> None:
    runner = VirtualRunner()
    able = runner.capabilities()
    assert not able.isolates_files
    assert "pip install 'metier[shell]'" in able.how
    job = Job(argv=("bash", "-c", "echo hi"), folder="/")
    assert not runner.runs(job)
    outcome = runner.run_blocking(job)
    assert outcome.exit_code == 127
    assert "not installed" in outcome.stderr and "pip" not in outcome.stderr, "a model may read it"
