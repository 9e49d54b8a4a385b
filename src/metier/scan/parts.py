"""Taking Markdown apart: frontmatter, prose, code in fences, and what a rendered page does not show.

Fences are found wherever a model would take them for one: indented, in lists and quotations, of backticks or tildes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from metier._regex_cache import kept_regex
from metier.scan.name_lists import entries
from metier.scan.view import Part
from metier.skill.frontmatter import split

if TYPE_CHECKING:
    from collections.abc import Iterator

# One step for each character that may stand before a fence, so that no line is gone over twice.
_FENCE = kept_regex(
    r"^(?P<before>(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE
)
_MARK = kept_regex("```|~~~|<!--")
_UNSEEN = kept_regex(
    r"<(?!(?:input|img|br|hr|meta|link|source)\b)[a-z]{1,10}[^<>]{0,200}(?:display\s*:\s*none|visibility\s*:\s*hidden"
    r"|font-size\s*:\s*0|opacity\s*:\s*0(?![.\d]*[1-9])|color\s*:\s*(?:white|#fff(?:fff)?|transparent)\b|\bhidden\b"
    r"|position\s*:\s*absolute[^<>]{0,40}left\s*:\s*-\d{3,})[^<>]{0,200}>(?P<styled>[^<]{0,2000})"
    r"|^[ \t]{0,3}\[[^\]\n]{0,40}\]:[ \t]*(?:#|<>)[ \t]*[\"'(](?P<linked>[^\n]{10,2000})[\"')]",
    re.IGNORECASE | re.MULTILINE,
)
"""What a style hides, or a link that leads nowhere: a rendered page does not show it."""
_DELIMITER = kept_regex(r"[ \t]*(?:-{3,}|\.{3})[ \t]*(?:\n|$)")
_WORD = kept_regex(r"[\w+#.-]+")


def language_of(word: str) -> str:
    """One name for a language, whatever a fence, a suffix or a `#!` line calls it.

    >>> language_of("zsh"), language_of("PY"), language_of("made-up")
    ('shell', 'python', 'made-up')
    """
    word = word.lower()
    return _languages().get(word, word)


@cache
def _languages() -> dict[str, str]:
    return {word: words[0] for words in entries("languages") for word in words}


def parts_of(text: str) -> tuple[Part, ...]:
    """The parts of a Markdown text, in order.

    >>> [(part.kind, part.line) for part in parts_of("Do:\\n```sh\\nls\\n```\\n<!-- psst -->")]
    [('prose', 1), ('code', 3), ('comment', 5)]
    """
    cut = split(text) if "---" in text or ":" in text else None
    if cut is None or not cut.block:
        return tuple(_Body(text, 1).parts())
    start = 0
    for _ in range(cut.block_line - 1):
        start = text.find("\n", start) + 1
    after, line = start + len(cut.block), cut.block_line + cut.block.count("\n")
    closer = _DELIMITER.match(text, after)
    if closer is not None:
        after, line = closer.end(), line + 1
    before = _Body(text[:start].rstrip("-\n\t "), 1).parts()
    return (*before, Part("frontmatter", cut.block, cut.block_line), *_Body(text[after:], line).parts())


class _Body:
    """One pass through Markdown without its frontmatter, from mark to mark."""

    def __init__(self, text: str, line: int) -> None:
        self._text = text
        self._at = 0
        """Up to where the text has been taken."""
        self._line = line
        """The line that `_at` is on."""
        self._looked = 0
        """The end of the last line that was looked at for a fence."""
        self._prose: list[str] = []
        self._prose_line = line

    def parts(self) -> Iterator[Part]:
        text, opening, has_comments = self._text, None, True
        for mark in _MARK.finditer(text):
            if mark.start() < self._at:
                continue
            if mark[0] != "<!--":
                fence = self._fence_at(mark.start())
                if fence is None:
                    continue
                if opening is None and (fence["mark"][0] == "~" or "`" not in fence["info"]):
                    opening = fence
                    yield from self._prose_until(fence.start())
                    self._take(fence.end() + 1)
                elif opening is not None and fence["mark"].startswith(opening["mark"]) and not fence["info"].strip():
                    yield Part("code", text[self._at : fence.start()], self._line, _language_in(opening["info"]))
                    opening = None
                    self._take(fence.end() + 1)
            elif opening is None and has_comments and not self._is_quoted(mark.start()):
                self._take_prose(mark.start())
                end = text.find("-->", mark.end())
                inside = text[mark.end() : end if end >= 0 else len(text)]
                yield Part("comment", inside, self._line)
                # Where it ends nobody can tell if nothing ends it: the rest is read as if it had not begun, too.
                has_comments = end >= 0
                if has_comments:
                    self._prose.append("\n" * inside.count("\n"))
                    self._take(end + 3)
        if opening is not None:
            yield Part("code", text[self._at :], self._line, _language_in(opening["info"]))
        yield from self._prose_until(len(text))

    def _take(self, end: int) -> str:
        """The text up to an end, which is taken with that."""
        taken = self._text[self._at : end]
        self._line += taken.count("\n")
        self._at += len(taken)
        return taken

    def _take_prose(self, end: int) -> None:
        if not self._prose:
            self._prose_line = self._line
        self._prose.append(self._take(end))

    def _prose_until(self, end: int) -> Iterator[Part]:
        self._take_prose(end)
        prose, self._prose = "".join(self._prose), []
        if not prose or prose.isspace():
            return
        yield Part("prose", prose, self._prose_line)
        if "]:" in prose or "style" in prose or "hidden" in prose:
            line, at = self._prose_line, 0
            for found in _UNSEEN.finditer(prose):
                line, at = line + prose.count("\n", at, found.start()), found.start()
                yield Part("comment", found["styled"] or found["linked"] or "", line)

    def _fence_at(self, at: int) -> re.Match[str] | None:
        """The fence that the line of a mark is, if it is one and was not looked at before."""
        if at < self._looked:
            return None
        self._looked = self._text.find("\n", at) % (len(self._text) + 1)
        return _FENCE.match(self._text, max(self._at, self._text.rfind("\n", 0, at) + 1))

    def _is_quoted(self, at: int) -> bool:
        """Whether a comment's opening only stands in code: `` `<!--` ``."""
        start = self._text.rfind("\n", max(0, at - 1_000), at) + 1
        return self._text.count("`", max(start, at - 1_000), at) % 2 == 1


def _language_in(info: str) -> str:
    word = _WORD.search(info)
    return language_of(word[0].lstrip(".")) if word is not None else ""
