"""A folder that is worked in from above: every step goes down from a folder that is open, and follows no link.

Whatever somebody put there, nothing is written or removed outside of the folder that was named.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from metier._paths import is_inside, open_below
from metier.errors import FileRefused, SourceUnavailable
from metier.skill import shown
from metier.source.source import absolute, expanded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier._paths import SafePath


class SafeFolder:
    """A folder, there or not.

    >>> import tempfile
    >>> parent = SafeFolder(os.path.realpath(tempfile.mkdtemp()))
    >>> with parent.safe_path("greet", "SKILL.md", create=True) as safe:
    ...     safe.name
    'SKILL.md'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The folder of a path; raises `FileRefused` later where a link is on the way to it."""
        self._anchor, self._segments = _anchored(absolute(expanded(os.fspath(path))))
        self.path = os.path.join(self._anchor, *self._segments)

    @contextlib.contextmanager
    def safe_path(self, *below: str, create: bool = False) -> Iterator[SafePath]:
        """A place in the folder, reached without a link on the way; with `create`, folders are made."""
        wanted = os.path.join(self.path, *below)
        with contextlib.ExitStack() as opened:
            try:
                safe = opened.enter_context(open_below(self._anchor, [*self._segments, *below], create=create))
            except FileRefused:
                raise _linked(wanted) from None
            except (FileNotFoundError, NotADirectoryError):
                if create:
                    raise SourceUnavailable(
                        f"{self.path} cannot be made: something on the way is no folder.", hint="Name another folder."
                    ) from None
                raise
            except OSError as error:
                raise path_failure(self.path, "used", error, "Check its permissions.") from None
            if safe.path != wanted:
                raise _linked(wanted)
            yield safe

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Have the folder that a name lies in for oneself; it is made if need be."""
        with self.safe_path(name, create=True) as safe:
            if safe.parent is not None:
                import fcntl

                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(safe.parent, fcntl.LOCK_EX)
            yield


def path_failure(
    path: str, verb: str, error: OSError, hint: str = "Check the disk and the permissions."
) -> SourceUnavailable:
    """The error for a path that the system refuses; `verb` is what could not be done with it, such as `written`."""
    return SourceUnavailable(f"{shown(path, 300)} cannot be {verb}: {error.strerror}.", hint=hint, path=path)


def _anchored(path: str) -> tuple[str, list[str]]:
    """A folder that the user stands in or owns, and the way from there, on which no link is followed."""
    for anchor in (os.getcwd(), os.path.expanduser("~")):
        for known in (os.path.abspath(anchor), os.path.realpath(anchor)):
            if is_inside(path, known) and path != known:
                return os.path.realpath(anchor), _segments(path[len(known) :])
    drive, rest = os.path.splitdrive(path)
    segments = _segments(rest)
    if not segments:
        raise FileRefused(f"{path} is no folder for skills.", hint="Name one, such as .claude/skills.")
    return drive + os.sep, segments


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split(os.sep) if segment]


def _linked(path: str) -> FileRefused:
    return FileRefused(
        f"{path} leads through a link, and nothing is written through one.",
        hint=f"Name the folder that it leads to: {os.path.realpath(path)}.",
        path=path,
    )
