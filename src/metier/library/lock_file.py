"""The lock file: which skills a project or a person has installed, from where, and with exactly which content.

A project has one at its root, `metier.lock`, which is committed with it; a person has `~/.metier/metier.lock`. It is
TOML that people can read and compare: one `[[skill]]` table a skill, sorted, with the same bytes for the same content.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from typing import TYPE_CHECKING, Any

from metier._json_object import read_plain
from metier._lazy import dataclass, field, replace
from metier._paths import is_inside, locked_folder, write_file
from metier.errors import FileRefused, LockInvalid, MetierError
from metier.library.clients import PROJECT_FOLDERS
from metier.library.places import folders_to_root, home_folder
from metier.skill import shown
from metier.skill.package import checked_path, is_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

LOCK_NAME = "metier.lock"
VERSION = 1
MAX_BYTES = 32 * 1024 * 1024
MAX_SKILLS = 20_000

_HEAD = "# Which skills are installed, and with which content. Written by `metier`; commit it with the project.\n"
_HINT = "Restore it from version control, or delete it and add the skills again."


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSkill:
    """One skill of a lock file."""

    name: str
    folder: str
    """Where it lies, relative to the lock file, with `/` on every system."""
    source: str = ""
    """The source as policies and records name it, such as `git+https://github.com/acme/skills`."""
    ref: str = ""
    """The state that was asked for: a branch, a tag, a range; empty for the newest."""
    path: str = ""
    """The folder in the source."""
    revision: str = ""
    """The exact state that it was taken from: a commit, a version or a digest."""
    version: str = ""
    package: str = ""
    """The plugin, distribution or repository that it belongs to."""
    digest: str
    """The digest of its content, by which it is recognised."""
    replaces: str = ""
    """The digest of the content that it takes the place of; only while that goes on, or was cut short."""
    signer: str = ""
    unsigned: str = ""
    """The reason of the exception by which it was installed without the signature that a policy demands."""
    pinned: bool = False
    """Whether `metier update` leaves it as it is."""
    requires: tuple[str, ...] = ()
    """The skills that it needs, as it declares them."""
    packages: tuple[str, ...] = ()
    """The packages that its scripts import: exact versions with hashes."""
    added: str = ""
    """When, as UTC in ISO 8601."""
    by: str = ""
    other: Mapping[str, Any] = field(default_factory=dict)
    """Keys that this version does not know, which are kept."""

    @property
    def digests(self) -> tuple[str, ...]:
        """The contents that may lie there: the locked one, and the one that it takes the place of."""
        return (self.digest, self.replaces) if self.replaces else (self.digest,)


_KEYS = (*LockedSkill.__annotations__,)[:-1]
"""The keys of a table, as they are written: all fields but the last, `other`."""
_KINDS: dict[str, tuple[type, int]] = {"pinned": (bool, 0), "requires": (list, 65_536), "packages": (list, 65_536)}
"""The types of values, and the most characters of each of their texts, where it is not one text."""
_TEXT = (str, 4_096)


@dataclass(frozen=True, slots=True, kw_only=True)
class LockFile:
    """The content of a lock file; a path with no file is an empty one.

    >>> import tempfile
    >>> lock = LockFile.read(os.path.join(tempfile.mkdtemp(), "metier.lock"))
    >>> lock = lock.with_skill(LockedSkill(name="pdf", folder=".metier/skills/pdf", digest="sha256:" + "0" * 64))
    >>> lock.write()
    >>> LockFile.read(lock.path) == lock
    True
    """

    path: str
    skills: tuple[LockedSkill, ...] = ()
    """Sorted by name, then folder."""
    other: Mapping[str, Any] = field(default_factory=dict)
    """Keys that this version does not know, which are kept."""

    @staticmethod
    def read(path: str | os.PathLike[str]) -> LockFile:
        """Read a lock file; raises `LockInvalid` for one that cannot be used as it is."""
        path = os.path.abspath(path)
        try:
            data = read_plain(path, most=MAX_BYTES)
        except ValueError as problem:
            raise _invalid(path, str(problem)) from None
        return parse_lock(path, data) if data is not None else LockFile(path=path)

    @property
    def root(self) -> str:
        """The folder that the folders of the skills are relative to."""
        return os.path.dirname(self.path)

    def folder_of(self, skill: LockedSkill) -> str:
        """The absolute path of a skill's folder."""
        return os.path.join(self.root, *skill.folder.split("/"))

    def relative(self, folder: str | os.PathLike[str]) -> str:
        """An absolute folder as a lock file names it; raises `LockInvalid` where it lies elsewhere."""
        folder = os.path.abspath(folder)
        if not is_inside(folder, self.root) or folder == self.root:
            raise LockInvalid(
                f"{shown(folder, 300)} does not lie below {shown(self.root, 300)}, where the lock file is.",
                hint="Install the skill in the project, or for yourself with --to personal.",
            )
        return os.path.relpath(folder, self.root).replace(os.sep, "/")

    def at(self, folder: str) -> LockedSkill | None:
        """The skill in a folder, which is relative to the lock file."""
        return next((skill for skill in self.skills if skill.folder == folder), None)

    def with_skill(self, *skills: LockedSkill) -> LockFile:
        """The same with skills, each in place of the one that was in its folder."""
        kept = {skill.folder: skill for skill in self.skills} | {skill.folder: skill for skill in skills}
        return replace(self, skills=_sorted(kept.values()))

    def without(self, *folders: str) -> LockFile:
        """The same without the skills of some folders."""
        return replace(self, skills=tuple(skill for skill in self.skills if skill.folder not in folders))

    def text(self) -> str:
        """The file as it is written: the same content always gives the same bytes."""
        lines = [_HEAD, f"version = {VERSION}\n"]
        lines += [f"{_toml(name)} = {_toml(value)}\n" for name, value in sorted(self.other.items())]
        for skill in self.skills:
            known = {name: value for name in _KEYS if (value := getattr(skill, name))}
            lines += ["\n[[skill]]\n", *(f"{name} = {_toml(value)}\n" for name, value in known.items())]
            lines += [f"{_toml(name)} = {_toml(value)}\n" for name, value in sorted(skill.other.items())]
        return "".join(lines)

    def write(self) -> None:
        """Write it in one step. What could not be read again is not written."""
        try:
            data = self.text().encode()
            is_same = parse_lock(self.path, data) == self
        except (RecursionError, UnicodeEncodeError):
            is_same = False
        if not is_same:
            raise _invalid(self.path, "it would not be read as it was written")
        try:
            write_file(self.path, data, mode=0o666, sync=True, alone=True)
        except OSError as error:
            raise _not_writable(self.path, error) from None


def change_lock(path: str, change: Callable[[LockFile], LockFile]) -> LockFile:
    """Read a lock file, change it and write it, while no other process does so."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise _not_writable(path, error) from None
    with locked_folder(folder, os.path.basename(path)):
        before = LockFile.read(path)
        after = change(before)
        if after != before:
            after.write()
        return after


@contextlib.contextmanager
def noting_content(folder: str, digest: str, *, over: str | None) -> Iterator[Callable[[], None]]:
    """Give what notes that a content is about to take the place of another, `over`: the lock file names both from then.

    When the block ends it names the new one alone, and if it raises, what it named before. Of a folder that no lock
    file has, nothing is noted. Raises `LockInvalid` where it could not be.
    """
    path, is_locked = lock_path_for(folder), locked_skill(folder) is not None
    changes: list[LockedSkill] = []  # the entry as it was, and as it names both

    def begin() -> None:
        if is_locked:
            change_lock(path, name_both)

    def name_both(lock: LockFile) -> LockFile:
        before = lock.at(lock.relative(folder))
        if before is None or before.digest == digest:
            return lock
        # The other content's state of the source says nothing about this one, which nobody should look for there.
        both = replace(before, digest=digest, replaces=over or before.digest, revision="", version="", packages=())
        changes[:] = (before, both)
        return lock.with_skill(both)

    def end(entry: LockedSkill) -> None:
        # Another process may have put its own content there meanwhile, and noted that.
        change_lock(path, lambda lock: lock.with_skill(entry) if lock.at(entry.folder) == changes[1] else lock)

    try:
        yield begin
    except BaseException:
        if changes:
            end(changes[0])
        raise
    if changes:
        end(replace(changes[1], replaces=""))


def lock_path_for(folder: str | os.PathLike[str]) -> str:
    """The lock file that a folder's skills are recorded in: that of the user, or the one at the root of the project.

    The folder may be that of a skill, one that skills lie in, or the project itself.
    """
    folder = os.path.abspath(folder)
    home = home_folder()
    for place in dict.fromkeys((home, os.path.realpath(home))) if home is not None else ():
        if is_inside(folder, own := os.path.join(place, ".metier")):
            return os.path.join(own, LOCK_NAME)
    # A repository in a skill's folder is not the project: whoever can change a skill could make one there.
    plain = folder.replace(os.sep, "/") + "/"
    starts = [at for at in (plain.find(f"/{place}/") for place in PROJECT_FOLDERS) if at > 0]
    return os.path.join(folders_to_root(folder[: min(starts)] if starts else folder)[-1], LOCK_NAME)


def lock_places(start: str) -> dict[str, str]:
    """The lock file of the project around a folder, and the user's own."""
    found = {"project": lock_path_for(start)}
    home = home_folder()
    if home is not None:
        found["personal"] = os.path.join(home, ".metier", LOCK_NAME)
    return found


_lock_of = functools.lru_cache(4_096)(lock_path_for)


def locked_skill(folder: str) -> LockedSkill | None:
    """The skill that a lock file has in a folder, as it is now; None where no lock file has the folder.

    Raises `LockInvalid` while that lock file cannot be used. A file that has not changed is not read again.
    """
    path = _lock_of(folder)
    if not os.access(path, os.F_OK):
        return None  # as mostly; to see that takes far less time than an exception
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _invalid(path, error.strerror or "it cannot be read") from None
    found = _skills_at(path, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    if isinstance(found, LockInvalid):
        raise found.with_traceback(None)
    return found.get(folder)


@functools.lru_cache(64)
def _skills_at(path: str, *_state: int) -> dict[str, LockedSkill] | LockInvalid:
    """The skills of a lock file by their folders, or why it cannot be used, in one state of the file."""
    try:
        lock = LockFile.read(path)
    except LockInvalid as error:
        return error
    return {lock.folder_of(skill): skill for skill in lock.skills}


def parse_lock(path: str, data: bytes) -> LockFile:
    """The lock file that bytes are; `path` is where they lie, for errors."""
    import tomllib
    from unicodedata import normalize

    try:
        parsed = tomllib.loads(data.decode())
    except UnicodeDecodeError:
        raise _invalid(path, "it is not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise _invalid(path, f"it is not TOML: {shown(str(error), 200)}") from None
    except (RecursionError, ValueError, OverflowError):
        raise _invalid(path, "it is nested too deeply, or has a number that is too large") from None
    version = parsed.pop("version", None)
    if type(version) is not int or version < 1:
        raise _invalid(path, "it has no `version = 1`")
    if version > VERSION:
        raise LockInvalid(
            f"{shown(path, 300)} has version {version} of the format, and this metier knows {VERSION}.",
            hint="Update metier.",
        )
    tables = parsed.pop("skill", [])
    if not isinstance(tables, list) or len(tables) > MAX_SKILLS:
        raise _invalid(path, f"`skill` is no list of at most {MAX_SKILLS:,} tables")
    skills = [_skill(path, number, table) for number, table in enumerate(tables, 1)]
    seen: set[str] = set()
    for skill in skills:
        # Two spellings of one folder are one folder on some systems.
        plain = normalize("NFC", skill.folder).casefold()
        if plain in seen:
            raise _invalid(path, f"the folder {shown(skill.folder, 200)!r} stands there twice")
        seen.add(plain)
    return LockFile(path=path, skills=_sorted(skills), other=parsed)


def _skill(path: str, number: int, table: object) -> LockedSkill:
    if not isinstance(table, dict):
        raise _invalid(path, f"skill {number} is no table")
    where = f"skill {number}"
    if isinstance(table.get("name"), str):
        where += f" ({shown(table['name'])})"
    values: dict[str, Any] = {name: table.pop(name) for name in _KEYS if name in table}
    for name, value in values.items():
        kind, most = _KINDS.get(name, _TEXT)
        texts = () if kind is bool else value if kind is list else (value,)
        if type(value) is not kind or not all(isinstance(one, str) and len(one) <= most for one in texts):
            raise _invalid(path, f"`{name}` of {where} has a wrong type or is too long")
    for name in ("name", "folder", "digest"):
        if not values.get(name):
            raise _invalid(path, f"{where} has no `{name}`")
    for name in ("digest", "replaces"):
        if values.get(name) and not is_digest(values[name]):
            raise _invalid(path, f"`{name}` of {where} is no sha256: with 64 digits")
    folder = values["folder"]
    try:
        is_plain = "/".join(checked_path(folder)) == folder
    except MetierError:
        is_plain = False
    if not is_plain:
        raise _invalid(path, f"`folder` of {where} is no plain path below the lock file: {shown(folder, 200)!r}")
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return LockedSkill(**values, other=table)


def _sorted(skills: Iterable[LockedSkill]) -> tuple[LockedSkill, ...]:
    return tuple(sorted(skills, key=lambda skill: (skill.name, skill.folder)))


def _invalid(path: str, problem: str) -> LockInvalid:
    return LockInvalid(f"{shown(path, 300)} cannot be used: {problem}.", hint=_HINT, path=path)


def _not_writable(path: str, error: OSError) -> FileRefused:
    return FileRefused(f"{shown(path, 300)} cannot be written: {error.strerror}.", hint="Check its permissions.")


def _toml(value: object) -> str:
    """A value as it is written; several in a list have a line each."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(name)} = {_toml(one)}" for name, one in sorted(value.items())) + "}"
    if isinstance(value, list | tuple):
        parts = [_toml(one) for one in value]
        return "[\n" + "".join(f"    {part},\n" for part in parts) + "]" if len(parts) > 1 else f"[{''.join(parts)}]"
    if isinstance(value, str | bool):
        # As in JSON, but for one character that JSON leaves as it is.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
