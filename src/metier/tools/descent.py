"""Going down into a folder by descriptors, so that no link leads out of it.

Each segment of a path is opened from the folder before it and without following links; a link is read and its target
walked the same way. Nothing is checked and then used, so whatever happens to the folder meanwhile makes no difference.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metier.errors import FileRefused
from metier.skill.folder import is_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MAX_LINKS = 16
_MAX_DEPTH = 100
"""Each folder on the way is open at once, and a process may only have so many."""
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOSE = getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSE
_HAS_DIR_FD = os.open in os.supports_dir_fd and os.readlink in os.supports_dir_fd and bool(_NO_FOLLOW)

READ = os.O_RDONLY | _NO_FOLLOW | _CLOSE | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How a file is opened: never through a link, and never waiting for somebody at the other end of a pipe."""
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _CLOSE | getattr(os, "O_BINARY", 0)
LIST = _FOLDER | _NO_FOLLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A place in a folder that need not hold anything yet: the folder that is open, and a name in it."""

    parent: int | None
    """The descriptor of the folder; None where the system cannot open relative to one."""
    folder: str
    name: str
    """A plain name that was no link when it was looked at; `.` for the folder itself."""

    @property
    def path(self) -> str:
        """The absolute path, for people."""
        return self.folder if self.name == "." else os.path.join(self.folder, self.name)

    def at(self, name: str | None = None) -> str:
        """What to give the system for this name or a neighbour, together with `dir_fd=parent`."""
        name = name or self.name
        return name if self.parent is not None else os.path.join(self.folder, name)


@contextlib.contextmanager
def descend(
    root: str, segments: Sequence[str], *, create: bool = False, check: Callable[[str], None] | None = None
) -> Iterator[Spot]:
    """The spot that segments lead to, below a folder that is itself free of links; with `create`, folders are made.

    `check` gets the path that they really lead to, once before a folder is made and once in the end, and may raise.
    Raises `FileRefused` when a link leads out, and `OSError` as opening does.
    """
    if not _HAS_DIR_FD:
        yield _resolved(root, segments, create=create, check=check)
        return
    stack = [os.open(root, _FOLDER)]
    names: list[str] = []
    waiting = list(reversed(segments))
    links = 0
    name = "."
    try:
        while waiting:
            segment = waiting.pop()
            if segment == "..":
                if not names:
                    raise _leads_out()
                names.pop()
                os.close(stack.pop())
                continue
            target = _link_target(segment, stack[-1])
            if target is None:
                if not waiting:
                    name = segment
                    break
                if len(stack) > _MAX_DEPTH:
                    raise FileRefused(f"The path is more than {_MAX_DEPTH} folders deep.", hint="Use fewer folders.")
                try:
                    entered = os.open(segment, LIST, dir_fd=stack[-1])
                except FileNotFoundError:
                    if not create:
                        raise
                    if check is not None:
                        # Below what is not there yet no link can be.
                        check(os.path.normpath(os.path.join(root, *names, segment, *reversed(waiting))))
                    entered = _make_folder(segment, stack[-1])
                stack.append(entered)
                names.append(segment)
                continue
            links += 1
            if links > _MAX_LINKS:
                raise FileRefused("Too many links follow one another.", hint="Name the file itself.")
            if os.path.isabs(target):
                target = inside(target, root)
                while names:
                    names.pop()
                    os.close(stack.pop())
            waiting.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
        spot = Spot(parent=stack[-1], folder=os.path.join(root, *names), name=name)
        if check is not None:
            check(spot.path)
        yield spot
    finally:
        for descriptor in stack:
            os.close(descriptor)


def inside(path: str, root: str) -> str:
    """What is left of an absolute path below a folder; raises `FileRefused` when it lies elsewhere."""
    if not is_inside(path, root):
        raise _leads_out()
    return path[len(root) :].lstrip(os.sep)


def _leads_out() -> FileRefused:
    return FileRefused(
        "A link leaves the workspace (path traversal).", hint="Only files inside the workspace can be used."
    )


def _link_target(segment: str, folder: int) -> str | None:
    try:
        return os.readlink(segment, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _make_folder(segment: str, folder: int) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(segment, dir_fd=folder)
    return os.open(segment, LIST, dir_fd=folder)


def _resolved(root: str, segments: Sequence[str], *, create: bool, check: Callable[[str], None] | None) -> Spot:
    """The same where the system cannot open relative to a descriptor: resolve, then check."""
    real = os.path.realpath(os.path.join(root, *segments))
    inside(real, root)
    if check is not None:
        check(real)
    if real == root:
        return Spot(parent=None, folder=root, name=".")
    folder, name = os.path.split(real)
    if create:
        os.makedirs(folder, exist_ok=True)
    return Spot(parent=None, folder=folder, name=name)
