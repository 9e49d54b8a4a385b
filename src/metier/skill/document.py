"""From the bytes of a SKILL.md to a skill.

Two steps, because they are needed at different times. A draft is made once, when a file is indexed; `interpret` makes
typed fields of it when somebody looks. A skill is a pure function of its draft and its folder's name.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from metier.skill.diagnostic import Diagnostic
from metier.skill.fields import Fields
from metier.skill.frontmatter import MAX_DESCRIPTION, OTHER_DESCRIPTIONS, decode, drop_control, frontmatter_of
from metier.skill.names import MAX_NAME, is_valid_name, usable_name
from metier.skill.skill import Skill

if TYPE_CHECKING:
    from metier.skill.frontmatter import Frontmatter

MAX_COMPATIBILITY = 500
MAX_BODY_LINES = 500
MAX_BODY_TOKENS = 8_000


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
    draft, cut = frontmatter_of(text, notes)
    trimmed, blank = trim_body(cut.body)
    body, found = drop_control(trimmed)
    first_line = cut.body_line + blank
    moved = (Diagnostic(note.code, (note.line or 1) + first_line - 1, note.values) for note in found)
    draft = draft._replace(notes=(*draft.notes, *moved))
    return Document(interpret(draft, folder, file), body, first_line, hashlib.sha256(data).digest())


def trim_body(body: str) -> tuple[str, int]:
    """A body without the blank lines around it, and how many went from its beginning."""
    body = body.rstrip()
    first = len(body) - len(body.lstrip())
    start = body.rfind("\n", 0, first) + 1
    return body[start:], body.count("\n", 0, start)


def interpret(draft: Frontmatter, folder: str, file: str = "SKILL.md") -> Skill:
    """Make typed fields of a draft."""
    fields = Fields(draft.mapping, dict(zip(draft.mapping, draft.lines, strict=True)))
    metadata = fields.metadata()
    name, declared = _name(fields, metadata, folder)
    description, source = _description(fields, draft, metadata)
    hint = fields.raw("argument-hint")
    compatibility = fields.text("compatibility")
    if compatibility and len(compatibility) > MAX_COMPATIBILITY:
        fields.note("compatibility-too-long", fields.line("compatibility"), f"{len(compatibility):,}")
    context = fields.raw("context")
    if context not in (None, "fork", "inherit"):
        # Only `fork` has a meaning; other tools put labels of their own here.
        fields.drop("context")
    hooks, scope, execution = fields.hooks(), fields.scope(), fields.execution()
    legacy = bool(fields.flag("legacy-large-file", False))
    skill = Skill(
        name=name,
        description=description,
        declared_name=declared,
        display_name=declared if declared and not is_valid_name(declared) else draft.heading or declared or name,
        description_source=source,
        license=fields.text("license"),
        compatibility=compatibility,
        metadata=metadata,
        allowed_tools=fields.tools("allowed-tools"),
        disallowed_tools=fields.tools("disallowed-tools") or (),
        version=fields.text("version"),
        tags=fields.words("tags", warn_single=True),
        requires=fields.requires(),
        triggers=fields.words("triggers"),
        when_to_use=fields.text("when_to_use"),
        model=fields.text("model"),
        context="fork" if context == "fork" else "inherit",
        agent=fields.text("agent"),
        hooks=hooks,
        priority=fields.number("priority", -1_000_000, 1_000_000) or 0,
        scope=scope,
        execution=execution,
        arguments=fields.arguments(),
        argument_hint=f"[{', '.join(map(str, hint))}]" if isinstance(hint, list) else fields.text("argument-hint"),
        user_invocable=fields.flag("user-invocable", True) is not False,
        disable_model_invocation=bool(fields.flag("disable-model-invocation", False)),
        insert="user-message"
        if fields.choice("insert", ("instructions", "user-message"), "instructions") == "user-message"
        else "instructions",
        execution_mode=fields.text("execution-mode") or "autonomous",
        max_iterations=fields.number("max-iterations", 1, 100),
        max_retries_per_tool=fields.number("max-retries-per-tool", 0, 10),
        timeout_per_iteration=fields.text("timeout-per-iteration"),
        early_termination=fields.flag("early-termination", None),
        legacy_large_file=legacy,
        extra=fields.extra,
        frontmatter=draft.mapping,
        body_lines=draft.body_lines,
        body_tokens=draft.body_tokens,
    )
    notes = (*_file_notes(file), *draft.notes, *fields.notes, *_body_notes(draft, legacy))
    object.__setattr__(skill, "diagnostics", notes)
    return skill


def _name(fields: Fields, metadata: dict[str, Any], folder: str) -> tuple[str, str | None]:
    declared = fields.text("name")
    if declared is None and isinstance(metadata.get("name"), str) and metadata["name"].strip():
        declared = metadata["name"].strip()
        fields.note("description-elsewhere", fields.line("metadata"), "name", "metadata.name")
    line = fields.line("name")
    if declared is None:
        name = usable_name("", folder)
        fields.note("name-missing", line or 1, name)
        return name, None
    name = usable_name(declared, folder)
    if len(declared) > MAX_NAME:
        fields.note("name-too-long", line, f"{len(declared):,}")
    if name != declared:
        fields.note("name-invalid", line, declared, name)
    if folder and folder != declared:
        fields.note("name-differs-from-folder", line, declared, folder, name)
    return name, declared


def _description(
    fields: Fields, draft: Frontmatter, metadata: dict[str, Any]
) -> tuple[str, Literal["own", "field", "derived"]]:
    written = fields.text("description", strip=False)
    if written and written.strip():
        text = written.strip()
        # A block scalar always ends in a line feed; blanks that somebody typed are another matter.
        if text != written.rstrip("\n"):
            fields.note("description-whitespace", fields.line("description"))
        if len(text) > MAX_DESCRIPTION:
            fields.note("description-too-long", fields.line("description"), f"{len(text):,}")
        return text, "own"
    inner = metadata.get("description")
    if isinstance(inner, str) and inner.strip():
        fields.note("description-elsewhere", fields.line("metadata"), "description", "metadata.description")
        return inner.strip(), "field"
    for key in OTHER_DESCRIPTIONS:
        value = draft.mapping.get(key)
        if isinstance(value, str) and value.strip():
            fields.note("description-elsewhere", fields.line("when_to_use") or 1, "description", key)
            return value.strip(), "field"
    return draft.derived, "derived"


def _file_notes(file: str) -> tuple[Diagnostic, ...]:
    return () if file == "SKILL.md" else (Diagnostic("file-name-case", 1, (file,)),)


def _body_notes(draft: Frontmatter, legacy_large_file: bool) -> list[Diagnostic]:
    notes = []
    if draft.body_lines == 0 and not any(note.severity == "error" for note in draft.notes):
        notes.append(Diagnostic("body-empty", None))
    if draft.body_lines > MAX_BODY_LINES and not legacy_large_file:
        notes.append(Diagnostic("body-too-long", None, (str(MAX_BODY_LINES), str(draft.body_lines))))
    if draft.body_tokens > MAX_BODY_TOKENS:
        notes.append(Diagnostic("body-many-tokens", None, (f"{draft.body_tokens:,}", f"{MAX_BODY_TOKENS:,}")))
    return notes
