"""From the files of a skill to what rules look at: every file is read whole, and what cannot be is named."""

from __future__ import annotations

import hashlib
import os
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from metier.errors import FileTooLarge, MetierError, SkillChanged
from metier.scan.decoding import decoded
from metier.scan.magic import kind_of_file, text_in_image
from metier.scan.parts import language_of, parts_of
from metier.scan.view import OpaqueFile, Part, SkillView, ViewFile
from metier.skill import FolderPackage, parse
from metier.skill.package import EXCLUDED, MAX_FILES, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.view import OpaqueKind, Role
    from metier.skill import Package, Skill
    from metier.skill.package import DigestEntry

MAX_TEXT = 64 * 1024 * 1024
"""Characters of one skill that are scanned; files beyond are named as opaque."""

_PROSE = re.compile("md|markdown|mdx|mdc|txt|text|rst|adoc|org|html|htm|xhtml|tex")
_CONFIG = re.compile("jsonc?|json5|ya?ml|toml|ini|cfg|conf|env|properties|xml|plist|lock|envrc|npmrc")
_SCRIPT = re.compile(
    "pyw?|sh|bash|zsh|ksh|fish|bat|cmd|psm?1|[mc]?[jt]s|[jt]sx|rb|p[lm]|php|lua|go|rs|scpt|applescript|vbs|java|kt"
    "|swift|cc?|cpp|h|cs|r|jl|exs?|command|tool"
)
_SCRIPT_NAMES = frozenset({"makefile", "dockerfile", "justfile", "rakefile", "gemfile", "procfile", "vagrantfile"})
_SHEBANG = re.compile(r"#![ \t]{0,20}(\S[^\n]{0,300})")


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
        left_out=tuple(_left_out(package.root)) if isinstance(package, FolderPackage) else (),
        control=MappingProxyType(reading.control),
    )


def _instructions_among(entries: list[DigestEntry]) -> str:
    names = [entry.path for entry in entries if entry.path.lower() == "skill.md"]
    return "SKILL.md" if "SKILL.md" in names else min(names, default="")


class _Reading:
    """The files of one package, read one after the other."""

    def __init__(self, package: Package, instructions: str, folder: str) -> None:
        self._package = package
        self._instructions = instructions
        self._folder = folder
        self._left = MAX_TEXT
        self.files: list[ViewFile] = []
        self.opaque: list[OpaqueFile] = []
        self.control: dict[str, int] = {}
        self.skill: Skill | None = None

    def take(self, entry: DigestEntry) -> None:
        path = entry.path
        if entry.mode == "link":
            # Never followed: what it leads to is scanned under its own name, or is no part of the skill.
            self.opaque.append(OpaqueFile(path, "is a link", "link"))
            return
        try:
            data = self._package.read(path)
        except FileTooLarge:
            self.opaque.append(OpaqueFile(path, "is too large to be scanned", "unreadable"))
            return
        except MetierError as error:
            self.opaque.append(OpaqueFile(path, f"cannot be read: {error.message}", "unreadable"))
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
            self.opaque.append(OpaqueFile(path, kind.why, kind.kind))
        elif not found.is_clean:
            self.opaque.append(OpaqueFile(path, "is not plain UTF-8 text", "odd"))
        if found.control_line and found.is_text:
            self.control[path] = found.control_line
        # Binary data under the name of a text is still read by whoever opens it: a shell runs what it can.
        text = found.text if found.is_text or role != "other" else text_in_image(data)
        if not text and not found.is_text:
            return
        if len(text) > self._left:
            self.opaque.append(OpaqueFile(path, "is beyond the text that is scanned of one skill", "unreadable"))
            return
        self._left -= len(text)
        self.files.append(ViewFile(path, role, text, _parts(role, text, language), language, is_executable))

    def _role_of(self, path: str, text: str, *, is_executable: bool) -> tuple[Role, str]:
        if path == self._instructions:
            return "instructions", ""
        name = path.rpartition("/")[2].lower()
        stem, dot, suffix = name.rpartition(".")
        shebang = _SHEBANG.match(text)
        if shebang is not None:
            return "script", _interpreter(shebang[1])
        if dot and _SCRIPT.fullmatch(suffix):
            return "script", language_of(suffix)
        if name in _SCRIPT_NAMES:
            return "script", "shell" if name in ("makefile", "justfile") else name
        if _CONFIG.fullmatch(suffix):
            return "config", language_of(suffix)
        if is_executable and not dot:
            return "script", "shell"
        # A name without a suffix is a README or a licence; `.notes` has one only by the letter.
        if _PROSE.fullmatch(suffix) or not dot or not stem:
            return "markdown", ""
        return "other", ""


def _interpreter(command: str) -> str:
    """The language of what a `#!` line names, which `env` may look for."""
    words = [word for word in command.split() if not word.startswith("-") and "=" not in word]
    names = [word.rpartition("/")[2].rstrip("0123456789.") for word in words]
    return language_of(next((name for name in names if name != "env"), ""))


def _parts(role: Role, text: str, language: str) -> tuple[Part, ...]:
    if role in ("script", "config"):
        return (Part("code", text, 1, language),) if text else ()
    return parts_of(text)


def _left_out(root: str) -> Iterator[OpaqueFile]:
    """What lies in a skill's folder on disk but is no part of the package, named by its topmost folder."""
    waiting, looked = [""], 0
    while waiting and looked < MAX_FILES:
        prefix = waiting.pop()
        try:
            with os.scandir(os.path.join(root, prefix)) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed:
            looked += 1
            path = f"{prefix}{entry.name}"
            if entry.name in EXCLUDED:
                yield OpaqueFile(path, _why_left_out(entry.name), _KINDS_LEFT_OUT.get(entry.name, "odd"))
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(f"{path}/")


_KINDS_LEFT_OUT: dict[str, OpaqueKind] = {"__pycache__": "bytecode", "node_modules": "program", ".venv": "program"}


def _why_left_out(name: str) -> str:
    what = {"__pycache__": "holds bytecode", "node_modules": "holds installed modules", ".venv": "holds a Python"}
    return f"{what.get(name, 'is kept by another program')} and is no part of the skill"
