"""An archive of a skill, of which the same content always gives the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._paths import is_inside, write_file
from metier.errors import FileRefused, InvalidArgument
from metier.guard.signatures import SIGNATURE_FILE
from metier.hub.publish.release import read_release, record_made
from metier.hub.safe_folder import path_failure
from metier.hub.scan_findings import against
from metier.hub.skill_files import package_of
from metier.hub.sources.tree import files_of_archive
from metier.scan import scan
from metier.skill import shown
from metier.source.source import absolute, expanded
from metier.source.unpack import unpack

if TYPE_CHECKING:
    from metier.guard import Actor, Guard
    from metier.hub.publish.release import Release
    from metier.skill.package import Files

ArchiveKind: TypeAlias = Literal["zip", "tar.gz"]
_KINDS: dict[str, ArchiveKind] = {".skill": "zip", ".zip": "zip", ".tar.gz": "tar.gz", ".tgz": "tar.gz"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first moment that a zip can name, in place of all that clocks and time zones say."""
_MODES = {"file": 0o644, "exec": 0o755}
_MOST_RATIO = 100
"""A file that shrinks more than that is stored as it is: readers, ours as well, take it for a bomb."""


def pack_skill(
    path: str | os.PathLike[str],
    to: str | os.PathLike[str],
    *,
    accept_findings: str = "",
    key: str = "",
    by: tuple[Guard, Actor] | None = None,
) -> tuple[Release, dict[str, Any]]:
    """Write the archive of the skill in a folder; the release, and the facts about the file.

    `key` is the file of a private key that signs it.
    """
    target = absolute(expanded(os.fspath(to)))
    kind = next((kind for suffix, kind in _KINDS.items() if target.lower().endswith(suffix)), None)
    if kind is None or os.path.isdir(target):
        raise InvalidArgument(
            f"{shown(target, 200)!r} is no name for an archive.", hint=f"Let it end with {', '.join(_KINDS)}."
        )
    if is_inside(os.path.realpath(target), os.path.realpath(absolute(expanded(os.fspath(path))))):
        raise InvalidArgument(
            "The archive would become a part of the skill that it is made of.", hint="Name a file elsewhere."
        )
    release = read_release(path, key=key)
    packs = by[0].governance.effective.scan.packs if by is not None else ()
    refusal = against(scan(package_of(release.files), packs=packs), accept_findings)
    if refusal is not None:
        raise refusal.as_error()
    data = pack(release.files, kind)
    try:
        write_file(target, data, mode=0o666)
    except OSError as error:
        raise path_failure(target, "written", error, "Name another file.") from None
    facts = {
        "file": target,
        "sha256": hashlib.sha256(data).hexdigest(),
        "digest": release.digest,
        "bytes": len(data),
        "files": len(release.files),
        "name": release.name,
        "version": release.version or None,
        "copied": list(release.copied),
        "signed": SIGNATURE_FILE in release.files,
    }
    if by is not None:
        fields = {"skill": release.name, "new_digest": release.digest, "path": target, "notes": (release.label,)}
        record_made("skill.packed", by, **fields, reason=accept_findings.strip())
    return release, facts


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


def _zip(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, (mode, data) in sorted(files.items()):
            info = zipfile.ZipInfo(path, _EPOCH)
            info.create_system = 3  # Unix, on every system: modes count only then
            info.external_attr = (stat.S_IFREG | _MODES[mode]) << 16
            shrinks = len(data) // _MOST_RATIO < len(zlib.compress(data, 9)) < len(data)
            info.compress_type = zipfile.ZIP_DEFLATED if shrinks else zipfile.ZIP_STORED
            archive.writestr(info, data)
    return out.getvalue()


def _tar(files: Files) -> bytes:
    out = io.BytesIO()
    # `gzip.compress` leaves a byte of the header to whichever zlib is there.
    with (
        gzip.GzipFile("", "wb", 9, out, mtime=0) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT, encoding="utf-8") as archive,
    ):
        for path, (mode, data) in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), _MODES[mode]
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()
