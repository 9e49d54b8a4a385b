"""The phrase syntax of rules, and its translation into a regular expression.

A phrase is written as it would be said. Matching ignores case; an apostrophe or a hyphen may be missing.

| written | matches |
|---|---|
| `send the file` | these words, one after the other |
| `send*` | `send`, `sends`, `sending`: the word with another ending |
| `(send\\|post)` | one of several |
| `tell [the] user` | a word that may be missing |
| `the _ folder` | one word, whichever |
| `do not .. tell` | up to three words in between; `..5` up to five |
| `send ... server` | anything in between, up to 60 characters of the same sentence; `...120` up to 120 |
| `<secret>` | any term of the lexicon `secret` |
| `/[0-9a-f]{40}/` | a regular expression, in lower case; `/AKIA[0-9A-Z]{16}/c` with upper case as it stands |
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier._regex_cache import kept_regex

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LENGTH = 4_000
"""Characters that a phrase may have."""
_MAX_DEPTH = 8
_TOKEN = kept_regex(r"\.{3}\d{0,3}|\.{2}\d?|[()\[\]|*]|<[a-z][a-z0-9-]{0,40}>|\s+|\\.|[^()\[\]|*<\\\s.]+|.", re.DOTALL)
_BLANK = r"\s{1,4}"
_WORDS = r"(?:[\w'’-]{1,16}\s{1,4})"  # noqa: RUF001  (word processors write this apostrophe)
_WORD = r"[\w'’-]{1,20}"  # noqa: RUF001
_ENDING = r"\w{0,8}"
_NO_LETTER = "(?<![a-z0-9_])"


class PhraseError(ValueError):
    """A phrase that cannot be read; the message says why."""


def regex_of(phrase: str, lexicon: Callable[[str], str], *, is_outline: bool = False) -> str:
    """The regular expression of a phrase; `lexicon` returns the expression of a lexicon by its name.

    An outline has only what may take time: the gaps, and what may be missing.

    >>> re.search(regex_of("tell [the] user* ... secret", str), "never tell users the big secret").group()
    'tell users the big secret'
    >>> bool(re.search(regex_of("don't .. tell", str), "dont ever tell"))
    True
    """
    if len(phrase) > MAX_LENGTH:
        raise PhraseError(f"is longer than {MAX_LENGTH:,} characters")
    reader = _Reader(_TOKEN.findall(phrase.strip()), lexicon, is_outline)
    regex = reader.sequence(0, starts=True, ends=True)
    if reader.at < len(reader.tokens):
        raise PhraseError(f"has a `{reader.tokens[reader.at]}` that closes nothing")
    if not regex:
        raise PhraseError("is empty")
    return regex


class _Reader:
    """One pass over the tokens of a phrase."""

    def __init__(self, tokens: list[str], lexicon: Callable[[str], str], is_outline: bool) -> None:
        self.tokens = tokens
        self.at = 0
        self._lexicon = lexicon
        self._blank = " " if is_outline else _BLANK
        self._words = "x" if is_outline else _WORDS
        self._ending = "" if is_outline else _ENDING
        self._any_word = "x" if is_outline else _WORD
        self._letter: Callable[[str], str] = re.escape if is_outline else _letter

    def sequence(self, depth: int, *, starts: bool, ends: bool) -> str:
        """Elements up to a bracket that closes; `starts` and `ends` say whether a word must begin and end there."""
        if depth > _MAX_DEPTH:
            raise PhraseError("has too many brackets inside brackets")
        parts: list[str] = []
        edge = starts
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token in (")", "]") or (token == "|" and depth):
                break
            self.at += 1
            if token.isspace():
                parts.append(self._blank)
                continue
            if token == "(" or token == "[":
                is_edge = self._is_edge(ends, self._closing())
                is_ending = token == "[" and bool(parts) and not self.tokens[self.at - 2].isspace()
                parts.append(self._choice(token, depth, starts=edge, ends=is_edge and not is_ending))
                if is_ending and is_edge:
                    parts.append("(?![a-z0-9_])")  # with or without the ending, the word ends here
                elif token == "[" and not is_ending:
                    self._take_blank(parts)
                    continue  # what may be missing at the beginning leaves the next word the first
            elif token.startswith("..."):
                self._drop_blanks(parts)
                parts.append(rf"[^\n]{{0,{int(token[3:] or 60)}}}")
                edge = True
                continue
            elif token.startswith("..") and not token.startswith("..."):
                parts.append(f"{self._words}{{0,{int(token[2:] or 3)}}}")
                self._skip_blank()
                continue
            elif token[0] == "<" and token[-1] == ">":
                parts.append(f"(?:{self._lexicon(token[1:-1])})")
            elif token == "_":
                parts.append(self._any_word)
            elif token == "*":
                raise PhraseError("has a `*` that follows no word")
            elif token[0] == "\\" and token[1:].isalnum():
                raise PhraseError(f"has `{token}` among words: a regular expression stands alone, or in a lexicon")
            else:
                parts.append(self._word(token[-1] if token[0] == "\\" else token, edge, self._is_edge(ends)))
            if self._next() == "*":
                self.at += 1
                parts.append(self._ending)
            edge = False
        return "".join(parts)

    def _choice(self, opening: str, depth: int, *, starts: bool, ends: bool) -> str:
        closing = ")" if opening == "(" else "]"
        choices = [self.sequence(depth + 1, starts=starts, ends=ends)]
        while self._next() == "|":
            self.at += 1
            choices.append(self.sequence(depth + 1, starts=starts, ends=ends))
        if self._next() != closing:
            raise PhraseError(f"has a `{opening}` that nothing closes")
        self.at += 1
        if not all(choices):
            raise PhraseError("has an empty choice between brackets")
        return f"(?:{'|'.join(choices)})" + ("?" if opening == "[" else "")

    def _word(self, text: str, starts: bool, ends: bool) -> str:
        right = _boundary(text[-1], before=False) if ends else ""
        first, *rest = map(self._letter, text.lower())
        if starts:
            # A letter is found much faster than a place before one: what must not stand before it is asked then.
            left = _boundary(text[0], before=True)
            first = f"{first}(?<![a-z0-9_]{first})" if left == _NO_LETTER else left + first
        return first + "".join(rest) + right

    def _closing(self) -> int:
        """Where the token stands that follows the bracket which closes the one just read."""
        depth = 1
        for at in range(self.at, len(self.tokens)):
            depth += (self.tokens[at] in ("(", "[")) - (self.tokens[at] in (")", "]"))
            if depth == 0:
                return at + 1
        return len(self.tokens)

    def _is_edge(self, ends: bool, at: int | None = None) -> bool:
        """Whether what ends before a token ends a word: before a blank, a gap, or the end of the phrase."""
        at = self.at if at is None else at
        following = self.tokens[at] if at < len(self.tokens) else ""
        if following == "*":
            return False
        if following in ("", ")", "]", "|"):
            return ends
        return following.isspace() or following.startswith("..")

    def _next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take_blank(self, parts: list[str]) -> None:
        """Let the blank after a word that may be missing be missing with it."""
        if self._next().isspace():
            self.at += 1
            parts[-1] = f"(?:{parts[-1][:-1]}{self._blank})?"
        elif self._next() in ("", ")", "]", "|") and len(parts) > 1 and parts[-2] == self._blank:
            optional = parts.pop()
            parts[-1] = f"(?:{self._blank}{optional[:-1]})?"

    def _skip_blank(self) -> None:
        if self._next().isspace():
            self.at += 1

    def _drop_blanks(self, parts: list[str]) -> None:
        while parts and parts[-1] == self._blank:
            parts.pop()
        self._skip_blank()


def _boundary(letter: str, *, before: bool) -> str:
    """What stands at the edge of a word; scripts without blanks between words have none."""
    if letter.isascii():
        if not (letter.isalnum() or letter == "_"):
            return ""
        return _NO_LETTER if before else "(?![a-z0-9_])"
    return r"\b" if letter.isalpha() and ord(letter) < 0x2E80 else ""


def _letter(letter: str) -> str:
    if letter in "'’":  # noqa: RUF001
        return "['’]?"  # noqa: RUF001
    if letter == '"':
        return "[\"'“”‘’]"  # noqa: RUF001
    if letter == "-":
        return "[- ]?"
    return re.escape(letter)
