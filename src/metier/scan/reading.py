"""From the files of a skill to what rules look at: every file is read whole, and what cannot be is named."""

from __future__ import annotations

import hashlib
import os
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from metier._regex_cache import kept_regex
from metier.errors import FileTooLarge, MetierError, SkillChanged
from metier.scan.decoding import decoded
from metier.scan.magic import kind_of_file
from metier.scan.name_lists import names
from metier.scan.parts import language_of, parts_of
from metier.scan.view import OpaqueFile, Part, SkillView, ViewFile
from metier.skill import FolderPackage, parse
from metier.skill.package import EXCLUDED, MAX_FILES, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.containers import Unpacking
    from metier.scan.view import OpaqueKind, Role
    from metier.skill import Package, Skill
    from metier.skill.package import DigestEntry

MAX_TEXT = 64 * 1024 * 1024
"""Characters of one skill that are scanned; files beyond are named as opaque."""

_SHEBANG = kept_regex(r"#![ \t]{0,20}(\S[^\n]{0,300})")


def view_of(package: Package, *, folder: str = "") -> SkillView:
    """A skill as rules see it; `folder` is the name of its folder, which names a skill without a name.

    Raises `SkillChanged` when a file changes while it is read, so that a view is always of one content.

    >>> from metier.skill import MemoryPackage
    >>> view = view_of(MemoryPackage({"SKILL.md": "---\\nname: a\\n---\\nDo it.", "x.pyc": bytes(9)}))
    >>> view.name, view.instructions.parts[1].text, view.opaque[0].why
    ('a', 'Do it.', 'is Python bytecode')
    """
    if isinstance(package, FolderPackage):
        folder = folder or os.path.basename(os.path.abspath(package.root))
    entries = sorted(package.contents())
    reading = _Reading(package, _instructions_among(entries), folder)
    for entry in entries:
        reading.take(entry)
    skill = reading.skill
    return SkillView(
        name=skill.name if skill is not None else folder,
        description=skill.description if skill is not None else "",
        frontmatter=skill.frontmatter if skill is not None else MappingProxyType({}),
        files=tuple(reading.files),
        opaque=tuple(reading.opaque),
        paths=tuple(entry.path for entry in entries),
        skill=skill,
        digest=digest_of(entries),
        hashes=MappingProxyType({entry.path: entry.content.hex() for entry in entries}),
        left_out=tuple(_left_out(package.root) if isinstance(package, FolderPackage) else _beside(package)),
        control=MappingProxyType(reading.control),
    )


def _instructions_among(entries: list[DigestEntry]) -> str:
    paths = [entry.path for entry in entries if entry.path.lower() == "skill.md"]
    return "SKILL.md" if "SKILL.md" in paths else min(paths, default="")


class _Reading:
    """The files of one package, read one after the other."""

    def __init__(self, package: Package, instructions: str, folder: str) -> None:
        self._package = package
        self._instructions = instructions
        self._folder = folder
        self._left = MAX_TEXT
        self._kept: set[str] = set()
        self.files: list[ViewFile] = []
        self.opaque: list[OpaqueFile] = []
        self.control: dict[str, int] = {}
        self.skill: Skill | None = None

    @cached_property
    def _unpacking(self) -> Unpacking:
        # Few skills have files that hold others, and what reads them takes time to import.
        from metier.scan.containers import Unpacking

        return Unpacking()

    def take(self, entry: DigestEntry) -> None:
        path = entry.path
        if entry.mode == "link":
            # Never followed: what it leads to is scanned under its own name, or is no part of the skill.
            self._name(path, "link", "is a link")
            return
        try:
            data = self._package.read(path)
        except MetierError as error:
            is_large = isinstance(error, FileTooLarge)
            why = "is too large to be scanned" if is_large else f"cannot be read: {error.message}"
            self._name(path, "unreadable", why)
            return
        if hashlib.sha256(data).digest() != entry.content:
            raise SkillChanged(f"{path!r} changed while it was scanned.", hint="Scan it again.", path=path)
        if path == self._instructions:
            self.skill = parse(data, folder=self._folder, file=path).skill
        self._look_at(path, data, is_executable=entry.mode == "exec")

    def _look_at(self, path: str, data: bytes, *, is_executable: bool) -> None:
        found = decoded(data)
        kind = kind_of_file(path, data, is_text=found.is_text)
        role, language = self._role_of(path, found.text, is_executable=is_executable)
        if kind is not None:
            self._name(path, *kind)
        elif not found.is_clean:
            self._name(path, "odd", "is not plain UTF-8 text")
        if found.control_line and found.is_text:
            self.control[path] = found.control_line
        is_opened = kind is not None and kind[0] != "encrypted" and (role == "other" or not found.is_text)
        entries = self._unpacking.inside(path, data) if is_opened else []
        for name, content in entries:
            inner, is_words = decoded(content), name in (path, f"{path}/text")
            # What is no text in there is no text of the skill.
            if inner.is_text and inner.text:
                at = name if name != path or role == "other" else f"{path}/text"
                own: tuple[Role, str] = self._role_of(at, inner.text, is_executable=False)
                self._keep(at, inner.text, *(("markdown", "") if is_words else own), is_executable=False)
        # Binary data under the name of a text is still read by whoever opens it: a shell runs what it can.
        if role != "other" or (found.is_text and not entries):
            self._keep(path, found.text, role, language, is_executable=is_executable)

    def _keep(self, path: str, text: str, role: Role, language: str, *, is_executable: bool) -> None:
        if len(text) > self._left:
            self._name(path, "unreadable", "is beyond the text that is scanned of one skill")
            return
        self._left -= len(text)
        while path in self._kept:  # an archive may have two entries of one name, which statements are known by
            folder, _, name = path.rpartition("/")
            path = f"{folder}/again/{name}"
        self._kept.add(path)
        is_code = role in ("script", "config") and text
        parts = (Part("code", text, 1, language),) if is_code else parts_of(text)
        self.files.append(ViewFile(path, role, text, parts, language, is_executable))

    def _name(self, path: str, kind: OpaqueKind, why: str) -> None:
        self.opaque.append(OpaqueFile(path, why, kind))

    def _role_of(self, path: str, text: str, *, is_executable: bool) -> tuple[Role, str]:
        if path == self._instructions:
            return "instructions", ""
        name = path.rpartition("/")[2].lower()
        stem, dot, suffix = name.rpartition(".")
        shebang = _SHEBANG.match(text)
        if shebang is not None:
            return "script", _interpreter(shebang[1])
        if dot and suffix in names("suffixes-of-scripts"):
            return "script", language_of(suffix)
        if name in names("names-of-scripts"):
            return "script", "shell" if name in ("makefile", "justfile") else name
        if suffix in names("suffixes-of-settings"):
            return "config", language_of(suffix)
        if is_executable and not dot:
            return "script", "shell"
        # A name without a suffix is a README or a licence; `.notes` has one only by the letter.
        if suffix in names("suffixes-of-prose") or not dot or not stem:
            return "markdown", ""
        return "other", ""


def _interpreter(command: str) -> str:
    """The language of what a `#!` line names, which `env` may look for."""
    words = [word for word in command.split() if not word.startswith("-") and "=" not in word]
    called = [word.rpartition("/")[2].rstrip("0123456789.") for word in words]
    return language_of(next((name for name in called if name != "env"), ""))


def _left_out(root: str) -> Iterator[OpaqueFile]:
    """What lies in a skill's folder on disk but is no part of the package, named by its topmost folder."""
    waiting, looked = [""], 0
    while waiting and looked < MAX_FILES:
        prefix = waiting.pop()
        for entry in _entries_of(os.path.join(root, prefix)):
            looked += 1
            path = f"{prefix}{entry.name}"
            if entry.name in EXCLUDED:
                yield _excluded(path, entry.name)
                if entry.name == "__pycache__" and entry.is_dir(follow_symlinks=False):
                    yield from (
                        OpaqueFile(f"{path}/{one.name}", "is bytecode that hides its source", "bytecode")
                        for one in _entries_of(entry.path)[:MAX_FILES]
                        if _is_shadow(one)
                    )
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(f"{path}/")


def _entries_of(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_shadow(entry: os.DirEntry[str]) -> bool:
    """Whether Python runs some bytecode whatever its source says, as it is never compared with it."""
    try:
        if not entry.name.endswith(".pyc") or not entry.is_file(follow_symlinks=False):
            return False
        with open(entry.path, "rb") as file:
            return file.read(8)[4:] == b"\1\0\0\0"
    except OSError:
        return False


def _beside(package: Package) -> Iterator[OpaqueFile]:
    """The same of a package in memory that says what it left out."""
    for path in getattr(package, "beside", ()):
        parts = path.split("/")
        at = next(index for index, part in enumerate(parts) if part in EXCLUDED)
        yield _excluded("/".join(parts[: at + 1]), parts[at])


def _excluded(path: str, name: str) -> OpaqueFile:
    known: dict[str, tuple[str, OpaqueKind]] = {
        "__pycache__": ("holds bytecode", "bytecode"),
        "node_modules": ("holds installed modules", "program"),
        ".venv": ("holds a Python", "program"),
    }
    what, kind = known.get(name, ("is kept by another program", "odd"))
    return OpaqueFile(path, f"{what} and is no part of the skill", kind)
