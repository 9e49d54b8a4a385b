"""Clean-up after a job that made protected names: they are set aside, and links that it replaced are put back.

Most jobs make none, so that this is imported when one did, or when its host was killed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from typing import TYPE_CHECKING

from metier._lazy import logger
from metier._paths import is_inside
from metier.guard.files.protected_names import PROTECTED, protected_name_in
from metier.guard.files.protected_places import ProtectedPlaces
from metier.run.protection import FOLDER_FLAGS, Cleanup, new_places, remove_stand_ins, writable_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

log = logger("metier.run")

_MOST_ROUNDS = 16
_LONGEST = 200
"""Bytes of a name that are kept in another one."""


def clean_up(
    folder: str, before: ProtectedPlaces, absent: Collection[str], grants: Collection[str], until: float | None = None
) -> Cleanup:
    """Clean up in a folder whose protected places were listed before; `absent` is where links led to nothing.

    A path that is newer than `until` is not the job's.
    """
    notes: list[str] = []
    failures: dict[str, str] = {}
    looked_into = set(before.unreadable)
    for _ in range(_MOST_ROUNDS):
        # A path that was set aside may have hidden more: a repository is not searched, nor is a closed folder.
        made, unreadable = new_places(folder, before, absent, grants)
        found = [path for path in made if path not in failures and not (until and _is_newer(path, until))]
        closed = unreadable - looked_into
        if not found and not closed:
            return Cleanup(notes=tuple(notes), failures=tuple(failures.values()))
        for path in found:
            name = os.path.relpath(path, folder)
            try:
                aside = set_aside(folder, path)
                if aside is not None:
                    # Permissions do not bind root, for whom a path that was set aside is no repository either.
                    if not any(is_inside(path, other) for other in looked_into):
                        what = f"That is {aside} now." if aside else "It was a link, and is gone."
                        protected = protected_name_in(name, grants) or name
                        how = how_to_grant(folder, protected)
                        notes.append(f"It made {name}, from which other programs start something. {what} {how}")
                    if aside:
                        looked_into.add(os.path.join(folder, aside))
                if path in before.links:
                    _link_again(folder, path, before.links[path])
                    notes.append(f"The link {name} is what it was.")
            except OSError as error:
                failures[path] = _format_failure(name, error.strerror or str(error))
        for path in closed:
            looked_into.add(path)
            with contextlib.suppress(OSError):
                os.chmod(path, 0o700)
                looked_into.remove(path)
    rest = next(iter((*found, *closed)))
    failures[rest] = _format_failure(os.path.relpath(rest, folder), "there is too much of it")
    return Cleanup(notes=tuple(notes), failures=tuple(failures.values()))


def recover(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Clean up after a job whose host was killed, by its entry in the journal: the notes, a sentence each."""
    try:
        remove_stand_ins(entry["stand_ins"])
        before = ProtectedPlaces(names=frozenset(entry["names"]), links=dict(entry["links"]))
        folder, absent, grants = entry["folder"], frozenset(entry["absent"]), frozenset(entry["grants"])
        found = clean_up(folder, before, absent, grants, entry["until"]) if os.path.isdir(folder) else Cleanup()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("An entry of the journal of jobs cannot be used: %s", error)
        return ()
    for text in found.notes + found.failures:
        log.warning("%s: %s", folder, text)
    return found.notes + found.failures


def how_to_grant(folder: str, name: str) -> str:
    """The sentence on how a job may write a protected name of a folder, if it ever may."""
    if name == ".git" and not os.path.lexists(os.path.join(folder, name, "HEAD")):
        # With the grant, the settings and hooks that git would make are closed all the same.
        return "Make the repository yourself, at a terminal: `git init`."
    if name in PROTECTED:
        grant = f'run: {{paths: ["{name}:rw"]}}'
        return f"A policy grants it by {grant}, to a script whose skill asks for it by allowed-paths."
    return "It stays closed whatever is granted: change it yourself, at a terminal."


def _is_newer(path: str, than: float) -> bool:
    """Whether a path, and all that is directly in it, has changed since a moment."""
    with contextlib.suppress(OSError):
        if os.lstat(path).st_ctime <= than:
            return False
        with os.scandir(path) as entries:
            return all(entry.stat(follow_symlinks=False).st_ctime > than for entry in entries)
    return True


def _format_failure(name: str, why: str) -> str:
    return (
        f"It made {name}, from which other programs start something, and that cannot be set aside: {why}. "
        "Remove it before you use git, a shell, an editor or an agent there."
    )


def _link_again(folder: str, path: str, target: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _parent_of(folder, path) as parent, writable_folder(parent):
        os.symlink(target, os.path.basename(path), dir_fd=parent)


def set_aside(folder: str, path: str) -> str | None:
    """Give a path in a folder a name that nobody looks for; the name, or None if it is not there any more.

    A folder is closed besides, as git takes one with the right content for a repository whatever its name. A link is
    removed: it leads to the same by any name.
    """
    try:
        with _parent_of(folder, path) as parent:
            name = os.path.basename(path)
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            # A name that the job cannot have made before, and that is not too long.
            begin = os.fsencode(name)[:_LONGEST].decode(errors="ignore")
            aside = f"{begin}.set-aside-{secrets.token_hex(6)}"
            with writable_folder(parent):
                if stat.S_ISLNK(status.st_mode):
                    os.unlink(name, dir_fd=parent)
                    return ""
                os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
            if stat.S_ISDIR(status.st_mode):
                _close_folder(parent, aside)
    except FileNotFoundError:
        return None
    return os.path.join(os.path.relpath(os.path.dirname(path), folder), aside).removeprefix("./")


def _close_folder(parent: int, name: str) -> None:
    try:
        folder = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except PermissionError:
        # Nobody can list it, but the names in it could still be used.
        os.chmod(name, 0, dir_fd=parent)
        return
    try:
        os.fchmod(folder, 0)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _parent_of(folder: str, path: str) -> Iterator[int]:
    """A descriptor of the folder of a path, with no link on the way from the outermost."""
    *above, _ = os.path.relpath(path, folder).split(os.sep)
    with contextlib.ExitStack() as opened:
        at = os.open(folder, FOLDER_FLAGS)
        opened.callback(os.close, at)
        for step in above:
            at = os.open(step, FOLDER_FLAGS, dir_fd=at)
            opened.callback(os.close, at)
        yield at
