"""A file taken apart into statements."""

# ruff: noqa: RUF001  (sentences end with other marks, too)

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from metier._regex_cache import kept_regex
from metier.scan.data_lines import LEAST_LENGTH, is_lock, sentences_in, without_entries
from metier.scan.deobfuscation import revealed
from metier.scan.lookalikes import cleaned
from metier.scan.stance import Page, warns
from metier.scan.statement import JoinedLines, Statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from metier.scan.statement import Cut, StatementKind
    from metier.scan.view import ViewFile

_SPOKEN_NAME = 7
"""Words of a path from which on it is read as a sentence."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_MAX_LENGTH = 4_000
_OVERLAP = 400
"""How long a statement gets; a longer one is looked at in pieces that overlap."""
_MAX_JOINED = 4_000
"""Characters of a sentence or a command that goes on over several lines; a longer one is looked at in pieces."""

_INLINE_TAG = kept_regex(
    r"</?(?:b|i|em|strong|span|u|font|wbr|sub|sup|mark|small|code|s|ins)(?:\s[^<>]{0,200})?/?>", re.I
)
# Each begins with the mark itself, which is found much faster than a place behind a letter.
_STAR_IN_WORD = kept_regex(r"\*(?<=\w\*)\*{0,2}(?=\w)|~~(?<=\w~~)(?=\w)")
_HEADING = kept_regex(r"[ \t]{0,3}(#{1,6})[ \t]+(.*)")
_BOLD_ENDS = ("**", "**:")
_BOLD_HEADING = kept_regex(r"[ \t]{0,3}(?:>[ \t]?)?\*\*([^*\n]{2,80})\*\*:?[ \t]*$")
_ITEM = kept_regex(r"[ \t>]*(?:[-*+•]|\d{1,3}[.)、]|[a-z][.)])[ \t]+")
_ITEM_STARTS = frozenset(" \t>-*+•0123456789abcdefghijklmnopqrstuvwxyz")
"""How an item of a list begins, whatever comes then."""
_STARTS = frozenset("|")
"""How a line begins that goes on with nothing before it, besides the items of lists."""
# One set of marks comes first, as such a place is found much faster than one of several things.
_SENTENCE_END = kept_regex(
    r"[.!?。！？；](?<![eE]\.g\.)(?<!i\.e\.)(?:(?<=[。！？；])|[\"')\]]{0,2}[ \t]+(?=[\"'(\[A-Z`*_]))"
)


def statements_of(
    file: ViewFile, security: bool, variables: Mapping[str, str] = _NOTHING, *, is_run: bool = False
) -> Iterator[Statement]:
    """The statements of a file, in order.

    `security` says whether the skill is about it, `variables` what files have set that a script reads, `is_run`
    whether the instructions have the file run.
    """
    page = Page(file, security, is_run=is_run)
    if len(name := re.split(r"[-_/. ]+", file.path)) >= _SPOKEN_NAME:
        yield Statement(page, 1, " ".join(name), "prose")
    if file.role in ("instructions", "markdown"):
        yield from _Reader(page).statements(file)
        return
    whole = without_entries(file.text) if is_lock(file.path) else file.text
    for line, text, veiled, cut in _commands(cleaned(whole), 1, variables):
        yield Statement(page, line, text, "code", language=file.language, script=True, veiled=veiled, cut=cut)
        for sentence in sentences_in(text, script=file.role == "script"):
            yield Statement(page, line, sentence, "prose", listed=True)


class _Reader:
    """One pass through a page: below which headings one is, and after what."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._found: list[Statement] = []
        self._headings: list[tuple[int, str]] = []
        self._below = ""
        self._lead = ""
        self._is_block = False
        """Whether the paragraph stands in a quotation of a block."""

    def statements(self, file: ViewFile) -> list[Statement]:
        page, add = self._page, self._found.append
        for part, text in zip(file.parts, _cleaned([part.text for part in file.parts]), strict=True):
            if part.kind == "frontmatter":
                for number, line in enumerate(text.split("\n"), part.line):
                    for _, sentence in _sentences(line, strip=False) if line.strip() else ():
                        add(Statement(page, number, sentence, "frontmatter"))
            elif part.kind == "comment":
                lines = [(number, " ".join(line.split())) for number, line in enumerate(text.split("\n"), part.line)]
                whole = JoinedLines([line for line in lines if line[1]], hyphens=True)
                for start, piece in _cut(whole.text):
                    add(Statement(page, part.line, piece, "comment", cut=whole.cut(start, piece)))
            elif part.kind == "code":
                around = self._below, self._lead, part.language
                for at, command, veiled, cut in _commands(text, part.line):
                    add(Statement(page, at, command, "code", *around, veiled=veiled, cut=cut))
            else:
                self._prose(text, part.line)
        return self._found

    def _prose(self, text: str, first: int) -> None:
        if "<" in text:
            text = _INLINE_TAG.sub(lambda tag: "\n" * tag[0].count("\n"), text)
        if "*" in text or "~~" in text:
            text = _STAR_IN_WORD.sub("", text)
        begun: list[tuple[int, str]] = []
        length = 0
        for number, line in enumerate(text.split("\n"), first):
            plain = line.strip(" \t>")
            start, title, depth = plain[:1], "", 0
            if start == "#" and (head := _HEADING.match(line)) is not None:
                title, depth = head[2], len(head[1])
            elif start == "*" and plain.endswith(_BOLD_ENDS) and (bold := _BOLD_HEADING.match(line)) is not None:
                title, depth = bold[1], 7
            if begun and (
                not plain or depth or length > _MAX_JOINED or start in _STARTS
                or (start in _ITEM_STARTS and _ITEM.match(line))
            ):  # fmt: skip
                self._paragraph(begun)
                begun, length = [], 0
            if depth:
                self._enter(title, depth)
                self._paragraph([(number, title)], is_heading=True)
            elif plain:
                length += len(line)
                if not begun:
                    self._is_block = line.lstrip()[:1] == ">"
                begun.append((number, plain))
        if begun:
            self._paragraph(begun)

    def _enter(self, title: str, depth: int) -> None:
        """Go on below a heading."""
        while self._headings and self._headings[-1][0] >= depth:
            self._headings.pop()
        # The title of a page of reference counts where it says that attacks are what the page is about.
        if depth > 1 or (
            self._page.role == "markdown" and self._page.about_security and warns(title.lower(), "", False)
        ):
            self._headings.append((depth, title.lower()[:200]))
        self._below = " / ".join(one for _, one in self._headings)

    def _paragraph(self, lines: Sequence[tuple[int, str]], *, is_heading: bool = False) -> None:
        """The sentences of a paragraph, an item of a list, a row of a table or a heading."""
        page, around, add, whole = self._page, (self._below, self._lead), self._found.append, None
        line, first = lines[0]
        if len(lines) > 1:
            whole = JoinedLines([(at, _without_marks(text)) for at, text in lines], hyphens=True)
            text = whole.text
        else:
            text = _without_marks(first)
        is_row = text[:1] == "|"
        is_item = text[:1] in _ITEM_STARTS and _ITEM.match(text) is not None
        kind: StatementKind = "row" if is_row else "prose"
        quoted = not is_heading and (self._is_block or _is_quoted(first, lines[-1][1]))
        for start, piece in _cut(text) if is_row else _sentences(text):
            cut = whole.cut(start, piece) if whole is not None else None
            add(Statement(page, line, piece, kind, *around, listed=is_item or is_row, quoted=quoted, cut=cut))
        for cell in text.split("|") if is_row and len(text) > LEAST_LENGTH else ():
            for sentence in sentences_in(f'"{cell.strip()}"', script=True):
                add(Statement(page, line, sentence, "prose", *around, listed=True))
        if (not is_item and not is_row) or is_heading:
            self._lead = text.lower()[-400:]


def _cleaned(texts: list[str]) -> list[str]:
    """Texts as a reader takes them, all at once, as each takes the same steps."""
    at_once = cleaned(_BETWEEN.join(texts)).split(_BETWEEN)
    return at_once if len(at_once) == len(texts) else [cleaned(text) for text in texts]


_BETWEEN = "\n\0\n"
"""What stands in no text of a file: see `decoding`."""


def _is_quoted(first: str, last: str) -> bool:
    """Whether a paragraph, or what an item of a list says, stands between quotes or backticks, by its lines."""
    if last.rstrip(".,; ")[-1:] not in _QUOTES:
        return False
    item = _ITEM.match(first)
    at = item.end() if item is not None else 0
    start = first[at : at + 1]
    return bool(start) and start in _QUOTES


_QUOTES = "\"'`“”‘’«»「」"


def _without_marks(text: str) -> str:
    """A line without the marks of emphasis and code."""
    if "*" in text or "_" in text:
        text = text.replace("**", "").replace("__", "")
    return text.replace("`", "") if "`" in text else text


def _sentences(text: str, *, strip: bool = True) -> list[tuple[int, str]]:
    """The sentences of a text, with `strip` without what is blank around them, and where they begin."""
    if len(text) <= _MAX_LENGTH and _SENTENCE_END.search(text) is None:
        plain = text.strip() if strip else text
        return [(text.index(plain), plain)] if plain else []
    at, found = 0, []
    ends = [(one.start() + 1, one.end()) for one in _SENTENCE_END.finditer(text)]
    for end, following in (*ends, (len(text), 0)):
        for start, piece in _cut(text[at:end]):
            if plain := piece.strip() if strip else piece:
                found.append((at + start + piece.index(plain), plain))
        at = following
    return found


def _commands(
    text: str, first: int, known: Mapping[str, str] = _NOTHING
) -> Iterator[tuple[int, str, bool, Cut | None]]:
    """The lines of a piece of code, with those that go on joined, and with what is hidden in them revealed."""
    begun: list[tuple[int, str]] = []
    length = 0
    variables = dict(known)
    for number, line in enumerate(text.split("\n"), first):
        goes_on = (line.endswith(_GOES_ON) or (begun and _is_folded(line, begun))) and length < _MAX_JOINED
        if begun and not goes_on and begun[0][1].endswith(_FOLDED):
            yield from _command(begun, variables)
            begun, length = [], 0
        if not goes_on and not begun and len(line) <= _MAX_LENGTH:
            if line.strip():
                yield number, *revealed(line, variables), None
            continue
        begun.append((number, line[:-1] if line.endswith(("\\", "`")) and goes_on else line))
        length += len(line)
        if not goes_on:
            yield from _command(begun, variables)
            begun, length = [], 0
    if begun:
        yield from _command(begun, variables)


def _is_folded(line: str, begun: Sequence[tuple[int, str]]) -> bool:
    """Whether a string of YAML goes on, which begins with `key: >-` and whose lines are further in."""
    return begun[0][1].endswith(_FOLDED) and _indent(line) > _indent(begun[0][1])


_FOLDED = (": >", ": >-", ": >+", "- >", "- >-")
_GOES_ON = ("\\", "`", "|", "&&", *_FOLDED)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _command(lines: list[tuple[int, str]], variables: dict[str, str]) -> Iterator[tuple[int, str, bool, Cut | None]]:
    whole = JoinedLines(lines)
    for start, piece in _cut(whole.text):
        if piece.strip():
            plain, veiled = revealed(piece, variables)
            # Where something was revealed, places in it are others than in the file.
            yield lines[0][0], plain, veiled, whole.cut(start, piece) if plain == piece else None


def _cut(text: str) -> list[tuple[int, str]]:
    """A text in pieces that overlap, so that nothing takes longer because a line has no end; and where they begin."""
    if len(text) <= _MAX_LENGTH:
        return [(0, text)]
    starts = range(0, len(text) - _OVERLAP, _MAX_LENGTH - _OVERLAP)
    return [(start, text[start : start + _MAX_LENGTH]) for start in starts]
