"""The text of a skill for a model: inside an element of its own that it cannot close.

Instructions are Markdown and stay readable: nothing in them is escaped but the few tags that the texts around them are
made of, and those that a host or a provider might take for its own. So a body that writes `</skill_content>` or
`<available_skills>` says so in its own element, and nowhere else.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from metier._lazy import dataclass, pattern
from metier.find.catalog_format import escape_xml, one_line
from metier.skill.untrusted_text import escape_tags

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier.session.active_skills import ActiveSkill
    from metier.skill import PackageListing


EXTENSIONS = (".md", ".txt", ".json", ".yaml", ".yml")
MAX_DESCRIPTION = 200

_NEAR = 600
"""Characters of a line around a file's name that are read."""
_FEW = 20
"""Files that each line is searched for by name."""
_WORD = pattern(r"[^\s`'\"()\[\]<>*|,;:]+")
_LISTED = pattern(r"\s*(?:(?:[-*+]|[0-9]{1,4}[.)])\s+)?[*_`'\"\[(]*")
_ASKED = pattern(r"\b(?:see|read|check)\s+(?:the\s+)?(?:file\s+)?[*_`'\"\[(]*$", re.IGNORECASE)
_SAID = pattern(
    r"[*_`'\"\])]*(?:\([^()\s]{1,400}\)[*_]*)?\s*(?:\([0-9,]{1,12}\s+lines?\)\s*)?(?:[:=-]|\u2013|\u2014)[*_]*\s(.*)"
)
_LINK = pattern(r"\[([^\[\]]{1,300})\]\($")
_LINES = pattern(r"\(\s*([0-9][0-9,]{0,11})\s+lines?\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportingFile:
    """A file of the skill that its instructions mention."""

    path: str
    """Relative to the skill's folder."""
    description: str = ""
    lines: int | None = None
    """The number of its lines, if the instructions give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialContext:
    """The start of reading a skill: its instructions, and the files that can be read when they are needed."""

    content: str
    folder: str
    line_count: int
    files: tuple[SupportingFile, ...]

    def section(self) -> str:
        """The files as a part of a prompt; empty when there are none."""
        return supporting_section(self.files, self.folder)


def initial_context(body: str, folder: str, listing: PackageListing) -> InitialContext:
    """The instructions of a skill with the files that they mention."""
    return InitialContext(
        content=body, folder=folder, line_count=len(body.splitlines()), files=supporting_files(body, listing)
    )


def supporting_files(body: str, listing: PackageListing) -> tuple[SupportingFile, ...]:
    """The files that a body lists, links to, or asks to see, read or check; sorted, each once, and only if it is there.

    >>> from metier.skill import MemoryPackage
    >>> files = MemoryPackage({"SKILL.md": "", "reference.md": "..."}).listing()
    >>> supporting_files("- reference.md: API documentation (1,200 lines)", files)
    (SupportingFile(path='reference.md', description='API documentation', lines=1200),)
    """
    known = {file.path for file in listing.files if file.path.lower().endswith(EXTENSIONS) and file.kind != "skill"}
    # Looking for many names in each line would take longer than reading its words; all of them have a dot.
    sought = [path for path in known if path in body] if len(known) <= _FEW else ["."]
    if not sought:
        return ()
    found: dict[str, SupportingFile] = {}
    for line in body.split("\n"):
        if not any(text in line for text in sought):
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
    """Return the number of lines that a description gives for a file.

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


MARKER = "<skill_content "
"""The beginning of every piece of skill content: hosts that compact a history can look for it."""
MAX_LISTED_FILES = 50


def attribute(text: str) -> str:
    """Text for the value of an attribute, on one line."""
    return escape_tags(escape_xml(one_line(text)))


def skill_content(
    active: ActiveSkill, *, run_tool: str | None = None, read_tool: str | None = None, root: str = ""
) -> str:
    """A skill as a model gets it: its instructions, its files, and what to know about both.

    `root` is where its files are for the model, if that is not where they are on disk.
    """
    root = root or active.root
    head = f'<skill_content name="{attribute(active.name)}" digest="{active.digest}" root="{attribute(root)}">'
    # Authors write `${SKILL_DIR}`, in whose place stands where the skill was loaded from.
    body = active.body.replace(active.root, root) if os.path.isabs(active.root) else active.body
    context = initial_context(body, root, active.listing)
    parts = [head, "<skill_body>", escape_tags(context.content), "</skill_body>"]
    resources = skill_resources(active)
    if resources:
        parts.append(resources)
    parts.append("<skill_notes>")
    parts.extend(notes(active, root, run_tool=run_tool, read_tool=read_tool))
    parts.extend(attribute(line) for line in context.section().splitlines())
    parts.append("</skill_notes>")
    parts.append("</skill_content>")
    return "\n".join(parts)


def skill_resources(active: ActiveSkill) -> str:
    """The list of a skill's files, bounded; empty when it has none but its SKILL.md."""
    files = [file for file in active.listing.files if file.kind not in ("skill", "link")]
    if not files:
        return ""
    lines = [f'<skill_file kind="{file.kind}">{attribute(file.path)}</skill_file>' for file in files[:MAX_LISTED_FILES]]
    more = len(files) - MAX_LISTED_FILES
    if more > 0 or active.listing.stopped_at:
        lines.append(f'<skill_more count="{max(more, 0)}"/>')
    return "\n".join(("<skill_resources>", *lines, "</skill_resources>"))


def notes(active: ActiveSkill, root: str, *, run_tool: str | None, read_tool: str | None) -> Iterable[str]:
    """Yield notes about a skill, in sentences of ours."""
    name = attribute(active.name)
    yield f"Relative paths in this skill start at {attribute(root)}, in its reference files too."
    if run_tool and active.listing.scripts():
        yield f'Run its scripts with {run_tool} (skill "{name}"); do not read them first.'
    if read_tool and any(file.kind not in ("skill", "script", "link") for file in active.listing.files):
        yield f'Read its other files with {read_tool} (skill "{name}") when its instructions point to them.'
    if active.skill.allowed_tools is not None:
        allowed = ", ".join(map(attribute, active.skill.allowed_tools)) or "none"
        if active.ceiling.advisory:
            yield f"It was written for these tools, and does not restrict others: {allowed}."
        else:
            yield f"While it is active, only these tools are allowed: {allowed}."
    if active.skill.disallowed_tools:
        forbidden = ", ".join(map(attribute, active.skill.disallowed_tools))
        yield f"While it is active, these are not allowed: {forbidden}."
    if active.skill.compatibility:
        yield f"It says of what it needs: {attribute(active.skill.compatibility)}"
    if active.skill.requires:
        needed = ", ".join(map(attribute, active.skill.requires))
        yield f"It builds on these skills, which are not loaded by themselves: {needed}."
    if active.skill.hooks is not None and not active.hooks_run:
        yield "It declares hooks, which are not run here."
    if active.is_stale:
        yield "Its files have changed since it was loaded; load it again to use them."
