"""Which program runs a script, by its extension."""

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
    return (_found(program), *options, path)


def _found(program: str) -> str:
    if program == "python3" and sys.platform == "win32":
        return sys.executable  # where `python3` is often a stub that opens a shop
    found = shutil.which(program, path=search_path())
    if program == "python3" and sys.executable and (found is None or _is_script(found)):
        found = sys.executable
    return _in_real_folder(found) if found else program


def _in_real_folder(path: str) -> str:
    """A program by the real path of its folder: a cage shows what is installed there, and not the links to it.

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
