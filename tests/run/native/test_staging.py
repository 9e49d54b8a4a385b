"""Jobs on a copy of their folder, where nothing in it can be closed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier.run import Outcome

Run = Callable[..., Outcome]
pytestmark = pytest.mark.parametrize("tier", ["landlock"], indirect=True)


@pytest.fixture(autouse=True)
def protected(workspace: Path) -> Path:
    """Something that is to be kept from the job, so that there is a copy."""
    (workspace / ".vscode").mkdir()
    (workspace / ".vscode/tasks.json").write_text("{}")
    (workspace / "file").write_text("x")
    return workspace


@pytest.mark.parametrize("script", ["mkfifo pipe", "rm file; mkfifo file"])
def test_what_is_no_file_folder_or_link_is_not_brought_back(sh: Run, workspace: Path, script: str) -> None:
    name = script.split()[-1]
    outcome = sh(f"{script}; echo ok > fine")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert outcome.notes == (f"It made {name}, which is no file, folder or link. That was not kept.",)
    assert (workspace / "fine").read_text() == "ok\n"
    assert not (workspace / "pipe").exists()


def test_a_folder_takes_the_place_of_a_file_and_a_file_that_of_a_folder(sh: Run, workspace: Path) -> None:
    (workspace / "folder").mkdir()
    (workspace / "folder/in").write_text("x")
    outcome = sh("rm -r file folder; mkdir file; echo a > file/in; echo b > folder")
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    assert ((workspace / "file/in").read_text(), (workspace / "folder").read_text()) == ("a\n", "b\n")


def test_a_file_that_vanishes_while_it_is_copied_is_not_in_the_copy(
    sh: Run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copy2

    def vanishing(source: str, target: str, **options: Any) -> str:
        if source.endswith("/file"):
            os.unlink(source)
        return copy(source, target, **options)

    monkeypatch.setattr(shutil, "copy2", vanishing)
    outcome = sh("ls; echo ok > fine")
    assert (outcome.exit_code, outcome.stdout, outcome.stderr) == (0, "", "")
    assert (workspace / "fine").read_text() == "ok\n"


@pytest.mark.parametrize(
    ("word", "is_moved"),
    [
        ("{0}", True),
        ("{0}/file", True),
        ("--file={0}/file", True),
        ("-I{0}", True),
        ("-n -I{0}", True),
        ("a:{0}", True),
        ("file://{0}/file", True),
        ("'{0}'", True),
        ("/backup{0}", False),
        ("/backup/{0}/file", False),
        ("backup{0}", False),
        ("$BACKUP{0}", False),
        ("~{0}", False),
        ("..{0}", False),
        ("x-I{0}", False),
        ("{0}.bak", False),
        ("{0}-2", False),
    ],
)
def test_a_job_is_told_of_its_copy_where_its_words_name_the_folder_and_nowhere_else(
    sh: Run, workspace: Path, word: str, is_moved: bool
) -> None:
    text = word.format(workspace.resolve())
    assert (sh('echo "$1"', text).stdout != f"{text}\n") is is_moved
