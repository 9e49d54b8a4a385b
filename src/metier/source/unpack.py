"""Reads a skill archive into memory, as if whoever made it wished us harm.

`zipfile` and `tarfile` are made to open as much as they can: they list all members before the first can be counted,
read a header as long as it claims to be, and take a broken header for the end. A skill needs a small part of both
formats, so only that part is read here, piece by piece. Nothing is written to disk, no size in a header is believed.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import struct
import unicodedata
import zlib
from io import BytesIO
from itertools import pairwise
from posixpath import dirname, join, normpath
from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import dataclass
from metier.errors import ArchiveRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_PIECE = 64 * 1024
_TAR_HEADERS = 4 * 1024 * 1024  # long names and pax records, all together
_JUNK_FOLDERS = frozenset({"__macosx", ".git", "node_modules", "__pycache__"})
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200c\u200d"  # invisible too, but part of Persian words and of emoji
_RESERVED = re.compile(r"(con|prn|aux|nul|clock\$|conin\$|conout\$|(com|lpt)[1-9])[ ]*(\..*)?")
_ZIP_KINDS = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "symbolic link"}
_TAR_KINDS = {"\0": "file", "0": "file", "7": "file", "1": "hard link", "2": "symbolic link", "5": "folder"}
_DAMAGE = (zlib.error, struct.error, gzip.BadGzipFile, EOFError, ArithmeticError, LookupError, RuntimeError, ValueError)
_REBUILD = "Make the archive again from the skill's own folder."
_RENAME = "Rename the file and make the archive again."
_REDUCE = "Leave out what the skill does not need and make the archive again."
_MISTRUST = "Do not install it; ask its author for a clean archive."


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """The limits of an archive, above which it is refused."""

    files: int = 2_000
    bytes: int = 64 * 1024 * 1024  # all members, unpacked
    ratio: int = 200  # unpacked : packed, checked once more than 1 MiB came out
    archive_bytes: int = 64 * 1024 * 1024  # the archive file itself
    path_length: int = 1_024  # in UTF-8 bytes
    depth: int = 32


_DEFAULT_LIMITS = ArchiveLimits()


class ArchiveMember(NamedTuple):
    """One file of an archive."""

    data: bytes
    executable: bool


def unpack(archive: bytes | Path, *, limits: ArchiveLimits = _DEFAULT_LIMITS) -> dict[str, ArchiveMember]:
    """Every file of a zip, tar or tar.gz, by its POSIX-style relative path, in the order of the paths.

    The first bytes tell the kind. One bad member refuses the whole archive: half a skill is worse than none.
    """
    data = archive if isinstance(archive, bytes) else _read_file(archive, limits)
    if len(data) > limits.archive_bytes:
        raise _refusal("", f"is larger than {limits.archive_bytes:,} bytes", _REDUCE)
    meter = _Meter(limits, packed=len(data))
    try:
        return _collect(_entries(data, meter), meter)
    except _DAMAGE as error:
        raise _refusal(meter.member, "is damaged or cut short", "Fetch or make it again.", reason=str(error)) from error


def checked_listing(paths: Iterable[str], *, limits: ArchiveLimits = _DEFAULT_LIMITS) -> None:
    """Refuse paths of files, as another listing than an archive's own has them, that no archive might have.

    >>> checked_listing(["SKILL.md", "scripts/run.py"])
    """
    taken: dict[str, tuple[str, bool]] = {}
    for path in paths:
        parts, folded = _checked_parts(path, limits)
        if not parts:
            raise _refusal(path, "has no name", _RENAME)
        _take_name(taken, parts, folded, folder=False)


class _Meter:
    """Counts what really comes out, and stops at the first byte too many."""

    def __init__(self, limits: ArchiveLimits, *, packed: int) -> None:
        self.limits = limits
        self.member = ""
        self._inflated = self._kept = 0
        self._expected = max(1024 * 1024, limits.ratio * packed)
        # A tar stream also carries headers and padding, which are not content but must not be endless.
        self._stream_limit = limits.bytes + limits.files * 4096 + _TAR_HEADERS

    def count(self, *, inflated: int = 0, kept: int = 0) -> None:
        self._inflated += inflated
        self._kept += kept
        if self._inflated > self._expected:
            raise _refusal(self.member, f"unpacks to over {self.limits.ratio} times what was packed", _MISTRUST)
        if self._kept > self.limits.bytes or self._inflated > self._stream_limit:
            raise _refusal(self.member, f"goes over the limit of {self.limits.bytes:,} bytes unpacked", _REDUCE)


class _Entry(NamedTuple):
    name: bytes
    kind: str  # "file", "folder", "symbolic link", "hard link"; any other is refused
    executable: bool
    content: Iterable[bytes]  # of a link, its target


def _entries(data: bytes, meter: _Meter) -> Iterator[_Entry]:
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _read_zip(data, meter)
    if data.startswith(b"\x1f\x8b"):
        # Millions of empty streams would keep `gzip` busy for minutes and give nothing to count.
        if data.count(b"\x1f\x8b\x08") > 4_096:
            raise _refusal("", "has too many gzip streams", _MISTRUST)
        return _read_tar(gzip.GzipFile(fileobj=BytesIO(data)), meter)
    if data[257:262] == b"ustar":
        return _read_tar(BytesIO(data), meter)
    raise _refusal("", "is of no known kind", "Use .zip, .skill, .tar, .tar.gz or .tgz.")


def _collect(entries: Iterable[_Entry], meter: _Meter) -> dict[str, ArchiveMember]:
    limits = meter.limits
    files: dict[str, ArchiveMember] = {}
    links: dict[str, str] = {}  # path -> which kind of link
    taken: dict[str, tuple[str, bool]] = {}  # folded path -> as spelled, and whether it is a folder
    for number, entry in enumerate(entries):
        name = meter.member = entry.name.decode(errors="surrogateescape")
        if number > 4 * limits.files + 1_000:  # what is dropped costs time too
            raise _refusal(name, "is one member too many", _REDUCE)
        folder = entry.kind == "folder" or name.endswith(("/", "\\"))
        parts, folded = _checked_parts(name, limits)
        if not parts and not (folder and name):  # `tar -C skill -c .` begins with "./", the folder itself
            raise _refusal(name, "has no name", _REBUILD)
        if not _JUNK_FOLDERS.isdisjoint(folded if folder else folded[:-1]) or parts[-1:] == [".DS_Store"]:
            continue
        _take_name(taken, parts, folded, folder)
        if len(files) + (not folder) > limits.files or len(taken) > 2 * limits.files + 1_000:
            raise _refusal(name, f"goes over the limit of {limits.files:,} files and their folders", _REDUCE)
        if folder:
            continue
        if entry.kind not in ("file", "symbolic link", "hard link"):
            raise _refusal(name, f"is a {entry.kind}, not a file", _REBUILD)
        # BytesIO hands out its own buffer; joining a list of pieces would hold a large member twice.
        content = BytesIO()
        for piece in entry.content:
            meter.count(kept=len(piece))
            content.write(piece)
        path = "/".join(parts)
        files[path] = ArchiveMember(content.getvalue(), entry.executable)
        if entry.kind != "file":
            links[path] = entry.kind
    copies: dict[str, ArchiveMember] = {}
    for path, kind in links.items():
        meter.member = path
        target = files[path].data.decode(errors="surrogateescape")
        # Following the text is enough: a link to a folder is refused, so no folder on the way can be one.
        # A target outside gives a path that begins with "/" or "..", and no file has that.
        goal = normpath(join(dirname(path) if kind == "symbolic link" else "", target))
        if goal in links or goal not in files:
            raise _refusal(path, f"is a {kind} to {_shown(target)}, which is no file here", "Put a copy in its place.")
        copies[path] = files[goal]
        meter.count(kept=len(copies[path].data))
    return dict(sorted((files | copies).items()))


def _checked_parts(name: str, limits: ArchiveLimits) -> tuple[list[str], list[str]]:
    """The folders and the file that a name is made of, as spelled and as folded."""
    # One character can fold into eighteen, and the folded path is what is remembered.
    forms = (name, _fold(name[: limits.path_length]))
    if max(len(form.encode(errors="replace")) for form in forms) > limits.path_length:
        raise _refusal(name, f"has a path longer than {limits.path_length:,} bytes", _RENAME)
    if not name.isprintable() and any(unicodedata.category(c) in _INVISIBLE and c not in _JOINERS for c in name):
        raise _refusal(name, "has control or invisible characters, or no UTF-8, in its name", _RENAME)
    path = name.replace("\\", "/")
    # A colon is a drive letter in front, and on Windows a hidden stream of another file anywhere else.
    if path.startswith("/") or ":" in path:
        raise _refusal(name, "has an absolute path, a drive letter or a colon", _REBUILD)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if len(parts) > limits.depth:
        raise _refusal(name, f"lies more than {limits.depth} folders deep", _REBUILD)
    folded = [_fold(part) for part in parts]
    for part, plain in zip(parts, folded, strict=True):
        # U+2025 is "..", and U+FF0F is "/", to whoever normalises the name later.
        if plain in (".", "..") or "/" in plain or "\\" in plain:
            raise _refusal(name, "climbs out of the archive", _MISTRUST)
        if not is_portable_name(part):
            raise _refusal(name, "has a name that Windows cannot store", _RENAME)
    return parts, folded


def is_portable_name(name: str) -> bool:
    """Whether a file can have a name on Windows too.

    >>> is_portable_name("console.md"), is_portable_name("CON.md"), is_portable_name("notes.")
    (True, False, False)
    """
    return name[-1:] not in (".", " ") and not _RESERVED.fullmatch(_fold(name))


def _fold(text: str) -> str:
    """One form for all spellings that some file system takes for the same name."""
    once = unicodedata.normalize("NFKC", unicodedata.normalize("NFD", text).casefold())
    return unicodedata.normalize("NFKC", once.casefold())


def _take_name(taken: dict[str, tuple[str, bool]], parts: list[str], folded: list[str], folder: bool) -> None:
    """Enter a member and every folder above it, so that no two meet on any file system."""
    for depth in range(len(parts), 0, -1):
        mine = ("/".join(parts[:depth]), folder or depth < len(parts))
        there = taken.setdefault("/".join(folded[:depth]), mine)
        if there is not mine:
            if there != mine or not mine[1]:
                raise _refusal("/".join(parts), f"meets {_shown(there[0])} under the same name", _RENAME)
            return  # a folder that is known, and so are all above it


def _read_zip(data: bytes, meter: _Meter) -> Iterator[_Entry]:
    # A second end record inside the comment would give another reader another list of members.
    found = re.compile(b"(?=PK\x05\x06.{16}(..))", re.DOTALL).finditer(data, max(0, len(data) - 22 - 0xFFFF))
    ends = [end.start() for end in found if end.start() + 22 + int.from_bytes(end[1], "little") == len(data)]
    if len(ends) != 1:
        raise _refusal("", "is cut short, has two ends, or carries data after its end", _REBUILD)
    disk, directory_disk, here, count, size, directory = struct.unpack_from("<4H2L", data, ends[0] + 4)
    at, directory_end = directory, directory + size
    if disk or directory_disk or here != count or count == 0xFFFF or directory_end != ends[0]:
        raise _refusal("", "is damaged, split, or in ZIP64 form", _REBUILD)
    spans = []
    packed_so_far = 0
    for _ in range(count):
        fields = struct.unpack_from("<4sxB2x2H4x3L3H4x2HL", data, at)
        signature, system, flags, method, crc, packed, size, name_length, extra, comment, dos, mode, start = fields
        name = data[at + 46 : at + 46 + name_length]
        member = meter.member = name.decode(errors="surrogateescape")
        at += 46 + name_length + extra + comment
        own_signature, own_flags, own_method, own_length, own_extra = struct.unpack_from("<4s2x2H16x2H", data, start)
        begin = start + 30 + own_length + own_extra
        end = begin + packed
        if (signature, own_signature) != (b"PK\x01\x02", b"PK\x03\x04") or at > directory_end or end > directory:
            raise ValueError("the list of members is broken")
        if data[start + 30 : start + 30 + own_length] != name:
            raise _refusal(member, "goes by another name in its own header", _MISTRUST)
        if (flags | own_flags) & 0x2041 or method not in (0, 8) or method != own_method:
            raise _refusal(member, "is encrypted or packed in a rare way", "Use plain deflate, without a password.")
        spans.append((start, end))
        packed_so_far += packed
        if packed_so_far > len(data):
            raise _refusal(member, "shares its bytes with other members", _MISTRUST)
        kind = _ZIP_KINDS.get(stat.S_IFMT(mode) or (stat.S_IFDIR if dos & 0x10 else 0), "device, pipe or socket")
        executable = system in (3, 19) and bool(mode & 0o111)  # Unix and macOS
        yield _Entry(name, kind, executable, _zip_content(memoryview(data)[begin:end], method, size, crc, meter))
    if at != directory_end or any(start < end for (_, end), (start, _) in pairwise(sorted(spans))):
        raise _refusal("", "has members that share bytes, or that are not listed", _MISTRUST)


def _zip_content(packed: memoryview, method: int, size: int, crc: int, meter: _Meter) -> Iterator[bytes]:
    engine = zlib.decompressobj(-15)
    came = check = 0
    # Deflate grows its input at most 1032 times, so no piece of 1 KiB gives more than about 1 MiB.
    for start in range(0, len(packed), 1024):
        piece = bytes(packed[start : start + 1024])
        piece = engine.decompress(piece) if method else piece
        if engine.unused_data:
            raise ValueError("the compressed data ends too early")
        came += len(piece)
        check = zlib.crc32(piece, check)
        meter.count(inflated=len(piece))
        yield piece
    if came != size or check != crc or (method and not engine.eof):
        raise ValueError("the content is not what the header says")


def _read_tar(stream: BytesIO | gzip.GzipFile, meter: _Meter) -> Iterator[_Entry]:
    def take(size: int) -> bytes:
        meter.count(inflated=size)
        if len(block := stream.read(size)) != size:
            raise EOFError("the archive ends too early")
        return block

    def content(size: int) -> Iterator[bytes]:
        for start in range(0, size, _PIECE):
            yield take(min(_PIECE, size - start))
        take(-size % 512)

    extended: dict[bytes, bytes] = {}
    headers = 0
    while (block := take(512)).strip(b"\0"):
        if block[257:262] != b"ustar" or sum(block) - sum(block[148:156]) + 8 * 32 != _number(block[148:156], 8):
            raise ValueError("a tar header is broken")
        size, flag = _number(block[124:136], 8), chr(block[156])
        if flag in "xgLK":
            if (headers := headers + size) > _TAR_HEADERS:
                raise _refusal(meter.member, f"has headers over {_TAR_HEADERS:,} bytes about it", _MISTRUST)
            payload = b"".join(content(size))
            if flag in "LK":
                extended[b"path" if flag == "L" else b"linkpath"] = payload.rstrip(b"\0")
            elif flag == "x":
                extended |= _pax_records(payload)
            elif _pax_records(payload):
                raise _refusal("", "gives all its members one path or size", _MISTRUST)
            continue
        name = block[:100].split(b"\0")[0]
        # In GNU's own format ("ustar" and two spaces) these bytes are times, not the front of the path.
        if block[257:263] == b"ustar\0" and block[345]:
            name = block[345:500].split(b"\0")[0] + b"/" + name
        name = extended.get(b"path", name)
        size = _number(extended[b"size"], 10) if b"size" in extended else size
        kind = _TAR_KINDS.get(flag, "device, pipe, sparse file or unknown thing")
        body = content(size)
        target = extended.get(b"linkpath", block[157:257].split(b"\0")[0])
        yield _Entry(name, kind, bool(_number(block[100:108], 8) & 0o111), [target] if kind.endswith("link") else body)
        if size and kind in ("folder", "hard link", "symbolic link"):
            # Readers differ on whether these bytes are there, and so on where the next header is.
            raise _refusal(meter.member, f"is a {kind} that carries data", _MISTRUST)
        for _ in body:  # what a dropped member left unread
            pass
        extended, meter.member = {}, ""
    while rest := stream.read(_PIECE):
        meter.count(inflated=len(rest))
        if rest.strip(b"\0"):
            raise _refusal("", "carries data after its end", _REBUILD)


def _number(field: bytes, base: int) -> int:
    digits = field.split(b"\0")[0].strip(b" ")
    if digits.strip(b"0123456789"):  # `int` would also take a sign, or an underscore between digits
        raise ValueError("a header has a number that is none")
    return int(digits or b"0", base)


def _pax_records(payload: bytes) -> dict[bytes, bytes]:
    records = {}
    at = 0
    while at < len(payload):
        space = payload.index(b" ", at, at + 20)
        end = at + _number(payload[at:space], 10)
        key, _, value = payload[space + 1 : end].partition(b"=")
        if end > len(payload) or not value.endswith(b"\n"):
            raise ValueError("a pax record is broken")
        if key.startswith(b"GNU.sparse"):
            raise _refusal("", "has sparse files", "Make it again without --sparse.")
        if key in (b"path", b"linkpath", b"size"):
            records[key] = value[:-1]
        at = end
    return records


def _read_file(path: Path, limits: ArchiveLimits) -> bytes:
    try:
        # Without O_NONBLOCK, opening a named pipe would wait for a writer for ever.
        with open(path, "rb", opener=lambda p, flags: os.open(p, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _refusal("", "is not a file", "Name an archive file.", path=str(path))
            return file.read(min(status.st_size, limits.archive_bytes) + 1)
    except (OSError, ValueError) as error:
        raise _refusal("", f"cannot be read: {error}", "Check the path.", path=str(path)) from error


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:79] + "…")  # repr keeps escape sequences off the terminal


def _refusal(member: str, problem: str, hint: str, **context: object) -> ArchiveRefused:
    subject = f"Archive member {_shown(member)}" if member else "The archive"
    member = member[:1024].encode(errors="backslashreplace").decode()
    return ArchiveRefused(f"{subject} {problem}.", hint=hint, member=member, **context)
