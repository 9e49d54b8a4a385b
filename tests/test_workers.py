"""Workers (`pytest --workers`) run every test once and report it as one process would, also where one of them dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = """
import os, sys
import pytest

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    yield tmp_path_factory.mktemp("shared")
    with open(os.environ["ENDED"], "a") as file:
        print(os.getpid(), file=file)

@pytest.mark.parametrize("number", range(100))
def test_numbers(number, shared, tmp_path):
    with open(os.environ["RAN"], "a") as file:
        print(number, os.getpid(), file=file)
    if number == 45:
        print("printed", file=sys.stderr)
        assert number == 0
    if number == 50:
        pytest.skip("not today")
    if number in DYING:
        os._exit(7)
"""


def run(folder: Path, *options: str, dying: str = "()") -> tuple[str, list[list[str]]]:
    """The output of pytest, and each number that was run with the process that ran it."""
    (folder / "test_it.py").write_text(f"DYING = {dying}\n{TESTS}")
    ran = folder / "ran"
    ran.write_text("")
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "tests.workers"]
    # Without `--confcutdir`, all folders beside those above are looked at as well.
    command += ["--confcutdir", str(folder), "-p", "no:cacheprovider", "-ra", "--basetemp", str(folder / "base")]
    command += [*options, str(folder)]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "RAN": str(ran), "ENDED": str(folder / "ended")}
    out = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120).stdout
    return out, [line.split() for line in ran.read_text().splitlines()]


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.mark.slow
def test_each_test_runs_once_and_is_reported_whoever_runs_it(tmp_path: Path) -> None:
    out, ran = run(tmp_path, "--workers", "2")
    assert "1 failed, 98 passed, 1 skipped" in out
    assert "printed" in out and "not today" in out
    assert sorted(int(number) for number, _ in ran) == list(range(100))
    processes = {process for _, process in ran}
    assert set((tmp_path / "ended").read_text().split()) == processes


def test_the_death_of_a_worker_is_the_failure_of_one_test(tmp_path: Path) -> None:
    out, ran = run(tmp_path, "--workers", "2", dying="(3, 39, 99)")
    assert "4 failed, 95 passed, 1 skipped" in out
    assert all(f"A worker ended with 7 while it ran test_it.py::test_numbers[{n}]" in out for n in (3, 39, 99))
    assert sorted(int(number) for number, _ in ran) == list(range(100))


@pytest.mark.slow
def test_no_part_is_begun_after_as_many_failures_as_are_allowed(tmp_path: Path) -> None:
    out, ran = run(tmp_path, "--workers", "2", "-x", dying="range(80)")
    assert "stopping after" in out
    assert len(ran) < 10


IN_MEMORY = """
import os, sys
from pathlib import Path
from tests.disk import keep_in_memory
folder = Path(sys.argv[1])
before = os.stat(folder).st_dev
keep_in_memory(folder)
(folder / "file").touch()
print(os.stat(folder).st_dev != before)
"""


@pytest.mark.slow
def test_a_folder_in_memory_is_so_for_one_process_and_goes_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", IN_MEMORY, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    is_kept = done.stdout == "False\n"  # where nothing may be mounted
    assert os.listdir(tmp_path) == (["file"] if is_kept else [])
