"""The command that a client's configuration names: the program `~/.metier/hook`, and the line that runs it.

The program is Perl where the system has it, as it starts in a tenth of the time of Python: each tool call waits for it.
It begins with absolute paths and takes no code from variables (`-T`, `-I`).
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import stat
import struct
import subprocess
import sys
from typing import Literal

from metier._paths import default_cache_folder, open_own, write_file
from metier.errors import FileRefused, PartMissing
from metier.hints import for_people
from metier.serve.client_hooks.resident_socket import MAX_INPUT, MAX_PATH, OWN_VARIABLES, VARIABLES, peer_option

MODULE = "metier.serve.client_hooks"
_PERLS = ("/usr/bin/perl", "/bin/perl", "/usr/local/bin/perl", "/run/current-system/sw/bin/perl")
_CACHE_OF_UV = re.compile(r"[/\\]uv[/\\](?:cache[/\\])?archive-v\d+[/\\]")
_LONGEST_NAME = "0000000000-000000.sock"


def hook_path() -> str:
    """The path of the program, whether it is there or not."""
    return os.path.join(os.path.expanduser("~"), ".metier", "hook")


def hook_program() -> str:
    """Write the program if it is not there as it should be; its path.

    Raises `FileRefused` where it cannot be written, and `PartMissing` where this Python has Métier only for now: by a
    variable or the folder that it was started in, which a hook does not have, or in a cache.
    """
    path, text = hook_path(), _program()
    if is_written(path, text):
        return path
    if _CACHE_OF_UV.search(sys.prefix):
        raise PartMissing(
            "This Métier was started by uvx from a cache, and would be gone from the hooks when that is emptied.",
            hint=for_people("Install it by `uv tool install metier`, and run `metier protect` again."),
        )
    done = subprocess.run([sys.executable, *_flags(), "-c", f"import {MODULE}"], capture_output=True, check=False)
    if done.returncode:
        raise PartMissing(
            f"{sys.executable} does not find Métier by itself, so no client can ask it.",
            hint="Install it, as by `uv tool install metier`, and use the command of that installation.",
        )
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        status = os.stat(folder)
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o022:
            raise PermissionError(f"others may write to {folder}")
        write_file(path, text, exact_mode=0o700, sync=True)
    except OSError as error:
        raise FileRefused(
            f"{path} cannot be written: {error}.", hint=f"Make {folder} a folder of yours alone."
        ) from error
    return path


def is_written(path: str | None = None, text: bytes | None = None) -> bool:
    """Whether the program is there, exactly as this installation writes it."""
    try:
        with open_own(path or hook_path()) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            return mode == 0o700 and file.read(2**20) == (_program() if text is None else text)
    except OSError:
        return False


def hook_command(client: str, *, fail: Literal["closed", "open"] = "closed", is_user: bool = True) -> str:
    """The line for the configuration of a client; one that others get too (`is_user=False`) names no home.

    A call for which it ends with 2, and says why, is blocked. If it fails closed, that is so without the program and
    for one that is killed, too. The line means the same to `sh`, `bash`, `zsh` and `fish`.

    >>> hook_command("codex", is_user=False).partition(" || ")[0]
    '"$HOME/.metier/hook" codex'
    """
    if sys.platform == "win32":
        program = (
            f'"{sys.executable}" {" ".join(_flags())} -m {MODULE}'.replace("\\", "/") if is_user else "metier hook"
        )
        return f"{program} {client}" + (" || exit 2" if fail == "closed" else "")
    program = shlex.quote(hook_path()) if is_user else '"$HOME/.metier/hook"'
    if fail == "open":
        return f"test -x {program} || exit 0; {program} {client}"
    why = f"Blocked: nothing runs here unchecked by metier. If it is missing, run: metier protect {client}"
    return f"{program} {client} || /bin/sh -c 'echo \"{why}\" >&2; exit 2'"


def _program() -> bytes:
    python, flags = os.path.abspath(sys.executable), _flags()
    perl = next(filter(_is_usable, _PERLS), None)
    if perl is None:
        return f'#!/bin/sh\nexec {shlex.quote(python)} {" ".join(flags)} -m {MODULE} "$1"\n'.encode(
            "utf-8", "surrogateescape"
        )
    cache = default_cache_folder() or ""
    fallback = os.path.join(os.path.abspath(cache), "hooks") if cache else ""
    if len(os.fsencode(os.path.join(fallback, _LONGEST_NAME))) > MAX_PATH:
        fallback = ""
    level, peer = peer_option()
    # What stands before the path: on the BSDs the length, which the system fills in, and the family; else the family.
    address = struct.pack("=H" if sys.platform == "linux" else ">H", socket.AF_UNIX)
    values = {
        "PYTHON": _quoted(python), "FLAGS": ", ".join(map(_quoted, flags)), "FALLBACK": _quoted(fallback),
        "LEVEL": level, "PEER": peer, "ADDRESS": '"' + "".join(f"\\x{byte:02x}" for byte in address) + '"',
        "NAMES": _quoted(f" {' '.join(VARIABLES)} "), "OWN": _quoted(OWN_VARIABLES), "MAX_INPUT": MAX_INPUT,
    }  # fmt: skip
    with open(os.path.join(os.path.dirname(__file__), "hook.pl"), encoding="utf-8") as file:
        text = re.sub(r"\$([A-Z]+(?:_[A-Z]+)?)\b", lambda found: str(values.get(found[1], found[0])), file.read())
    return f"#!{perl} -T\n".encode() + os.fsencode(text)


def _quoted(text: str) -> str:
    """A text as Perl has it between single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _flags() -> tuple[str, ...]:
    """The options by which Python takes no code from variables and the folder that it is started in."""
    import site

    # An installation by `pip install --user` is found only with the user's own packages, which `-I` leaves out.
    user = site.getusersitepackages()
    return ("-E", "-P") if os.path.abspath(__file__).startswith(os.path.join(user, "")) else ("-I",)


def _is_usable(perl: str) -> bool:
    """Whether this is a Perl of the system that refuses code from variables; some are built without `-T`."""
    try:
        if os.stat(perl).st_uid != 0:
            return False
        done = subprocess.run(
            [perl, "-T", "-e", "print ${^TAINT}"], capture_output=True, timeout=10, env={}, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.stdout == b"1"
