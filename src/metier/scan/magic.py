"""What a file is by its first bytes and by what was put behind its end, whatever it is called."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from typing import TYPE_CHECKING, cast

from metier._regex_cache import kept_regex
from metier.scan.name_lists import entries, names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.view import OpaqueKind


_MAX_COMMENT = 65_557
"""How far from its end the last record of a zip archive may begin."""
_MOST_TEXT = 1 << 20


def kind_of_file(path: str, data: bytes, *, is_text: bool) -> tuple[OpaqueKind, str] | None:
    """What a file is that rules cannot see into, as a word and the end of a sentence; None when it is plain text.

    >>> kind_of_file("notes.md", b"PK\\x03\\x04\\x14\\x00\\x01\\x00", is_text=False)
    ('encrypted', 'is a zip archive with a password')
    """
    suffix = path.rpartition(".")[2].lower()
    if suffix in ("pyc", "pyo"):
        return "bytecode", "is Python bytecode"
    if suffix == "ipynb":
        return "document", "is a notebook"
    found = _by_magic(data, is_text=is_text)
    if found is None and suffix in names("suffixes-of-pickles") and not is_text:
        found = "program", "is a pickle, which runs code when it is loaded"
    if found == ("archive", "is a zip archive"):
        if any(flags & 1 for flags in _zip_flags(data)):
            return "encrypted", "is a zip archive with a password"
        return ("document", "is an Office document") if suffix in names("suffixes-of-office") else found
    last_record = data.rfind(b"PK\x05\x06", max(0, len(data) - _MAX_COMMENT))
    if 0 < last_record <= len(data) - 22:
        return "stowaway", "has a zip archive behind its end"
    # Some programs fill up the last block.
    if found is not None and found[0] == "media" and (behind := data[_end_of_image(data) :]).strip(b"\0\r\n\t "):
        return "stowaway", f"is an image with {len(behind):,} bytes behind its end"
    return ("binary", "is binary data") if found is None and not is_text else found


def _by_magic(data: bytes, *, is_text: bool) -> tuple[OpaqueKind, str] | None:
    for magic, kind, why in _first_bytes():
        # A text may well begin with a few letters that mean something at the head of other files.
        if data.startswith(magic) and not (is_text and len(magic) < 4):
            return kind, why
    if data[257:262] == b"ustar":
        return "archive", "is a tar archive"
    return ("media", "is a recording or an image (MP4)") if data[4:8] == b"ftyp" else None


@cache
def _first_bytes() -> tuple[tuple[bytes, OpaqueKind, str], ...]:
    return tuple(
        (magic.encode().decode("unicode_escape").encode("latin-1"), cast("OpaqueKind", kind), why)
        for magic, kind, why in entries("first-bytes")
    )


def _zip_flags(data: bytes) -> Iterator[int]:
    """The flags of every entry of a zip archive, from the headers of its files and from its directory."""
    for header, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(header)
        while start >= 0:
            yield int.from_bytes(data[start + at : start + at + 2], "little")
            start = data.find(header, start + 4)


def _end_of_image(data: bytes) -> int:
    """Where a PNG ends by its own account; for every other image, where the file does."""
    if data.startswith(b"\x89PNG"):
        for kind, start, length in _png_chunks(data):
            if kind == b"IEND":
                return min(start + length + 4, len(data))
    return len(data)


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """The chunks of a PNG: the kind, where the content begins and how long it says it is."""
    at = 8
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], at + 8, length
        at += 12 + length


def text_in_image(data: bytes) -> str:
    """The words that an image carries beside its picture: in comments and behind the end of a PNG or JPEG.

    >>> text_in_image(b"\\x89PNG\\r\\n\\x1a\\n" + struct.pack(">I", 8) + b"tEXtNote\\0run" + bytes(4))
    'Note run'
    """
    if data.startswith(b"\x89PNG"):
        end = _end_of_image(data)
        found = [_png_text(kind, data[at : at + length]) for kind, at, length in _png_chunks(data[:end])]
        found.append(_printable(data[end : end + _MOST_TEXT]))
    elif data.startswith(b"\xff\xd8"):
        found = [_printable(segment) for segment in _jpeg_segments(data)]
    else:
        return ""
    return "\n".join(text for text in found if text)


def _png_text(kind: bytes, content: bytes) -> str:
    word, _, rest = content.partition(b"\0")
    if kind == b"zTXt":
        rest = _unpacked(rest[1:])
    elif kind == b"iTXt" and rest[:1] == b"\x01":
        rest = _unpacked(rest[2:].split(b"\0", 2)[-1])
    return _printable(word + b" " + rest) if kind in (b"tEXt", b"zTXt", b"iTXt", b"eXIf") else ""


def _unpacked(packed: bytes) -> bytes:
    """At most a megabyte of what was compressed: more is no comment."""
    try:
        return zlib.decompressobj().decompress(packed, _MOST_TEXT)
    except zlib.error:
        return b""


def _jpeg_segments(data: bytes) -> Iterator[bytes]:
    """The segments of a JPEG that hold words: comments, EXIF and XMP."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xDA:
            return
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if marker == 0xFE or 0xE1 <= marker <= 0xEF:
            yield data[at + 4 : at + 2 + length]
        at += 2 + max(2, length)


_WORDS = kept_regex(rb"[\t\n\x20-\x7e\x80-\xff]{3,}")


def _printable(data: bytes) -> str:
    """The stretches of text among bytes."""
    return " ".join(found[0].decode(errors="ignore").strip() for found in _WORDS.finditer(data)).strip()
