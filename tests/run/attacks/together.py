"""Many attacks in one start of the interpreter, run inside a sandbox: `python3 together.py SCRIPT NAMES JSON`.

Each is made in a process of its own, which the script finds as if it had been started alone. What it wrote and how it
ended is told as one line of JSON for each.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

MOST_SHOWN = 2_000
IMPORTED = ("ctypes", "platform", "resource", "signal", "socket", "struct", "subprocess", "threading", "time")
"""Modules that attacks import: once, and not once for each."""


def prepare(script: str) -> Callable[[], None]:
    """What runs the script as a program."""
    for name in IMPORTED:
        import_module(name)
    if script.endswith("more.py"):
        for module in ("files", "kernel", "network", "processes"):
            import_module(f"tests.run.attacks.inside.{module}")
    code = compile(Path(script).read_bytes(), script, "exec")
    return lambda: exec(code, {"__name__": "__main__", "__file__": script})


def make(attack: Callable[[], None], words: list[str]) -> dict[str, object]:
    """Make one attack, and tell what became of it."""
    streams = [os.pipe(), os.pipe()]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for number, (read, write) in enumerate(streams, start=1):
                os.dup2(write, number)
                os.close(write)
                os.close(read)
            sys.argv = words
            attack()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    told: dict[str, object] = {"name": words[1], "exit_code": os.waitstatus_to_exitcode(status)}
    for name, (read, write) in zip(("stdout", "stderr"), streams, strict=True):
        os.close(write)
        os.set_blocking(read, False)
        told[name] = os.read(read, MOST_SHOWN).decode(errors="replace")
        os.close(read)
    return told


def main() -> None:
    script, names, arguments = sys.argv[1:4]
    attack = prepare(script)
    for name in names.split(","):
        print(json.dumps(make(attack, [script, name, arguments])), flush=True)


if __name__ == "__main__":
    main()
