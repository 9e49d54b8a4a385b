"""From the bytes of a SKILL.md to a skill.

Two steps, because they are needed at different times. `read_draft` takes the file apart once, when it is indexed;
`interpret` makes typed fields of what was read, when somebody looks. A draft is plain data, so the index cache can keep
it; a skill is a pure function of its draft and its folder's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from metier.skill._fast import read_fast
from metier.skill.block import read_block
from metier.skill.diagnostic import Diagnostic
from metier.skill.fields import Fields
from metier.skill.frontmatter import Split, split, split_at_first_heading
from metier.skill.names import MAX_NAME, is_valid_name, usable_name
from metier.skill.skill import Skill
from metier.skill.text import decode, drop_control
from metier.skill.tokens import estimate_tokens, tokens_of

MAX_SKILL_BYTES = 2 * 1024 * 1024
MAX_DESCRIPTION = 1_024
MAX_COMPATIBILITY = 500
MAX_BODY_LINES = 500
MAX_BODY_TOKENS = 8_000

_OTHER_DESCRIPTIONS = ("when_to_use", "when-to-use", "summary", "short_description", "short-description")


class Draft(NamedTuple):
    """What one reading of a SKILL.md learned; everything but the instructions themselves."""

    mapping: dict[str, Any]
    lines: list[int]
    notes: tuple[Diagnostic, ...]
    body_lines: int
    body_tokens: int
    heading: str
    derived: str
    """A description made of the body, filled only when the frontmatter has none of its own."""


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


def parse(data: bytes, *, folder: str = "", file: str = "SKILL.md") -> Document:
    """Read a SKILL.md leniently; `folder` is the name of its folder, the name of last resort.

    Never raises for what the bytes contain: a file that cannot be loaded is a skill with an `error` diagnostic.
    """
    text, notes = decode(data)
    draft, cut = _draft(text, notes)
    trimmed, blank = trim_body(cut.body)
    body, found = drop_control(trimmed)
    first_line = cut.body_line + blank
    moved = (Diagnostic(note.code, (note.line or 1) + first_line - 1, note.values) for note in found)
    draft = draft._replace(notes=(*draft.notes, *moved))
    return Document(interpret(draft, folder, file), body, first_line)


def read_draft(data: bytes) -> Draft:
    """Take a SKILL.md apart for the index; the cheap half of `parse`."""
    draft = _quick_draft(data)
    if draft is not None:
        return draft
    text, notes = decode(data)
    return _draft(text, notes)[0]


def _quick_draft(data: bytes) -> Draft | None:
    """The draft of a file with nothing odd about it, made of its bytes; None for every other file.

    Searching and counting in bytes is several times faster than in text once a file has one em dash in it.
    """
    if not data.startswith(b"---\n") or b"\r" in data or b"\0" in data:
        return None
    end = data.find(b"\n---", 3)
    if end < 0 or data[end + 4 : end + 5] != b"\n" or data.find(b"\n...", 3, end) >= 0:
        return None
    start = end + 5
    size = len(data) - start
    characters = size
    try:
        block = data[4 : end + 1].decode()
        if not data.isascii():
            characters = len(data[start:].decode())
    except UnicodeDecodeError:
        return None
    reading = read_fast(block, 2)
    if reading is None:
        return None
    description = reading.mapping.get("description")
    if not description or type(description) is not str:
        return None
    body_lines = data.count(b"\n", start) + 1
    if size < 100 and not data[start:].strip():
        body_lines = 0
    heading = ""
    at = data.find(b"\n# ", end + 4)
    if at >= 0:
        heading = _first_heading(data[at + 1 : at + 802].decode(errors="ignore"))
    return Draft(reading.mapping, reading.lines, reading.notes, body_lines, tokens_of(characters, size), heading, "")


def trim_body(body: str) -> tuple[str, int]:
    """A body without the blank lines around it, and how many went from its beginning."""
    body = body.rstrip()
    blank = 0
    while body:
        line, _, rest = body.partition("\n")
        if line.strip():
            break
        body = rest
        blank += 1
    return body, blank


def _draft(text: str, notes: tuple[Diagnostic, ...]) -> tuple[Draft, Split]:
    if not text or text.isspace():
        empty = Split(None, 1, "", 1, ())
        return Draft({}, [], (*notes, Diagnostic("file-empty", 1)), 0, 0, "", ""), empty
    cut = split(text)
    block = cut.block
    notes += cut.notes
    mapping: dict[str, Any] = {}
    lines: list[int] = []
    if block is None:
        notes += (Diagnostic("frontmatter-missing", 1),)
    elif block:
        mapping, lines, found = read_block(block, cut.block_line)
        if found:
            if any(note.code == "yaml-unreadable" for note in found):
                other = split_at_first_heading(text)
                if other is not None and other.block:
                    cut = other
                    mapping, lines, found = read_block(other.block, other.block_line)
                    found = other.notes + found
            notes += found
            if not mapping and found[-1].code == "frontmatter-not-a-mapping":
                cut = cut._replace(body=f"{block}\n{cut.body}")
    body = cut.body
    heading = _first_heading(body)
    derived = ""
    description = mapping.get("description")
    if not description or not isinstance(description, str):
        derived, note = _derived_description(mapping, lines, body, heading, cut.body_line)
        if note is not None:
            notes += (note,)
    tokens = estimate_tokens(body)
    body_lines = body.count("\n") + 1 if body and not body.isspace() else 0
    return Draft(mapping, lines, notes, body_lines, tokens, heading, derived), cut


def _first_heading(body: str) -> str:
    at = 0 if body.startswith("# ") else body.find("\n# ") + 1
    if at == 0 and not body.startswith("# "):
        return ""
    end = body.find("\n", at)
    return body[at + 2 : end if end >= 0 else len(body)].strip().rstrip("#").strip()[:200]


def _derived_description(
    mapping: dict[str, Any], lines: list[int], body: str, heading: str, body_line: int
) -> tuple[str, Diagnostic | None]:
    """A description for a skill that has none, and the diagnostic to go with it."""
    if _has_description(mapping):
        return "", None
    paragraph = first_paragraph(body)
    if paragraph:
        return paragraph, Diagnostic("description-missing", body_line, ("paragraph",))
    if heading:
        return heading, Diagnostic("description-missing", body_line, ("heading",))
    if body.strip():
        return shorten(" ".join(body.split()), MAX_DESCRIPTION), Diagnostic("description-missing", body_line, ("text",))
    return "", Diagnostic("nothing-to-load", lines[0] if lines else 1)


def _has_description(mapping: dict[str, Any]) -> bool:
    if any(mapping.get(key) for key in ("description", *_OTHER_DESCRIPTIONS)):
        return True
    inner = mapping.get("metadata")
    return (isinstance(inner, dict) and bool(inner.get("description"))) or any(
        key.strip().lower() == "description" and value for key, value in mapping.items()
    )


_PROSE_STOP = re.compile(r"\s*(?:#{1,6}(?:\s|$)|```|~~~|\||!\[|\[!\[|<|-{3,}\s*$|={3,}\s*$|\*{3,}\s*$)")
_MARKUP = re.compile(r"(?<!\w)(?:\*\*|__|\*|_)(?=\S)|(?<=\S)(?:\*\*|__|\*|_)(?!\w)|^>\s*|^[-*+]\s+|^\d+[.)]\s+")
_LINK = re.compile(r"\[([^\]\n]{1,200})\]\([^)\n]{0,500}\)")


def first_paragraph(body: str) -> str:
    """The first prose of a body, as one line of at most 1,024 characters.

    >>> first_paragraph("# Title\\n\\nDeploys **safely** to\\nproduction.\\n\\nMore.")
    'Deploys safely to production.'
    """
    found: list[str] = []
    fenced = False
    length = 0
    for line in body[:16_000].split("\n"):
        if line.lstrip().startswith(("```", "~~~")):
            if found:
                break
            fenced = not fenced
        elif fenced:
            continue
        elif not line.strip() or _PROSE_STOP.match(line):
            if found:
                break
        else:
            found.append(_LINK.sub(r"\1", _MARKUP.sub("", line.strip())))
            length += len(line)
            if length > MAX_DESCRIPTION:
                break
    return shorten(" ".join(" ".join(found).split()), MAX_DESCRIPTION)


def shorten(text: str, limit: int) -> str:
    """Text of at most `limit` characters, cut at a word, with an ellipsis when something is missing.

    >>> shorten("one two three", 9)
    'one two…'
    """
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    word = cut.rfind(" ")
    return (cut[:word] if word > limit // 2 else cut).rstrip(" ,;:.") + "…"


def draft_name(draft: Draft, folder: str) -> str:
    """The name that `interpret` will give, without interpreting the rest."""
    name = draft.mapping.get("name")
    if type(name) is str and name.strip():
        return usable_name(name.strip(), folder)
    return interpret(draft, folder).name


def interpret(draft: Draft, folder: str, file: str = "SKILL.md") -> Skill:
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
        fields.note("name-differs-from-folder", line, declared, folder)
    return name, declared


def _description(
    fields: Fields, draft: Draft, metadata: dict[str, Any]
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
    for key in _OTHER_DESCRIPTIONS:
        value = draft.mapping.get(key)
        if isinstance(value, str) and value.strip():
            fields.note("description-elsewhere", fields.line("when_to_use") or 1, "description", key)
            return value.strip(), "field"
    return draft.derived, "derived"


def _file_notes(file: str) -> tuple[Diagnostic, ...]:
    return () if file == "SKILL.md" else (Diagnostic("file-name-case", 1, (file,)),)


def _body_notes(draft: Draft, legacy_large_file: bool) -> list[Diagnostic]:
    notes = []
    if draft.body_lines == 0 and not any(note.severity == "error" for note in draft.notes):
        notes.append(Diagnostic("body-empty", None))
    if draft.body_lines > MAX_BODY_LINES and not legacy_large_file:
        notes.append(Diagnostic("body-too-long", None, (str(MAX_BODY_LINES), str(draft.body_lines))))
    if draft.body_tokens > MAX_BODY_TOKENS:
        notes.append(Diagnostic("body-many-tokens", None, (f"{draft.body_tokens:,}", f"{MAX_BODY_TOKENS:,}")))
    return notes
