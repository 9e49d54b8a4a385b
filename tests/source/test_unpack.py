"""What an archive may hold, and everything a hostile one tries."""

from __future__ import annotations

import gzip
import io
import os
import random
import stat
import struct
import tarfile
import tracemalloc
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import ArchiveRefused
from metier.source.unpack import ArchiveLimits, ArchiveMember, unpack

MEBIBYTE = 1024 * 1024
SKILL = b"---\nname: demo\ndescription: A demo.\n---\nDo it.\n"


@dataclass(frozen=True, kw_only=True)
class Zipped:
    """One zip member, with the lies it may tell."""

    name: bytes
    data: bytes = b"x"
    mode: int = stat.S_IFREG | 0o644
    system: int = 3
    dos: int = 0
    flags: int = 0
    method: int = 8
    own_name: bytes | None = None
    claimed_size: int | None = None
    crc: int | None = None
    packed: bytes | None = None
    extra: bytes = b""


def deflate(data: bytes) -> bytes:
    engine = zlib.compressobj(9, wbits=-15)
    return engine.compress(data) + engine.flush()


def zip_of(*members: Zipped, comment: bytes = b"") -> bytes:
    body = directory = b""
    for member in members:
        packed = member.packed
        if packed is None:
            packed = deflate(member.data) if member.method == 8 else member.data
        own_name = member.name if member.own_name is None else member.own_name
        crc = zlib.crc32(member.data) if member.crc is None else member.crc
        size = len(member.data) if member.claimed_size is None else member.claimed_size
        common = struct.pack("<HHHHLLL", member.flags, member.method, 0, 33, crc, len(packed), size)
        directory += b"PK\x01\x02" + bytes([20, member.system]) + struct.pack("<H", 20) + common
        directory += struct.pack(
            "<HHHHHHHL", len(member.name), len(member.extra), 0, 0, 0, member.dos, member.mode, len(body)
        )
        directory += member.name + member.extra
        body += (
            b"PK\x03\x04" + struct.pack("<H", 20) + common + struct.pack("<HH", len(own_name), 0) + own_name + packed
        )
    end = struct.pack("<HHHHLLH", 0, 0, len(members), len(members), len(directory), len(body), len(comment))
    return body + directory + b"PK\x05\x06" + end + comment


def tar_header(
    name: bytes, *, size: int = 0, flag: bytes = b"0", link: bytes = b"", size_field: bytes | None = None
) -> bytes:
    block = bytearray(512)
    block[0 : len(name)] = name
    block[100:108] = b"0000644\0"
    block[124:136] = size_field or b"%011o\0" % size
    block[148:156] = b" " * 8
    block[156:157] = flag
    block[157 : 157 + len(link)] = link
    block[257:265] = b"ustar\x0000"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def tar_member(name: bytes, data: bytes = b"x", *, flag: bytes = b"0", link: bytes = b"") -> bytes:
    return tar_header(name, size=len(data), flag=flag, link=link) + data + bytes(-len(data) % 512)


def tar_of(*blocks: bytes) -> bytes:
    return b"".join(blocks) + bytes(1024)


def pax(key: bytes, value: bytes) -> bytes:
    length = len(key) + len(value) + 3
    while len(str(length)) + len(key) + len(value) + 3 != length:
        length += 1
    return b"%d %s=%s\n" % (length, key, value)


def pack_zip(files: Iterable[tuple[bytes, bytes]]) -> bytes:
    return zip_of(*(Zipped(name=name, data=data) for name, data in files))


def pack_tar(files: Iterable[tuple[bytes, bytes]]) -> bytes:
    return tar_of(
        *(tar_member(b"pax", pax(b"path", name), flag=b"x") + tar_member(b"short", data) for name, data in files)
    )


def pack_tgz(files: Iterable[tuple[bytes, bytes]]) -> bytes:
    return gzip.compress(pack_tar(files), mtime=0)


Pack = Callable[[Iterable[tuple[bytes, bytes]]], bytes]
each_kind = pytest.mark.parametrize("pack", [pack_zip, pack_tar, pack_tgz])


def tool_zip(files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return buffer.getvalue()


def tool_tar(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def assert_safe(files: dict[str, ArchiveMember]) -> None:
    folded = set()
    for path, member in files.items():
        assert isinstance(member.data, bytes)
        assert path and not path.startswith("/") and "\\" not in path and ":" not in path
        assert not {"", ".", ".."} & set(path.split("/"))
        path.encode()
        assert all(unicodedata.category(character) not in ("Cc", "Cs") for character in path)
        folded.add(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold()))
    assert len(folded) == len(files)
    for path in files:
        assert not any(other.startswith(path + "/") for other in files)


@pytest.mark.each(
    "archive",
    [
        tool_zip({"demo/SKILL.md": SKILL, "demo/a.txt": b""}),
        tool_zip({"demo/SKILL.md": SKILL, "demo/a.txt": b""}, zipfile.ZIP_STORED),
        tool_tar({"demo/SKILL.md": SKILL, "demo/a.txt": b""}, tarfile.PAX_FORMAT),
        tool_tar({"demo/SKILL.md": SKILL, "demo/a.txt": b""}, tarfile.GNU_FORMAT),
        tool_tar({"demo/SKILL.md": SKILL, "demo/a.txt": b""}, tarfile.USTAR_FORMAT),
        gzip.compress(tool_tar({"demo/SKILL.md": SKILL, "demo/a.txt": b""})),
    ],
    ids=["deflate", "stored", "pax", "gnu", "ustar", "tgz"],
)
def test_an_archive_from_common_tools_is_read(archive: bytes) -> None:
    assert unpack(archive) == {"demo/SKILL.md": ArchiveMember(SKILL, False), "demo/a.txt": ArchiveMember(b"", False)}


@pytest.mark.each("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_long_tar_path_is_read_whole(form: int) -> None:
    path = f"{'d' * 90}/{'e' * 60}/file.txt"
    assert list(unpack(tool_tar({path: b"1"}, form))) == [path]


def test_a_file_is_read_by_its_first_bytes_and_not_its_name(tmp_path: Path) -> None:
    archive = tmp_path / "demo.zip"
    archive.write_bytes(pack_tgz([(b"SKILL.md", SKILL)]))
    assert unpack(archive) == {"SKILL.md": ArchiveMember(SKILL, False)}


@each_kind
def test_paths_come_back_in_order(pack: Pack) -> None:
    assert list(unpack(pack([(b"b", b""), (b"a/c", b""), (b"a/b", b"")]))) == ["a/b", "a/c", "b"]


@each_kind
def test_backslashes_and_dots_become_a_plain_path(pack: Pack) -> None:
    assert list(unpack(pack([(b"./a\\b//c.txt", b""), (b"a\\d.txt", b"")]))) == ["a/b/c.txt", "a/d.txt"]


@each_kind
@pytest.mark.each("name", ["é.md", "说明\uff1a使用.md", "👩‍💻.md", "Capture 12.30\u202fPM.png", "a b.txt", ".env"])
def test_an_honest_name_in_any_language_is_kept(pack: Pack, name: str) -> None:
    assert list(unpack(pack([(name.encode(), b"")]))) == [name]


def test_an_empty_zip_has_no_files() -> None:
    assert unpack(zip_of()) == {}


@pytest.mark.each(
    ("member", "executable"),
    [
        (Zipped(name=b"run", mode=stat.S_IFREG | 0o755), True),
        (Zipped(name=b"run", mode=stat.S_IFREG | 0o644), False),
        (Zipped(name=b"run", mode=0), False),
        (Zipped(name=b"run", mode=stat.S_IFREG | 0o755, system=19), True),
        (Zipped(name=b"run", mode=stat.S_IFREG | 0o755, system=0), False),
    ],
)
def test_the_executable_bit_of_a_zip_comes_from_its_unix_mode(member: Zipped, executable: bool) -> None:
    assert unpack(zip_of(member))["run"].executable is executable


@pytest.mark.each(("mode", "executable"), [(0o755, True), (0o644, False)])
def test_the_executable_bit_of_a_tar_comes_from_its_mode(mode: int, executable: bool) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("run")
        info.mode = mode
        archive.addfile(info)
    assert unpack(buffer.getvalue())["run"].executable is executable


def test_folders_are_skipped() -> None:
    folders = [Zipped(name=b"a/", data=b""), Zipped(name=b"b", data=b"", mode=stat.S_IFDIR | 0o755)]
    dos_folder = Zipped(name=b"c", data=b"", mode=0, dos=0x10, system=0)
    assert list(unpack(zip_of(*folders, dos_folder, Zipped(name=b"a/f")))) == ["a/f"]
    tar = tar_of(
        tar_header(b"./", flag=b"5"), tar_header(b"a", flag=b"5"), tar_header(b"a/", flag=b"5"), tar_member(b"./a/f")
    )
    assert list(unpack(tar)) == ["a/f"]


MAC_JUNK = [b"__MACOSX/._SKILL.md", b".DS_Store", b"a/.DS_Store"]
TOOL_JUNK = [b".git/config", b".GIT/config", b"a/.git/hooks/x", b"node_modules/a/b.js", b"a/__pycache__/x.pyc"]


@each_kind
@pytest.mark.each("junk", MAC_JUNK + TOOL_JUNK)
def test_junk_is_dropped_without_a_word(pack: Pack, junk: bytes) -> None:
    assert list(unpack(pack([(junk, b"1"), (b"SKILL.md", SKILL), (junk, b"2")]))) == ["SKILL.md"]


@each_kind
def test_junk_does_not_count_as_files(pack: Pack) -> None:
    files = [(b"node_modules/%d.js" % number, b"") for number in range(50)]
    assert len(unpack(pack([*files, (b"SKILL.md", SKILL)]), limits=ArchiveLimits(files=1))) == 1


def test_a_link_inside_a_dropped_folder_is_dropped_with_it() -> None:
    link = Zipped(name=b"node_modules/.bin/x", data=b"/bin/sh", mode=stat.S_IFLNK | 0o777)
    assert list(unpack(zip_of(link, Zipped(name=b"SKILL.md")))) == ["SKILL.md"]


def test_several_gzip_streams_are_one_archive() -> None:
    tar = pack_tar([(b"a", b"1" * 5000), (b"b", b"2")])
    assert list(unpack(gzip.compress(tar[:700]) + gzip.compress(b"") + gzip.compress(tar[700:]) + bytes(9))) == [
        "a",
        "b",
    ]


def test_a_zip_comment_of_any_size_is_allowed() -> None:
    assert list(unpack(zip_of(Zipped(name=b"a"), comment=b"c" * 0xFFFF))) == ["a"]


def test_sizes_after_the_content_are_allowed() -> None:
    class Pipe(io.BytesIO):
        def seek(self, offset: int, whence: int = 0, /) -> int:
            raise io.UnsupportedOperation

    pipe = Pipe()
    with (
        zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a", "w", force_zip64=True) as member,
    ):
        member.write(SKILL)
    assert unpack(pipe.getvalue()) == {"a": ArchiveMember(SKILL, False)}


HOSTILE_NAMES: list[tuple[str, bytes, str]] = [
    ("parent", b"../a", "climbs out"),
    ("parent-inside", b"a/../b", "climbs out"),
    ("parent-last", b"a/..", "climbs out"),
    ("parent-backslash", b"a\\..\\..\\b", "climbs out"),
    ("parent-in-junk", b"__MACOSX/../../a", "climbs out"),
    ("two-dot-leader", "\u2025/a".encode(), "climbs out"),
    ("fullwidth-slash", "a\uff0f..\uff0fb".encode(), "climbs out"),
    ("fullwidth-backslash", "a\uff3cb".encode(), "climbs out"),
    ("absolute", b"/etc/passwd", "absolute"),
    ("absolute-backslash", b"\\a", "absolute"),
    ("unc", b"\\\\server\\share\\a", "absolute"),
    ("drive", b"C:/a", "drive letter"),
    ("drive-relative", b"c:a", "drive letter"),
    ("drive-inside", b"a/C:/b", "drive letter"),
    ("hidden-stream", b"SKILL.md:x", "colon"),
    ("empty", b"", "no name"),
    ("dot", b".", "no name"),
    ("dot-dot-slash", b"./.", "no name"),
    ("nul", b"a\0.txt", "control"),
    ("newline", b"a\nb", "control"),
    ("escape", b"a\x1b[31m", "control"),
    ("delete", b"a\x7f", "control"),
    ("right-to-left", "a\u202etxt.exe".encode(), "invisible"),
    ("line-separator", "a\u2028b".encode(), "invisible"),
    ("tag-characters", "a\U000e0041".encode(), "invisible"),
    ("latin-1", b"caf\xe9", "UTF-8"),
    ("surrogate", b"a\xed\xa0\x80", "UTF-8"),
    ("overlong-slash", b"a\xc0\xafb", "UTF-8"),
    ("con", b"CON", "Windows"),
    ("nul-device", b"a/nul", "Windows"),
    ("aux-with-suffix", b"aux.txt", "Windows"),
    ("com-one", b"Com1.tar.gz", "Windows"),
    ("com-superscript", "COM¹".encode(), "Windows"),
    ("con-space", b"con .txt", "Windows"),
    ("reserved-folder", b"prn/a", "Windows"),
    ("trailing-dot", b"a./b", "Windows"),
    ("trailing-space", b"a ", "Windows"),
    ("three-dots", b".../a", "Windows"),
    ("long", b"a" * 1025, "longer than 1,024 bytes"),
    ("long-when-folded", "\ufdfa".encode() * 300, "longer than 1,024 bytes"),
    ("deep", b"a/" * 32 + b"b", "32 folders deep"),
]


@each_kind
@pytest.mark.each(("name", "reason"), [case[1:] for case in HOSTILE_NAMES])
def test_a_hostile_name_refuses_the_whole_archive(pack: Pack, name: bytes, reason: str) -> None:
    with pytest.raises(ArchiveRefused, match=reason) as refusal:
        unpack(pack([(b"SKILL.md", SKILL), (name, b"x")]))
    assert refusal.value.hint
    assert str(refusal.value).isprintable()
    str(refusal.value.context["member"]).encode()


@pytest.mark.each("name", [b"../", b"/", b"C:\\", b"a/../../", b"con/", b"a\0/"])
def test_a_folder_with_a_hostile_name_is_refused(name: bytes) -> None:
    for archive in (
        zip_of(Zipped(name=name, data=b"")),
        tar_of(tar_member(b"p", pax(b"path", name), flag=b"x"), tar_header(b"a", flag=b"5")),
    ):
        with pytest.raises(ArchiveRefused):
            unpack(archive)


COLLISIONS: list[tuple[str, str, str]] = [
    ("exact", "a.txt", "a.txt"),
    ("spelled-otherwise", "a/b", "./a\\b"),
    ("case", "README.md", "readme.MD"),
    ("sharp-s", "straße", "STRASSE"),
    ("composed", "\u00e9", "e\u0301"),
    ("compatible", "ﬁle", "file"),
    ("fullwidth", "\uff21", "a"),
    ("kelvin", "\u212a", "k"),
    ("folder-case", "Docs/a", "docs/b"),
    ("file-and-folder", "a", "a/b"),
    ("folder-and-file", "a/b/c", "a/b"),
    ("file-and-folder-by-case", "A", "a/b"),
]


@each_kind
@pytest.mark.each(("first", "second"), [case[1:] for case in COLLISIONS])
def test_two_members_that_meet_under_one_name_are_refused(pack: Pack, first: str, second: str) -> None:
    with pytest.raises(ArchiveRefused, match=r"meets .* under the same name"):
        unpack(pack([(first.encode(), b"1"), (second.encode(), b"2")]))


def test_a_folder_member_that_is_also_a_file_is_refused() -> None:
    with pytest.raises(ArchiveRefused, match="under the same name"):
        unpack(zip_of(Zipped(name=b"a"), Zipped(name=b"a/", data=b"")))


def zip_link(path: bytes, target: bytes) -> Zipped:
    return Zipped(name=path, data=target, mode=stat.S_IFLNK | 0o777)


@pytest.mark.each(("path", "target"), [(b"l", b"a/f"), (b"a/l", b"f"), (b"b/c/l", b"../../a/f"), (b"l", b"./a//f")])
def test_a_symbolic_link_to_a_member_becomes_a_copy(path: bytes, target: bytes) -> None:
    file = Zipped(name=b"a/f", data=b"data", mode=stat.S_IFREG | 0o755)
    assert unpack(zip_of(zip_link(path, target), file))[path.decode()] == ArchiveMember(b"data", True)
    tar = tar_of(tar_header(path, flag=b"2", link=target), tar_member(b"a/f", b"data"))
    assert unpack(tar)[path.decode()] == ArchiveMember(b"data", False)


def test_a_hard_link_to_a_member_becomes_a_copy() -> None:
    tar = tar_of(tar_member(b"a/f", b"data"), tar_header(b"b/l", flag=b"1", link=b"./a/f"))
    assert unpack(tar) == {"a/f": ArchiveMember(b"data", False), "b/l": ArchiveMember(b"data", False)}


TARGETS_OUTSIDE = [b"/etc/passwd", b"../f", b"a/../../f", b".", b".."]
TARGETS_THAT_ARE_NO_FILE = [b"a", b"missing", b"l", b"other", b"", b"\xff", b"a\0", b"a\\f"]


@pytest.mark.each("target", TARGETS_OUTSIDE + TARGETS_THAT_ARE_NO_FILE)
def test_a_link_to_anything_but_a_member_is_refused(target: bytes) -> None:
    other = zip_link(b"other", b"a/f")
    archives = [zip_of(Zipped(name=b"a/f"), other, zip_link(b"l", target))]
    for flag in (b"1", b"2"):
        record = tar_member(b"p", pax(b"linkpath", target), flag=b"x")
        others = tar_header(b"other", flag=b"2", link=b"a/f")
        archives.append(tar_of(tar_member(b"a/f"), others, record, tar_header(b"l", flag=flag)))
    for archive in archives:
        with pytest.raises(ArchiveRefused, match=r"'l' is a (symbolic|hard) link"):
            unpack(archive)


def test_a_member_below_a_link_is_refused() -> None:
    with pytest.raises(ArchiveRefused, match="under the same name"):
        unpack(zip_of(zip_link(b"a", b"/tmp"), Zipped(name=b"a/f")))


def test_copies_made_from_links_count_as_bytes() -> None:
    links = [zip_link(b"l%d" % number, b"f") for number in range(10)]
    with pytest.raises(ArchiveRefused, match="limit of 5,000 bytes"):
        unpack(zip_of(Zipped(name=b"f", data=b"x" * 1000), *links), limits=ArchiveLimits(bytes=5_000))


@pytest.mark.each("kind", [stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK])
def test_a_device_pipe_or_socket_in_a_zip_is_refused(kind: int) -> None:
    with pytest.raises(ArchiveRefused, match="'x' is a device, pipe or socket"):
        unpack(zip_of(Zipped(name=b"x", mode=kind | 0o644)))


@pytest.mark.each("flag", [b"3", b"4", b"6", b"S", b"M", b"V", b"X", b"\xff"])
def test_a_tar_member_of_any_other_kind_is_refused(flag: bytes) -> None:
    with pytest.raises(ArchiveRefused, match="'x' is a device"):
        unpack(tar_of(tar_header(b"x", flag=flag)))


@pytest.mark.each("flag", [b"1", b"2", b"5"])
def test_a_tar_link_or_folder_that_carries_data_is_refused(flag: bytes) -> None:
    with pytest.raises(ArchiveRefused, match="carries data"):
        unpack(tar_of(tar_member(b"f"), tar_member(b"x", flag=flag, link=b"f")))


OTHER_KINDS = [b"BZh91AY&SY" * 9, b"\xfd7zXZ\0" * 9, b"Rar!\x1a\x07", b"7z\xbc\xaf\x27\x1c"]


@pytest.mark.each("data", [b"", b"P", b"PK", b"hello" * 200, bytes(1024), *OTHER_KINDS])
def test_what_is_no_archive_is_refused_with_the_kinds_that_are(data: bytes) -> None:
    with pytest.raises(ArchiveRefused, match="no known kind") as refusal:
        unpack(data)
    assert ".tar.gz" in refusal.value.hint


def test_a_gzip_that_holds_no_tar_is_refused() -> None:
    with pytest.raises(ArchiveRefused):
        unpack(gzip.compress(b"hello" * 500))


@each_kind
def test_an_archive_cut_anywhere_is_refused(pack: Pack) -> None:
    whole = pack([(b"SKILL.md", SKILL), (b"b.txt", b"two")])
    end = len(whole) if pack is not pack_tar else len(whole) - 1024  # zeros at the end of a tar may be missing
    for length in range(0, end, 7):
        with pytest.raises(ArchiveRefused):
            unpack(whole[:length])


def lying_zip(**lies: int | bytes) -> bytes:
    return zip_of(Zipped(name=b"a", **lies))  # type: ignore[arg-type]


def tar_after(record: bytes, flag: bytes = b"x") -> bytes:
    return tar_of(tar_member(b"p", record, flag=flag), tar_member(b"a"))


HONEST_ZIP = zip_of(Zipped(name=b"a"))
LIES: dict[str, bytes] = {
    "encrypted": lying_zip(flags=1),
    "strongly-encrypted": lying_zip(flags=0x41),
    "masked-headers": lying_zip(flags=0x2000),
    "bzip2": lying_zip(method=12),
    "lzma": lying_zip(method=14),
    "unknown-method": lying_zip(method=99),
    "another-name": lying_zip(own_name=b"../a"),
    "size-too-small": lying_zip(data=b"long", claimed_size=1),
    "size-too-large": lying_zip(claimed_size=1000),
    "size-zip64": lying_zip(claimed_size=0xFFFFFFFF, extra=struct.pack("<HHQ", 1, 8, 1 << 60)),
    "wrong-crc": lying_zip(crc=1),
    "broken-deflate": lying_zip(packed=b"\xff\xff\xff"),
    "deflate-without-end": lying_zip(data=b"x" * 999, packed=deflate(b"x" * 999)[:-1]),
    "data-in-deflate": lying_zip(packed=deflate(b"x") + b"hidden"),
    "data-in-deflate-later": lying_zip(packed=deflate(b"x") + b"hidden" * 1000),
    "data-after-zip": HONEST_ZIP + b"x",
    "zip-after-zip": HONEST_ZIP + zip_of(Zipped(name=b"b")),
    "zip-in-comment": zip_of(Zipped(name=b"a"), comment=zip_of(Zipped(name=b"b"))),
    "data-after-tar": tar_of(tar_member(b"a")) + b"x",
    "tar-after-tar": tar_of(tar_member(b"a")) + tar_of(tar_member(b"b")),
    "data-after-gzip": pack_tgz([(b"a", b"")]) + b"x",
    "gzip-wrong-crc": pack_tgz([(b"a", b"")])[:-8] + bytes(8),
    "tar-checksum": tar_of(tar_member(b"a").replace(b"a", b"b", 1)),
    "tar-broken-second-header": tar_of(tar_member(b"a"), b"garbage" + bytes(505)),
    "tar-negative-size": tar_of(tar_header(b"a", size_field=b"\xff" * 12)),
    "tar-huge-size": tar_of(tar_header(b"a", size_field=b"\x80" + b"\xff" * 11)),
    "tar-signed-size": tar_of(tar_header(b"a", size_field=b"-0000000512\0")),
    "tar-size-past-the-end": tar_of(tar_header(b"a", size=10_000_000)),
    "pax-length-zero": tar_after(b"0 path=a\n"),
    "pax-length-too-long": tar_after(b"99 path=a\n"),
    "pax-length-endless": tar_after(b"9" * 5000),
    "pax-size-negative": tar_after(pax(b"size", b"-512")),
    "pax-size-huge": tar_after(pax(b"size", b"9" * 4000)),
    "pax-size-no-number": tar_after(pax(b"size", b"1_0")),
    "pax-sparse": tar_after(pax(b"GNU.sparse.major", b"1")),
    "pax-path-for-all": tar_after(pax(b"path", b"b"), flag=b"g"),
}


@pytest.mark.each("archive", LIES.values())
def test_an_archive_that_lies_is_refused(archive: bytes) -> None:
    with pytest.raises(ArchiveRefused) as refusal:
        unpack(archive)
    assert refusal.value.hint


def test_a_note_for_all_members_of_a_tar_is_ignored() -> None:
    assert list(unpack(tar_after(pax(b"comment", b"the commit it was made from"), flag=b"g"))) == ["a"]


def test_a_zip_member_quoted_inside_another_is_refused() -> None:
    quoted = zip_of(Zipped(name=b"b", data=b"inner"))[: 30 + 1 + len(deflate(b"inner"))]
    archive = bytearray(zip_of(Zipped(name=b"a", data=quoted, method=0), Zipped(name=b"b", data=b"inner")))
    listed = archive.rfind(b"PK\x01\x02")
    archive[listed + 42 : listed + 46] = struct.pack("<L", 31)
    with pytest.raises(ArchiveRefused, match="share bytes"):
        unpack(bytes(archive))


def test_a_long_chain_of_headers_ends_in_the_last_one() -> None:
    chain = [tar_member(b"p", pax(b"path", b"%d" % number), flag=b"x") for number in range(3_000)]
    assert list(unpack(tar_of(*chain, tar_member(b"a")))) == ["2999"]


@each_kind
def test_the_last_file_allowed_is_read_and_the_next_is_refused(pack: Pack) -> None:
    archive = pack([(b"folder/%d" % number, b"") for number in range(10)])
    assert len(unpack(archive, limits=ArchiveLimits(files=10))) == 10
    with pytest.raises(ArchiveRefused, match="limit of 9 files"):
        unpack(archive, limits=ArchiveLimits(files=9))


@each_kind
def test_the_last_byte_allowed_is_read_and_the_next_is_refused(pack: Pack) -> None:
    archive = pack([(b"a", b"x" * 600), (b"b", b"y" * 400)])
    assert len(unpack(archive, limits=ArchiveLimits(bytes=1000))) == 2
    with pytest.raises(ArchiveRefused, match="'b' goes over the limit of 999 bytes"):
        unpack(archive, limits=ArchiveLimits(bytes=999))


def test_the_deepest_and_longest_path_allowed_is_read() -> None:
    limits = ArchiveLimits(depth=3, path_length=7)
    assert list(unpack(pack_zip([(b"a/b/ccc", b"")]), limits=limits)) == ["a/b/ccc"]
    for name in (b"a/b/c/d", b"a/b/cccc"):
        with pytest.raises(ArchiveRefused):
            unpack(pack_zip([(name, b"")]), limits=limits)


def test_more_folders_than_files_could_need_are_refused() -> None:
    folders = [tar_header(b"%d/a/b/c" % number, flag=b"5") for number in range(300)]
    with pytest.raises(ArchiveRefused, match="folders"):
        unpack(tar_of(*folders), limits=ArchiveLimits(files=10))


def test_an_archive_over_its_own_size_is_refused(tmp_path: Path) -> None:
    data = pack_zip([(b"a", b"")])
    file = tmp_path / "a.zip"
    file.write_bytes(data)
    assert unpack(file, limits=ArchiveLimits(archive_bytes=len(data)))
    for archive in (data, file):
        with pytest.raises(ArchiveRefused, match="larger than"):
            unpack(archive, limits=ArchiveLimits(archive_bytes=len(data) - 1))


def test_what_is_not_a_file_on_disk_is_refused(tmp_path: Path) -> None:
    paths = [tmp_path, tmp_path / "missing", Path("a\0b")]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        paths.append(tmp_path / "pipe")
    for path in paths:
        with pytest.raises(ArchiveRefused) as refusal:
            unpack(path)
        assert refusal.value.hint


def test_content_that_packs_well_is_allowed_up_to_one_mebibyte() -> None:
    assert len(unpack(pack_zip([(b"a", bytes(MEBIBYTE))]))["a"].data) == MEBIBYTE


@pytest.mark.each("pack", [pack_zip, pack_tgz])
def test_content_that_packs_too_well_is_refused(pack: Pack) -> None:
    with pytest.raises(ArchiveRefused, match="'a' unpacks to over 200 times"):
        unpack(pack([(b"a", bytes(2 * MEBIBYTE))]))


def many_full_members() -> bytes:
    size, crc, packed = MEBIBYTE, zlib.crc32(bytes(MEBIBYTE)), deflate(bytes(MEBIBYTE))
    return zip_of(*(Zipped(name=b"%d" % n, claimed_size=size, crc=crc, packed=packed) for n in range(100)))


def many_pax_headers() -> bytes:
    records = b"".join(pax(b"k%06d" % number, b"v" * 500) for number in range(1_200))
    return tar_of(*[tar_member(b"x", records, flag=b"x")] * 8, tar_member(b"a"))


BOMB = 24 * MEBIBYTE
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "zip": (lambda: zip_of(Zipped(name=b"a", data=bytes(BOMB))), "limit of 4,194,304 bytes"),
    "zip-of-modest-size": (
        lambda: lying_zip(claimed_size=10, packed=deflate(bytes(BOMB))),
        "limit of 4,194,304 bytes",
    ),
    "zip-of-many-full-members": (many_full_members, "limit of 4,194,304 bytes"),
    "zip-of-many-empty-members": (lambda: pack_zip((b"%d" % n, b"") for n in range(2_001)), "limit of 2,000 files"),
    "gzip": (lambda: gzip.compress(tar_header(b"a", size=BOMB) + bytes(BOMB), 1), "limit of 4,194,304 bytes"),
    "gzip-after-the-end": (lambda: gzip.compress(tar_of(tar_member(b"a")) + bytes(BOMB)), "200 times"),
    "gzip-streams": (lambda: gzip.compress(b"") * 200_000, "gzip streams"),
    "long-name": (lambda: gzip.compress(tar_header(b"L", size=BOMB, flag=b"L") + b"a" * BOMB, 1), "headers"),
    "one-pax-header": (lambda: gzip.compress(tar_header(b"x", size=BOMB, flag=b"x") + b"a" * BOMB, 1), "headers"),
    "many-pax-headers": (many_pax_headers, "headers"),
}


@pytest.mark.each(("bomb", "reason"), BOMBS.values(), ids=BOMBS, every=2)
def test_a_bomb_is_refused_before_it_fills_the_memory(bomb: Callable[[], bytes], reason: str) -> None:
    limits = ArchiveLimits(bytes=4 * MEBIBYTE)
    archive = bomb()
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveRefused, match=reason):
            unpack(archive, limits=limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limits.bytes + 10 * MEBIBYTE


def test_a_large_member_is_held_only_once() -> None:
    noise = random.Random(0).randbytes(3 * MEBIBYTE)
    for pack in (pack_zip, pack_tar):
        archive = pack([(b"a", noise)])
        tracemalloc.start()
        try:
            assert unpack(archive)["a"].data == noise
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < len(noise) * 1.2 + MEBIBYTE


def read_or_refuse(archive: bytes) -> None:
    try:
        files = unpack(archive, limits=ArchiveLimits(bytes=MEBIBYTE))
    except ArchiveRefused as refusal:
        assert refusal.hint
        assert str(refusal).isprintable()
    else:
        assert_safe(files)


MAGIC = st.sampled_from(
    [
        b"",
        b"PK\x03\x04",
        b"PK\x05\x06",
        b"\x1f\x8b\x08\0\0\0\0\0\0\xff",
        tar_header(b"a"),
        tar_header(b"a", flag=b"x", size=512),
    ]
)


@given(MAGIC, st.binary(max_size=2_000))
def test_random_bytes_are_read_safely_or_refused(magic: bytes, rest: bytes) -> None:
    read_or_refuse(magic + rest)


VALID = [
    pack_zip([(b"SKILL.md", SKILL), (b"a/b.txt", b"two" * 50)]),
    zip_of(Zipped(name=b"a/", data=b""), Zipped(name=b"a/f", method=0), zip_link(b"l", b"a/f"), comment=b"note"),
    pack_tar([(b"SKILL.md", SKILL), (b"a/b.txt", b"two" * 50)]),
    tool_tar({"d" * 120 + "/f": SKILL, "b": b"1"}, tarfile.GNU_FORMAT),
    tar_of(tar_header(b"a/", flag=b"5"), tar_member(b"a/f"), tar_header(b"l", flag=b"2", link=b"a/f")),
    pack_tgz([(b"SKILL.md", SKILL), (b"a/b.txt", b"two" * 50)]),
]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        change = draw(st.sampled_from(["flip", "set", "cut", "insert", "repeat"]))
        if change == "flip" and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif change == "set" and data:
            data[at] = draw(st.sampled_from([0, 1, 0x2E, 0x2F, 0x5C, 0x7F, 0x80, 0xFF]))
        elif change == "cut":
            del data[at : at + draw(st.integers(1, 600))]
        elif change == "insert":
            data[at:at] = draw(st.binary(max_size=40))
        else:
            data[at:at] = data[at : at + draw(st.integers(1, 600))]
    return bytes(data)


@given(mutated())
def test_a_damaged_archive_is_read_safely_or_refused(archive: bytes) -> None:
    read_or_refuse(archive)


@st.composite
def resealed(draw: st.DrawFn) -> bytes:
    """A tar whose headers are changed and whose checksums are right again, so that the change is looked at."""
    data = bytearray(draw(st.sampled_from([archive for archive in VALID if archive[257:262] == b"ustar"])))
    headers = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.sampled_from(headers))
        field = draw(st.sampled_from([(0, 100), (100, 8), (124, 12), (156, 1), (157, 100), (345, 155)]))
        value = draw(
            st.binary(min_size=1, max_size=field[1])
            | st.sampled_from([b"x", b"g", b"L", b"K", b"S", b"1", b"../", b"77777777777"])
        )
        data[at + field[0] : at + field[0] + min(len(value), field[1])] = value[: field[1]]
        data[at + 148 : at + 156] = b" " * 8
        data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    return bytes(data)


@given(resealed(), st.booleans())
def test_a_tar_with_changed_headers_is_read_safely_or_refused(archive: bytes, packed: bool) -> None:
    read_or_refuse(gzip.compress(archive, 1) if packed else archive)


HOSTILE_SEGMENTS = [".", "", "C:", "con", "nul.txt", "x.", "x ", "\0", "\u202e", "\u2025", "\uff0e\uff0e"]
MEETING_SEGMENTS = ["a", "A", "b", "é", "e\u0301", "ﬁ", "fi", "ß", "ss"]
SEGMENT = st.sampled_from(["..", *HOSTILE_SEGMENTS, *MEETING_SEGMENTS]) | st.text(max_size=4)
NAME = st.builds(
    lambda parts, separator, tail: (separator.join(parts) + tail).encode(errors="surrogatepass"),
    st.lists(SEGMENT, max_size=5),
    st.sampled_from(["/", "\\", "//"]),
    st.sampled_from(["", "", "", "/"]),
)


@given(st.lists(NAME | st.binary(max_size=12), min_size=1, max_size=5), st.sampled_from([pack_zip, pack_tar]))
def test_names_of_any_kind_are_read_safely_or_refused(names: list[bytes], pack: Pack) -> None:
    read_or_refuse(pack([(name, b"x") for name in names]))


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{1,8}(/[a-z]{1,8}){0,3}\.[a-z]{1,3}", fullmatch=True), st.binary(max_size=300), max_size=6
    )
)
def test_what_tools_pack_comes_back_as_it_was(files: dict[str, bytes]) -> None:
    names = [
        path for path in files if not {"con", "prn", "aux", "nul"} & {part.split(".")[0] for part in path.split("/")}
    ]
    expected = {path: ArchiveMember(files[path], False) for path in sorted(names)}
    plain = {path: files[path] for path in names}
    assert unpack(tool_zip(plain)) == expected
    if plain:
        assert unpack(tool_tar(plain)) == expected
