"""What a file is by its first bytes and by what was put behind its end, whatever it is called."""

from __future__ import annotations

import re
import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.view import OpaqueKind


class FileType(NamedTuple):
    """What a file is: a word for rules and the end of a sentence for people."""

    kind: OpaqueKind
    why: str


_MAGIC: tuple[tuple[bytes, FileType], ...] = (
    (b"\x7fELF", FileType("program", "is a program (ELF)")),
    (b"\xfe\xed\xfa\xce", FileType("program", "is a program (Mach-O)")),
    (b"\xfe\xed\xfa\xcf", FileType("program", "is a program (Mach-O)")),
    (b"\xce\xfa\xed\xfe", FileType("program", "is a program (Mach-O)")),
    (b"\xcf\xfa\xed\xfe", FileType("program", "is a program (Mach-O)")),
    (b"\xca\xfe\xba\xbe", FileType("program", "is a program (Mach-O or Java)")),
    (b"\x00asm", FileType("program", "is a program (WebAssembly)")),
    (b"dex\n", FileType("program", "is a program (Dalvik)")),
    (b"L\x00\x00\x00\x01\x14\x02\x00", FileType("program", "is a Windows shortcut")),
    (b"PK\x03\x04", FileType("archive", "is a zip archive")),
    (b"PK\x05\x06", FileType("archive", "is a zip archive")),
    (b"\x1f\x8b", FileType("archive", "is compressed (gzip)")),
    (b"BZh", FileType("archive", "is compressed (bzip2)")),
    (b"\xfd7zXZ\x00", FileType("archive", "is compressed (xz)")),
    (b"7z\xbc\xaf\x27\x1c", FileType("archive", "is a 7z archive")),
    (b"Rar!\x1a\x07", FileType("archive", "is a RAR archive")),
    (b"\x28\xb5\x2f\xfd", FileType("archive", "is compressed (zstd)")),
    (b"xar!", FileType("archive", "is an installer (xar)")),
    (b"!<arch>\n", FileType("archive", "is an archive (ar)")),
    (b"\x89PNG\r\n\x1a\n", FileType("media", "is an image (PNG)")),
    (b"\xff\xd8\xff", FileType("media", "is an image (JPEG)")),
    (b"GIF8", FileType("media", "is an image (GIF)")),
    (b"\x00\x00\x01\x00", FileType("media", "is an image (ICO)")),
    (b"II*\x00", FileType("media", "is an image (TIFF)")),
    (b"MM\x00*", FileType("media", "is an image (TIFF)")),
    (b"RIFF", FileType("media", "is an image or a recording (RIFF)")),
    (b"OggS", FileType("media", "is a recording (Ogg)")),
    (b"ID3", FileType("media", "is a recording (MP3)")),
    (b"fLaC", FileType("media", "is a recording (FLAC)")),
    (b"\x00\x01\x00\x00", FileType("media", "is a font")),
    (b"OTTO", FileType("media", "is a font")),
    (b"wOFF", FileType("media", "is a font")),
    (b"wOF2", FileType("media", "is a font")),
    (b"%PDF-", FileType("document", "is a PDF document")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", FileType("document", "is an Office document")),
    (b"{\\rtf", FileType("document", "is an RTF document")),
    (b"SQLite format 3\x00", FileType("document", "is a database (SQLite)")),
    (b"MZ", FileType("program", "is a program (Windows)")),
    (b"BM", FileType("media", "is an image (BMP)")),
)
_OFFICE = re.compile(r"\.(?:docx|xlsx|pptx|docm|xlsm|pptm|odt|ods|odp|epub)$", re.IGNORECASE)
_BYTECODE = re.compile(r"\.py[co]$", re.IGNORECASE)
_PICKLE = re.compile(r"\.(?:pkl|pickle|joblib|pt|pth|ckpt)$", re.IGNORECASE)
_NOTEBOOK = re.compile(r"\.ipynb$", re.IGNORECASE)
_MAX_COMMENT = 65_557
"""How far from its end the last record of a zip archive may begin."""
_MOST_TEXT = 1 << 20


def kind_of_file(path: str, data: bytes, *, is_text: bool) -> FileType | None:
    """What a file is that rules cannot see into; None when it is plain text.

    >>> kind_of_file("notes.md", b"PK\\x03\\x04\\x14\\x00\\x01\\x00", is_text=False)
    FileType(kind='encrypted', why='is a zip archive with a password')
    """
    if _BYTECODE.search(path):
        return FileType("bytecode", "is Python bytecode")
    if _NOTEBOOK.search(path):
        return FileType("document", "is a notebook")
    found = _by_magic(data, is_text=is_text)
    if found is None and _PICKLE.search(path) and not is_text:
        found = FileType("program", "is a pickle, which runs code when it is loaded")
    if found is not None and found.why == "is a zip archive":
        if any(flags & 1 for flags in _zip_flags(data)):
            return FileType("encrypted", "is a zip archive with a password")
        if _OFFICE.search(path):
            return FileType("document", "is an Office document")
        return found
    if _has_zip_behind(data):
        return FileType("stowaway", "has a zip archive behind its end")
    if found is not None and found.kind == "media":
        behind = data[_end_of_image(data) :]
        # Some programs fill up the last block.
        if behind.strip(b"\0\r\n\t "):
            return FileType("stowaway", f"is an image with {len(behind):,} bytes behind its end")
    if found is None and not is_text:
        return FileType("binary", "is binary data")
    return found


def _by_magic(data: bytes, *, is_text: bool) -> FileType | None:
    for magic, kind in _MAGIC:
        # A text may well begin with a few letters that mean something at the head of other files.
        if data.startswith(magic) and not (is_text and len(magic) < 4):
            return kind
    if data[257:262] == b"ustar":
        return FileType("archive", "is a tar archive")
    if data[4:8] == b"ftyp":
        return FileType("media", "is a recording or an image (MP4)")
    return None


def _zip_flags(data: bytes) -> Iterator[int]:
    """The flags of every entry of a zip archive, from the headers of its files and from its directory."""
    for header, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(header)
        while start >= 0:
            yield int.from_bytes(data[start + at : start + at + 2], "little")
            start = data.find(header, start + 4)


def _has_zip_behind(data: bytes) -> bool:
    at = data.rfind(b"PK\x05\x06", max(0, len(data) - _MAX_COMMENT))
    return at > 0 and len(data) - at >= 22


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
    if kind == b"tEXt":
        return _printable(content)
    if kind == b"zTXt":
        word, _, packed = content.partition(b"\0")
        return _printable(word + b" " + _unpacked(packed[1:]))
    if kind == b"iTXt":
        word, _, rest = content.partition(b"\0")
        if rest[:1] == b"\x01":
            fields = rest[2:].split(b"\0", 2)
            return _printable(word + b" " + _unpacked(fields[-1]))
        return _printable(word + b" " + rest)
    return _printable(content) if kind == b"eXIf" else ""


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


_WORDS = re.compile(rb"[\t\n\x20-\x7e\x80-\xff]{3,}")


def _printable(data: bytes) -> str:
    """The stretches of text among bytes."""
    return " ".join(found[0].decode(errors="ignore").strip() for found in _WORDS.finditer(data)).strip()
