"""Documents: the bytes of a SKILL.md become a Skill and its instructions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.errors import InvalidArgument, SkillExists, SkillInvalid, SourceUnavailable
from metier.skill.diagnostic import Diagnostic
from metier.skill.fields import interpret
from metier.skill.frontmatter import MAX_DESCRIPTION, MAX_SKILL_BYTES, decode, drop_control, frontmatter_of
from metier.skill.names import is_valid_name, slug
from metier.skill.package import sha256

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from metier.skill.skill import Skill


@dataclass(frozen=True, slots=True)
class Document:
    """A SKILL.md taken apart: the skill, and the instructions that its body gives.

    >>> document = parse(b"---\\nname: a\\ndescription: Does it.\\n---\\n# A\\n\\nDo it.\\n")
    >>> document.body
    '# A\\n\\nDo it.'
    """

    skill: Skill
    body: str
    body_line: int = 1
    """The line of the file on which the body begins."""
    sha256: bytes = b""
    """The hash of the file that it was read from."""


def parse(data: bytes, *, folder: str = "", file: str = "SKILL.md") -> Document:
    """Read a SKILL.md leniently; `folder` is the name of its folder, the name of last resort.

    Never raises for what the bytes contain: a file that cannot be loaded is a skill with an `error` diagnostic.
    """
    text, notes = decode(data)
    frontmatter, cut = frontmatter_of(text, notes)
    trimmed, blank = trim_body(cut.body)
    body, found = drop_control(trimmed)
    first_line = cut.body_line + blank
    moved = (Diagnostic(note.code, (note.line or 1) + first_line - 1, note.values) for note in found)
    frontmatter = frontmatter._replace(notes=(*frontmatter.notes, *moved))
    return Document(interpret(frontmatter, folder, file), body, first_line, sha256(data).digest())


def trim_body(body: str) -> tuple[str, int]:
    """A body without the blank lines around it, and how many went from its beginning."""
    body = body.rstrip()
    first = len(body) - len(body.lstrip())
    start = body.rfind("\n", 0, first) + 1
    return body[start:], body.count("\n", 0, start)


_UNFIT = frozenset({"field-value", "field-as-list", "field-joined", "item-dropped", "metadata-not-a-map"})


def write_skill(fields: Mapping[str, Any], body: str) -> bytes:
    """The bytes of a SKILL.md with these fields and instructions; raises `SkillInvalid` rather than write a bad one.

    Every scalar is written as text, since that is how it is read: `version: 1.10` stays `1.10`.

    >>> print(write_skill({"name": "pdf", "description": "Use when: a form comes."}, "Open it.").decode())
    ---
    name: pdf
    description: 'Use when: a form comes.'
    ---
    <BLANKLINE>
    Open it.
    <BLANKLINE>
    """
    import yaml

    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not is_valid_name(name):
        raise _invalid("`name` must be 1 to 64 of a-z, 0-9 and single hyphens")
    if not isinstance(description, str) or not description.strip() or len(description) > MAX_DESCRIPTION:
        raise _invalid("`description` must have 1 to 1,024 characters")
    plain = _as_written(dict(fields))
    block = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)
    try:
        data = f"---\n{block}---\n\n{body.strip()}\n".encode()
    except UnicodeEncodeError:
        raise _invalid("the body is not valid Unicode text") from None
    _read_back(data, plain, body.strip())
    return data


def _read_back(data: bytes, fields: dict[str, Any], body: str) -> None:
    """Raise unless the written file reads back as its fields and body, without anything to forgive."""

    if len(data) > MAX_SKILL_BYTES:
        raise _invalid(f"it has more than {MAX_SKILL_BYTES:,} bytes")
    document = parse(data, folder=fields["name"])
    problem: Diagnostic | None = next((note for note in document.skill.diagnostics if note.code in _UNFIT), None)
    if problem is not None:
        raise _invalid(problem.message)
    if document.skill.frontmatter != fields or document.body != body:
        raise _invalid("it has control characters or line ends that do not read back")


def _as_written(value: Any) -> Any:
    """A value in which every scalar is the text it is read as."""
    if isinstance(value, str):
        if value != value.strip() and "\n" not in value.strip(" "):
            raise _invalid(f"{value!r} has blanks around it")
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return {str(key): _as_written(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_written(item) for item in value]
    if isinstance(value, int | float):
        return str(value)
    raise _invalid(f"{type(value).__name__} cannot be written as a field")


def _invalid(reason: str) -> SkillInvalid:
    return SkillInvalid(f"This is an invalid Skill document: {reason}.", hint="Correct it and try again.")


_TEMPLATE = """\
# {title}

## When to use this

Say in one or two sentences which requests call for this skill, and which similar ones do not.

## Steps

1. Say what to do first, with the exact command or file.
2. Say how to check that it worked.
3. Say what to tell the user at the end.

## Pitfalls

- Write down what goes wrong in practice, and what to do about it.

Keep this file short. Put detail into `references/` and say here when to read each file; put anything that must be done
the same way every time into `scripts/` and say here how to run it.
"""

PLACEHOLDER = "Describe what this skill does. Use when the user asks for the thing it does."


def new_skill(name: str, into: Path | str, *, description: str | None = None) -> Path:
    """Write a new skill in a folder of its own; returns its SKILL.md. Never overwrites anything."""
    if not is_valid_name(name):
        better = slug(name)
        hint = (
            f"Try {better!r}." if better and is_valid_name(better) else "Use a-z, 0-9 and single hyphens, at most 64."
        )
        raise InvalidArgument(f"{name!r} is not a valid skill name.", hint=hint, name=name)
    text = " ".join((PLACEHOLDER if description is None else description).split())
    if not text or len(text) > 1_024 or any(c in "<>" or not c.isprintable() for c in text):
        raise InvalidArgument(
            "The description must have 1 to 1,024 characters, without angle brackets or control characters.",
            hint="Say what the skill does and when to use it.",
        )
    title = name.replace("-", " ").capitalize()
    data = write_skill({"name": name, "description": text}, _TEMPLATE.format(title=title))
    from pathlib import Path

    folder = Path(into) / name
    file = folder / "SKILL.md"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _not_writable(folder, error) from None
    try:
        folder.mkdir()
        # Exclusive creation: nobody's file is overwritten, even when two of us run at once.
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as out:
            out.write(data)
    except FileExistsError:
        raise SkillExists(
            f"{folder} exists already.", hint="Choose another name or another folder.", path=str(folder)
        ) from None
    except OSError as error:
        raise _not_writable(folder, error) from None
    return file


def _not_writable(folder: Path, error: OSError) -> SourceUnavailable:
    return SourceUnavailable(
        f"{folder} cannot be written: {error.strerror}.", hint="Check the folder with --into.", path=str(folder)
    )
