"""The same tests by a user who is not root: that is how most people run this."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

USER = 61_000
TESTS = Path(__file__).resolve().parents[2]
PACKAGES = (
    "pytest",
    "_pytest",
    "py",
    "pluggy",
    "iniconfig",
    "packaging",
    "rfc8785",
    "anyio",
    "idna",
    "sniffio",
    "typing_extensions",
)
"""What these tests need."""
FOR_ANY_SCRIPT = ("_hypothesis_globals", "hypothesis", "sortedcontainers")
"""What those need besides that make up scripts."""
CHECKS = (
    "test_ending.py::test_nobody_outlives_the_time_however_well_it_hides[bubblewrap]",
    "test_ending.py::test_what_a_job_leaves_running_ends_with_it_and_does_not_hold_up_the_result",
    "test_cancelling.py::test_a_job_does_not_outlive_its_host[namespaces-SIGKILL]",
    "test_cancelling.py::test_a_job_does_not_outlive_its_host[landlock-SIGKILL]",
    "test_cancelling.py::test_a_job_does_not_outlive_its_host[bubblewrap-SIGKILL]",
    "test_environments.py::test_a_script_starts_in_an_environment_among_temporary_files_and_cannot_change_it",
    "test_environments.py::test_a_job_that_moves_the_folder_of_its_environment_away_does_so_for_itself_alone",
    "test_limits.py::test_processes_together_cannot_have_more_memory_than_the_limit",
    "test_limits.py::test_a_job_has_no_more_processes_than_the_limit",
    "test_limits.py::test_a_job_cannot_fill_the_disk[namespaces-one file]",
    "test_limits.py::test_a_job_cannot_fill_the_disk[landlock-one file]",
    "test_limits.py::test_a_job_cannot_fill_the_disk[bubblewrap-one file]",
    "test_network.py::test_a_job_without_network_reaches_nobody",
    "test_network.py::test_a_restricted_job_reaches_exactly_the_hosts_on_its_list",
    "test_places.py::test_what_is_not_given_is_not_there",
    "test_places.py::test_a_place_is_only_read_unless_it_may_be_written",
    "test_places.py::test_a_place_is_seen_where_it_is_said_to_be",
    "test_places.py::test_settings_in_a_workspace_cannot_be_changed",
    "test_places.py::test_git_works_in_a_workspace_that_is_granted",
    "test_writing.py::test_lines_are_told_as_they_come_in_order",
    "test_compatibility.py::test_scripts_of_shells_work[bubblewrap-pipelines]",
    "test_compatibility.py::test_python_shares_work_among_processes",
)
"""A handful for each way to make a sandbox."""
PROTECTION = (
    "test_protection.py::test_what_running_programs_look_for_cannot_even_be_made_while_a_job_runs",
    "test_protection.py::test_what_is_made_under_a_protected_name_is_not_there_afterwards",
    "test_protection.py::test_protected_links_and_what_they_lead_to_stay[bubblewrap-instead]",
    "test_protection.py::test_the_next_job_cleans_up_after_one_whose_host_was_killed",
    "test_protection.py::test_what_is_hidden_is_not_there_for_a_job",
    "test_protection.py::test_an_empty_folder_of_the_user_is_closed_and_stays",
    "test_protection.py::test_folders_that_cannot_be_entered_end_no_run_without_a_word",
    "test_protection.py::test_no_script_changes_a_protected_place",
    "../../attacks/test_left_behind.py::test_nothing_is_started_from_a_folder_that_is_closed",
    "../../attacks/test_left_behind.py::test_nothing_is_started_by_what_somebody_does_next[each-bubblewrap]",
)
"""What a job of such a user must not leave behind, above all where it can take rights away from its own folders."""
SOME = (
    "test_ending.py::test_nobody_outlives_the_time_however_well_it_hides[bubblewrap]",
    "test_cancelling.py::test_a_job_does_not_outlive_its_host[bubblewrap-SIGKILL]",
    "test_environments.py::test_a_script_starts_in_an_environment_among_temporary_files_and_cannot_change_it[bubblewrap]",
    "test_limits.py::test_processes_together_cannot_have_more_memory_than_the_limit[bubblewrap]",
    "test_network.py::test_a_restricted_job_reaches_exactly_the_hosts_on_its_list[bubblewrap]",
    "test_places.py::test_what_is_not_given_is_not_there",
    "test_places.py::test_a_place_is_only_read_unless_it_may_be_written",
    "test_places.py::test_settings_in_a_workspace_cannot_be_changed[.bashrc-bubblewrap]",
    "test_places.py::test_git_works_in_a_workspace_that_is_granted[bubblewrap]",
    "test_protection.py::test_what_is_made_under_a_protected_name_is_not_there_afterwards[bubblewrap]",
    "test_protection.py::test_protected_links_and_what_they_lead_to_stay[bubblewrap-instead]",
    "test_protection.py::test_the_next_job_cleans_up_after_one_whose_host_was_killed[bubblewrap]",
    "test_protection.py::test_an_empty_folder_of_the_user_is_closed_and_stays",
    "test_protection.py::test_folders_that_cannot_be_entered_end_no_run_without_a_word",
    "../../attacks/test_left_behind.py::test_nothing_is_started_from_a_folder_that_is_closed",
)
"""One of each: by bubblewrap, which root has no use for, and by all where rights of this user matter."""


def _copied(folder: Path, names: tuple[str, ...]) -> None:
    """The library, its tests and what runs them, where any user can read them."""
    import metier

    packages = folder / "packages"
    shutil.copytree(Path(str(metier.__file__)).parent, packages / "metier", ignore=shutil.ignore_patterns("bundled"))
    for name in names:
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            continue
        origin = Path(found.origin)
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, packages / name)
        else:
            shutil.copy(origin, packages)
    shutil.copy(TESTS.parent / "pyproject.toml", folder)
    (folder / "tests" / "run").mkdir(parents=True)
    (folder / "tests" / "attacks").mkdir()
    for module in ("conftest.py", "disk.py", "forked.py", "workers.py", "protected.py", "attacks/test_left_behind.py"):
        shutil.copy(TESTS / module, folder / "tests" / module)
    shutil.copytree(
        Path(__file__).parent, folder / "tests" / "run" / "native", ignore=shutil.ignore_patterns("__pycache__")
    )


def _python(who: dict[str, Any]) -> str | None:
    """An interpreter of this version that this user can start."""
    wanted = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]!r})"
    for candidate in (sys.executable, getattr(sys, "_base_executable", ""), shutil.which("python3", path="/usr/bin")):
        if candidate:
            with contextlib.suppress(OSError):
                done = subprocess.run([candidate, "-c", wanted], cwd="/", capture_output=True, check=False, **who)
                if done.returncode == 0:
                    return str(candidate)
    return None


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="this user is not root, so every test here is one of these"
)
@pytest.mark.parametrize(
    ("checks", "packages"),
    [
        pytest.param(SOME, PACKAGES, id="some"),
        pytest.param(CHECKS, PACKAGES, marks=pytest.mark.slow, id="sandboxes"),
        pytest.param(PROTECTION, PACKAGES + FOR_ANY_SCRIPT, marks=pytest.mark.slow, id="protected places"),
    ],
)
def test_an_unprivileged_user_is_as_safe(checks: tuple[str, ...], packages: tuple[str, ...]) -> None:
    who: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []}
    python = _python(who)
    if python is None:
        pytest.skip("there is no Python here that an unprivileged user can start")
    folder = Path(tempfile.mkdtemp(prefix="metier-unprivileged-", dir="/tmp"))
    try:
        _copied(folder, packages)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, USER, USER, follow_symlinks=False)
        folder.chmod(0o755)
        done = subprocess.run(
            [python, "-s", "-m", "pytest", "-q", "--basetemp", str(folder / "temp"), "--color=no",
             # Those of the project name plugins that these tests do not need.
             "-o", "addopts=--import-mode=importlib --strict-markers -p no:cacheprovider",
             *(f"tests/run/native/{check}" for check in checks)],
            cwd=folder,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(folder / "packages"),
                 "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8",
                 "METIER_EXAMPLES": os.environ.get("METIER_EXAMPLES", "25")},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
            **who,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
        assert " passed" in done.stdout
    finally:
        shutil.rmtree(folder, ignore_errors=True)
