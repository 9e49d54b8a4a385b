"""The root of a job made by bubblewrap, for machines that allow it more than they allow us."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from metier.run.environment import isolated_python, package_folder, which
from metier.run.native.filesystem_view import settings

_CODE = (
    "import sys; sys.path.append(sys.argv[1]); from metier.run.native.supervisor import inside_bubblewrap as go; go()"
)
_TRUSTED = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"
"""The folders with the program: never one that a user's path, or a workspace, puts before the system's."""


@functools.cache
def found() -> str | None:
    """The program, where it is installed."""
    return which("bwrap", _TRUSTED)


def command(asked: dict[str, Any]) -> list[str]:
    """The command that makes the view of a request and starts the rest of the sandbox in it."""
    words = [found() or "bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    words += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
    if asked["network"] != "host":
        words.append("--unshare-net")
    words += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):
        words += ["--size", str(max(1, asked["scratch"])), "--tmpfs", path]
    for target, path in asked["links"]:
        if not path.startswith("/dev/"):  # which it makes itself
            words += ["--symlink", target, path]
    for path in (*settings(), "/etc/passwd", "/etc/group"):
        words += ["--ro-bind-try", path, path]
    interpreter = isolated_python()
    # By their real paths, as the interpreter is named by its own.
    needed = (sys.base_prefix, sys.base_exec_prefix, interpreter[0])
    # The package alone: what else lies in its folder is nothing to the job.
    package = os.path.join(package_folder(), "metier")
    for root in dict.fromkeys((package, *map(os.path.realpath, needed))):
        words += ["--ro-bind-try", root, root]
    for source, at, is_writable in (*((*pair, False) for pair in asked["system"]), *asked["places"]):
        words += ["--bind" if is_writable else "--ro-bind", source, at]
    for source, at in asked["stand_ins"]:
        words += ["--ro-bind", source, at]
    for at, is_folder in asked["hidden"]:
        words += ["--perms", "0000", "--tmpfs", at, "--remount-ro", at] if is_folder else ["--ro-bind", "/dev/null", at]
    words += ["--remount-ro", "/", "--chdir", "/", "--"]
    return [*words, *interpreter, "-c", _CODE, package_folder()]
