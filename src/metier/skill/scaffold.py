"""A new skill to begin with: valid under the strictest rules from its first second."""

from __future__ import annotations

import os
from pathlib import Path

from metier.errors import InvalidArgument, SkillExists, SourceUnavailable
from metier.skill.names import is_valid_name, slug
from metier.skill.writing import write_skill

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
