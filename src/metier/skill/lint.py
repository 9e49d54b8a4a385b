"""What `validate` says beyond what loading says: about the package as a whole, for its author."""

from __future__ import annotations

import ast
import re
import warnings
from typing import TYPE_CHECKING

from metier.errors import MetierError
from metier.skill.diagnostic import Diagnostic
from metier.skill.document import parse
from metier.skill.fields import SPECIFICATION_FIELDS, split_tools
from metier.skill.scaffold import PLACEHOLDER
from metier.skill.strict import PORTABLE_MAX_BYTES, check_strictly

if TYPE_CHECKING:
    from metier.skill.document import Document
    from metier.skill.files import Package

_MAX_SCRIPTS = 50
_MAX_SCRIPT_BYTES = 64 * 1024
_MAX_REFERENCES = 500

_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(<?([^)\s>#?]+)")
_NOT_A_FILE = re.compile(r"[a-zA-Z][\w+.-]*:|/|#|<|\{|\$")
_PATH = re.compile(r"(?<![\w./~$}{-])((?:scripts|references|assets|templates)/[\w./-]*\w\.\w{1,8})")


def check(
    data: bytes, package: Package, *, folder: str, file: str = "SKILL.md", strict: bool = False, portable: bool = False
) -> tuple[Document, list[Diagnostic]]:
    """Everything there is to say about a skill; with `strict` or `portable` the specification decides."""
    document = parse(data, folder=folder, file=file)
    package_notes, size = _check_package(data, document, package)
    if not (strict or portable):
        return document, [*document.skill.diagnostics, *package_notes]
    found = check_strictly(data, folder=folder, file=file, portable=portable)
    if portable and size > PORTABLE_MAX_BYTES:
        found.append(Diagnostic("portable-too-large", None, (f"{size:,}",)))
    # What the specification calls an error need not be said a second time in milder words.
    milder = [note for note in document.skill.diagnostics if note.code.startswith(("body-", "bom", "field-", "item-"))]
    return document, [*found, *milder, *package_notes]


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
    found.extend(_check_references(document, paths))
    for entry in listing.files:
        if entry.kind == "link" and _leaves(package, entry.path):
            found.append(Diagnostic("file-link-outside", None, (entry.path,)))
    for entry in listing.scripts()[:_MAX_SCRIPTS]:
        if entry.size <= _MAX_SCRIPT_BYTES:
            found.extend(_check_script(entry.path, package))
    return found, sum(entry.size for entry in listing.files)


def _check_references(document: Document, paths: set[str]) -> list[Diagnostic]:
    """Paths that the instructions mention and the package does not have."""
    text = _FENCED.sub(lambda block: "\n" * block[0].count("\n"), document.body)
    folders = {path[:end] for path in paths for end in (i for i, c in enumerate(path) if c == "/")}
    found: list[Diagnostic] = []
    for path, line in _mentioned(text):
        if path.startswith("../") or "/../" in path:
            found.append(Diagnostic("reference-outside", line + document.body_line, (path,)))
        elif path not in paths and path.rstrip("/") not in folders:
            found.append(Diagnostic("reference-missing", line + document.body_line, (path,)))
    return found


def _mentioned(text: str) -> list[tuple[str, int]]:
    """Relative paths in a text, each with the line of its first mention, in the order of the text."""
    places: dict[str, int] = {}
    for pattern in (_LINK, _PATH):
        for match in pattern.finditer(text):
            path = match[1].removeprefix("./")
            if path not in places and not _NOT_A_FILE.match(path):
                if len(places) >= _MAX_REFERENCES:
                    break
                places[path] = match.start()
    found: list[tuple[str, int]] = []
    line = start = 0
    for path, place in sorted(places.items(), key=lambda item: (item[1], item[0])):
        line += text.count("\n", start, place)
        start = place
        found.append((path, line))
    return found


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
