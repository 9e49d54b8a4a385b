"""Rules about what a package is made of rather than what its text says: files that nobody can see into, files that
run without being called, skills inside skills, and names and blanks that hide something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.autorun import RULE as AUTORUN
from metier.scan.rule import Hit, ScanRule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.view import SkillView

_EVASION = "defense_evasion_obfuscation"
_DELIVERY = "execution_code_delivery"


def _opaque(view: SkillView) -> Iterator[Hit]:
    for file in view.opaque:
        yield Hit(file.path, 1, file.why, f"The file {file.why}: nothing in it was scanned.")


def _left_out(view: SkillView) -> Iterator[Hit]:
    for file in view.left_out:
        yield Hit(file.path, 1, file.why, f"{file.path.rpartition('/')[2]} {file.why}; it was not scanned.")


def _programs(view: SkillView) -> Iterator[Hit]:
    for file in view.opaque:
        if file.kind in ("program", "bytecode"):
            yield Hit(file.path, 1, file.why, f"The file {file.why}: it runs, and nobody can read what it does.")


def _encrypted(view: SkillView) -> Iterator[Hit]:
    for file in view.opaque:
        if file.kind == "encrypted":
            yield Hit(file.path, 1, file.why)


def _stowaways(view: SkillView) -> Iterator[Hit]:
    for file in view.opaque:
        if file.kind == "stowaway":
            is_archive = "archive" in file.why
            yield Hit(file.path, 1, file.why, f"The file {file.why}.", "high" if is_archive else "medium")


_MEDIA_NAME = re.compile(r"\.(?:png|jpe?g|gif|webp|bmp|ico|tiff?|mp[34]|wav|ogg|woff2?|ttf|otf|pdf)$", re.IGNORECASE)
_TEXT_NAME = re.compile(r"\.(?:md|markdown|txt|rst|json|ya?ml|toml|csv|html?|css)$", re.IGNORECASE)


def _disguises(view: SkillView) -> Iterator[Hit]:
    """A script under the name of an image; a program under the name of a text."""
    known = {file.path for file in view.opaque}
    for text in view.files:
        if _MEDIA_NAME.search(text.path) and text.path not in known and text.text.strip():
            first = text.text.strip().partition("\n")[0]
            if text.role == "script":
                yield Hit(text.path, 1, first, "A script goes by the name of an image or document.")
            elif not first.startswith("version https://git-lfs.github.com/spec/"):
                yield Hit(text.path, 1, first, "Text goes by the name of an image or document.", "low")
    for file in view.opaque:
        if file.kind in ("program", "archive", "encrypted") and (
            _TEXT_NAME.search(file.path) or _MEDIA_NAME.search(file.path)
        ):
            yield Hit(file.path, 1, file.why, f"The file {file.why}, whatever its name says.")


def _nested(view: SkillView) -> Iterator[Hit]:
    for path in view.paths:
        folder, _, name = path.rpartition("/")
        if folder and name.lower() == "skill.md":
            yield Hit(path, 1, path)


def _second_instructions(view: SkillView) -> Iterator[Hit]:
    own = view.instructions
    for path in view.paths:
        if path.lower() == "skill.md" and (own is None or path != own.path):
            yield Hit(path, 1, path)


# What turns the direction of text or has no width; but for joiners, which letters and emoji need.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_DOUBLE = re.compile(
    r"\.(?:pdf|docx?|xlsx?|pptx?|txt|md|csv|png|jpe?g|gif|mp[34])[ \t.]{0,40}"
    r"\.(?:sh|bash|py|js|ps1|bat|cmd|exe|scr|command|app|vbs)$",
    re.IGNORECASE,
)


def _names(view: SkillView) -> Iterator[Hit]:
    for path in view.paths:
        if _UNSEEN.search(path):
            yield Hit(path, 1, path, "The name of a file has characters in it that nobody sees.", "high")
        elif _DOUBLE.search(path) or "   " in path:
            yield Hit(path, 1, path)


def _control(view: SkillView) -> Iterator[Hit]:
    for path, line in view.control.items():
        text = next((file.text for file in view.files if file.path == path), "")
        yield Hit(path, line, text.split("\n", line)[line - 1] if text.count("\n") >= line - 1 else "")


MAX_BLANK_LINES = 100
MAX_BLANKS = 400
_BLANKS = re.compile(rf"(?:^|(?<=\S))[^\S\n]{{{MAX_BLANKS},}}(?=[^\s|])", re.MULTILINE)


def _padding(view: SkillView) -> Iterator[Hit]:
    """Blank lines that push text out of sight, and blanks that push it off the side of the screen."""
    for file in view.files:
        if file.role not in ("instructions", "markdown", "script"):
            continue
        blank = 0
        lines = file.text.split("\n")
        for number, line in enumerate(lines, 1):
            if not line or line.isspace():
                blank += 1
                continue
            if blank >= MAX_BLANK_LINES:
                yield Hit(file.path, number, line, f"Text stands behind {blank:,} blank lines, where nobody looks.")
            blank = 0
        if len(max(lines, key=len)) < MAX_BLANKS:
            continue
        for found in _BLANKS.finditer(file.text):
            number = file.text.count("\n", 0, found.end()) + 1
            line = file.text[found.end() : found.end() + 200].partition("\n")[0]
            yield Hit(file.path, number, line, f"Text stands behind {len(found[0]):,} blanks, where nobody looks.")
            break


RULES: tuple[ScanRule, ...] = (
    AUTORUN,
    ScanRule(
        id="OPAQUE_FILE",
        ast="AST08",
        category=_EVASION,
        severity="info",
        message="A file is not text: nothing in it was scanned.",
        hint="Look at it with the program that it is for, or ask for a version as text.",
        check=_opaque,
    ),
    ScanRule(
        id="LEFT_OUT",
        ast="AST08",
        category=_EVASION,
        severity="info",
        message="Files in the folder are no part of the skill and were not scanned.",
        hint="Remove them: this runtime never uses them, but other programs may.",
        check=_left_out,
    ),
    ScanRule(
        id="BUNDLED_PROGRAM",
        ast="AST02",
        category=_DELIVERY,
        severity="medium",
        message="The skill brings a program that nobody can read.",
        hint="Ask for its source, or get the program from its vendor.",
        check=_programs,
    ),
    ScanRule(
        id="ENCRYPTED_ARCHIVE",
        ast="AST01",
        category=_EVASION,
        severity="high",
        message="The skill brings an archive with a password, which hides its content from every scanner.",
        hint="Do not open it. Ask for the files themselves.",
        check=_encrypted,
    ),
    ScanRule(
        id="STOWAWAY",
        ast="AST01",
        category=_EVASION,
        severity="high",
        message="Data is hidden behind the end of a file.",
        hint="Do not use the skill before you know what the data is for.",
        check=_stowaways,
    ),
    ScanRule(
        id="DISGUISED_FILE",
        ast="AST04",
        category=_EVASION,
        severity="high",
        message="A file is not what its name says.",
        hint="Do not use the skill before you know why.",
        check=_disguises,
    ),
    ScanRule(
        id="NESTED_SKILL",
        ast="AST04",
        category="instruction_goal_memory_manipulation",
        severity="low",
        message="There is a skill inside the skill; it needs an approval of its own.",
        hint="Install it as a skill of its own, or rename its SKILL.md.",
        check=_nested,
    ),
    ScanRule(
        id="SECOND_INSTRUCTIONS",
        ast="AST04",
        category=_EVASION,
        severity="medium",
        message="Two files differ only in the case of SKILL.md; which one counts depends on the machine.",
        hint="Keep one.",
        check=_second_instructions,
    ),
    ScanRule(
        id="DECEPTIVE_FILE_NAME",
        ast="AST04",
        category=_EVASION,
        severity="medium",
        message="The name of a file makes it look like another kind of file.",
        hint="Rename it to what it is.",
        check=_names,
    ),
    ScanRule(
        id="CONTROL_CHARACTERS",
        ast="AST04",
        category=_EVASION,
        severity="low",
        message="There are control characters in the text; they can hide text from a reader.",
        hint="Remove them.",
        check=_control,
    ),
    ScanRule(
        id="PADDED_FILE",
        ast="AST04",
        category=_EVASION,
        severity="medium",
        message="Text stands behind so many blanks that nobody sees it.",
        hint="Read what stands there, and remove the blanks.",
        check=_padding,
    ),
)
"""The structural rules."""
