"""Typed fields: a frontmatter becomes a Skill, leniently, with a diagnostic for everything that was assumed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal

from metier._aliases import SKILL_FIELDS
from metier._lazy import pattern
from metier.skill.diagnostic import Diagnostic, as_text
from metier.skill.frontmatter import MAX_DESCRIPTION, OTHER_DESCRIPTIONS
from metier.skill.names import MAX_NAME, is_valid_name, usable_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from metier.skill.frontmatter import Frontmatter
    from metier.skill.skill import Skill

# `tools` names the same thing in some collections and quite another (a list of MCP servers) in others.
_TOOLS_ALIAS = "tools"
BOOLEANS = {
    "true": True, "yes": True, "on": True, "1": True, "y": True,
    "false": False, "no": False, "off": False, "0": False, "n": False,
}  # fmt: skip
SPECIFICATION_FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
_SAID_AT_MOST = 10
_MAX_JSON_DEPTH = 32
MAX_COMPATIBILITY = 500
MAX_BODY_LINES = 500
MAX_BODY_TOKENS = 8_000
_CAMEL = pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_TOOL_SEPARATORS = ",;\uff0c\u3001"  # the last two are what CJK keyboards make of a comma


class Fields:
    """Reads typed fields out of one frontmatter, collecting diagnostics as it goes."""

    def __init__(self, mapping: Mapping[str, Any], lines: Mapping[str, int]) -> None:
        self.notes: list[Diagnostic] = []
        self._said: dict[tuple[str, ...], int] = {}
        self.extra: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        """The values as written, by the names of their fields."""
        self._lines: dict[str, int] = {}
        # Fields under their own names first: another spelling of one that is there has nothing to say.
        for key, value in sorted(mapping.items(), key=lambda item: item[0] not in FIELD_NAMES):
            self._place(key, value, lines.get(key, 1))
        self._place_from_metadata()
        if "<<" in mapping:
            self._place_merged(mapping["<<"], lines.get("<<", 1))

    def _place(self, key: str, value: Any, line: int) -> None:
        if key in FIELD_NAMES:
            field = key
        else:
            known = canonical_field(key)
            if known is None and key == _TOOLS_ALIAS and "allowed-tools" not in self.values and is_tool_list(value):
                known = "allowed-tools"
            if known == "requires" and isinstance(self.values.get(known), dict):
                # That says what the machine has to have; this names skills.
                self.drop(known)
            if known is None or known in self.values:
                if known is None or not self._restrict(known, value, line):
                    self.extra[key] = value
                if known == "requires" and value != self.values[known]:
                    self.note("field-twice", line, key, known)
                return
            self.note("field-alias", line, key, known)
            field = known
        self.values[field] = value
        self._lines[field] = line

    def _restrict(self, field: str, value: Any, line: int) -> bool:
        """Add what another spelling of a field restricts to what the field does; False for a field that does not."""
        from metier.skill.compound_fields import RESTRICTING, combined

        if field not in RESTRICTING:
            return False
        self.values[field] = combined(field, self.values[field], value)
        self.note("field-restricts-twice", line, field)
        return True

    def _place_merged(self, value: Any, line: int) -> None:
        """Take the restrictions that YAML 1.1 would merge by `<<`: other readers of the file merge them."""
        from metier.skill.compound_fields import RESTRICTING

        for part in value if isinstance(value, list) else [value]:
            for key, item in part.items() if isinstance(part, dict) else ():
                field = canonical_field(key)
                if field in RESTRICTING and not (field in self.values and self._restrict(field, item, line)):
                    self._place(key, item, line)

    def _place_from_metadata(self) -> None:
        """Fields outside the specification may stand where every client accepts them: below `metadata: metier:`.

        Tags and a version directly below `metadata:` are what other collections write.
        """
        metadata = self.values.get("metadata")
        if not isinstance(metadata, dict):
            return
        own = metadata.get("metier")
        found = {key: metadata[key] for key in ("tags", "version") if key in metadata}
        found |= own if isinstance(own, dict) else {}
        for key, value in found.items():
            field = canonical_field(key)
            if field is None or field in SPECIFICATION_FIELDS:
                continue
            if field in self.values:
                self._restrict(field, value, self._lines["metadata"])
            else:
                self.values[field] = value
                self._lines[field] = self._lines["metadata"]

    def note(self, code: str, line: int | None, *values: str) -> None:
        """Say something, but not a million times about one field."""
        about = (code, *values[:1])
        self._said[about] = self._said.get(about, 0) + 1
        if self._said[about] <= _SAID_AT_MOST:
            self.notes.append(Diagnostic(code, line, values))

    def line(self, field: str) -> int | None:
        """The line on which a field stands."""
        return self._lines.get(field)

    def drop(self, field: str) -> None:
        """Move a field that cannot be what its name says to `extra`."""
        self.extra[field] = self.values.pop(field)

    def text(self, field: str, *, strip: bool = True) -> str | None:
        """Text; a list or map where text is expected is joined."""
        value = self.values.get(field)
        if value is None:
            return None
        if not isinstance(value, str):
            self.note("field-joined", self.line(field), field)
            value = as_text(value)
        return (value.strip() if strip else value) or None

    def flag(self, field: str) -> bool | None:
        """A boolean in any of the spellings that authors use; None for what is missing or none."""
        value = self.values.get(field)
        known = is_yes(value)
        if known is None and value is not None and value != "":
            self.ignored(field, value, "true or false")
        return known

    def number(self, field: str, low: int, high: int) -> int | None:
        value = self.values.get(field)
        if value is None or value == "":
            return None
        try:
            number = int(str(value).strip()) if len(str(value)) <= 12 else None
        except ValueError:
            number = None
        if number is None or not low <= number <= high:
            self.ignored(field, value, f"a whole number from {low} to {high}")
            return None
        return number

    def words(self, field: str, *, warn_single: bool = False) -> tuple[str, ...]:
        """A list of short texts, given as a list, as comma-separated text, or alone."""
        value = self.values.get(field)
        if value is None or value == "":
            return ()
        if isinstance(value, str):
            items: list[Any] = re.split(r"[,\n]", value)
            if len(items) == 1 and warn_single:
                self.note("field-as-list", self.line(field), field, value)
        elif isinstance(value, list):
            items = value
        else:
            items = list(value)
        return self._texts(field, items)

    def _texts(self, field: str, items: list[Any]) -> tuple[str, ...]:
        seen: dict[str, None] = {}
        for item in items:
            if not isinstance(item, str):
                self.note("item-dropped", self.line(field), field, "it is not text")
            elif not (text := item.strip().removeprefix("- ").strip("\"' ")):
                self.note("item-dropped", self.line(field), field, "it is empty")
            else:
                seen.setdefault(text)
        return tuple(seen)

    def tools(self, field: str) -> tuple[str, ...]:
        """Tool rules; the field is there, as an empty list allows nothing and none at all everything."""
        return split_tools(self.values[field])

    def metadata(self) -> dict[str, Any]:
        written = value = self.values.get("metadata")
        if isinstance(value, str) and value.strip().startswith("{"):
            value = _from_json(value)
        if isinstance(value, dict):
            return value
        if written:
            self.note("metadata-not-a-map", self.line("metadata"))
        return {}

    def requires(self, field: str) -> tuple[str, ...]:
        """Names of skills, perhaps with ranges of versions; a map of other requirements is kept in `extra`."""
        if isinstance(self.values.get(field), dict):
            self.drop(field)
            return ()
        found = self.words(field)
        if any(sign in text for text in found for sign in "<>=!~"):
            from metier.skill.skill_requirement import joined_requirements

            return joined_requirements(found)
        return found

    def compatibility(self, field: str) -> str | None:
        """Text, with a note where it is longer than the specification allows."""
        text = self.text(field)
        if text and len(text) > MAX_COMPATIBILITY:
            self.note("compatibility-too-long", self.line(field), f"{len(text):,}")
        return text

    def context(self, field: str) -> str:
        """`fork` or `inherit`; other tools put labels of their own here."""
        context = self.values.get(field)
        if context not in (None, "fork", "inherit"):
            self.drop(field)
        return "fork" if context == "fork" else "inherit"

    def insert(self, field: str) -> str:
        """`instructions` or `user-message`."""
        value = self.values.get(field)
        if value is None or value == "":
            return "instructions"
        if isinstance(value, str) and value.strip().lower() in ("instructions", "user-message"):
            return value.strip().lower()
        self.ignored(field, value, "instructions or user-message")
        return "instructions"

    def argument_hint(self, field: str) -> str | None:
        """Text; YAML takes `[file] [format]` for a list."""
        hint = self.values.get(field)
        return f"[{', '.join(map(str, hint))}]" if isinstance(hint, list) else self.text(field)

    def below(self, field: str, values: dict[str, Any]) -> Fields:
        """The fields of a map that a field holds, all on the line of that field."""
        inner = Fields({}, {})
        inner.values = values
        inner._lines = dict.fromkeys(values, self.line(field) or 1)
        return inner

    def compound(self, field: str) -> Any:
        """The typed value of `scope`, `execution`, `arguments` or `hooks`; None when the field is absent or empty."""
        value = self.values.get(field)
        if value is None or (value == "" and field != "scope"):
            return None
        from metier.skill.compound_fields import READERS

        return READERS[field](self, value)

    def ignored(self, field: str, value: Any, expected: str) -> None:
        """Report a value that is not understood."""
        self.note("field-value", self.line(field), field, as_text(value), expected)


def is_yes(value: Any) -> bool | None:
    """A boolean in any of the spellings that authors use; None for what is none."""
    return BOOLEANS.get(value.strip().lower()) if isinstance(value, str) else None


def split_tools(value: Any) -> tuple[str, ...]:
    """Tool rules from a list or from text separated by commas, blanks or line ends, outside parentheses.

    >>> split_tools("Bash(git add:*), Read Write")
    ('Bash(git add:*)', 'Read', 'Write')
    """
    if isinstance(value, dict):
        value = list(value)
    if isinstance(value, list):
        return tuple(dict.fromkeys(rule for item in value if isinstance(item, str) for rule in split_tools(item)))
    text = value.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    rules: list[str] = []
    depth, start = 0, 0
    for i, character in enumerate(text + " "):
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif (not depth and (character in _TOOL_SEPARATORS or character.isspace())) or i == len(text):
            rules.append(text[start:i])
            start = i + 1
    cleaned = (rule.strip().strip("\"'") for rule in rules)
    return tuple(dict.fromkeys(rule for rule in cleaned if rule not in ("", "-")))


def is_tool_list(value: Any) -> bool:
    """Whether the value of a `tools:` key can be a list of tool names at all."""
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _from_json(text: str) -> Any:
    """A map in JSON text, every number as text like everywhere in a frontmatter; None when it is none or too deep."""
    try:
        value = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    level = [value]
    for _ in range(_MAX_JSON_DEPTH):
        inner = [item for part in level for item in (part.values() if isinstance(part, dict) else part)]
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return value
    return None


_READERS: dict[str, Callable[[Fields, str], Any]] = {
    "compatibility": Fields.compatibility,
    "context": Fields.context,
    "hooks": Fields.compound,
    "scope": Fields.compound,
    "execution": Fields.compound,
    "legacy-large-file": lambda fields, field: bool(fields.flag(field)),
    "license": Fields.text,
    "allowed-tools": Fields.tools,
    "disallowed-tools": Fields.tools,
    "version": Fields.text,
    "tags": lambda fields, field: fields.words(field, warn_single=True),
    "requires": Fields.requires,
    "triggers": Fields.words,
    "when_to_use": Fields.text,
    "model": Fields.text,
    "agent": Fields.text,
    "priority": lambda fields, field: fields.number(field, -1_000_000, 1_000_000) or 0,
    "arguments": lambda fields, field: fields.compound(field) or (),
    "argument-hint": Fields.argument_hint,
    "user-invocable": lambda fields, field: fields.flag(field) is not False,
    "disable-model-invocation": lambda fields, field: bool(fields.flag(field)),
    "insert": Fields.insert,
    "execution-mode": lambda fields, field: fields.text(field) or "autonomous",
    "max-iterations": lambda fields, field: fields.number(field, 1, 100),
    "max-retries-per-tool": lambda fields, field: fields.number(field, 0, 10),
    "timeout-per-iteration": Fields.text,
    "early-termination": Fields.flag,
}
"""The fields that stand for themselves, by the reader of their value; an attribute of `Skill` is named after each."""
FIELD_NAMES = ("name", "description", "metadata", *_READERS)
_CANONICAL = {name.replace("_", "-"): name for name in FIELD_NAMES} | dict(SKILL_FIELDS)


def canonical_field(key: str) -> str | None:
    """The field that a key means (`allowedTools`, `allowed_tools`, `Allowed-Tools`), or None for an unknown one."""
    return _CANONICAL.get(hyphenated(key)) or _CANONICAL.get(key.strip().replace("_", "-").lower())


def hyphenated(key: str) -> str:
    """A key with hyphens between its words, however they are told apart."""
    return _CAMEL.sub("-", key.strip()).replace("_", "-").replace(" ", "-").lower()


def interpret(frontmatter: Frontmatter, folder: str, file: str = "SKILL.md") -> Skill:
    """Make typed fields of a frontmatter."""
    from metier.skill.skill import Skill  # a start that only lists names needs no typed fields

    fields = Fields(frontmatter.mapping, dict(zip(frontmatter.mapping, frontmatter.lines, strict=True)))
    metadata = fields.metadata()
    name, declared = _name(fields, metadata, folder)
    description, source = _description(fields, frontmatter, metadata)
    # What is missing has the default that `Skill` gives it.
    values = {
        field.replace("-", "_"): read(fields, field) for field, read in _READERS.items() if field in fields.values
    }
    legacy = values.get("legacy_large_file", False)
    notes = [*frontmatter.notes, *fields.notes, *_body_notes(frontmatter, legacy)]
    if file != "SKILL.md":
        notes.insert(0, Diagnostic("file-name-case", 1, (file,)))
    return Skill(
        name=name,
        description=description,
        declared_name=declared,
        display_name=declared if declared and not is_valid_name(declared) else frontmatter.heading or declared or name,
        description_source=source,
        metadata=metadata,
        extra=fields.extra,
        frontmatter=frontmatter.mapping,
        body_lines=frontmatter.body_lines,
        body_tokens=frontmatter.body_tokens,
        diagnostics=tuple(notes),
        **values,
    )


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
    fields: Fields, frontmatter: Frontmatter, metadata: dict[str, Any]
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
        value = frontmatter.mapping.get(key)
        if isinstance(value, str) and value.strip():
            fields.note("description-elsewhere", fields.line("when_to_use") or 1, "description", key)
            return value.strip(), "field"
    return frontmatter.derived, "derived"


def _body_notes(frontmatter: Frontmatter, legacy_large_file: bool) -> list[Diagnostic]:
    notes = []
    if frontmatter.body_lines == 0 and not any(note.severity == "error" for note in frontmatter.notes):
        notes.append(Diagnostic("body-empty", None))
    if frontmatter.body_lines > MAX_BODY_LINES and not legacy_large_file:
        notes.append(Diagnostic("body-too-long", None, (str(MAX_BODY_LINES), str(frontmatter.body_lines))))
    if frontmatter.body_tokens > MAX_BODY_TOKENS:
        notes.append(Diagnostic("body-many-tokens", None, (f"{frontmatter.body_tokens:,}", f"{MAX_BODY_TOKENS:,}")))
    return notes
