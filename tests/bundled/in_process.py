"""Runs a script of a bundled skill in this process; that each one runs as a process of its own is shown elsewhere."""

from __future__ import annotations

import functools
import io
import subprocess
import sys
import warnings
from pathlib import Path
from types import CodeType, ModuleType

import pytest


@functools.cache
def compiled(script: Path) -> CodeType:
    return compile(script.read_bytes(), str(script), "exec")


def run(script: Path, *arguments: str | Path, given: str = "") -> subprocess.CompletedProcess[str]:
    """What `python SCRIPT ARGUMENTS` does with a text to read."""
    words = [str(script), *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    module = ModuleType("__main__")
    module.__file__ = str(script)
    code: object = 0
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # as it is in a process of its own
        patch.setattr(sys, "argv", words)
        patch.setattr(sys, "path", [str(script.parent), *sys.path])
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8"))
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setitem(sys.modules, "__main__", module)
        try:
            exec(compiled(script), vars(module))
        except SystemExit as leaving:
            code = leaving.code
    for stream in (out, err):
        stream.flush()
    assert code is None or isinstance(code, int)
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(words, code or 0, said, complained)
