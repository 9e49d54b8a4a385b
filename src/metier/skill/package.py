"""Packages: the files of a skill, in a folder or in memory, read without ever leaving it.

`Package` is the seam between a skill and wherever its files are: a folder on disk or files in memory. Version control,
installed modules and bytecode are not part of a package: they are not listed, not read and not in the digest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from metier._lazy import dataclass, pattern
from metier.errors import FileMissing, FileRefused, FileTooLarge, InvalidArgument, MetierError, SkillChanged
from metier.skill.untrusted_text import shown

if TYPE_CHECKING:
    from hashlib import _Hash

FileKind: TypeAlias = Literal["skill", "script", "reference", "asset", "link", "other"]

STAGING = ".metier-staging"
"""The folder beside skills in which one is made that is to take another's place."""
EXCLUDED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".DS_Store", STAGING})
NAME_LISTED = "Name one of the files that are listed with the skill."
"""The hint where a skill has no such file."""
MAX_FILES = 2_000
MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_PACKAGE_BYTES = 256 * 1024 * 1024
MAX_DEPTH = 16

_DIGEST = pattern(r"sha256:[0-9a-f]{64}")
_SCRIPT_SUFFIXES = (".py", ".sh", ".bash", ".js", ".mjs", ".ts", ".rb", ".pl", ".ps1")
_SCRIPT_FOLDERS = ("scripts", "bin", "tools")
_REFERENCE_FOLDERS = ("references", "reference", "docs")
_ASSET_FOLDERS = ("assets", "templates", "examples")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """One file of a skill."""

    path: str
    """Relative to the skill's folder, with `/` on every system."""
    size: int
    kind: FileKind
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageListing:
    """The files of a skill, sorted by path; `stopped_at` says which limit cut the list short, if one did."""

    files: tuple[PackageFile, ...]
    stopped_at: str | None = None

    def scripts(self) -> tuple[PackageFile, ...]:
        """The files that are meant to be run."""
        return tuple(file for file in self.files if file.kind == "script")

    def is_script(self, path: str) -> bool:
        """Whether a path, however it is written, is one of the skill's scripts."""
        try:
            plain = "/".join(checked_path(path))
        except MetierError:
            return False  # it is refused when it is read
        return any(file.path == plain for file in self.scripts())

    def named_by(self, command: str) -> str | None:
        """The file of the skill that a command begins with, if it does: `hooks/check.sh --all` names one."""
        word = command.split(maxsplit=1)[0].removeprefix("./") if command.strip() else ""
        return next((file.path for file in self.files if file.path == word), None)


# On Windows `a:b` is a stream of a file or a place on another drive; elsewhere it is a name.
_DRIVE = pattern(r"[A-Za-z]:" if os.name == "nt" else r"[A-Za-z]:(?:/|$)")
# Control characters, half characters, and those that turn the direction of text and so hide what a path says.
_UNSAFE = pattern("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Package(Protocol):
    """The files of one skill, in a folder or in memory."""

    def listing(self) -> PackageListing:
        """All files, bounded."""
        ...

    def read(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        """The content of one file; refuses every path that leaves the package."""
        ...

    def signature(self) -> str:
        """Changes whenever a file may have changed; cheap, where a digest reads everything."""
        ...

    def digest(self) -> str:
        """`sha256:` over sorted paths, executable bits and contents: the identity of the package's content."""
        ...

    def contents(self) -> list[DigestEntry]:
        """Every file with the hash of its content, which the digest is made of."""
        ...

    def link_target(self, path: str) -> bytes:
        """The target of a link of the package."""
        ...


class DigestEntry(NamedTuple):
    """The part of a package digest that stands for one file."""

    path: str
    mode: Literal["file", "exec", "link"]
    content: bytes
    """The sha256 of the content, or of a link's target."""


def sha256(data: bytes = b"") -> _Hash:
    """The SHA-256 of content, by OpenSSL: the quickest for much, but loading it takes a while, and lists need none."""
    import hashlib

    return hashlib.sha256(data)


def digest_of(entries: list[DigestEntry]) -> str:
    """The digest of a package from its entries; every part is length-prefixed, so no two packages read alike.

    >>> digest_of([DigestEntry("SKILL.md", "file", b"0" * 32)])[:14]
    'sha256:cdd43b7'
    """
    total = sha256(b"metier-package-1")
    for path, mode, content in sorted(entries):
        for part in (path.encode(errors="surrogateescape"), mode.encode(), content):
            total.update(len(part).to_bytes(8, "big"))
            total.update(part)
    return f"sha256:{total.hexdigest()}"


def kind_of(path: str) -> FileKind:
    """The kind of a file, by its folder and its name.

    >>> kind_of("scripts/fill.py"), kind_of("references/fields.md"), kind_of("notes.txt")
    ('script', 'reference', 'other')
    """
    folder, _, name = path.partition("/")
    if not name:
        return "skill" if path.lower() == "skill.md" else "other"
    if folder in _SCRIPT_FOLDERS and path.lower().endswith(_SCRIPT_SUFFIXES):
        return "script"
    if folder in _REFERENCE_FOLDERS:
        return "reference"
    if folder in _ASSET_FOLDERS:
        return "asset"
    return "other"


def relative_to_root(path: str, root: str) -> str:
    """A path as the skill's own files are named, where it begins with the folder that the skill is said to be in.

    Only the text is compared: what is left is checked like any other path, and nothing else is ever opened.

    >>> relative_to_root("/skills/forms/references/api.md", "/skills/forms")
    'references/api.md'
    >>> relative_to_root("/skills/forms-old/api.md", "/skills/forms")
    '/skills/forms-old/api.md'
    """
    if not isinstance(path, str) or not root:
        return path
    # On Windows either slash may stand in what a model makes of a path that it was told.
    told, asked = (text.replace("\\", "/") if os.name == "nt" else text for text in (root, path))
    return asked.removeprefix(told.rstrip("/") + "/")


def checked_path(path: str) -> tuple[str, ...]:
    """The segments of a path inside a skill; raises `FileRefused` for anything that is not plainly inside.

    >>> checked_path("references\\\\api.md")
    ('references', 'api.md')
    """
    if not isinstance(path, str) or not path.strip():
        raise FileRefused("The path is empty.", hint="Name a file of the skill, such as references/api.md.", path=path)
    if len(path) > 4_096 or _UNSAFE.search(path):
        raise FileRefused(
            f"The path {path[:80]!r} has control characters or is too long.", hint="Use the path as listed.", path=path
        )
    plain = path.replace("\\", "/")
    segments = tuple(segment for segment in plain.split("/") if segment not in ("", "."))
    if plain.startswith("/") or _DRIVE.match(plain) or ".." in segments or not segments:
        raise FileRefused(
            f"The path {path!r} leaves the skill (path traversal).",
            hint="Paths are relative to the skill's folder and stay inside it.",
            path=path,
        )
    excluded = EXCLUDED.intersection(segments)
    if excluded:
        raise FileMissing(f"{sorted(excluded)[0]} is not part of the skill.", hint=NAME_LISTED, path=path)
    return segments


class MemoryFile(NamedTuple):
    """The content of a file in memory."""

    data: bytes
    executable: bool = False


class MemoryPackage:
    """A skill's files in memory, by path.

    >>> MemoryPackage({"SKILL.md": b"hello"}).read("SKILL.md")
    b'hello'
    """

    def __init__(self, files: Mapping[str, MemoryFile | bytes | str]) -> None:
        self._files: dict[str, MemoryFile] = {}
        for path, content in files.items():
            plain = "/".join(checked_path(path))
            if plain in self._files:
                raise FileRefused(f"{plain!r} is given twice.", hint="Give each file once.", path=path)
            self._files[plain] = _file(plain, content)
        for path in self._files:
            for end in (i for i, character in enumerate(path) if character == "/"):
                if path[:end] in self._files:
                    raise FileRefused(
                        f"{path[:end]!r} is a file and {path!r} lies in it.", hint="Rename one.", path=path
                    )
        self._digest: str | None = None

    def fingerprint(self, path: str) -> tuple[int, int]:
        """The size of a file and a number made of its content, however large it is."""
        data = self._files[path].data
        return len(data), int.from_bytes(sha256(data).digest()[:7], "big")

    def paths(self) -> list[str]:
        """All paths, sorted."""
        return sorted(self._files)

    def listing(self) -> PackageListing:
        """All files, sorted."""
        return PackageListing(
            files=tuple(
                PackageFile(path=path, size=len(file.data), kind=kind_of(path), executable=file.executable)
                for path, file in sorted(self._files.items())
            )
        )

    def read(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        """The content of one file."""
        plain = "/".join(checked_path(path))
        file = self._files.get(plain)
        if file is None:
            if any(other.startswith(f"{plain}/") for other in self._files):
                raise FileRefused(f"{path!r} is a folder, not a file.", hint="Name a file in it.", path=path)
            raise FileMissing(f"{path!r} is not among the skill's files.", hint=NAME_LISTED, path=path)
        if len(file.data) > limit:
            raise FileTooLarge(
                f"{path!r} has more than {limit:,} bytes.", hint="Read a part of it.", path=path, size=len(file.data)
            )
        return file.data

    def signature(self) -> str:
        """The digest itself: what is in memory does not change."""
        return self.digest()

    def digest(self) -> str:
        """The content digest of the package."""
        if self._digest is None:
            self._digest = digest_of(self.contents())
        return self._digest

    def contents(self) -> list[DigestEntry]:
        """Every file with the hash of its content."""
        return [
            DigestEntry(path, "exec" if file.executable else "file", sha256(file.data).digest())
            for path, file in self._files.items()
        ]

    def link_target(self, path: str) -> bytes:
        """Refuse: files in memory have no links."""
        raise FileRefused(f"{shown(path)!r} is a link.", hint="Replace it by a copy of the file.", path=path)


def _file(path: str, content: MemoryFile | bytes | str) -> MemoryFile:
    if isinstance(content, str):
        try:
            content = content.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(f"{path!r} is not valid Unicode text.", hint="Give it as bytes.") from None
    if isinstance(content, bytes):
        return MemoryFile(content)
    if not isinstance(content, MemoryFile):
        raise InvalidArgument(f"{path!r} is neither text nor bytes.", hint="Give the content of the file.")
    return content


FileMode: TypeAlias = Literal["file", "exec", "link"]
Files: TypeAlias = Mapping[str, tuple[FileMode, bytes]]
"""Path to mode and content; the content of a link is where it leads."""


def files_of(
    package: Package, digest: str | None = None, *, limit: int = MAX_FILE_BYTES
) -> dict[str, tuple[FileMode, bytes]]:
    """All files of a skill in one state, each of at most `limit` bytes; with `digest`, in the state that it stands for.

    Raises `SkillChanged` where it is another, or somebody writes there meanwhile.

    >>> from metier.skill import MemoryPackage
    >>> files_of(MemoryPackage({"SKILL.md": b"Do it."}))
    {'SKILL.md': ('file', b'Do it.')}
    """
    entries = package.contents() if digest is None else entries_of(package, digest)
    return {entry.path: (entry.mode, content_of(package, entry, limit=limit)) for entry in entries}


def entries_of(package: Package, digest: str) -> list[DigestEntry]:
    """The entries that make a digest; raises `SkillChanged` where the files are no longer those.

    >>> from metier.skill import MemoryPackage
    >>> package = MemoryPackage({"SKILL.md": b"Do it."})
    >>> [entry.path for entry in entries_of(package, package.digest())]
    ['SKILL.md']
    """
    entries = package.contents()
    if digest_of(entries) != digest:
        raise SkillChanged("The files of the skill changed while they were looked at.", hint="Load it again.")
    return entries


def content_of(package: Package, entry: DigestEntry, *, limit: int = MAX_FILE_BYTES) -> bytes:
    """The bytes of a file, or where a link leads; raises `SkillChanged` unless they have the hash that was taken.

    >>> from metier.skill import MemoryPackage
    >>> package = MemoryPackage({"SKILL.md": b"Do it."})
    >>> content_of(package, package.contents()[0])
    b'Do it.'
    """
    try:
        data = package.link_target(entry.path) if entry.mode == "link" else package.read(entry.path, limit=limit)
    except FileMissing:
        raise _changed(entry) from None
    if sha256(data).digest() != entry.content:
        raise _changed(entry)
    return data


def is_digest(text: object) -> bool:
    """Whether a text is a digest as we and most formats write it: `sha256:` and 64 hexadecimal digits."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def digest_of_files(files: Files) -> str:
    """The digest that a folder with these files has.

    >>> from metier.skill import MemoryPackage
    >>> digest_of_files({"SKILL.md": ("file", b"Do it.")}) == MemoryPackage({"SKILL.md": b"Do it."}).digest()
    True
    """
    return digest_of([DigestEntry(path, mode, sha256(data).digest()) for path, (mode, data) in files.items()])


def _changed(entry: DigestEntry) -> SkillChanged:
    return SkillChanged(f"{shown(entry.path)!r} changed while it was read.", hint="Try again.", path=entry.path)
