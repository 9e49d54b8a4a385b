"""Processes and threads that edit, refresh and list the same skills at once.

Eight of each for a second; `METIER_STRESS_SECONDS=60 pytest tests/library/test_stress.py` for longer. In `make test`
two of each, for a moment.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from metier import Library

SECONDS = float(os.environ.get("METIER_STRESS_SECONDS", "1"))
WORKER = Path(__file__).with_name("stress_worker.py")


def worker_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stress_worker", WORKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seen(library: Library) -> list[tuple[str, str, str, str]]:
    return [
        (entry.name, entry.status, entry.description, library.document(entry.name).body) for entry in library.entries()
    ]


@pytest.mark.slow
@pytest.mark.covers("O-31", "O-29")
@pytest.mark.parametrize(("many", "seconds"), [(2, 0.2), pytest.param(8, SECONDS, marks=pytest.mark.slow)])
def test_processes_and_threads_that_do_everything_at_once_see_only_whole_skills(
    tmp_path: Path, many: int, seconds: float
) -> None:
    stress = worker_module()
    skills, cache = tmp_path / "skills", tmp_path / "cache"
    for number in range(stress.SHARED):
        (skills / f"shared-{number:02d}").mkdir(parents=True)
        (skills / f"shared-{number:02d}" / "SKILL.md").write_text(stress.text_of(f"shared-{number:02d}", 0))
    library = Library.from_folder(skills, cache=cache)
    processes = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(skills), str(cache), str(seconds), str(number)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(many)
    ]
    workers = [stress.Worker(skills, cache, 100 + number) for number in range(many)]
    for worker in workers[::2]:
        worker.library = library  # half of the threads share one library
    threads = [threading.Thread(target=worker.run, args=(time.monotonic() + seconds,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    problems = [problem for worker in workers for problem in worker.problems]
    for process in processes:
        said, complained = process.communicate(timeout=seconds + 60)
        if process.returncode:
            problems.append(said + complained)
    assert problems == []
    assert sum(worker.done for worker in workers) > 0
    expected = seen(Library.from_folder(skills, cache=False))
    assert len(expected) >= stress.SHARED
    library.refresh()
    assert seen(library) == expected
    assert seen(Library.from_folder(skills, cache=cache)) == expected
    assert not [path for path in cache.iterdir() if "." in path.name], "a half written index was left behind"
