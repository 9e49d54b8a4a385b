"""What lies inside of files that are no text: archives, office documents, PDFs, notebooks, recordings."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import re
import tarfile
import zipfile
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any

from metier._regex_cache import kept_regex
from metier.scan.magic import text_in_image

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_INSIDE = 2 * 1024 * 1024
"""Bytes that are unpacked of one skill, the smallest entries of an archive first."""
_MAX_ENTRIES = 400
_MAX_DEPTH = 3
_PACKED: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": partial(zlib.decompressobj, 47),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": partial(lzma.LZMADecompressor, memlimit=1 << 27),
}
"""What unpacks files that begin so."""
_HOLD_WORDS = (*b"ID3 GIF8 RIFF II*\0 MM\0* \0\0\0 \xd0\xcf\x11\xe0 {\\rtf".split(), b"SQLite format 3\0")
"""How files of other kinds begin among whose bytes there are words."""
_XML = kept_regex(r"\.(?:xml|xhtml|html|opf)$", re.IGNORECASE)
_END_OF_PARAGRAPH = kept_regex(r"</(?:\w+:)?(?:p|si|tr|li|h\d?|div|title|row)>|<(?:\w+:)?br\b[^<>]{0,100}>")
_TAG = kept_regex(r"<[^<>]{0,4000}>")
_PDF_STREAM = re.compile(rb"stream\r?\n")
_PDF_TEXT = re.compile(rb"\(((?:\\.|[^\\()]){1,2000})\)|(\bT[dDm*]\b|\bET\b)", re.DOTALL)
_ASCII = re.compile(rb"[\t\n\x20-\x7e]{16,}")


class Unpacking:
    """What lies inside of the files of one skill, within bounds."""

    def __init__(self) -> None:
        self._bytes = MAX_INSIDE
        self._entries = _MAX_ENTRIES

    def inside(self, path: str, data: bytes) -> list[tuple[str, bytes]]:
        """The entries of a file that holds others, by their names; the text of a document by its own name.

        >>> Unpacking().inside("a.txt.gz", zlib.compress(b"run it", wbits=31))
        [('a.txt.gz/a.txt', b'run it')]
        """
        return list(self._all_inside(path, data, 0))

    def _all_inside(self, path: str, data: bytes, depth: int) -> Iterator[tuple[str, bytes]]:
        for name, content in self._unpacked(path, data) if depth < _MAX_DEPTH else ():
            inner = list(self._all_inside(name, content, depth + 1)) if name != path else []
            self._bytes -= len(content)
            self._entries -= 1
            yield from inner or [(name, content)]
            if self._bytes <= 0 or self._entries <= 0:
                return

    def _unpacked(self, path: str, data: bytes) -> Iterator[tuple[str, bytes]]:
        """What a file holds; nothing from where on it cannot be read."""
        try:
            if data.startswith(b"%PDF-"):
                yield path, _text_of_pdf(data, self._bytes)
            elif path.lower().endswith(".ipynb"):
                yield from _cells(path, data)
            elif b"PK\x05\x06" in data[-65_600:]:
                yield from self._of_zip(path, data)
            elif data[257:262] == b"ustar":
                yield from self._of_tar(path, data)
            elif (unpacker := next((one for mark, one in _PACKED.items() if data.startswith(mark)), None)) is not None:
                plain = unpacker().decompress(data, self._bytes)
                if plain[257:262] == b"ustar":
                    yield from self._of_tar(path, plain)
                else:
                    yield f"{path}/{re.sub(r'[.](?:gz|bz2|xz)$', '', path.rpartition('/')[2])}", plain
            elif data.startswith(_HOLD_WORDS) or path.endswith((".pyc", ".pyo")):
                yield path, b"\n".join(_ASCII.findall(data[: self._bytes]))
            elif words := text_in_image(data):
                yield path, words.encode()
        except (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError,
                zipfile.BadZipFile, tarfile.TarError, KeyError, TypeError, AttributeError):  # fmt: skip
            return

    def _of_zip(self, path: str, data: bytes) -> Iterator[tuple[str, bytes]]:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            is_document = any(name in ("[Content_Types].xml", "mimetype") for name in archive.namelist()[:50])
            for entry in sorted(archive.infolist()[:4_000], key=lambda one: one.file_size):
                if entry.is_dir() or entry.flag_bits & 1:
                    continue
                with archive.open(entry) as file:
                    content = file.read(max(0, self._bytes))
                if is_document and _XML.search(entry.filename):
                    text = _TAG.sub("", _END_OF_PARAGRAPH.sub("\n", content.decode("utf-8", "replace")))
                    yield f"{path}/{entry.filename}.txt", text.encode()
                else:
                    yield f"{path}/{entry.filename}", content

    def _of_tar(self, path: str, data: bytes) -> Iterator[tuple[str, bytes]]:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isreg() else None
                if file is not None:
                    yield f"{path}/{entry.name}", file.read(max(0, self._bytes))


def _text_of_pdf(data: bytes, most: int) -> bytes:
    """The strings of a PDF, from its own objects and from streams that are packed by zlib."""
    pieces = [data[: min(most, len(data))] if b"/Filter" not in data else b""]
    for found in _PDF_STREAM.finditer(data):
        end = data.find(b"endstream", found.end())
        content = data[found.end() : end if end >= 0 else len(data)]
        if content[:1] == b"x" and most > 0:
            try:
                content = zlib.decompressobj().decompress(content, most)
            except zlib.error:
                continue
            pieces.append(content)
            most -= len(content)
    texts = (found[1] if found[1] is not None else b"\n" for one in pieces for found in _PDF_TEXT.finditer(one))
    return re.sub(rb"\\([()\\])", rb"\1", b"".join(texts))


def _cells(path: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    """The cells of a notebook: its code, its pages, and what its code has printed."""
    found: dict[str, list[str]] = {}
    for cell in json.loads(data)["cells"]:
        kind = "code.py" if cell["cell_type"] == "code" else "pages.md"
        found.setdefault(kind, []).append("".join(cell["source"]))
        for output in cell.get("outputs") or ():
            texts = [output.get("text"), *(output.get("data") or {}).values()]
            found.setdefault("outputs.md", []).extend("".join(text) for text in texts if isinstance(text, (str, list)))
    for name, texts in found.items():
        yield f"{path}/{name}", "\n\n".join(texts).encode()
