"""Taking Markdown apart: frontmatter, prose, code in fences and HTML comments, each with its line.

Fences are found wherever a model would take them for one: indented, in lists and quotations, of backticks or tildes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.view import Part
from metier.skill.frontmatter import split

if TYPE_CHECKING:
    from collections.abc import Iterator

# One step for each character that may stand before a fence, so that no line is gone over twice.
_FENCE = re.compile(
    r"^(?P<before>(?:[ \t>]|[-*+][ \t]|\d{1,9}[.)][ \t])*)(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE
)
_DELIMITER = re.compile(r"[ \t]*(?:-{3,}|\.{3})[ \t]*(?:\n|$)")
_WORD = re.compile(r"[\w+#.-]+")

_LANGUAGES = {
    word: language
    for language, words in {
        "shell": "sh bash zsh ksh fish dash shell console terminal shellsession shell-session shellscript",
        "batch": "bat cmd batch dos",
        "powershell": "powershell pwsh ps1 ps psm1 psd1",
        "python": "python python2 python3 py py3 pyw ipython pycon pyi",
        "javascript": "javascript js mjs cjs jsx node nodejs deno bun",
        "typescript": "typescript ts tsx mts cts",
        "ruby": "ruby rb",
        "perl": "perl pl pm",
        "php": "php",
        "lua": "lua",
        "applescript": "applescript osascript scpt",
        "go": "go golang",
        "rust": "rust rs",
        "json": "json json5 jsonc jsonl",
        "yaml": "yaml yml",
        "toml": "toml",
        "html": "html htm xhtml svg xml vue svelte",
        "markdown": "markdown md mdx",
    }.items()
    for word in words.split()
}


def language_of(word: str) -> str:
    """One name for a language, whatever a fence, a suffix or a `#!` line calls it.

    >>> language_of("zsh"), language_of("PY"), language_of("made-up")
    ('shell', 'python', 'made-up')
    """
    word = word.lower()
    return _LANGUAGES.get(word, word)


def parts_of(text: str) -> tuple[Part, ...]:
    """The parts of a Markdown text, in order.

    >>> [(part.kind, part.line) for part in parts_of("Do:\\n```sh\\nls\\n```\\n<!-- psst -->")]
    [('prose', 1), ('code', 3), ('comment', 5)]
    """
    cut = split(text) if "---" in text or ":" in text else None
    if cut is None or not cut.block:
        return tuple(_Body(text, 1).parts())
    start = _start_of_line(text, cut.block_line)
    after, line = start + len(cut.block), cut.block_line + cut.block.count("\n")
    closer = _DELIMITER.match(text, after)
    if closer is not None:
        after, line = closer.end(), line + 1
    before = text[:start].rstrip("-\n\t ")
    return (
        *_Body(before, 1).parts(),
        Part("frontmatter", cut.block, cut.block_line),
        *_Body(text[after:], line).parts(),
    )


def _start_of_line(text: str, line: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = text.find("\n", at) + 1
    return at


class _Body:
    """One pass through Markdown without its frontmatter; each search goes on from where the last one ended."""

    def __init__(self, text: str, line: int) -> None:
        self._text = text
        self._at = 0
        self._line = line
        """The line that `_at` is on."""
        self._prose: list[str] = []
        self._prose_line = line

    def parts(self) -> Iterator[Part]:
        text = self._text
        comment = text.find("<!--")
        fence = self._opening(0)
        while fence is not None or comment >= 0:
            if comment >= 0 and (fence is None or comment < fence.start()):
                end = text.find("-->", comment + 4)
                if self._is_quoted(comment):
                    comment = text.find("<!--", comment + 4)
                    continue
                self._take_prose(comment)
                inside = text[comment + 4 : end if end >= 0 else len(text)]
                yield Part("comment", inside, self._line)
                if end < 0:
                    # Where it ends nobody can tell: the rest is read as if it had not begun, too.
                    comment = -1
                    continue
                self._prose.append("\n" * inside.count("\n"))
                self._move(end + 3)
                comment = text.find("<!--", self._at)
                if fence is not None and fence.start() < self._at:
                    fence = self._opening(self._at)
            elif fence is not None:
                self._take_prose(fence.start())
                yield from self._flushed()
                self._move(min(fence.end() + 1, len(text)))
                close = self._closing(fence)
                end = close.start() if close is not None else len(text)
                yield Part("code", text[self._at : end], self._line, _language_in(fence["info"]))
                if close is None:
                    break
                self._move(min(close.end() + 1, len(text)))
                self._prose_line = self._line
                fence = self._opening(self._at)
                if 0 <= comment < self._at:
                    comment = text.find("<!--", self._at)
        self._take_prose(len(text))
        yield from self._flushed()

    def _move(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to

    def _take_prose(self, end: int) -> None:
        if not self._prose:
            self._prose_line = self._line
        self._prose.append(self._text[self._at : end])
        self._move(end)

    def _flushed(self) -> Iterator[Part]:
        prose = "".join(self._prose)
        self._prose = []
        if prose.strip():
            yield Part("prose", prose, self._prose_line)

    def _opening(self, at: int) -> re.Match[str] | None:
        while (found := _FENCE.search(self._text, at)) is not None:
            if found["mark"][0] == "~" or "`" not in found["info"]:
                return found
            at = found.end()
        return None

    def _closing(self, fence: re.Match[str]) -> re.Match[str] | None:
        mark = fence["mark"]
        for found in _FENCE.finditer(self._text, self._at):
            if found["mark"].startswith(mark) and not found["info"].strip():
                return found
        return None

    def _is_quoted(self, at: int) -> bool:
        """Whether a comment's opening only stands in code: `` `<!--` ``."""
        start = self._text.rfind("\n", max(0, at - 1_000), at) + 1
        return self._text.count("`", max(start, at - 1_000), at) % 2 == 1


def _language_in(info: str) -> str:
    word = _WORD.search(info)
    return language_of(word[0].lstrip(".")) if word is not None else ""
