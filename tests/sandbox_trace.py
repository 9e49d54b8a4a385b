"""The lines that run in sandboxes, for `make coverage`: those of the launcher process and of workers of the shell.

They run in interpreters without packages, in which coverage.py cannot be started, and see other files or none. So their
code begins with `begin` of this module, which writes each step from line to line to a pipe, and at the end one more
file of coverage.py is made of it. Neither knows of it; what tests start is all that is another.
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


def begin(pipe: int, folder: str) -> None:
    """Write the steps of this process and its forks in modules of a folder to a pipe, each once."""
    start = _thread.start_new_thread
    noted: set[tuple[str, int, int]] = set()

    def note(name: str, before: int, after: int) -> None:
        if (name, before, after) not in noted:
            noted.add((name, before, after))
            os.write(pipe, f"{before} {after} {name}\n".encode())

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
    if "threading" in sys.modules:
        sys.modules["threading"].settrace(trace)  # type: ignore[attr-defined,unused-ignore]
    sys.settrace(trace)


def measure(config: pytest.Config) -> None:
    """Have sandboxes of this process and its forks tell their steps, if their tests are measured."""
    import builtins
    import shutil
    import subprocess
    import tempfile

    from coverage import Coverage, CoverageData

    from metier.run.environment import package_folder
    from metier.run.native import launcher
    from metier.run.virtual import worker_process

    measured = Coverage.current()
    if measured is None or sys.platform != "linux":
        return
    folder = tempfile.mkdtemp(prefix="metier-coverage-")
    pipe, steps = os.path.join(folder, "pipe"), os.path.join(folder, "steps")
    os.mkfifo(pipe)
    kept = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)  # so that its end is not yet reached when one of many is gone
    with builtins.open(steps, "wb") as file:
        collector = subprocess.Popen(["cat", pipe], stdout=file)
    with builtins.open(__file__, encoding="utf-8") as file_of_this:
        source = file_of_this.read()
    package = os.path.join(package_folder(), "metier", "")
    trace = f"trace = {{'__name__': 'trace'}}; exec({source!r}, trace)\n"
    launcher._CODE = (
        f"import os\n{trace}trace['begin'](os.open({pipe!r}, os.O_WRONLY | os.O_CLOEXEC), {package!r})\n"
        + launcher._CODE
    )
    worker_process._IMPORTED = f"import threading\n{trace}trace['begin'](1, {package!r})\n{worker_process._IMPORTED}"

    def open_pipe(path: Any, mode: str) -> Any:
        """What a worker writes to standard output goes nowhere, but for its steps."""
        return builtins.open(pipe if path == os.devnull else path, mode)

    worker_process.open = open_pipe  # type: ignore[attr-defined]

    def end() -> None:
        launcher.close_shared()
        os.close(kept)
        collector.wait()
        data = CoverageData(measured.config.data_file, suffix=f"sandboxes.{os.getpid()}")
        data.add_arcs(_steps(steps))
        data.write()
        shutil.rmtree(folder)

    config.add_cleanup(end)


def _steps(path: str) -> dict[str, set[tuple[int, int]]]:
    """The steps in a file, by module."""
    steps: dict[str, set[tuple[int, int]]] = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            before, after, name = line.rstrip("\n").split(" ", 2)
            steps.setdefault(name, set()).add((int(before), int(after)))
    return steps
