"""From bytes to text: whatever encoding a file was saved in, it comes out as clean text with LF line ends."""

from __future__ import annotations

import codecs
import re

from metier.skill.diagnostic import Diagnostic

# Tab, line feed and carriage return are text; the other C0 and C1 characters and DEL can only hide something.
_C0 = bytes({*range(32), 0x7F} - {0x09, 0x0A, 0x0D})
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")


def decode(data: bytes) -> tuple[str, tuple[Diagnostic, ...]]:
    """Read bytes as text, with a diagnostic for everything that had to be assumed.

    >>> decode(b"\\xef\\xbb\\xbfhello\\r\\n")
    ('hello\\n', (Diagnostic(code='bom', line=1, values=()),))
    """
    try:
        text = data.decode()
        notes: tuple[Diagnostic, ...] = ()
    except UnicodeDecodeError as error:
        text, notes = _decode_oddly(data, error)
    if text.startswith("\ufeff"):
        text = text[1:]
        notes = (*notes, Diagnostic("bom", 1))
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text, found = drop_control(text)
        notes += found
    return text, notes


def drop_control(text: str) -> tuple[str, tuple[Diagnostic, ...]]:
    """Text without control characters, and a diagnostic when there were any."""
    # Searching text character by character takes longer than all the rest of reading a file, so look at bytes first.
    if text.isascii():
        data = text.encode()
        if len(data.translate(None, _C0)) == len(data):
            return text, ()
    first = _CONTROL.search(text)
    if first is None:
        return text, ()
    clean, count = _CONTROL.subn("", text)
    line = text.count("\n", 0, first.start()) + 1
    name = "a NUL byte" if first[0] == "\0" else f"U+{ord(first[0]):04X}"
    return clean, (Diagnostic("control-characters", line, (str(count), name)),)


def _decode_oddly(data: bytes, error: UnicodeDecodeError) -> tuple[str, tuple[Diagnostic, ...]]:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace"), (Diagnostic("utf16", 1),)
    line = data.count(b"\n", 0, error.start) + 1
    replaced = data.decode(errors="replace")
    bad = replaced.count("\ufffd")
    if bad <= 8 or bad * 100 < len(data):
        text, how = replaced, "UTF-8 with the bad bytes replaced"
    else:
        try:
            text, how = data.decode("gb18030"), "GB 18030"
        except UnicodeDecodeError:
            text, how = data.decode("cp1252", errors="replace"), "Windows-1252"
    return text, (Diagnostic("invalid-utf8", line, (str(error.start), how)),)
