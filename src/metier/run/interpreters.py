"""Which program runs a script, and which Python runs what is part of this package."""

from __future__ import annotations

import os
import shutil
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING

from metier.errors import ScriptUnsupported
from metier.run.environment import search_path

if TYPE_CHECKING:
    from collections.abc import Mapping

INTERPRETERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        ".py": ("python3",),
        ".sh": ("bash",),
        ".bash": ("bash",),
        ".js": ("node",),
        ".mjs": ("node",),
    }
)
"""Extension, in lower case, to the command that a script's path is appended to. An entry for "" is for the rest."""
_MOST_STEPS = 32
"""Links from one program to the next that are followed; the kernel gives up at 40."""


def command_for(path: str, interpreters: Mapping[str, tuple[str, ...]] = INTERPRETERS) -> tuple[str, ...]:
    """The command that runs a script, with its path at the end.

    A script needs no execute permission and its first line is not read: the extension decides, in any case. More
    languages are a larger table: `{**INTERPRETERS, ".rb": ("ruby",)}`.

    >>> command_for("/skills/x/scripts/fill.rb", {".rb": ("no-such-ruby", "-w")})
    ('no-such-ruby', '-w', '/skills/x/scripts/fill.rb')
    """
    extension = os.path.splitext(path.strip())[1].lower()
    command = interpreters.get(extension) or interpreters.get("")
    if not command:
        raise ScriptUnsupported(
            f"Unsupported script type {extension or 'without an extension'}: {os.path.basename(path)[:80]!r}.",
            hint=f"Scripts are run by their extension: {', '.join(sorted(filter(None, interpreters)))}.",
            path=path,
            extension=extension,
        )
    program, *options = command
    return (_program(program), *options, path)


def own_python() -> str:
    """The interpreter of this process by its real path, without the virtual environment that it was started from.

    The launcher and the worker of the virtual shell are started by it, with the standard library and nothing else. So
    it does not matter by which links the environment is reached.
    """
    base = getattr(sys, "_base_executable", None)
    found = base if base and os.path.exists(base) else sys.executable or shutil.which("python3", path=search_path())
    return os.path.realpath(found) if found else "python3"


def environment_python() -> str:
    """The interpreter of this process in its virtual environment, where it has one, with the packages in it."""
    return _in_real_folder(sys.executable) if sys.executable else own_python()


def programs_behind(program: str) -> tuple[str, ...]:
    """A program and each one that it leads to: by links, and by the settings of a virtual environment.

    All of them must be there for the first to start: the interpreter of an environment reads the standard library of
    the one that the environment was made by, even where it is a copy.
    """
    steps: dict[str, None] = {}
    wanted = [program]
    while wanted and len(steps) < _MOST_STEPS:
        step = wanted.pop()
        if step in steps:
            continue
        steps[step] = None
        folder = os.path.dirname(step)
        if os.path.islink(step):
            wanted.append(os.path.normpath(os.path.join(folder, os.readlink(step))))
        if (base := _base_of(os.path.dirname(folder), os.path.basename(step))) is not None:
            wanted.append(base)
    return tuple(dict.fromkeys((*steps, os.path.realpath(program))))


def _base_of(environment: str, name: str) -> str | None:
    """The interpreter that a virtual environment was made by; None for a folder that is no environment."""
    try:
        with open(os.path.join(environment, "pyvenv.cfg"), encoding="utf-8", errors="surrogateescape") as file:
            home = next((line.partition("=")[2].strip() for line in file if line.split("=")[0].strip() == "home"), "")
    except OSError:
        return None
    # A folder without a Python in it is none that anything was made by, whatever the settings say.
    found = (os.path.normpath(os.path.join(home, each)) for each in (name, "python3", "python"))
    return next((path for path in found if os.path.isabs(home) and os.path.isfile(path)), None)


def _program(name: str) -> str:
    if name == "python3" and sys.platform == "win32":
        return sys.executable  # where `python3` is often a stub that opens a shop
    found = shutil.which(name, path=search_path())
    if name == "python3" and (found is None or _is_script(found)):
        return environment_python()
    return _in_real_folder(found) if found else name


def _in_real_folder(path: str) -> str:
    """A program by the real path of its folder, as the folder of a cage may be reached by another name, or by none.

    The program itself may be a link, by which the interpreter of a virtual environment knows that it is one.
    """
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _is_script(path: str) -> bool:
    """Whether a program is text: what version managers put there finds the real one in places that no job sees."""
    try:
        with open(path, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
