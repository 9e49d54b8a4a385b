"""The tools by which an agent writes a new skill, checks it, and proposes it.

What an agent writes is a draft: it lies where no library looks, so that nobody uses it before a person has read it. To
propose it is to ask a person to do so.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from metier._paths import open_below
from metier.errors import FileMissing, FileRefused, InvalidArgument, SkillExists
from metier.hints import for_anybody
from metier.skill import MAX_SKILL_BYTES, FolderPackage, MemoryPackage, estimate_tokens, shown
from metier.skill import write_skill as written
from metier.skill.package import checked_path
from metier.skill.untrusted_text import escape_tags
from metier.skill.validate import check
from metier.tools import FunctionTool, ToolResult, Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier import Session
    from metier.skill import Diagnostic, Document
    from metier.tools import Tool

DRAFTS = "skill-drafts"
"""The folder of the workspace that new skills are written to."""
_FOLDERS = ("scripts", "references", "assets")
_MOST_FILES = 64
_MOST_BYTES = 512 * 1024


def skill_authoring_tools(workspace: Workspace | str, *, session: Session | None = None) -> tuple[Tool, ...]:
    """The tools `write_skill` and `validate_skill` for a workspace, and with a session `propose_draft`.

    In a session, its rules for Write and Read hold for what these write and read as well.

    >>> import tempfile
    >>> [tool.name for tool in skill_authoring_tools(tempfile.mkdtemp())]
    ['write_skill', 'validate_skill']
    """
    drafts = _Drafts(workspace, session)
    tools: list[Tool] = [FunctionTool(drafts.write_skill), FunctionTool(drafts.validate_skill)]
    if session is not None:
        tools.append(FunctionTool(drafts.propose_draft))
    return tuple(tools)


class _Drafts:
    """The drafts in a workspace, as an agent writes, checks and proposes them."""

    def __init__(self, workspace: Workspace | str, session: Session | None) -> None:
        access = None if session is None else session.calls.file_access
        self._workspace = workspace if isinstance(workspace, Workspace) else Workspace(workspace, access=access)
        self._session = session

    def write_skill(
        self,
        name: str,
        description: str,
        body: str,
        allowed_tools: list[str] | None = None,
        supporting_files: dict[str, str] | None = None,
    ) -> ToolResult:
        """Write a new skill as a draft, once it is valid under the strictest rules; never over one that exists.

        Args:
            name: What it is called: a-z, 0-9 and single hyphens, at most 64.
            description: What it does and when to use it, at most 1,024 characters.
            body: The instructions, in Markdown, without frontmatter.
            allowed_tools: The only tools it may use, such as Read or Bash(git:*); leave out for no limit of its own.
            supporting_files: Texts of further files by path, below scripts/, references/ or assets/.
        """
        fields = {"name": name, "description": " ".join(description.split())}
        if allowed_tools is not None:
            # As one text: clients that serve skills over MCP take no list.
            fields["allowed-tools"] = " ".join(tool.strip() for tool in allowed_tools)
        data = written(fields, body)
        files = {**_supporting(supporting_files or {}), "SKILL.md": data}
        package = MemoryPackage(files)
        document, found = check(data, package, folder=name, strict=True)
        wrong = [note for note in found if note.severity != "info"]
        if wrong:
            return ToolResult.failure(
                "skill-invalid",
                f"Nothing was written. {_listed(wrong)}",
                hint="Correct this and call write_skill again.",
                data={"findings": [note.as_json() for note in wrong]},
            )
        folder = self._new_folder(name)
        try:
            # SKILL.md comes last: before it is there, nobody takes the folder for a skill.
            for path, content in files.items():
                self._workspace.write(f"{DRAFTS}/{name}/{path}", content)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        text = f"Wrote {DRAFTS}/{name}: {', '.join(sorted(files))}.\n{_summary(document, package)}"
        return ToolResult(success=True, result=text, data={"folder": folder, "digest": package.digest()})

    def validate_skill(self, folder: str) -> ToolResult:
        """Check a skill in the workspace under the strictest rules. Nothing of it is run, nothing is changed.

        Args:
            folder: The folder with its SKILL.md, relative to the workspace.
        """
        named, package = self._open(folder)
        try:
            data = package.read("SKILL.md", limit=MAX_SKILL_BYTES)
        except FileMissing:
            raise FileMissing(
                f"There is no SKILL.md in {shown(named)!r}.", hint="Name the folder of a skill.", path=named
            ) from None
        document, found = check(data, package, folder=os.path.basename(package.root), strict=True)
        errors = sum(note.severity == "error" for note in found)
        verdict = "is valid" if not errors else f"has {errors:,} {'error' if errors == 1 else 'errors'}"
        text = f"{shown(named)} {verdict}.\n{_listed(found)}".rstrip()
        findings = [note.as_json() for note in found]
        return ToolResult(
            success=True,
            result=escape_tags(text),
            data={"ok": not errors, "name": document.skill.name, "findings": findings},
        )

    def propose_draft(self, folder: str, justification: str, evidence: list[str] | None = None) -> ToolResult:
        """Propose a new skill of which there is a draft. Nobody can use it until a person has looked at it and agreed.

        Args:
            folder: The folder of the draft, relative to the workspace.
            justification: Why it is needed: what is done again and again, and what becomes better.
            evidence: What shows that it is needed: quotes of what the user said, of results, of files.
        """
        from metier.dialect.skill_proposals import propose_files
        from metier.skill.package import files_of

        assert self._session is not None
        _, package = self._open(folder)
        for file in package.listing().files:
            self._require("Read", os.path.join(package.root, *file.path.split("/")))
        name = os.path.basename(package.root)
        return propose_files(self._session, name, files_of(package), justification, evidence or [])

    def _require(self, tool: str, path: str) -> None:
        """Raise unless a built-in tool could be used on a path."""
        if self._session is not None and not self._session.may_call(tool, {"file_path": path}):
            raise FileRefused(
                f"{tool} may not be used on {shown(path, 300)!r}, and so neither may this tool.",
                hint="Ask the user to allow it.",
                path=path,
            )

    def _open(self, folder: str) -> tuple[str, FolderPackage]:
        """The folder of a skill in the workspace, as it was named, and its files."""
        named = folder.removesuffix("SKILL.md").rstrip("/") or "."
        real = self._workspace.folder(named, tool="Read")
        self._require("Read", os.path.join(real, "SKILL.md"))
        return named, FolderPackage(real, contain=real)

    def _new_folder(self, name: str) -> str:
        """A folder that was not there before, for a draft."""
        root = self._workspace.root
        folder = os.path.join(root, DRAFTS, name)
        self._require("Write", os.path.join(folder, "SKILL.md"))
        try:
            with open_below(root, (DRAFTS, name), create=True, check=self._workspace.access.require_open) as safe:
                if safe.path != folder:
                    # A link could lead to where skills are used from.
                    raise FileRefused(f"{DRAFTS}/{name} leads through a link.", hint="Remove the link.", path=folder)
                os.mkdir(safe.at(), dir_fd=safe.parent)
        except FileExistsError:
            raise SkillExists(
                f"{DRAFTS}/{name} exists already.", hint="Choose another name; nothing is overwritten.", path=folder
            ) from None
        except OSError as error:
            raise FileRefused(
                f"{DRAFTS}/{name} cannot be made: {error.strerror}.",
                hint="Ask the user to look at the folder.",
                path=folder,
            ) from None
        return folder


def _supporting(given: Mapping[str, str]) -> dict[str, bytes]:
    """The files beside the SKILL.md, by paths that stay where such files belong."""
    files: dict[str, bytes] = {}
    for path, text in given.items():
        segments = checked_path(path)
        if len(segments) < 2 or segments[0] not in _FOLDERS:
            raise FileRefused(
                f"{shown(path)!r} is no place for a file of a skill.",
                hint="Put files below scripts/, references/ or assets/.",
                path=path,
            )
        try:
            files["/".join(segments)] = text.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(f"{shown(path)!r} is not valid Unicode text.", hint="Correct the text.") from None
    if len(given) > _MOST_FILES or sum(map(len, files.values())) > _MOST_BYTES:
        raise InvalidArgument(
            f"A draft has at most {_MOST_FILES} files with {_MOST_BYTES:,} bytes.", hint="Leave some out."
        )
    if len(files) < len(given):
        raise InvalidArgument("Two paths mean the same file.", hint="Give each file once.")
    return files


def _summary(document: Document, package: MemoryPackage) -> str:
    """The capabilities of a skill, for the person who decides about it."""
    tools = document.skill.allowed_tools
    scripts = [file.path for file in package.listing().scripts()]
    said = "any that the agent has" if tools is None else ", ".join(tools) or "none"
    return "\n".join(
        (
            f"Tools it may use: {shown(said, 500)}.",
            f"Scripts it brings: {', '.join(scripts) or 'none'}.",
            f"Instructions: about {estimate_tokens(document.body):,} tokens.",
            "It is a draft: nobody uses it until it was proposed and a person has agreed.",
        )
    )


def _listed(found: list[Diagnostic]) -> str:
    lines = (
        f"- {f'line {note.line}: ' if note.line else ''}{note.severity} {note.code}: "
        f"{for_anybody(note.message, note.hint)}"
        for note in found
    )
    return "\n".join(lines)
