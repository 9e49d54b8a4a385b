"""Configuration files of clients: where each lies, and how one is read, written and removed for a person who asked.

Nothing is written outside of one folder, the home or the project, and nothing through a link that a project brought.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from metier._lazy import dataclass
from metier._paths import is_inside, locked_folder, open_below
from metier.errors import FileMissing, FileRefused, InvalidArgument, MetierError
from metier.guard.files.file_access import FileAccess
from metier.library.clients import in_home
from metier.library.places import home_folder, project_root
from metier.skill.untrusted_text import shown
from metier.tools.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_ATTEMPTS = 20
_MAX_LINE = 10_000
_HINT = "Look at it and its permissions, and try again."
"""For errors of file tools, which word theirs for models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file as it is, and as it is to be; None is no file."""

    root: str
    """The folder that nothing is written outside of."""
    file: str
    before: str | None
    after: str | None

    @property
    def is_none(self) -> bool:
        """Whether nothing changes."""
        return self.before == self.after

    def diff(self) -> str:
        """The difference for people, in the unified format."""
        name = shown(self.file, 4_096)
        lines = difflib.unified_diff(
            (self.before or "").splitlines(), (self.after or "").splitlines(), name, name, lineterm=""
        )
        return "\n".join(shown(line, _MAX_LINE) for line in lines)


def change_file(
    root: str,
    file: str,
    change: Callable[[str | None], str | None],
    *,
    dry_run: bool = False,
    prepare: Callable[[FileChange], None] | None = None,
) -> FileChange:
    """Change a file while no other process of this program does so.

    `change` gets its text, and once more where that was outdated; errors that it raises are worded for a person.
    `prepare` is told right before it is written. In a `dry_run` nothing is.
    """
    with contextlib.nullcontext() if dry_run or not os.path.isdir(root) else locked_folder(root):
        for _ in range(_ATTEMPTS):
            before = read_text(root, file)
            with _left_as_it_is(file):
                found = FileChange(root=root, file=file, before=before, after=change(before))
            if dry_run or found.is_none:
                return found
            # Somebody else may have written it since it was read.
            if read_text(root, file) == before:
                if prepare is not None:
                    prepare(found)
                with _left_as_it_is(file, hint=_HINT):
                    _write(found)
                return found
    raise FileRefused(
        f"{file} is being changed by another program all the time.", hint="End it, and try again.", path=file
    )


def _write(change: FileChange) -> None:
    if change.after is not None:
        # A person has asked for it: such files are protected from tools.
        access = FileAccess(workspace=change.root, is_open=True)
        Workspace(change.root, access=access).write(change.file, change.after.encode())
        return
    segments = os.path.relpath(change.file, change.root).split(os.sep)
    try:
        with open_below(change.root, segments) as safe:
            os.unlink(safe.at(), dir_fd=safe.parent)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise FileRefused(f"It cannot be removed: {error.strerror}.", hint="Check its permissions.") from None


def remove_folder(root: str, folder: str) -> None:
    """Remove a folder below a root if it is empty."""
    with (
        contextlib.suppress(OSError, MetierError),
        open_below(root, os.path.relpath(folder, root).split(os.sep)) as safe,
    ):
        os.rmdir(safe.at(), dir_fd=safe.parent)


def place_of(path: str, *, is_user: bool, also: Iterable[str] = ()) -> tuple[str, str]:
    """The folder that nothing is written outside of, and the file at a path in a home or a project.

    `also` are further names of the same file: the first of them that exists is the one in use.
    """
    if not is_user:
        root = str(project_root(Path.cwd()))
        file = _in_use(os.path.join(root, *path.split("/")), also)
        if os.path.realpath(file) != file:
            # Whoever wrote the project chose where it leads.
            raise FileRefused(
                f"{file} leads through a link, and nothing in a project is written through one.",
                hint="Put a copy in place of the link, or write into your own configuration with --user.",
                path=file,
            )
        return root, file
    home = home_folder()
    if home is None:
        raise InvalidArgument("You have no home folder here.", hint="Leave out --user.")
    file = _in_use(os.path.abspath(in_home(path, os.path.abspath(home))), also)
    real, root = os.path.realpath(file), os.path.realpath(home)
    # That a home or a folder which the environment names is itself reached by a link says nothing.
    known = next((start for start in (os.path.abspath(home), root) if is_inside(file, start)), None)
    plain = os.path.dirname(file) if known is None else known
    if real != os.path.realpath(plain) + file[len(plain) :]:
        _require_own(file, real)
    return (root if is_inside(real, root) else os.path.dirname(real)), real


def _in_use(file: str, also: Iterable[str]) -> str:
    """The file of several names that is there; the first of them where none is."""
    names = [file, *(os.path.join(os.path.dirname(file), name) for name in also)]
    return next((name for name in names if os.path.lexists(name)), file)


def _require_own(file: str, real: str) -> None:
    """Raise unless a link leads to a plain file of the user's: many keep such files in one folder, and link them."""
    is_new = not os.path.lexists(file)
    try:
        status = os.stat(os.path.dirname(real) if is_new else real)
    except OSError:
        why = f"where no {'folder' if is_new else 'file'} is"
    else:
        if not (stat.S_ISDIR if is_new else stat.S_ISREG)(status.st_mode):
            why = "which is no plain file"
        elif hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            why = "which belongs to somebody else"
        else:
            return
    raise FileRefused(
        f"{file} leads to {real} by a link, {why}.",
        hint="Make the link lead to a file of yours, or remove it.",
        path=file,
    )


def read_text(root: str, file: str) -> str | None:
    """The text of a file; None where there is none."""
    if not os.path.isdir(root):
        return None
    try:
        with _left_as_it_is(file, hint=_HINT):
            data = Workspace(root).read(file).data
        return data.decode()
    except FileMissing:
        return None
    except UnicodeDecodeError:
        raise FileRefused(f"{file} is not UTF-8.", hint="Mend it, and try again.", path=file) from None


@contextlib.contextmanager
def _left_as_it_is(file: str, *, hint: str = "") -> Iterator[None]:
    """Word errors for a person while a file is read, changed or written."""
    try:
        yield
    except FileMissing:
        raise
    except MetierError as error:
        why, hint = error.message, hint or error.hint
    except (ValueError, LookupError, RecursionError) as error:
        why = f"It cannot be read or changed safely: {error}."
    else:
        return
    raise FileRefused(f"{file} was left as it is. {why}", hint=hint or "Mend it, and try again.", path=file) from None
