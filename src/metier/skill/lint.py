"""What `validate` says beyond what loading says: about the package as a whole, for its author."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from metier.errors import MetierError
from metier.skill.diagnostic import Diagnostic
from metier.skill.document import parse
from metier.skill.fields import SPECIFICATION_FIELDS, split_tools
from metier.skill.references import closest, hook_files, is_there, references_in
from metier.skill.scaffold import PLACEHOLDER
from metier.skill.strict import PORTABLE_MAX_BYTES, check_strictly

if TYPE_CHECKING:
    from metier.skill.document import Document
    from metier.skill.files import Package

NOT_DEPLOYABLE = "not-deployable"
"""The note on a skill that loads, but that `metier deploy` and proposals of new skills refuse."""

_MAX_SCRIPTS = 50
_MAX_SCRIPT_BYTES = 64 * 1024


def check(
    data: bytes, package: Package, *, folder: str, file: str = "SKILL.md", strict: bool = False, portable: bool = False
) -> tuple[Document, list[Diagnostic]]:
    """Everything there is to say about a skill; with `strict` or `portable` the specification decides."""
    document = parse(data, folder=folder, file=file)
    package_notes, size = _check_package(data, document, package)
    if not (strict or portable):
        return document, [*document.skill.diagnostics, *package_notes, *_against_deploying(data, file)]
    found = check_strictly(data, folder=folder, file=file, portable=portable)
    if portable and size > PORTABLE_MAX_BYTES:
        found.append(Diagnostic("portable-too-large", None, (f"{size:,}",)))
    # What the specification calls an error need not be said a second time in milder words.
    milder = [note for note in document.skill.diagnostics if note.code.startswith(("body-", "bom", "field-", "item-"))]
    return document, [*found, *milder, *package_notes]


def _against_deploying(data: bytes, file: str) -> list[Diagnostic]:
    """One note on what keeps a file from being deployed: the strict rules, but for fields beyond the specification."""
    found = check_strictly(data, folder="", file=file, own_fields=True)
    return [Diagnostic(NOT_DEPLOYABLE, found[0].line, (" ".join(note.message for note in found),))] if found else []


def _check_package(data: bytes, document: Document, package: Package) -> tuple[list[Diagnostic], int]:
    """What there is to say about the files, and how many bytes they have."""
    found: list[Diagnostic] = []
    skill = document.skill
    if b"\r\n" in data:
        found.append(Diagnostic("line-endings", None, ("CRLF",)))
    unknown = [key for key in skill.frontmatter if key not in SPECIFICATION_FIELDS]
    if unknown:
        found.append(Diagnostic("unknown-fields", None, (", ".join(unknown),)))
    if skill.description == PLACEHOLDER:
        found.append(Diagnostic("description-placeholder", None))
    tools = skill.frontmatter.get("allowed-tools")
    if tools and (not isinstance(tools, str) or "," in tools):
        found.append(Diagnostic("tools-form", None, (" ".join(split_tools(tools)),)))
    try:
        listing = package.listing()
    except MetierError as error:
        return [*found, Diagnostic("file-unreadable", None, ("the folder", error.message))], 0
    if listing.stopped_at is not None:
        found.append(Diagnostic("package-incomplete", None, (listing.stopped_at,)))
    paths = {entry.path for entry in listing.files}
    found.extend(_check_references(data, document, paths))
    for entry in listing.files:
        if entry.kind == "link" and _leaves(package, entry.path):
            found.append(Diagnostic("file-link-outside", None, (entry.path,)))
    for entry in listing.scripts()[:_MAX_SCRIPTS]:
        if entry.size <= _MAX_SCRIPT_BYTES:
            found.extend(_check_script(entry.path, package))
    return found, sum(entry.size for entry in listing.files)


def _check_references(data: bytes, document: Document, paths: set[str]) -> list[Diagnostic]:
    """Paths that the instructions or the hooks mention and the package does not have."""
    found: list[Diagnostic] = []
    for path, line in references_in(document.body, paths):
        if path.startswith("../") or "/../" in path:
            found.append(Diagnostic("reference-outside", line + document.body_line, (path,)))
        elif not is_there(path, paths):
            found.append(_missing("reference-missing", path, paths, line + document.body_line))
    if document.skill.hooks is not None:
        files = (path for path in hook_files(document.skill.hooks) if not is_there(path, paths))
        found.extend(_missing("hook-missing", path, paths, _line_of(path, data)) for path in files)
    return found


def _line_of(text: str, data: bytes) -> int:
    return data.count(b"\n", 0, max(0, data.find(text.encode(errors="surrogateescape")))) + 1


def _missing(code: str, path: str, paths: set[str], line: int | None) -> Diagnostic:
    meant = closest(path, paths)
    return Diagnostic(code, line, (path, f"Did you mean `{meant}`? " if meant else ""))


def _leaves(package: Package, path: str) -> bool:
    try:
        package.read(path, limit=0)
    except MetierError as error:
        return error.code == "file-refused" and "outside" in error.message
    return False


def _check_script(path: str, package: Package) -> list[Diagnostic]:
    """Python is parsed, never run; a shell script is asked for the line that names its shell."""
    try:
        data = package.read(path, limit=_MAX_SCRIPT_BYTES)
    except MetierError as error:
        return [Diagnostic("file-unreadable", None, (path, error.message))]
    if path.endswith(".py"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # As text: bytes could name any codec in a comment, and some take minutes.
                ast.parse(data.decode(errors="replace"))
        except SyntaxError as error:
            return [Diagnostic("script-syntax", None, (path, f"{error.msg}, line {error.lineno}"))]
        except (ValueError, RecursionError, MemoryError) as error:
            return [Diagnostic("script-syntax", None, (path, str(error) or type(error).__name__))]
    elif path.endswith((".sh", ".bash")) and not data.startswith(b"#!"):
        return [Diagnostic("script-no-shebang", None, (path,))]
    return []
