"""`metier demo`."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from metier.run.selection import native_runner
from metier.session.copies import remove_idle

Call = Callable[..., tuple[int, str, str]]


def test_the_demo_shows_what_it_says_and_leaves_nothing_behind(
    metier: Call, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    code, out, err = metier("demo")
    assert (code, err) == (0, "")
    for expected in (
        "csv-analyst",
        "loads as colon",
        "line 3: The value of `description` contains `: `",
        "etc-passwd",
        "The file is empty.",
        "deploy  enterprise",
        "shadowed",
        "before: Say hello.\nafter:  Say Hello.",
        "[file-refused]",
        "allow git log --oneline -5",
        "deny  git log | sh",
        "5 audit records",
        "A stranger's script runs in a sandbox",
        "Loaded csv-analyst",
        "This is the test model",
        "skills_load, skills_unload, skills_read, skills_run, skills_search",
        '<skill_content name="log-triage"',
        "0 files read",
        "Next: metier list",
    ):
        assert expected in out
    sandboxed = out.partition("runs in a sandbox\n")[2].partition("\n9. ")[0]
    if native_runner().capabilities().isolates_files:
        assert "write a note in its workspace: done" in sandboxed
        assert sandboxed.count(": done") == 1
    else:
        assert "[isolation-missing]" in sandboxed
    assert "\x1b" not in out
    gc.collect()  # a session that nobody has any more lets go of its copies of skills
    remove_idle()  # as the end of the program does
    assert list(tmp_path.iterdir()) == []
    # The journal of jobs is part of the cache.
    assert [path.name for path in own_home.iterdir()] in ([], ["metier-cache"])


@pytest.mark.slow
def test_what_is_not_installed_is_said_and_the_demo_goes_on(
    metier: Call, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("mcp", "pydantic_ai"):
        monkeypatch.setitem(sys.modules, package, None)
    code, out, err = metier("demo")
    assert (code, err) == (0, "")
    assert "pip install 'metier[agent]'" in out
    assert "pip install 'metier[mcp]'" in out
    assert "0 files read" in out
