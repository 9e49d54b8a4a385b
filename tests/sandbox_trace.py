"""The lines that the launcher process and its sandboxes run, for `make coverage`.

They run in an interpreter without packages, in which coverage.py cannot be started, and whose forks see other files.
So the launcher begins with `begin` of this module, which notes each step from line to line in a file that was opened
before, and at the end it becomes one more file of coverage.py. The launcher itself knows nothing of it.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    import pytest


def begin(path: str, folder: str) -> None:
    """Note the steps of this process and its forks in modules of a folder, each once."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    start = _thread.start_new_thread
    noted: set[tuple[str, int, int]] = set()

    def note(name: str, before: int, after: int) -> None:
        if (name, before, after) not in noted:
            noted.add((name, before, after))
            try:  # noqa: SIM105  (`contextlib` is not light)
                os.write(file, f"{before} {after} {name}\n".encode())
            except OSError:
                pass  # the limit of a job for the size of files holds for its supervisor too

    def trace(frame: FrameType, event: str, value: object) -> Any:
        name, first = frame.f_code.co_filename, -frame.f_code.co_firstlineno
        if not name.startswith(folder):
            return None
        last, has_raised = first, False

        def step(frame: FrameType, event: str, value: object) -> Any:
            nonlocal last, has_raised
            if event == "line":
                note(name, last, frame.f_lineno)
                last = frame.f_lineno
            elif event == "return" and not has_raised:
                note(name, last, first)
            has_raised = event == "exception"
            return step

        return step

    def start_traced(function: Any, arguments: tuple[Any, ...]) -> int:
        def run() -> None:
            sys.settrace(trace)
            function(*arguments)

        return start(run, ())

    _thread.start_new_thread = start_traced  # type: ignore[assignment]
    sys.settrace(trace)


def measure(config: pytest.Config) -> None:
    """Have launchers of this process and its forks note their steps, if their tests are measured."""
    import shutil
    import tempfile

    from coverage import Coverage, CoverageData

    from metier.run.environment import package_folder
    from metier.run.native import launcher

    measured = Coverage.current()
    if measured is None or sys.platform != "linux":
        return
    folder = tempfile.mkdtemp(prefix="metier-coverage-")
    path = os.path.join(folder, "steps")
    here, package = os.path.dirname(os.path.abspath(__file__)), os.path.join(package_folder(), "metier", "")
    launcher._CODE = (
        f"import sys; sys.path.append({here!r}); import sandbox_trace; sys.path.pop(); "
        f"sandbox_trace.begin({path!r}, {package!r}); {launcher._CODE}"
    )

    def end() -> None:
        launcher.close_shared()
        data = CoverageData(measured.config.data_file, suffix=f"sandboxes.{os.getpid()}")
        data.add_arcs(_steps(path))
        data.write()
        shutil.rmtree(folder)

    config.add_cleanup(end)


def _steps(path: str) -> dict[str, set[tuple[int, int]]]:
    """The steps in a file, by module."""
    steps: dict[str, set[tuple[int, int]]] = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                before, after, name = line.rstrip("\n").split(" ", 2)
                steps.setdefault(name, set()).add((int(before), int(after)))
    return steps
