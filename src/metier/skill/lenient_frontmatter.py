"""The frontmatter that authors really write: fenced in code, preceded by text, closed badly or never, or not opened."""

from __future__ import annotations

import re

from metier.skill.diagnostic import Diagnostic
from metier.skill.frontmatter import Split


def split_at_first_heading(text: str) -> Split | None:
    """The other reading of a block whose YAML is broken: never closed, and the `---` found is a rule in the body."""
    lines = text.split("\n")
    start = _first_filled(lines, 0)
    if start is None or not _RULE.fullmatch(lines[start]):
        return None
    end = _end_of_unclosed(lines, start + 1)
    closer = _closer(lines, start + 1)
    if closer is None or end >= closer or not _has_identity(lines[start + 1 : end]):
        return None
    return _cut(lines, start + 1, end, end, (Diagnostic("frontmatter-unclosed", end + 1),))


_RULE = re.compile(r"-{3,}[ \t]*")
_CLOSER = re.compile(r"(?:---|\.\.\.)[ \t]*")
_LOOSE_CLOSER = re.compile(r"[ \t]*(?:-{3,}|[\u2013\u2014]+|\.{3})[ \t]*")
_FENCE = re.compile(r"(`{3,}|~{3,})[ \t]*[\w-]*[ \t]*")
_KEY_LINE = re.compile(r"[A-Za-z_][\w.-]*[ \t]*:(?:[ \t]|$)")
_IDENTITY = re.compile(r"(?:name|description)[ \t]*:", re.IGNORECASE)
_KNOWN_TOP = re.compile(
    r"(?:name|description|title|version|license|author|tags|metadata|allowed-tools)[ \t]*:[ \t]*\S", re.IGNORECASE
)
_INVISIBLE = " \t\ufeff\u200b\u200c\u200d\u2060\xa0\x0c"
_PREFACE_LINES = 30


def split_oddly(lines: list[str]) -> Split:
    """Cut a file whose frontmatter is missing, or not fenced as it should be."""
    first = _first_filled(lines, 0)
    if first is None:
        return Split(None, 1, "\n".join(lines), 1, ())
    notes: tuple[Diagnostic, ...] = ()
    if first > 0 or lines[first] != lines[first].lstrip(_INVISIBLE):
        notes = (Diagnostic("frontmatter-leading-space", 1),)
    opener = lines[first].lstrip(_INVISIBLE)
    if _RULE.fullmatch(opener):
        return _split_after(lines, first, notes + _delimiter_note(opener, first))
    if _FENCE.fullmatch(opener):
        inner = _first_filled(lines, first + 1)
        if inner is not None and _RULE.fullmatch(lines[inner]):
            return _unfence(_split_after(lines, inner, (Diagnostic("frontmatter-fenced", first + 1),)), opener[:3])
    preceded = _split_after_preface(lines, first)
    if preceded is not None:
        return preceded
    if _KNOWN_TOP.match(opener):
        return _split_without_opener(lines, first)
    return Split(None, 1, "\n".join(lines), 1, ())


def _split_after(lines: list[str], opener: int, notes: tuple[Diagnostic, ...]) -> Split:
    """Find the closing delimiter: a proper one, else something like one, else where the fields end."""
    start = opener + 1
    end = _closer(lines, start)
    if end is not None:
        after = end + 1
        if lines[end].startswith(".") and after < len(lines) and _RULE.fullmatch(lines[after]):
            after += 1
        return _cut(lines, start, end, after, notes + _delimiter_note(lines[end], end))
    loose = next((i for i in range(start, len(lines)) if _LOOSE_CLOSER.fullmatch(lines[i])), None)
    if loose is not None:
        note = Diagnostic("frontmatter-closer", loose + 1, (lines[loose].strip(),))
        return _cut(lines, start, loose, loose + 1, (*notes, note))
    end = _end_of_unclosed(lines, start)
    return _cut(lines, start, end, end, (*notes, Diagnostic("frontmatter-unclosed", min(end + 1, len(lines)))))


def _split_after_preface(lines: list[str], first: int) -> Split | None:
    """A comment or a few words before the block; only when the block names a skill, as a rule in prose does not."""
    for i in range(first + 1, min(len(lines), first + _PREFACE_LINES)):
        if not _RULE.fullmatch(lines[i]):
            continue
        end = _closer(lines, i + 1)
        if end is None or not _has_identity(lines[i + 1 : end]):
            return None
        cut = _cut(lines, i + 1, end, end + 1, (Diagnostic("frontmatter-preceded", first + 1),))
        preface = "\n".join(lines[first:i]).strip()
        if preface.startswith("<!--") and preface.endswith("-->"):
            return cut
        return cut._replace(body=f"{preface}\n\n{cut.body}", body_line=first + 1)
    return None


def _split_without_opener(lines: list[str], first: int) -> Split:
    end = first
    while end < len(lines) and (_KEY_LINE.match(lines[end]) or lines[end].startswith((" ", "\t", "- "))):
        end += 1
    after = end
    filled = _first_filled(lines, end)
    if filled is not None and _RULE.fullmatch(lines[filled]):
        after = filled + 1
    return _cut(lines, first, end, after, (Diagnostic("frontmatter-no-opener", first + 1),))


def _cut(lines: list[str], start: int, end: int, after: int, notes: tuple[Diagnostic, ...]) -> Split:
    block = "\n".join(lines[start:end])
    return Split(block + "\n" if block else "", start + 1, "\n".join(lines[after:]), after + 1, notes)


def _unfence(cut: Split, fence: str) -> Split:
    """Drop the fence's closing line: right after the block, or at the very end."""
    lines = cut.body.split("\n")
    first = _first_filled(lines, 0)
    if first is not None and lines[first].startswith(fence) and _FENCE.fullmatch(lines[first]):
        return cut._replace(body="\n".join(lines[first + 1 :]), body_line=cut.body_line + first + 1)
    filled = [i for i, line in enumerate(lines) if line.strip()]
    if filled and _FENCE.fullmatch(lines[filled[-1]]):
        return cut._replace(body="\n".join(lines[: filled[-1]]))
    return cut


def _closer(lines: list[str], start: int) -> int | None:
    return next((i for i in range(start, len(lines)) if _CLOSER.fullmatch(lines[i])), None)


def _end_of_unclosed(lines: list[str], start: int) -> int:
    """The line at which a block without a closer stops looking like fields."""
    blank_from = None
    for i in range(start, len(lines)):
        line = lines[i]
        if not line.strip(_INVISIBLE):
            blank_from = i if blank_from is None else blank_from
        elif not _looks_like_field(line) or (blank_from is not None and line.startswith("#")):
            return i if blank_from is None else blank_from
        else:
            blank_from = None
    return len(lines) if blank_from is None else blank_from


def _looks_like_field(line: str) -> bool:
    return bool(_KEY_LINE.match(line)) or line.startswith((" ", "\t", "- ", "#"))


def _has_identity(lines: list[str]) -> bool:
    return any(_IDENTITY.match(line) for line in lines)


def _first_filled(lines: list[str], start: int) -> int | None:
    return next((i for i in range(start, len(lines)) if lines[i].strip(_INVISIBLE)), None)


def _delimiter_note(line: str, index: int) -> tuple[Diagnostic, ...]:
    return () if line in ("---", "...") else (Diagnostic("frontmatter-delimiter", index + 1, (line,)),)
