"""A file taken apart into statements."""

# ruff: noqa: RUF001  (sentences end with other marks, too)

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field
from metier.scan.rules._locks import is_lock, without_entries
from metier.scan.rules._looks import cleaned
from metier.scan.rules._mercy import hints, hints_in_code, in_quotes, lists_signs, warns
from metier.scan.rules._revealing import revealed
from metier.scan.rules._statements import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.scan.rules._statements import StatementKind
    from metier.scan.view import ViewFile

_MAX_LENGTH = 4_000
_OVERLAP = 400
"""How long a statement gets; a longer one is looked at in pieces that overlap."""
_MAX_JOINED = 4_000
"""Characters of a sentence or a command that goes on over several lines; a longer one is looked at in pieces."""

_INLINE_TAG = re.compile(
    r"</?(?:b|i|em|strong|span|u|font|wbr|sub|sup|mark|small|code|s|ins)(?:\s[^<>]{0,200})?/?>", re.I
)
# Each begins with the mark itself, which is found much faster than a place behind a letter.
_STAR_IN_WORD = re.compile(r"\*(?<=\w\*)\*{0,2}(?=\w)|~~(?<=\w~~)(?=\w)")
_HEADING = re.compile(r"[ \t]{0,3}(#{1,6})[ \t]+(.*)")
_BOLD_HEADING = re.compile(r"[ \t]{0,3}(?:>[ \t]?)?\*\*([^*\n]{2,80})\*\*:?[ \t]*$")
_ITEM = re.compile(r"[ \t>]*(?:[-*+•]|\d{1,3}[.)、]|[a-z][.)])[ \t]+")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]{0,2}[ \t]+(?=[\"'(\[A-Z`*_])|[。！？；]")
_RUNS = re.compile(r"os\.system|subprocess|child_process|\beval\(|\bexec\(")


def statements_of(file: ViewFile, security: bool) -> Iterator[Statement]:
    """The statements of a file, in order; `security` says whether the skill is about it."""
    if file.role in ("instructions", "markdown"):
        yield from _page(file, security)
        return
    inert = security and lists_signs(file, security) and not _RUNS.search(file.text)
    whole = without_entries(file.text) if is_lock(file.path) else file.text
    for line, text, veiled, breaks in _commands(cleaned(whole), 1):
        low = text.lower()
        warned = inert and in_quotes(text)
        yield Statement(
            file.path, line, text, low, "code", "", "", file.language,
            script=True, warned=warned, veiled=veiled, breaks=breaks,
        )  # fmt: skip


def _page(file: ViewFile, security: bool) -> Iterator[Statement]:
    headings: list[tuple[int, str]] = []
    context = _Context(file.path, headings, "", security, lists_signs(file, security))
    for part in file.parts:
        text = cleaned(part.text)
        if part.kind == "frontmatter":
            yield from _front(file.path, text, part.line)
        elif part.kind == "comment":
            lines = [(number, " ".join(line.split())) for number, line in enumerate(text.split("\n"), part.line)]
            whole = _Joined([line for line in lines if line[1]])
            for start, piece in _cut(whole.text):
                low = piece.lower()
                yield Statement(file.path, part.line, piece, low, "comment", "", "", breaks=whole.breaks(start, piece))
        elif part.kind == "code":
            heading = " / ".join(title for _, title in headings)
            around = context.warns(heading, context.lead, code=True)
            for line, command, veiled, breaks in _commands(text, part.line):
                low = command.lower()
                yield Statement(
                    file.path, line, command, low, "code", heading, context.lead, part.language,
                    veiled=veiled, warned=context.lists_signs and (around or hints_in_code(low)), bad_company=around,
                    breaks=breaks,
                )  # fmt: skip
        else:
            yield from _prose(context, text, part.line)


def _front(path: str, text: str, first: int) -> Iterator[Statement]:
    for number, line in enumerate(text.split("\n"), first):
        if line.strip():
            for sentence in (short for start, end in _spans(line) for _, short in _cut(line[start:end])):
                yield Statement(path, number, sentence, sentence.lower(), "frontmatter", "", "")


def _prose(context: _Context, text: str, first: int) -> Iterator[Statement]:
    if "*" in text or "<" in text or "~~" in text:
        text = _STAR_IN_WORD.sub("", _INLINE_TAG.sub(lambda tag: "\n" * tag[0].count("\n"), text))
    begun: list[tuple[int, str]] = []
    length = 0
    fresh = True
    headings = context.headings
    for number, line in enumerate(text.split("\n"), first):
        plain = line.strip()
        head = _HEADING.match(line) if "#" in line else None
        title = head[2] if head else ""
        if head is None and "**" in line and (bold := _BOLD_HEADING.match(line)) is not None:
            title = bold[1]
        starts_new = not plain or head is not None or title or fresh or plain.startswith("|") or _ITEM.match(line)
        if begun and (starts_new or length > _MAX_JOINED):
            yield from context.sentences(begun)
            begun, length = [], 0
        fresh = False
        if head is not None or title:
            depth = len(head[1]) if head else 7
            while headings and headings[-1][0] >= depth:
                headings.pop()
            if depth > 1:
                headings.append((depth, title.lower()[:200]))
            yield from context.sentences([(number, title)], heading=True)
            continue
        if not plain:
            continue
        length += len(line)
        begun.append((number, line.strip(" \t>")))
    if begun:
        yield from context.sentences(begun)


class _Joined:
    """Lines that are read as one, and where each of them went."""

    def __init__(self, lines: Sequence[tuple[int, str]]) -> None:
        self.text = " ".join(line for _, line in lines)
        self._starts: list[int] = []
        self._lines: list[int] = []
        at = 0
        for number, line in lines:
            self._starts.append(at)
            self._lines.append(number)
            at += len(line) + 1

    def breaks(self, start: int, piece: str) -> tuple[tuple[int, int], ...]:
        """Where lines begin within a piece of the text; none when it is all on the first line."""
        first = max(0, bisect_right(self._starts, start) - 1)
        last = bisect_left(self._starts, start + len(piece))
        if last <= 1:
            return ()
        return tuple((max(0, self._starts[one] - start), self._lines[one]) for one in range(first, last))


@dataclass
class _Context:
    """Where in a page one is: below which headings, and after what."""

    path: str
    headings: list[tuple[int, str]]
    lead: str
    security: bool
    lists_signs: bool
    _asked: dict[tuple[str, str, bool], bool] = field(default_factory=dict)

    def warns(self, heading: str, lead: str, *, code: bool = False) -> bool:
        """Whether what stands here is shown as something to look out for."""
        key = heading, lead, code
        if key not in self._asked:
            self._asked[key] = warns(heading, lead, self.security, code=code)
        return self._asked[key]

    def sentences(self, lines: Sequence[tuple[int, str]], *, heading: bool = False) -> Iterator[Statement]:
        """The sentences of a paragraph, an item of a list, a row of a table or a heading."""
        plain = [(at, text.replace("**", "").replace("__", "").replace("`", "")) for at, text in lines]
        whole = _Joined(plain) if len(plain) > 1 else None
        line, text = lines[0][0], whole.text if whole is not None else plain[0][1]
        is_row = text.startswith("|")
        item = _ITEM.match(text)
        name = " / ".join(title for _, title in self.headings)
        around = self.warns(name, self.lead if item or is_row else "") or (is_row and self.security)
        kind: StatementKind = "row" if is_row else "prose"
        for start, piece in _cut(text) if is_row else _sentences(text):
            low = piece.lower()
            yield Statement(
                self.path, line, piece, low, kind, name, self.lead,
                warned=self.lists_signs and (around or hints(low)), bad_company=around,
                breaks=whole.breaks(start, piece) if whole is not None else (),
            )  # fmt: skip
        if (not item and not is_row) or heading:
            self.lead = text.lower()[-400:]


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """The sentences of a text without what is blank around them, and where they begin."""
    for at, end in _spans(text):
        for start, piece in _cut(text[at:end]):
            plain = piece.lstrip()
            if plain:
                yield at + start + len(piece) - len(plain), plain.rstrip()


def _spans(text: str) -> list[tuple[int, int]]:
    """Where sentences begin, and where their last mark ends."""
    spans = []
    at = 0
    for found in _SENTENCE_END.finditer(text):
        spans.append((at, found.start() + 1))
        at = found.end()
    spans.append((at, len(text)))
    return spans


def _commands(text: str, first: int) -> Iterator[tuple[int, str, bool, tuple[tuple[int, int], ...]]]:
    """The lines of a piece of code, with those that go on joined, and with what is hidden in them revealed."""
    begun: list[tuple[int, str]] = []
    length = 0
    variables: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), first):
        goes_on = line.endswith(("\\", "`", "|", "&&")) and length < _MAX_JOINED
        if not goes_on and not begun and len(line) <= _MAX_LENGTH:
            if line.strip():
                yield number, *revealed(line, variables), ()
            continue
        begun.append((number, line[:-1] if line.endswith(("\\", "`")) and goes_on else line))
        length += len(line)
        if not goes_on:
            yield from _command(begun, variables)
            begun, length = [], 0
    if begun:
        yield from _command(begun, variables)


def _command(
    lines: list[tuple[int, str]], variables: dict[str, str]
) -> Iterator[tuple[int, str, bool, tuple[tuple[int, int], ...]]]:
    whole = _Joined(lines)
    for start, piece in _cut(whole.text):
        if piece.strip():
            plain, veiled = revealed(piece, variables)
            # Where something was revealed, places in it are others than in the file.
            yield lines[0][0], plain, veiled, whole.breaks(start, piece) if plain == piece else ()


def _cut(text: str) -> Iterator[tuple[int, str]]:
    """A text in pieces that overlap, so that nothing takes longer because a line has no end; and where they begin."""
    if len(text) <= _MAX_LENGTH:
        yield 0, text
        return
    for start in range(0, len(text) - _OVERLAP, _MAX_LENGTH - _OVERLAP):
        yield start, text[start : start + _MAX_LENGTH]
