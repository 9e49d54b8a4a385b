"""The repairs: a fixed list of mistakes that authors make in YAML, each undone in the one entry that has it.

They run only after a real error, one entry at a time, and the block is parsed again after each. When no repair helps,
the top-level fields are read entry by entry, so that one bad line costs one field and not the skill.
"""

from __future__ import annotations

import re
from typing import Any

from metier.skill._fast import MAX_BLOCK_BYTES, Reading, read_fast
from metier.skill.block import BlockError, BlockTooComplex, duplicate_note, parse_yaml, reading_of
from metier.skill.diagnostic import Diagnostic
from metier.skill.restrictions import combined, restricted_field
from metier.skill.text import drop_control

_ENTRY = re.compile(
    r"(?P<lead>[ ]*(?:- +)*)"
    r"(?P<key>[\w.$@/-][^:#\n\"']{0,120}?|\"[^\"\n]*\"|'[^'\n]*')"
    r"[ ]*:(?P<gap>[ ]+|$)(?P<value>.*)"
)
_ITEM = re.compile(r"(?P<lead>[ ]*- +)(?P<value>.*)")
_TOP_KEY = re.compile(r"(?:[A-Za-z_][\w. -]{0,60}|\"[^\"\n]{1,60}\"|'[^'\n]{1,60}')[ ]*:(?=[ \t]|$)")
_TAB_INDENT = re.compile(r"^[ ]*\t[ \t]*", re.MULTILINE)
_MAX_ROUNDS = 24
_MOST_PARSED = 192 * 1024
_LONGEST_LINE = 4_096
_MOST_BY_YAML = 200  # a block with more fields than this is an attack, and raw text will do


def repair_block(block: str, first_line: int, error: BlockError) -> Reading:
    """Read a block that YAML refused, mending what can be mended."""
    notes: list[Diagnostic] = []
    if isinstance(error, BlockTooComplex):
        return _line_by_line(block, first_line, error, notes)
    clean, found = drop_control(block.replace("\x85", " ").replace("\u2028", " ").replace("\u2029", " "))
    notes.extend(Diagnostic(note.code, (note.line or 1) + first_line - 1, note.values) for note in found)
    if tab := _TAB_INDENT.search(clean):
        notes.append(Diagnostic("yaml-tab", clean.count("\n", 0, tab.start()) + first_line))
        clean = _TAB_INDENT.sub(lambda tab: tab[0].replace("\t", "  "), clean)
    lines = clean.split("\n")
    before = list(notes)
    mended: set[int] = set()
    # Every round parses the whole block, so a large one gets few.
    for _ in range(max(2, min(_MAX_ROUNDS, _MOST_PARSED // (len(clean) + 1)))):
        try:
            reading = _read("\n".join(lines), first_line)
        except BlockTooComplex as complex_error:
            return _line_by_line(clean, first_line, complex_error, notes)
        except BlockError as next_error:
            error = next_error
        else:
            return Reading(reading.mapping, reading.lines, (*notes, *reading.notes))
        note = _mend(lines, error, mended)
        if note is None:
            break
        notes.append(Diagnostic(note.code, (note.line or 0) + first_line, note.values))
    return _line_by_line(clean, first_line, error, before)


def _read(block: str, first_line: int) -> Reading:
    return read_fast(block, first_line) or reading_of(parse_yaml(block), first_line)


def _mend(lines: list[str], error: BlockError, mended: set[int]) -> Diagnostic | None:
    """Quote the value of the entry in which YAML stopped, or of the one in which it began to go wrong."""
    places = [error.line] if error.context_line is None else [error.line, error.context_line]
    for place in places:
        start = _entry_start(lines, min(place, len(lines) - 1))
        if start is None or start in mended:
            continue
        entry = _entry(lines[start])
        if entry is None:
            continue
        mended.add(start)
        note = _quote(lines, start, entry)
        if note is not None:
            return note
    return None


def _entry_start(lines: list[str], place: int) -> int | None:
    """The line of the entry that a line belongs to: a deeper line below a value only continues that value."""
    start = None
    indent = len(lines[place])
    for i in range(place, -1, -1):
        if not lines[i].strip():
            continue
        entry = _entry(lines[i])
        at = len(lines[i]) - len(lines[i].lstrip(" "))
        if entry is not None and (start is None or (at < indent and entry["value"].strip())):
            start = i
        indent = min(indent, at)
        if indent == 0 and start is not None:
            break
    return start


def _entry(line: str) -> re.Match[str] | None:
    """A line as `key: value` or `- value`; a very long one is not worth the search."""
    return None if len(line) > _LONGEST_LINE else _ENTRY.fullmatch(line) or _ITEM.fullmatch(line)


def _quote(lines: list[str], start: int, entry: re.Match[str]) -> Diagnostic | None:
    """Put a value and its continuation lines in single quotes; says what was wrong with it."""
    value = entry["value"].strip()
    groups = entry.groupdict()
    key = (groups.get("key") or "item").strip()
    if not value or re.fullmatch(r"[|>][-+0-9]*", value):
        return None
    end = start + 1
    lead = len(entry["lead"]) if "key" in groups else len(entry["lead"].rstrip(" -"))
    while end < len(lines) and _continues(lines[end], lead):
        end += 1
    last = end - 1
    while last > start and not lines[last].strip():
        last -= 1
    first = value[0]
    code: str
    values: tuple[str, ...] = (key,)
    whole = "\n".join([value, *lines[start + 1 : last + 1]])
    if first in "\"'":
        code = "yaml-broken-quotes"
        whole = _unquoted(whole)
    elif first in "[{":
        code = "yaml-invalid-flow"
    elif first in "@`%*&!,|>-?:#]}":
        code, values = "yaml-reserved-start", (key, first)
    else:
        code = "yaml-unquoted-colon"
    quoted = "'" + whole.replace("'", "''") + "'"
    lines[start : last + 1] = (lines[start][: entry.start("value")].rstrip(" ") + " " + quoted).split("\n")
    return Diagnostic(code, start, values)


def _continues(line: str, indent: int) -> bool:
    text = line.lstrip(" ")
    return not text or len(line) - len(text) > indent


def _unquoted(text: str) -> str:
    """Raw text between mismatched quotes: the opening one goes, and the closing one when it stands at the end."""
    mark = text[0]
    text = text[1:]
    if text.endswith(mark):
        text = text[:-1]
    return text.replace('\\"', '"') if mark == '"' else text.replace("''", "'")


def _line_by_line(block: str, first_line: int, error: BlockError, notes: list[Diagnostic]) -> Reading:
    """The last resort: each top-level entry on its own, by YAML where it can be read and as raw text where not."""
    if len(block.encode()) > MAX_BLOCK_BYTES:
        notes = [
            *notes,
            Diagnostic("frontmatter-too-large", first_line, (f"{len(block.encode()):,}", f"{MAX_BLOCK_BYTES:,}")),
        ]
        block = block.encode()[:MAX_BLOCK_BYTES].decode(errors="ignore")
    else:
        code = "yaml-too-complex" if isinstance(error, BlockTooComplex) else "yaml-unreadable"
        notes = [*notes, Diagnostic(code, error.line + first_line, (error.problem,))]
    mapping: dict[str, Any] = {}
    at: dict[str, int] = {}
    lines = block.split("\n")
    i = 0
    while i < len(lines):
        match = _TOP_KEY.match(lines[i])
        if match is None:
            i += 1
            continue
        end = i + 1
        while end < len(lines) and not _TOP_KEY.match(lines[end]):
            end += 1
        key = match[0].rstrip(" :").strip("\"'")
        before = mapping.pop(key, None)
        # Text that goes on at the margin belongs to a description; a name never goes on there.
        own = [line for number, line in enumerate(lines[i:end]) if not number or key != "name" or line[:1] == " "]
        mapping[key] = _entry_value(key, own, match.end(), by_yaml=len(mapping) < _MOST_BY_YAML)
        if before is not None:
            notes.append(duplicate_note(key, i + first_line))
            if (restricted := restricted_field(key)) is not None:
                mapping[key] = combined(restricted, before, mapping[key])
        at[key] = i + first_line
        i = end
    return Reading(mapping, [at[key] for key in mapping], tuple(notes))


def _entry_value(key: str, lines: list[str], start: int, *, by_yaml: bool) -> Any:
    if by_yaml:
        try:
            reading = _read("\n".join(lines) + "\n", 1)
        except BlockError:
            pass
        else:
            if list(reading.mapping) == [key]:
                return reading.mapping[key]
    head = lines[0][start:].strip()
    rest = [line.strip() for line in lines[1:] if line.strip() and not line.startswith("#")]
    if re.fullmatch(r"[|>][-+0-9]*", head):
        return "\n".join(line.strip() for line in lines[1:]).strip() if head[0] == "|" else " ".join(rest)
    if not head and rest and all(line.startswith("- ") for line in rest):
        return [line[2:].strip().strip("\"'") for line in rest]
    text = " ".join([head, *rest]).strip()
    return _unquoted(text) if text[:1] in ("'", '"') and len(text) > 1 else text
