"""An archive of a skill, of which the same content always gives the same bytes."""

from __future__ import annotations

import gzip
import io
import posixpath
import stat
import tarfile
import zipfile
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier.errors import FileRefused, InvalidArgument
from metier.hub.sources.tree import files_of_archive
from metier.skill import shown
from metier.source.unpack import unpack

if TYPE_CHECKING:
    from metier.skill.package import FileMode, Files

ArchiveKind: TypeAlias = Literal["zip", "tar.gz"]
SUFFIXES: dict[str, ArchiveKind] = {".skill": "zip", ".zip": "zip", ".tar.gz": "tar.gz", ".tgz": "tar.gz"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first moment that a zip can name, in place of all that clocks and time zones say."""
_MODES = {"file": 0o644, "exec": 0o755}
_MOST_RATIO = 100
"""A file that shrinks more than that is stored as it is: readers, ours as well, take it for a bomb."""


def kind_of_archive(name: str) -> ArchiveKind:
    """The kind of archive that a file's name asks for.

    >>> kind_of_archive("pdf-1.2.skill"), kind_of_archive("pdf.tar.gz")
    ('zip', 'tar.gz')
    """
    found = next((kind for suffix, kind in SUFFIXES.items() if name.lower().endswith(suffix)), None)
    if found is None:
        raise InvalidArgument(
            f"{shown(name, 200)!r} is no name of an archive.", hint=f"Let it end with {', '.join(SUFFIXES)}."
        )
    return found


def pack(files: Files, kind: ArchiveKind = "zip") -> bytes:
    """The archive of files, with SKILL.md at its root: sorted, without times and owners, with modes 0644 and 0755 only.

    It is read again as it would be by whoever gets it. Raises `FileRefused` or `ArchiveRefused` where they would not
    get these files, such as for a name that some system cannot store.

    >>> data = pack({"SKILL.md": ("file", b"Do it.")})
    >>> data == pack({"SKILL.md": ("file", b"Do it.")}), sorted(unpack(data))
    (True, ['SKILL.md'])
    """
    data = _zip(files) if kind == "zip" else _tar(files)
    back = files_of_archive(unpack(data))
    if back != dict(files):
        lost = sorted(set(files) ^ set(back) or set(files))[0]
        raise FileRefused(
            f"{shown(lost)!r} does not come out of an archive as it went in.", hint="Rename or remove it.", path=lost
        )
    return data


def without_links(files: Files) -> dict[str, tuple[FileMode, bytes]]:
    """The files with a copy in place of each link.

    Raises `FileRefused` for a link that leads out of the skill, to a folder or to another link.

    >>> without_links({"a": ("file", b"A"), "b": ("link", b"a")})
    {'a': ('file', b'A'), 'b': ('file', b'A')}
    """
    found = dict(files)
    for path, (mode, data) in files.items():
        if mode == "link":
            led = posixpath.normpath(posixpath.join(posixpath.dirname(path), data.decode(errors="replace")))
            found[path] = files.get(led, ("link", b""))
            if found[path][0] == "link":
                raise FileRefused(
                    f"{shown(path)!r} is a link that leads to no file of the skill.",
                    hint="Replace it by a copy of the file.",
                    path=path,
                )
    return found


def _zip(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(files):
            mode, data = files[path]
            info = zipfile.ZipInfo(path, _EPOCH)
            info.create_system = 3  # Unix, on every system: modes count only then
            info.external_attr = (stat.S_IFREG | _MODES[mode]) << 16
            info.compress_type = zipfile.ZIP_DEFLATED if _shrinks_moderately(data) else zipfile.ZIP_STORED
            archive.writestr(info, data)
    return out.getvalue()


def _shrinks_moderately(data: bytes) -> bool:
    import zlib

    return len(data) // _MOST_RATIO < len(zlib.compress(data, 9)) < len(data)


def _tar(files: Files) -> bytes:
    out = io.BytesIO()
    # `gzip.compress` leaves a byte of the header to whichever zlib is there.
    with (
        gzip.GzipFile("", "wb", 9, out, mtime=0) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive,
    ):
        for path in sorted(files):
            mode, data = files[path]
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), _MODES[mode]
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
