"""Working copies: a job gets a copy of a folder where rules alone cannot keep it from protected places in it.

Landlock can only add: in a folder that may be written, nothing can be closed. There a folder with protected places is
given to read, and a copy of it to write. What the job changed in the copy is brought back when it has ended, all but
what is protected.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from typing import TYPE_CHECKING

from metier._lazy import replace
from metier._paths import is_inside, safe_rmtree
from metier.errors import IsolationMissing
from metier.guard.files.protected_names import protected_name_in
from metier.hints import NO_ISOLATION
from metier.run.host_files import PROTECTED, change, kind_of
from metier.run.job import JobPath
from metier.run.native.request import NOBODY, may_drop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import IO

    from metier.run.job import Job
    from metier.run.protection import Protection

MOST_FILES = 20_000
_BEFORE_PATH = r"(?:(?<![\w.~$)}*?/-])|(?<=\s-\w)|(?<=^-\w)|(?<=://))"
"""The beginning of a path: not in another one, but also right behind an option of one letter."""


class WorkspaceCopy:
    """The copy of one folder."""

    def __init__(self, protection: Protection, job: Job, inside: Iterable[JobPath]) -> None:
        """`inside` are the places of the job in the folder."""
        self._protection, self._grants = protection, frozenset(job.grants)
        self._owner = NOBODY if may_drop() else None
        self.folder = protection.folder
        self._hidden = {os.path.realpath(place.path) for place in inside if place.is_hidden}
        self._kept = [os.path.realpath(place.path) for place in inside if not place.is_writable]
        import tempfile

        self._top = os.path.realpath(tempfile.mkdtemp(prefix="metier-work-"))
        self.path = os.path.join(self._top, os.path.basename(self.folder) or "workspace")
        try:
            self._copy(job.limits.disk_bytes)
        except BaseException:
            self.close()
            raise
        self._before = {path: _mark(status) for path, status in _below(self.path)}

    @property
    def repositories(self) -> list[str]:
        """The repositories that the copy refers to, to be read where they are."""
        closed = self._protection.before.closed
        return [path for path in closed if os.path.basename(path) == ".git" and os.path.isdir(path)]

    def close(self) -> None:
        """Remove the copy."""
        safe_rmtree(self._top)

    def bring_back(self) -> tuple[list[str], list[str]]:
        """Change the folder as its copy was changed: what was not, with the reason, and notes on what was not kept."""
        now = dict(_below(self.path))
        changed = [path for path, status in now.items() if self._before.get(path) != _mark(status)]
        gone = [path for path in self._before if path not in now]
        closed = {path for path in (*changed, *gone) if self._is_closed(path)}
        outermost = [path for path in sorted(closed) if os.path.dirname(path) not in closed]
        failed = [f"{path}: {PROTECTED}" for path in outermost if path in self._before]
        notes = [
            f"It made {path}, from which other programs start something. That was not kept."
            for path in outermost
            if path not in self._before
        ]
        failed += change(self.folder, [], [f"/{path}" for path in gone if path not in closed])
        for path in changed:
            status = now[path]
            kind = kind_of(status.st_mode)
            if path in closed or (kind == "d" and self._before.get(path, " ")[0] == "d"):
                continue
            if not kind:
                notes.append(f"It made {path}, which is no file, folder or link. That was not kept.")
                continue
            with contextlib.ExitStack() as opened:
                try:
                    content = _content(os.path.join(self.path, path), kind, opened)
                except OSError as error:
                    failed.append(f"{path}: {error.strerror}")
                    continue
                file = (f"/{path}", kind, stat.S_IMODE(status.st_mode), content)
                failed += change(self.folder, [file], any_link=True)
        return failed, notes

    def _is_closed(self, path: str) -> bool:
        real = os.path.realpath(os.path.join(self.folder, path))
        return protected_name_in(path, self._grants) is not None or any(
            is_inside(real, one) for one in (*self._protection.before.closed, *self._kept)
        )

    def _copy(self, most_bytes: int) -> None:
        os.mkdir(self.path)
        self._give_away(self.path)
        left = most_bytes
        for files, (path, status) in enumerate(_below(self.folder, is_left_out=self._is_left_out), 1):
            left -= status.st_size if stat.S_ISREG(status.st_mode) else 0
            if left < 0 or files > MOST_FILES:
                raise IsolationMissing(
                    f"This machine can keep a job from what is protected in {self.folder!r:.200} only by a copy, and "
                    "there is too much in it for one.",
                    hint=NO_ISOLATION,
                    missing=["view"],
                )
            self._copy_one(os.path.join(self.folder, path), os.path.join(self.path, path), status.st_mode)
            self._give_away(os.path.join(self.path, path))

    def _copy_one(self, source: str, target: str, mode: int) -> None:
        kind = kind_of(mode)
        if kind == "d":
            if os.path.basename(source) == ".git":
                # Its content is read where it is; git follows such a file.
                with open(target, "x", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(f"gitdir: {source}\n")
                return
            os.mkdir(target)
        else:
            # It may be somebody else's, or have gone by now.
            with contextlib.suppress(PermissionError, FileNotFoundError):
                if kind == "l":
                    os.symlink(os.readlink(source), target)
                elif kind == "f":
                    import shutil

                    shutil.copy2(source, target, follow_symlinks=False)

    def _give_away(self, path: str) -> None:
        if self._owner is not None:
            with contextlib.suppress(FileNotFoundError):
                os.chown(path, self._owner, self._owner, follow_symlinks=False)

    def _is_left_out(self, path: str) -> bool:
        if os.path.join(self.folder, path) in self._hidden:
            return True
        return os.path.basename(os.path.dirname(path)) == ".git"


def working_copies(job: Job, protections: Iterable[Protection], held: contextlib.ExitStack) -> list[WorkspaceCopy]:
    """Copies of the folders in which something is protected, until `held` is closed."""
    copies: list[WorkspaceCopy] = []
    for one in protections:
        inside = [place for place in job.places if is_inside(os.path.realpath(place.path), one.folder)]
        if one.before.closed or one.before.links or not all(place.is_writable for place in inside):
            if ".git" in job.grants:
                raise IsolationMissing(
                    "This machine cannot let a job write in a repository and keep it from its hooks and settings.",
                    hint=NO_ISOLATION,
                    missing=["view"],
                )
            copies.append(WorkspaceCopy(one, job, inside))
            held.callback(copies[-1].close)
    return copies


def job_on_copies(job: Job, stages: Sequence[WorkspaceCopy]) -> Job:
    """A job with copies in place of the folders, in its places and wherever its words and variables name them."""
    if not stages:
        return job
    named = [
        (re.compile(_BEFORE_PATH + re.escape(stage.folder) + r"(?![\w.-])"), stage.path.replace("\\", r"\\"))
        for stage in stages
    ]

    def moved(text: str) -> str:
        for folder, copy in named:
            text = folder.sub(copy, text)
        return text

    places: list[JobPath] = []
    for place in job.places:
        stage = next((one for one in stages if one.folder == os.path.realpath(place.path)), None)
        if place.is_hidden or (
            stage is None and any(is_inside(os.path.realpath(place.path), s.folder) for s in stages)
        ):
            continue  # it is in the copy, or left out of it
        places.append(place if stage is None else JobPath(stage.path, is_writable=place.is_writable))
    return replace(
        job,
        argv=tuple(map(moved, job.argv)),
        folder=moved(os.path.realpath(job.folder)),
        env={name: moved(value) for name, value in job.env.items()},
        places=(*places, *(JobPath(repository) for stage in stages for repository in stage.repositories)),
    )


def _below(
    folder: str, *, is_left_out: Callable[[str], bool] = lambda _: False
) -> Iterator[tuple[str, os.stat_result]]:
    """The content of a folder by relative paths, folders before what is in them; links are not followed."""
    waiting = [""]
    while waiting:
        above = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(os.path.join(folder, above)) as entries:
            for entry in entries:
                path = os.path.join(above, entry.name)
                if is_left_out(path):
                    continue
                with contextlib.suppress(OSError):
                    yield path, entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)


def _mark(status: os.stat_result) -> tuple[str | int, ...]:
    """The kind of a file and what changes with it, which nobody can set; of a folder, only its mode is its own."""
    kind = kind_of(status.st_mode)
    if kind == "d":
        return kind, status.st_mode
    return kind, status.st_ino, status.st_size, status.st_mode, status.st_ctime_ns


def _content(path: str, kind: str, opened: contextlib.ExitStack) -> bytes | IO[bytes]:
    """The target of a link, or a file that is open until `opened` is closed: it may be too large to be read whole."""
    if kind == "d":
        return b""
    if kind == "l":
        return os.fsencode(os.readlink(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = opened.enter_context(os.fdopen(descriptor, "rb"))
    return file if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
