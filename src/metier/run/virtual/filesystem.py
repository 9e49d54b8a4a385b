"""Files inside the interpreter: walked, measured, written and read. This runs in the worker."""

from __future__ import annotations

from bashkit import FileSystem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any, TypeAlias

    from bashkit import Bash

    from metier.run.virtual.channel import Head

    File: TypeAlias = tuple[str, str, int, bytes]
    """A path, what is there (`f`, `d` or `l`), its mode, and its content or where a link leads."""

PROGRAMS = ("/bin", "/usr/bin")
"""Folders with an entry for each builtin: many, and always the same."""
_UNREAL = ("/proc",)
_KINDS = {"file": "f", "directory": "d", "symlink": "l"}


class Refusal(Exception):
    """An error of the shell, with a kind that the other side has a sentence for."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail


class ReadOnlyFolders:
    """Files that are only read: the skills of a shell, and folders that several jobs are given."""

    def __init__(self) -> None:
        self._skills: FileSystem | None = None
        self._mounted: set[str] = set()
        self._outlines: dict[str, bytes] = {}
        self._kept: dict[str, FileSystem] = {}

    def skills(self) -> FileSystem:
        """The skills of the shell."""
        if self._skills is None:
            self._skills = empty()
        return self._skills

    def put_skill(self, *, name: str, files: Sequence[File]) -> None:
        """Put a skill, or remove the one of that name if it has no files."""
        self._remove(name)
        self._mounted.discard(name)
        if files:
            self._mounted.add(name)
            put(self.skills(), [(f"/{name}{path}".rstrip("/"), kind, mode, blob) for path, kind, mode, blob in files])
        elif name in self._outlines:
            self._put_outline(name)

    def put_outlines(self, *texts: bytes, names: Sequence[str]) -> None:
        """Put these outlines, and no other, for the skills that are not mounted."""
        outlines = dict(zip(names, texts, strict=True))
        before, self._outlines = self._outlines, outlines
        for name in before.keys() - outlines.keys() - self._mounted:
            self._remove(name)
        for name in outlines.keys() - self._mounted:
            if before.get(name) != outlines[name]:
                self._put_outline(name)

    def _put_outline(self, name: str) -> None:
        self.skills().mkdir(f"/{name}", recursive=True)
        if self._outlines[name]:
            self.skills().write_file(f"/{name}/SKILL.md", self._outlines[name])

    def _remove(self, name: str) -> None:
        skills = self.skills()
        if skills.exists(f"/{name}"):
            skills.remove(f"/{name}", recursive=True)

    def keep(self, *, key: str, files: Sequence[File]) -> None:
        """Keep a folder for the jobs to come."""
        self._kept[key] = empty()
        put(self._kept[key], files)

    def forget(self) -> None:
        """Drop the kept folders."""
        self._kept.clear()

    def kept(self, key: str) -> FileSystem:
        """A kept folder."""
        found = self._kept.get(key)
        if found is None:
            raise Refusal("unknown", key)
        return found


def empty() -> FileSystem:
    """A filesystem with nothing in it; a new one has a few folders."""
    files = FileSystem()
    for entry in files.read_dir("/"):
        files.remove(f"/{entry['name']}", recursive=True)
    return files


def put(system: FileSystem, files: Sequence[File]) -> None:
    """Write files, with the folders that they need. What is there already is replaced, but never a folder."""
    made: set[str] = set()
    for path, kind, mode, blob in files:
        parent = path.rpartition("/")[0]
        if parent and parent not in made:
            system.mkdir(parent, recursive=True)
            made.add(parent)
        if kind == "d":
            system.mkdir(path or "/", recursive=True)
            made.add(path)
        elif kind == "l":
            if kind_of(system, path):
                system.remove(path)
            system.symlink(blob.decode(), path)
        else:
            if kind_of(system, path) == "l":
                system.remove(path)
            system.write_file(path, blob)
            system.chmod(path, mode)


def kind_of(files: FileSystem, path: str) -> str:
    """The kind of a path itself, without following a link: `f`, `d`, `l`, or nothing."""
    if path == "/":
        return "d"
    try:
        files.read_link(path)
    except Exception:
        try:
            return _KINDS.get(files.stat(path)["file_type"], "")
        except Exception:
            return ""
    return "l"


def walk(files: FileSystem, top: str, skipped: frozenset[str] = frozenset()) -> Iterator[tuple[str, str, int, int]]:
    """The files below a folder: path, kind, mode and size. Links are not followed."""
    folders = [top]
    while folders:
        folder = folders.pop()
        for entry in files.read_dir(folder):
            path = f"{folder.rstrip('/')}/{entry['name']}"
            about: dict[str, Any] = entry["metadata"]
            kind = _KINDS.get(about["file_type"], "")
            if not kind or path in skipped or path in _UNREAL:
                continue
            yield path, kind, about["mode"], about["size"]
            if kind == "d" and path not in PROGRAMS:
                folders.append(path)


def take(files: FileSystem, top: str, skipped: frozenset[str] = frozenset()) -> list[File]:
    """All files below a folder, parents before what is in them."""
    return [(path, kind, mode, content(files, path, kind)) for path, kind, mode, _ in sorted(walk(files, top, skipped))]


def content(files: FileSystem, path: str, kind: str) -> bytes:
    """The bytes of a file, or where a link leads."""
    if kind == "f":
        return files.read_file(path)
    return files.read_link(path).encode() if kind == "l" else b""


_initial: dict[str, int] = {}
"""The files of every new shell, and their sizes."""


class Measured:
    """A measurement: nodes with the root, files, bytes, the deepest path, and the largest file with its size."""

    def __init__(self) -> None:
        self.nodes, self.files, self.total_bytes = 1, 0, 0
        self.deepest, self.largest, self.most = "", "", -1


def remember_initial_files(bash: Bash) -> None:
    """Take the files of a new shell for those of every new shell."""
    if _initial:
        return
    _initial.update({path: size for path, _, _, size in walk(bash.fs(), "/")})
    for folder in PROGRAMS:
        names = bash.ls(folder)
        _initial[folder + "/"] = len(names)
        _initial.update({f"{folder}/{name}": 0 for name in names})


def measure(bash: Bash, mounts: Collection[str]) -> Measured:
    """Look through all files but those that are mounted."""
    files, found = bash.fs(), Measured()
    for path, kind, _, size in walk(files, "/", frozenset(mounts)):
        size = size if kind == "f" else 0
        was = _initial.get(path)
        if was is None:
            found.nodes += 1
            found.files += kind == "f"
            found.deepest = max(found.deepest, path, key=_depth)
        found.total_bytes += max(0, size - (was or 0))
        if size > max(found.most, was or 0):
            found.most, found.largest = size, path
    for folder in PROGRAMS:
        # There are hundreds of entries, of which mostly none is new: so they are counted before they are looked at.
        if len(bash.ls(folder)) != _initial[folder + "/"]:
            for entry in files.read_dir(folder):
                if f"{folder}/{entry['name']}" not in _initial:
                    found.nodes += 1
                    found.files += 1
                    found.total_bytes += entry["metadata"]["size"]
    found.nodes -= len({part for mount in mounts for part in _above(mount) if part not in _initial})
    return found


def over(bash: Bash, mounts: Collection[str], limits: Head) -> str:
    """The limit that the files exceed, in a sentence; nothing if none."""
    found = measure(bash, mounts)
    if found.most > limits["file_bytes"]:
        return f"The file {found.largest} exceeds the limit of {limits['file_bytes']} bytes for a file."
    if found.nodes > limits["files"] + 1:
        return f"The workspace exceeds the limit of {limits['files']} files and folders."
    if found.total_bytes > limits["total_bytes"]:
        return f"The workspace exceeds the limit of {limits['total_bytes']} bytes for all files."
    if _depth(found.deepest) > limits["depth"]:
        return f"The path {found.deepest} exceeds the limit of {limits['depth']} folders inside one another."
    return ""


def _depth(path: str) -> int:
    return path.count("/")


def _above(path: str) -> list[str]:
    """The folders above a path."""
    parts = path.split("/")[1:-1]
    return ["/" + "/".join(parts[: index + 1]) for index in range(len(parts))]
