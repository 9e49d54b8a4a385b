"""The files that a skill's instructions mention, with what they say about them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.skill import Listing

EXTENSIONS = (".md", ".txt", ".json", ".yaml", ".yml")
MAX_DESCRIPTION = 200

_NEAR = 600
"""How much of a line around a file's name is looked at."""
_WORD = re.compile(r"[^\s`'\"()\[\]<>*|,;:]+")
_LISTED = re.compile(r"\s*(?:(?:[-*+]|[0-9]{1,4}[.)])\s+)?[*_`'\"\[(]*")
_ASKED = re.compile(r"\b(?:see|read|check)\s+(?:the\s+)?(?:file\s+)?[*_`'\"\[(]*$", re.IGNORECASE)
_SAID = re.compile(
    r"[*_`'\"\])]*(?:\([^()\s]{1,400}\)[*_]*)?\s*(?:\([0-9,]{1,12}\s+lines?\)\s*)?(?:[:=-]|\u2013|\u2014)[*_]*\s(.*)"
)
_LINK = re.compile(r"\[([^\[\]]{1,300})\]\($")
_LINES = re.compile(r"\(\s*([0-9][0-9,]{0,11})\s+lines?\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportingFile:
    """A file of the skill that its instructions mention."""

    path: str
    """Relative to the skill's folder."""
    description: str = ""
    lines: int | None = None
    """How many lines it has, if the instructions say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialContext:
    """What a reader of a skill starts from: the instructions, and which files can be read when they are needed."""

    content: str
    folder: str
    line_count: int
    files: tuple[SupportingFile, ...]

    def section(self) -> str:
        """The files as a part of a prompt; empty when there are none."""
        return supporting_section(self.files, self.folder)


def initial_context(body: str, folder: str, listing: Listing) -> InitialContext:
    """The instructions of a skill with the files that they mention."""
    return InitialContext(
        content=body, folder=folder, line_count=len(body.splitlines()), files=supporting_files(body, listing)
    )


def supporting_files(body: str, listing: Listing) -> tuple[SupportingFile, ...]:
    """The files that a body lists, links to, or asks to see, read or check; sorted, each once, and only if it is there.

    >>> from metier.skill import MemoryPackage
    >>> files = MemoryPackage({"SKILL.md": "", "reference.md": "..."}).listing()
    >>> supporting_files("- reference.md: API documentation (1,200 lines)", files)
    (SupportingFile(path='reference.md', description='API documentation', lines=1200),)
    """
    known = {file.path for file in listing.files if file.path.lower().endswith(EXTENSIONS) and file.kind != "skill"}
    if not known:
        return ()
    found: dict[str, SupportingFile] = {}
    for line in body.split("\n"):
        if "." not in line:
            continue
        for word in _WORD.finditer(line):
            path = word[0].removeprefix("./").rstrip(".!?_")
            if path not in known or (path in found and found[path].description):
                continue
            end = word.start() + len(word[0].rstrip(".!?_"))
            file = _mentioned(path, line[max(0, word.start() - _NEAR) : word.start()], line[end : end + _NEAR])
            if file is not None and (path not in found or file.description or file.lines):
                found[path] = file
    return tuple(found[path] for path in sorted(found))


def supporting_section(files: Iterable[SupportingFile], folder: str) -> str:
    """A part of a prompt that says which files there are and where; empty when there are none.

    >>> print(supporting_section([SupportingFile(path="api.md", description="The API", lines=1200)], "/skills/x"))
    AVAILABLE SUPPORTING FILES
    Read these when they are needed:
    - /skills/x/api.md (1,200 lines): The API
    """
    entries = []
    for file in sorted(files, key=lambda file: file.path):
        lines = "" if file.lines is None else f" ({file.lines:,} line{'' if file.lines == 1 else 's'})"
        said = f": {file.description}" if file.description else ""
        entries.append(f"- {os.path.join(folder, *file.path.split('/'))}{lines}{said}")
    return "\n".join(["AVAILABLE SUPPORTING FILES", "Read these when they are needed:", *entries]) if entries else ""


def line_count(text: str) -> int | None:
    """How many lines a description says that a file has.

    >>> line_count("API documentation (1,200 lines)"), line_count("API documentation")
    (1200, None)
    """
    found = _LINES.search(text)
    return int(found[1].replace(",", "")) if found else None


def described(text: str) -> str:
    """A description in one line, without the count of lines, and not too long."""
    plain = " ".join(_LINES.sub(" ", text[: 4 * _NEAR]).split())
    return plain if len(plain) <= MAX_DESCRIPTION else f"{plain[: MAX_DESCRIPTION - 3]}..."


def _mentioned(path: str, before: str, after: str) -> SupportingFile | None:
    """The file, if the words around its name do more than drop the name."""
    said = _SAID.match(after)
    is_listed = before.strip() and _LISTED.fullmatch(before)
    if is_listed and (said or not _LINES.sub("", after).strip(" \t\r*_`'\").]")):
        return SupportingFile(path=path, description=described(said[1]) if said else "", lines=line_count(after))
    if _ASKED.search(before[-80:]):
        reason = re.match(r"[*_`'\"\])]*\s+for\s+([^.!?]*)", after)
        return SupportingFile(path=path, description=described(reason[1]) if reason else "", lines=line_count(after))
    link = _LINK.search(before[-310:])
    if link:
        text = "" if link[1].strip("`*_ ") == path else link[1]
        return SupportingFile(path=path, description=described(said[1] if said else text), lines=line_count(after))
    return None
