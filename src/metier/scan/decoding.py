"""From the bytes of any file to all of its text, as a model would see it.

The same decoding that loads a SKILL.md, and beyond it what hides text from a reader of bytes: UTF-16 and UTF-32,
announced or not, and NUL bytes in between. Nothing is cut off.
"""

from __future__ import annotations

import codecs
from typing import NamedTuple

from metier._regex_cache import kept_regex
from metier.skill.frontmatter import decode, drop_control

_BOMS = {
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
}
"""The mark of UTF-16 is the beginning of the one of UTF-32."""
_CONTROL = bytes({*range(32), 0x7F} - set(b"\t\n\r\x0b\x0c\x1b"))
_REPLACED = "\ufffd"
_HIDING = kept_regex("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")


class Decoded(NamedTuple):
    """The text of a file, and how far it can be trusted to be all there is."""

    text: str
    is_text: bool
    """Whether the bytes are text at all; when not, the text is what can be made out among them."""
    is_clean: bool
    """Whether it is in an encoding that says what it is."""
    control_line: int = 0
    """The first line with a control character that is no white space, which was dropped; 0 when there is none."""


def decoded(data: bytes) -> Decoded:
    """All text of a file, with LF line ends and without control characters.

    >>> decoded("run it".encode("utf-16-le")).text
    'run it'
    >>> decoded(bytes(range(256)) * 4).is_text
    False
    """
    text, is_text, is_clean = _read(data)
    clean, notes = drop_control(text)
    first = _HIDING.search(text) if notes else None
    return Decoded(clean, is_text, is_clean, text.count("\n", 0, first.start()) + 1 if first is not None else 0)


def _read(data: bytes) -> tuple[str, bool, bool]:
    for encoding, marks in _BOMS.items():
        if data.startswith(marks) and (wide := _wide(data, encoding)) is not None:
            return wide, True, _REPLACED not in wide
    if b"\0" in data and (wide := _unannounced(data)) is not None:
        return wide, True, False
    # `decode` drops control characters itself where there are NUL bytes; the first of them must be seen here first.
    text, notes = decode(data.replace(b"\0", b"\x01"))
    guessed = any(note.code == "invalid-utf8" for note in notes)
    odd = len(data) - len(data.translate(None, _CONTROL))
    bad = text.count(_REPLACED) if guessed else 0
    is_text = odd * 50 <= len(data) and (bad <= 8 or bad * 10 <= len(text))
    return text, is_text, is_text and not guessed


def _wide(data: bytes, encoding: str) -> str | None:
    """Text of two or four bytes a character; None when that is not what it is."""
    text = data.decode(encoding, errors="replace").removeprefix("\ufeff")
    if text.count(_REPLACED) * 10 > len(text) or len(_HIDING.findall(text)) * 10 > len(text):
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unannounced(data: bytes) -> str | None:
    """Text in UTF-16 or UTF-32 without a mark, told by where its NUL bytes stand."""
    zeros = [data[offset::4].count(0) for offset in range(4)]
    quarter = max(1, len(data) // 4)
    if zeros[1] + zeros[2] > 1.8 * quarter:
        for lead, encoding in ((zeros[3], "utf-32-le"), (zeros[0], "utf-32-be")):
            if lead > 0.9 * quarter:
                return _wide(data, encoding)
    even, odd = zeros[0] + zeros[2], zeros[1] + zeros[3]
    # A third of the characters are below U+0100 in any real text: blanks, digits, line ends.
    if max(even, odd) > 0.3 * 2 * quarter and min(even, odd) * 20 <= max(even, odd):
        return _wide(data, "utf-16-le" if odd > even else "utf-16-be")
    return None
