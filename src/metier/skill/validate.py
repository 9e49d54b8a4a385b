"""Validation of a skill: the specification read strictly, and lint of the whole package.

This is the written specification with a real YAML parser. The reference validator differs from it in ways that the
documentation lists (it refuses flow lists, splits on any `---`, stops at the first problem); verdicts on everything
else are the same. `portable` adds the rules of places that skills are uploaded to.
"""

from __future__ import annotations

import ast
import unicodedata
import warnings
from typing import TYPE_CHECKING, Any

from metier.errors import MetierError
from metier.skill.diagnostic import Diagnostic, as_text
from metier.skill.document import PLACEHOLDER, parse
from metier.skill.fields import MAX_COMPATIBILITY, SPECIFICATION_FIELDS, canonical_field, split_tools
from metier.skill.frontmatter import MAX_DESCRIPTION
from metier.skill.names import MAX_NAME, slug
from metier.skill.references import closest, hook_files, is_there, references_in
from metier.skill.yaml_block import BlockError, Parsed, parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.skill.document import Document
    from metier.skill.package import Package


PORTABLE_MAX_BYTES = 30_000_000
_RESERVED_WORDS = ("anthropic", "claude")


def check_strictly(
    data: bytes, *, folder: str, file: str = "SKILL.md", portable: bool = False, own_fields: bool = False
) -> list[Diagnostic]:
    """The violations of the specification in a SKILL.md; an empty list means that it is valid.

    With `own_fields` it may have fields that the specification does not know, as Métier's own are, at the top level.

    >>> [found.code for found in check_strictly(b"---\\nname: A--b\\n---\\nDo.", folder="a")]
    ['spec-name-case', 'spec-name-hyphen-double', 'spec-name-folder', 'spec-description-missing']
    """
    found: list[Diagnostic] = []
    if file not in ("SKILL.md", "skill.md"):  # the reference validator takes both
        found.append(Diagnostic("spec-file-name", 1, (file,)))
    text = _text(data, found)
    block = _block(text, found)
    if block is None:
        return found
    try:
        parsed = parse_yaml(block)
    except BlockError as error:
        return [*found, Diagnostic("spec-yaml", error.line + 2, (error.problem,))]
    found.extend(Diagnostic("spec-duplicate-key", line + 2, (key,)) for key, line in parsed.duplicates)
    if parsed.value is None:
        parsed = Parsed({}, [], [])
    if not isinstance(parsed.value, dict):
        return [*found, Diagnostic("spec-not-a-mapping", 2)]
    fields = parsed.value
    lines = {key: line + 2 for key, line in zip(fields, parsed.lines, strict=True)}
    for key in () if own_fields else fields:
        if key not in SPECIFICATION_FIELDS:
            below = "metadata: metier:" if canonical_field(key) else "metadata:"
            found.append(Diagnostic("spec-unexpected-field", lines[key], (key, below)))
    found += _check_name(fields, lines, folder)
    found += _check_text(fields, lines, "description", MAX_DESCRIPTION, empty="spec-description-missing")
    if "compatibility" in fields:
        found += _check_text(fields, lines, "compatibility", MAX_COMPATIBILITY, empty="spec-compatibility-empty")
    if portable:
        found += _check_portable(fields, lines)
    return found


def _text(data: bytes, found: list[Diagnostic]) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found.append(Diagnostic("spec-encoding", line, (f"byte {error.start} is not UTF-8",)))
        text = data.decode(errors="replace")
    if "\0" in text:
        found.append(Diagnostic("spec-encoding", text.count("\n", 0, text.index("\0")) + 1, ("it has a NUL byte",)))
        text = text.replace("\0", "")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _block(text: str, found: list[Diagnostic]) -> str | None:
    lines = text.split("\n")
    if lines[0].rstrip(" \t") != "---":
        found.append(Diagnostic("spec-frontmatter-missing", 1))
        return None
    for i in range(1, len(lines)):
        if lines[i].rstrip(" \t") in ("---", "..."):
            return "\n".join([*lines[1:i], ""])
    found.append(Diagnostic("spec-frontmatter-unclosed", 1))
    return None


def _check_name(fields: dict[str, Any], lines: dict[str, int], folder: str) -> Iterator[Diagnostic]:
    name, line = fields.get("name", ""), lines.get("name", 1)
    if not isinstance(name, str):
        yield Diagnostic("spec-name-not-text", line)
        return
    if not name.strip():
        yield Diagnostic("spec-name-missing", line)
        return
    if len(name) > 1_000:
        # Normalising takes time that grows with the square of some texts; this one is wrong anyway.
        yield Diagnostic("spec-name-too-long", line, (f"{len(name):,}",))
        return
    name = unicodedata.normalize("NFKC", name.strip())
    better = slug(name) or "my-skill"
    if len(name) > MAX_NAME:
        yield Diagnostic("spec-name-too-long", line, (f"{len(name):,}",))
    if name != name.lower():
        yield Diagnostic("spec-name-case", line, (name, better))
    if name.startswith("-") or name.endswith("-"):
        yield Diagnostic("spec-name-hyphen-ends", line, (name, better))
    if "--" in name:
        yield Diagnostic("spec-name-hyphen-double", line, (name, better))
    if not all(character.isalnum() or character == "-" for character in name):
        yield Diagnostic("spec-name-characters", line, (name, better))
    if folder and unicodedata.normalize("NFKC", folder) != name:
        yield Diagnostic("spec-name-folder", line, (name, folder))


def _check_text(
    fields: dict[str, Any], lines: dict[str, int], key: str, limit: int, *, empty: str
) -> Iterator[Diagnostic]:
    value, line = fields.get(key, ""), lines.get(key, 1)
    if not isinstance(value, str):
        yield Diagnostic(f"spec-{key}-not-text", line)
    elif not (text := value.strip()):
        yield Diagnostic(empty, line)
    elif len(text) > limit:
        yield Diagnostic(f"spec-{key}-too-long", line, (f"{len(text):,}",))


def _check_portable(fields: dict[str, Any], lines: dict[str, int]) -> Iterator[Diagnostic]:
    for key in ("name", "description"):
        if any(character in as_text(fields.get(key, "")) for character in "<>"):
            yield Diagnostic("portable-angle-brackets", lines[key], (key,))
    for word in _RESERVED_WORDS:
        if word in as_text(fields.get("name", "")).lower():
            yield Diagnostic("portable-reserved-word", lines["name"], (word,))
    tools = fields.get("allowed-tools")
    if tools is not None and not isinstance(tools, str):
        yield Diagnostic("portable-tools-list", lines["allowed-tools"], (" ".join(split_tools(tools)),))
    metadata = fields.get("metadata")
    for key, value in metadata.items() if isinstance(metadata, dict) else ():
        if not isinstance(value, str):
            yield Diagnostic("portable-metadata-values", lines["metadata"], (key,))


NOT_DEPLOYABLE = "not-deployable"
"""The note on a skill that loads, but that `metier deploy` and proposals of new skills refuse."""

_MAX_SCRIPTS = 50
_MAX_SCRIPT_BYTES = 64 * 1024


def check(
    data: bytes, package: Package, *, folder: str, file: str = "SKILL.md", strict: bool = False, portable: bool = False
) -> tuple[Document, list[Diagnostic]]:
    """The document and all diagnostics of a skill; with `strict` or `portable` the specification decides."""
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
    """The diagnostics of the files, and their size in bytes."""
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
