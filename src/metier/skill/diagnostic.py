"""The diagnostics of skills: one stable code each, with a severity, a sentence and a hint.

A diagnostic stores its code, its line and the values of its sentence; the sentences live in one table, so that a
library of ten thousand skills keeps none of them in memory and the reference page is made from the same table.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from metier._lazy import dataclass
from metier.hints import Hint
from metier.skill.untrusted_text import shown

Severity: TypeAlias = Literal["info", "warning", "error"]


class DiagnosticKind(NamedTuple):
    """The text of one diagnostic code: `{0}`, `{1}` stand for the values of the case at hand."""

    severity: Severity
    message: str
    hint: str
    model: str = ""
    """The hint for models, where that for people has a command."""


DIAGNOSTIC_KINDS: dict[str, DiagnosticKind] = {
    # --- the file ---------------------------------------------------------------------------------------------
    "file-empty": DiagnosticKind("error", "The file is empty.", "Write a frontmatter block and instructions; `metier new NAME` starts one.", "Write a frontmatter block and instructions."),
    "file-too-large": DiagnosticKind("error", "The file has {0} bytes; a SKILL.md may have {1}.", "Move detail into files below references/."),
    "file-not-regular": DiagnosticKind("error", "{0} is not a regular file.", "Replace it by a plain Markdown file."),
    "file-symlink": DiagnosticKind("error", "{0} is a symbolic link; it must not be a symlink.", "Copy the file into the skill folder, or link the whole folder."),
    "file-unreadable": DiagnosticKind("error", "{0} cannot be read: {1}.", "Check that the file exists and that you may read it."),
    "file-name-case": DiagnosticKind("warning", "The file is called {0}; other clients look for SKILL.md only.", "Rename it to SKILL.md."),
    "nothing-to-load": DiagnosticKind("error", "There is neither a description nor any text in the body.", "Write what the skill does in `description:` and the instructions below the frontmatter."),
    "stale": DiagnosticKind("warning", "The file on disk is not whole or cannot be used ({0}); the last good version stays until it can.", "Mend the file; it is read again at the next refresh."),
    # --- its bytes ----------------------------------------------------------------------------------------------
    "bom": DiagnosticKind("info", "The file begins with a byte order mark, which was skipped.", "Save it as UTF-8 without BOM."),
    "utf16": DiagnosticKind("warning", "The file is UTF-16; it was converted.", "Save it as UTF-8."),
    "invalid-utf8": DiagnosticKind("warning", "The file is not valid UTF-8 (first bad byte at offset {0}); it was read as {1}.", "Save it as UTF-8."),
    "control-characters": DiagnosticKind("warning", "{0} control character(s) were dropped, among them {1}.", "Remove them; they can hide text from a reader."),
    "line-endings": DiagnosticKind("info", "Lines end in {0}.", "Use LF line endings; nothing depends on it."),
    # --- the frontmatter block ----------------------------------------------------------------------------------
    "frontmatter-missing": DiagnosticKind("warning", "There is no frontmatter; name and description were derived.", "Begin the file with `---`, `name:`, `description:` and `---`."),
    "frontmatter-leading-space": DiagnosticKind("info", "There is blank space before the opening `---`.", "Let the file begin with `---`."),
    "frontmatter-delimiter": DiagnosticKind("info", "The delimiter `{0}` was read as `---`.", "Write exactly `---`."),
    "frontmatter-fenced": DiagnosticKind("warning", "The frontmatter stands inside a code fence.", "Remove the fence; the file begins with `---`."),
    "frontmatter-preceded": DiagnosticKind("warning", "There is text before the frontmatter; it was moved into the body.", "Let the file begin with `---`."),
    "frontmatter-closer": DiagnosticKind("warning", "`{0}` was taken as the end of the frontmatter.", "Close it with `---` at the start of a line."),
    "frontmatter-unclosed": DiagnosticKind("warning", "The frontmatter is never closed; it was taken to end before this line.", "Close it with `---` at the start of a line."),
    "frontmatter-no-opener": DiagnosticKind("warning", "The file begins with fields but without an opening `---`.", "Put `---` before the first field."),
    "frontmatter-not-a-mapping": DiagnosticKind("warning", "The frontmatter is not a list of `key: value` fields; it was read as text.", "Write `name:` and `description:` fields."),
    "frontmatter-too-large": DiagnosticKind("warning", "The frontmatter has {0} bytes; at most {1} are read as YAML, so only top-level fields were recovered.", "Move text from the frontmatter into the body."),
    # --- its YAML -------------------------------------------------------------------------------------------------
    "yaml-unquoted-colon": DiagnosticKind("warning", "The value of `{0}` contains `: ` and is not quoted; it was read as text.", "Put the value in quotes, or write it below `{0}: >-`."),
    "yaml-reserved-start": DiagnosticKind("warning", "The value of `{0}` begins with `{1}`, which YAML reserves; it was read as text.", "Put the value in quotes."),
    "yaml-tab": DiagnosticKind("warning", "The line is indented with a tab, which YAML does not allow; it was read as spaces.", "Indent with spaces."),
    "yaml-broken-quotes": DiagnosticKind("warning", "The quotes in the value of `{0}` do not match; the text between was kept.", "Write the value below `{0}: >-`, without quotes."),
    "yaml-invalid-flow": DiagnosticKind("warning", "The brackets in the value of `{0}` are not a YAML list or map; it was read as text.", "Put the value in quotes."),
    "yaml-unreadable": DiagnosticKind("warning", "The YAML cannot be read ({0}); only top-level fields were recovered.", "Mend the line; an editor with YAML support shows the place."),
    "yaml-duplicate-key": DiagnosticKind("warning", "`{0}` is given more than once; the last one counts.", "Keep one."),
    "yaml-too-complex": DiagnosticKind("warning", "The YAML is {0}; only top-level fields were recovered.", "Write plain fields without anchors, aliases or deep nesting."),
    # --- its fields ----------------------------------------------------------------------------------------------
    "name-missing": DiagnosticKind("warning", "There is no `name`; the folder's name `{0}` is used.", "Add `name: {0}`."),
    "name-invalid": DiagnosticKind("warning", "The name `{0}` is not lowercase letters, digits and single hyphens; it is called `{1}` here.", "Write `name: {1}`."),
    "name-too-long": DiagnosticKind("warning", "The name has {0} characters; the specification allows 64.", "Choose a shorter name."),
    "name-differs-from-folder": DiagnosticKind("info", "The name `{0}` differs from the folder `{1}`; both are accepted.", "Rename the folder to `{2}`."),
    "description-missing": DiagnosticKind("warning", "There is no `description`; the first {0} of the body is used.", "Add a `description:` that says what the skill does and when to use it."),
    "description-elsewhere": DiagnosticKind("warning", "The {0} was taken from `{1}`.", "Add a `{0}:` field."),
    "description-whitespace": DiagnosticKind("warning", "The description begins or ends with blank space; outer whitespace removed.", "Remove the blank space."),
    "description-too-long": DiagnosticKind("warning", "The description has {0} characters; the specification allows 1,024.", "Say what it does and when to use it; move the rest into the body."),
    "compatibility-too-long": DiagnosticKind("warning", "`compatibility` has {0} characters; the specification allows 500.", "Shorten it."),
    "field-alias": DiagnosticKind("info", "`{0}` was read as `{1}`.", "Write `{1}`."),
    "field-twice": DiagnosticKind("warning", "`{0}` means `{1}`, and both are given with different values; only `{1}` counts.", "Keep `{1}`."),
    "field-restricts-twice": DiagnosticKind("warning", "`{0}` is given more than once; only what all of them allow counts.", "Keep one."),
    "field-joined": DiagnosticKind("info", "`{0}` is a list or map where text is expected; it was read as text.", "Write it as one line of text."),
    "field-as-list": DiagnosticKind("warning", "`{0}` is text where a list is expected; it was read as a list of one.", "Write `{0}: [{1}]`."),
    "field-value": DiagnosticKind("warning", "`{0}: {1}` is not understood and was ignored; expected {2}.", "Correct the value or remove the field."),
    "item-dropped": DiagnosticKind("warning", "An item of `{0}` was dropped: {1}.", "Correct or remove the item."),
    "metadata-not-a-map": DiagnosticKind("warning", "`metadata` is not a map and was dropped.", "Write `metadata:` with indented `key: value` lines."),
    "hooks-old-form": DiagnosticKind("warning", "`hooks.{0}` is the old form; it was read as {1}.", "Write it as `{1}`."),
    # --- its body ------------------------------------------------------------------------------------------------
    "body-empty": DiagnosticKind("warning", "There are no instructions below the frontmatter.", "Write what the agent should do."),
    "body-too-long": DiagnosticKind("warning", "The body has {1} lines; more than {0} lines are hard for a model to follow.", "Move detail to supporting files below references/ and say when to read each."),
    "body-many-tokens": DiagnosticKind("warning", "The body has about {0} tokens; about {1} is a sensible limit.", "Move detail to supporting files below references/ and say when to read each."),
    # --- where it lies --------------------------------------------------------------------------------------------
    "scan-limit": DiagnosticKind("info", "The search stopped at {0}.", "Point at a folder closer to the skills."),
    "folder-unreadable": DiagnosticKind("warning", "{0} cannot be read: {1}.", "Check its permissions."),
    "symlink-broken": DiagnosticKind("warning", "{0} is a link to something that does not exist.", "Mend or remove the link."),
    "symlink-duplicate": DiagnosticKind("info", "{0} is a link to a folder that was already read as {1}.", "Nothing needs to be done."),
    "symlink-escape": DiagnosticKind("error", "{0} is a link that leaves {1}, and this place is not trusted.", "Copy the skill into the folder; or, if you know where it comes from, `metier trust` it.", "Copy the skill into the folder."),
    "root-skill-ignored": DiagnosticKind("info", "{0} lies in a folder of skills, not in a folder of its own; it was not read.", "Move it into a folder named after the skill."),
    "archive-refused": DiagnosticKind("error", "The archive was refused: {0}.", "{1}."),
    "entry-point-unusable": DiagnosticKind("warning", "The entry point `{0} = {1}` names no folder of skills: {2}.", "Write `package:folder` and include the folder in the package's data, or uninstall the package."),
    "place-unusable": DiagnosticKind("error", "{0}, named in {1}, cannot be used: {2}.", "Correct the setting, or put the folder there."),
    "archive-ignored": DiagnosticKind("info", "{0} is an archive among folders of skills; it was not read.", "Unpack it there, or name it with `--skills`."),
    "no-skill": DiagnosticKind("error", "There is no SKILL.md in {0}.", "Name a skill's folder, a folder of skills, or an archive."),
    "package-incomplete": DiagnosticKind("info", "The list of files stopped at {0}.", "Remove files that the skill does not need."),
    # --- the library ------------------------------------------------------------------------------------------------
    "shadowed": DiagnosticKind("warning", "Hidden by another skill called `{0}`: {1}.", "Rename one of them, or ask for `{0}@{2}`."),
    "description-hidden": DiagnosticKind("warning", "There is no `description` and the folder is not trusted, so models are not shown this skill.", "Add a description, or trust the folder with `metier trust`.", "Add a description."),
    "many-skills": DiagnosticKind("warning", "There are {0} skills; models choose badly among more than about {1}.", "Give agents fewer: `scope` in the frontmatter, `uses_skills` of an agent; set listing modes (`metier listing NAME name-only`); or raise the budget. Those that the catalog leaves out are found by search."),
    "cache-unusable": DiagnosticKind("info", "The index cache could not be {0}: {1}.", "Everything works, more slowly; set METIER_CACHE to a writable folder."),
    # --- what only `validate` says ------------------------------------------------------------------------------------
    "not-deployable": DiagnosticKind("info", "It could not be deployed or proposed: {0}", "It can be used as it is; correct this before."),
    "unknown-fields": DiagnosticKind("info", "Fields outside the specification, kept: {0}.", "Every client accepts `metadata:`; this one reads its own fields below `metadata: metier:` too."),
    "description-placeholder": DiagnosticKind("warning", "The description is still the one of the template.", "Say what the skill does and when to use it."),
    "tools-form": DiagnosticKind("info", "`allowed-tools` is not the specification's form, a space-separated string.", "Write `allowed-tools: {0}`."),
    "tools-unknown": DiagnosticKind("warning", "`allowed-tools` names tools that no agent is known to have: {0}.", "Correct the spelling; a tool of an MCP server is `mcp__server__tool`. One that your own program has is fine."),
    "capability-undeclared": DiagnosticKind("info", "The skill {0} ({1}), which its fields do not say.", "Write `{2}`."),
    "tools-exceeded": DiagnosticKind("warning", "The skill {0} ({1}), and its `allowed-tools` name nothing for it.", "Write `{2}`, or remove it."),
    "reference-missing": DiagnosticKind("warning", "`{0}` is mentioned but is not among the skill's files.", "{1}Add the file, or correct the path."),
    "hook-missing": DiagnosticKind("warning", "The hook `{0}` is not among the skill's files.", "{1}Add the file, or correct the command: a skill is not used without a check that it declares."),
    "reference-outside": DiagnosticKind("info", "`{0}` leads outside the skill.", "Bundle the file with the skill."),
    "file-link-outside": DiagnosticKind("warning", "`{0}` is a link that leaves the skill; it is never followed.", "Replace it by a copy."),
    "script-syntax": DiagnosticKind("warning", "{0} has a syntax error: {1}.", "Mend the script."),
    "script-no-shebang": DiagnosticKind("info", "{0} has no `#!` line.", "Begin it with `#!/usr/bin/env bash`."),
    # --- the specification, read strictly ---------------------------------------------------------------------------
    "spec-encoding": DiagnosticKind("error", "The file must be valid UTF-8 text: {0}.", "Save it as UTF-8 without NUL bytes."),
    "spec-file-name": DiagnosticKind("error", "The file is called {0}; it must be called SKILL.md.", "Rename it."),
    "spec-frontmatter-missing": DiagnosticKind("error", "SKILL.md requires YAML frontmatter: it must start with `---`.", "Begin the file with `---`, `name:`, `description:` and `---`."),
    "spec-frontmatter-unclosed": DiagnosticKind("error", "SKILL.md has unterminated YAML frontmatter: no `---` closes it.", "Close it with `---` at the start of a line."),
    "spec-yaml": DiagnosticKind("error", "Invalid YAML frontmatter: {0}.", "Mend the line; values with `: ` need quotes."),
    "spec-not-a-mapping": DiagnosticKind("error", "The frontmatter must be a YAML mapping.", "Write `name:` and `description:` fields."),
    "spec-duplicate-key": DiagnosticKind("error", "Invalid YAML frontmatter: the key `{0}` is given twice.", "Keep one."),
    "spec-unexpected-field": DiagnosticKind("error", "Unexpected field in frontmatter: `{0}`. Only allowed-tools, compatibility, description, license, metadata and name are allowed.", "Move it below `{1}`."),
    "spec-name-missing": DiagnosticKind("error", "frontmatter.name is required.", "Add `name:` with the folder's name."),
    "spec-name-not-text": DiagnosticKind("error", "`name` must be a string.", "Write it as one word."),
    "spec-name-too-long": DiagnosticKind("error", "The name has {0} characters; at most 64 are allowed.", "Choose a shorter name."),
    "spec-name-case": DiagnosticKind("error", "The name `{0}` must be lowercase.", "Write `{1}`."),
    "spec-name-characters": DiagnosticKind("error", "The name `{0}` must be lowercase hyphenated: letters, digits and hyphens only.", "Write `{1}`."),
    "spec-name-hyphen-ends": DiagnosticKind("error", "The name `{0}` must not start or end with a hyphen.", "Write `{1}`."),
    "spec-name-hyphen-double": DiagnosticKind("error", "The name `{0}` must not contain two hyphens in a row; names are lowercase hyphenated.", "Write `{1}`."),
    "spec-name-folder": DiagnosticKind("error", "The name `{0}` must match expected name `{1}`, the folder's.", "Rename the folder or the skill."),
    "spec-description-missing": DiagnosticKind("error", "frontmatter.description is required and must not be empty.", "Say what the skill does and when to use it."),
    "spec-description-not-text": DiagnosticKind("error", "`description` must be a string.", "Write it as text."),
    "spec-description-too-long": DiagnosticKind("error", "The description has {0} characters; at most 1,024 are allowed.", "Shorten it."),
    "spec-compatibility-not-text": DiagnosticKind("error", "`compatibility` must be a string.", "Write it as text."),
    "spec-compatibility-empty": DiagnosticKind("error", "`compatibility` must have 1 to 500 characters; it is empty.", "Remove the field or fill it in."),
    "spec-compatibility-too-long": DiagnosticKind("error", "`compatibility` has {0} characters; at most 500 are allowed.", "Shorten it."),
    # --- upload rules (--portable) -------------------------------------------------------------------------------------
    "portable-angle-brackets": DiagnosticKind("error", "`{0}` contains `<` or `>`, which uploads refuse.", "Write it without angle brackets."),
    "portable-reserved-word": DiagnosticKind("error", "The name contains `{0}`, which uploads reserve.", "Choose another name."),
    "portable-too-large": DiagnosticKind("error", "The package has {0} bytes; uploads take at most 30 MB.", "Remove large files."),
    "portable-tools-list": DiagnosticKind("error", "`allowed-tools` must be a string to be served over MCP or uploaded.", "Write `allowed-tools: {0}`."),
    "portable-metadata-values": DiagnosticKind("error", "`metadata.{0}` must be a string.", "Quote the value, or flatten it."),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding about one skill.

    >>> found = Diagnostic("yaml-unquoted-colon", 3, ("description",))
    >>> found.severity, found.line
    ('warning', 3)
    >>> found.message
    'The value of `description` contains `: ` and is not quoted; it was read as text.'
    """

    code: str
    line: int | None = None
    values: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """The severity: an `error` means that the skill is not loaded (or not valid, in `--strict`)."""
        return DIAGNOSTIC_KINDS[self.code].severity

    @property
    def message(self) -> str:
        """The problem, in one sentence."""
        return DIAGNOSTIC_KINDS[self.code].message.format(*map(shown, self.values))

    @property
    def hint(self) -> str:
        """The way to mend it."""
        kind = DIAGNOSTIC_KINDS[self.code]
        text = kind.hint.format(*map(shown, self.values))
        return Hint("{text}", model=kind.model, text=text) if kind.model else text

    def as_json(self) -> dict[str, str | int | None]:
        """The shape that `--json` prints."""
        return {
            "code": self.code,
            "severity": self.severity,
            "line": self.line,
            "message": self.message,
            "hint": self.hint,
        }


def as_text(value: Any) -> str:
    """A list or map as the text that its author most likely meant.

    >>> as_text(["Linux", "macOS"]), as_text({"python": "3.11"})
    ('Linux, macOS', 'python: 3.11')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(as_text(item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {as_text(item)}" if item != "" else key for key, item in value.items())
    return str(value)
