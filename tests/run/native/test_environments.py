"""Interpreters of virtual environments that lie among temporary files, where a job has a folder of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metier.run import Outcome, command_for

Run = Callable[..., Outcome]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder among temporary files, whatever variables say of where those are."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder).resolve()


def environment_in(folder: Path) -> None:
    """A virtual environment with the interpreter of this process, and a package."""
    base = os.path.realpath(sys.executable)
    packages = folder / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
    for path in (folder / "bin", packages):
        path.mkdir(parents=True)
    (folder / "bin" / "python3").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {os.path.dirname(base)}\n")
    (packages / "ours.py").write_text("NAME = 'ours'\n")


LOOK = """
import os, sys, ours
print(sys.prefix, ours.NAME)
for path in (ours.__file__, sys.prefix + "/new", sys.prefix + "/bin/python3"):
    try:
        open(path, "a").close()
        print("written", path)
    except OSError:
        pass
try:
    os.rename(sys.prefix, sys.prefix + "-away")
    print("moved")
except OSError:
    pass
try:
    print(os.listdir(os.path.dirname(sys.prefix)))
except OSError:
    pass
"""


def test_a_script_starts_in_an_environment_among_temporary_files_and_cannot_change_it(
    run: Run, workspace: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment_in(temporary / "deep" / "venv")
    (temporary / "deep" / "secret").write_text("not for jobs")
    monkeypatch.setenv("PATH", f"{temporary / 'deep' / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (workspace / "a.py").write_text(LOOK)
    for _ in range(2):  # the second may be in the sandbox of the first
        outcome = run(*command_for(str(workspace / "a.py")))
        first, *rest = outcome.stdout.splitlines()
        assert (first, outcome.exit_code) == (f"{temporary}/deep/venv ours", 0), outcome
        assert rest in (["['venv']"], []), outcome
    assert (temporary / "deep" / "venv" / "lib").is_dir()


def test_a_job_that_moves_the_folder_of_its_environment_away_does_so_for_itself_alone(
    run: Run, workspace: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it puts in the place of it is no interpreter of the next job's."""
    environment_in(temporary / "deep" / "venv")
    monkeypatch.setenv("PATH", f"{temporary / 'deep' / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    forge = f"""
mv {temporary} /tmp/away; mkdir -p {temporary}/deep/venv/bin
printf '#!/bin/sh\\necho forged\\n' > {temporary}/deep/venv/bin/python3; chmod 755 {temporary}/deep/venv/bin/python3
true
"""
    run("bash", "-c", forge)
    (workspace / "a.py").write_text("import ours; print(ours.NAME)\n")
    outcome = run(*command_for(str(workspace / "a.py")))
    assert (outcome.stdout, outcome.exit_code) == ("ours\n", 0), outcome
    assert (temporary / "deep" / "venv" / "lib").is_dir()


def test_an_environment_among_temporary_files_that_is_a_part_of_the_workspace_stays_a_part_of_it(
    run: Run, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment_in(temporary / "venv")
    monkeypatch.setenv("PATH", f"{temporary / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (temporary / "a.py").write_text("import sys, ours; open(sys.prefix + '/new', 'x').close(); print(ours.NAME)\n")
    outcome = run(*command_for(str(temporary / "a.py")), folder=temporary)
    assert (outcome.stdout, outcome.exit_code) == ("ours\n", 0), outcome
    assert (temporary / "venv" / "new").exists()
