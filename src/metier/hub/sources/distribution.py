"""A Python distribution as a source: its wheel is fetched from the index that pip is configured for, and only read.

Nothing is installed, built or run: a source distribution would have to be, and is refused.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import pattern, replace
from metier.errors import ArchiveRefused, IntegrityFailed, InvalidArgument, PartMissing, SourceUnavailable
from metier.hub.sources.fetch import Fetched, Resolved
from metier.hub.sources.http import sha256_of
from metier.hub.sources.tree import MemoryTree, candidates_of, files_of_archive, skill_folders
from metier.skill import shown
from metier.source.distribution import SKILLS_FOLDER, announced_folders, normalized_name
from metier.source.unpack import ArchiveLimits, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Candidate, Transfer
    from metier.source.unpack import ArchiveMember

LIMITS = ArchiveLimits(files=20_000, bytes=256 * 1024 * 1024, archive_bytes=128 * 1024 * 1024)

_MAX_ROOTS = 100
_NAME = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_VERSION = pattern(r"[A-Za-z0-9](?:[A-Za-z0-9.!+_-]{0,62}[A-Za-z0-9])?")
_HINT = "Check its name and version, and the index that pip is configured for. Only wheels are fetched."
_MISTRUST = "Do not install it; ask its author for a clean wheel."


class _Wheel(NamedTuple):
    name: str
    data: bytes


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The wheel that the index has now: its digest is its state."""
    if not _NAME.fullmatch(address.location) or (address.ref and not _VERSION.fullmatch(address.ref)):
        raise InvalidArgument(
            f"{shown(address.location)!r} is no name of a distribution, or {shown(address.ref)!r} no version.",
            hint="Write pypi:NAME or pypi:NAME==VERSION.",
        )
    # Names that are written in other ways mean the same; policies and locks have one of them.
    address = replace(address, location=normalized_name(address.location))
    wheel = _downloaded(f"{address.location}=={address.ref}" if address.ref else address.location, transfer)
    return Resolved(address=address, revision=sha256_of(wheel.data), data=wheel)


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills in a wheel."""
    if not isinstance(resolved.data, _Wheel):
        expected = resolved.revision
        resolved = resolve(resolved.address, transfer)
        if resolved.revision != expected:
            raise IntegrityFailed(
                f"The index has another wheel of {resolved.address.location} than before.", hint=_MISTRUST
            )
    wheel = resolved.data
    assert isinstance(wheel, _Wheel)
    yield Fetched(resolved=resolved, candidates=skills_of_wheel(wheel.name, wheel.data, resolved.address.location))


def skills_of_wheel(file: str, data: bytes, distribution: str) -> list[Candidate]:
    """The skills in a wheel, which must be one of that distribution by its file name and by its own metadata."""
    members = unpack(data, limits=LIMITS)
    metadata = _metadata_folder(members, distribution, file)
    folders = _folders(members, metadata)
    if not folders:
        return []
    _require_recorded(members, metadata, folders)
    tree = MemoryTree(files_of_archive(members))
    version = metadata.removesuffix(".dist-info").partition("-")[2]
    return candidates_of(tree, folders=folders, package=distribution, version=version)


def _downloaded(requirement: str, transfer: Transfer) -> _Wheel:
    options = "download --no-deps --only-binary :all: --no-input --disable-pip-version-check --no-color --quiet"
    transfer.progress(f"the wheel of {requirement}", 0, None)
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        words = [*_pip(), *options.split(), "--dest", folder, "--", requirement]
        problem = _run(words, folder, transfer)
        wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
        if problem or len(wheels) != 1:
            raise SourceUnavailable(f"No wheel of {requirement} was fetched{problem}.", hint=_HINT)
        path = os.path.join(folder, wheels[0])
        if os.path.getsize(path) > min(LIMITS.archive_bytes, transfer.max_bytes):
            raise SourceUnavailable(f"The wheel of {requirement} is larger than a source may be.", hint=_MISTRUST)
        with open(path, "rb") as file:
            data = file.read()
    transfer.progress(f"the wheel of {requirement}", len(data), len(data))
    return _Wheel(wheels[0], data)


def _run(words: list[str], folder: str, transfer: Transfer) -> str:
    """Run pip; returns the end of a sentence where it did not do what it was to do."""
    with subprocess.Popen(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            if sys.platform == "linux":
                import resource

                # pip writes as much as an index sends.
                most = min(LIMITS.archive_bytes, transfer.max_bytes)
                with contextlib.suppress(OSError):
                    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, most))
            _, said = process.communicate(timeout=transfer.seconds)
        except subprocess.TimeoutExpired:
            return f" in {transfer.seconds:,.0f} seconds"
        finally:
            process.kill()
    lines = [line for line in said.decode(errors="replace").splitlines() if "ERROR" in line]
    told = f": {shown(lines[-1].partition('ERROR:')[2].strip(), 300).rstrip('.')}" if lines else ""
    return (told or f": pip ended with {process.returncode}") if process.returncode else ""


def _pip() -> list[str]:
    """The command of pip: of this interpreter, else by uv."""
    import importlib.util
    import shutil

    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-I", "-m", "pip"]
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "tool", "run", "pip"]
    raise PartMissing("Wheels are fetched by pip or uv, and neither is here.", hint="Install pip or uv.")


def _metadata_folder(members: Mapping[str, ArchiveMember], wanted: str, file: str) -> str:
    """The folder of the metadata of a wheel, which must be of the distribution that was asked for."""
    found = {path.partition("/")[0] for path in members if path.partition("/")[0].endswith(".dist-info")}
    if len(found) != 1:
        raise ArchiveRefused(f"{shown(file)} has not one folder of metadata.", hint=_MISTRUST)
    folder = found.pop()
    parts = folder.removesuffix(".dist-info").split("-")
    is_same = file.split("-")[1:2] == parts[1:] and normalized_name(parts[0]) == wanted
    if not is_same or f"{folder}/RECORD" not in members:
        raise ArchiveRefused(f"{shown(file)} is not a wheel of {shown(wanted)}.", hint=_MISTRUST)
    return folder


def _folders(members: Mapping[str, ArchiveMember], metadata: str) -> list[str]:
    """The folders of the skills: all in `.agents/skills` of a package, and those that entry points announce."""
    inside = [path for path in members if not path.startswith(f"{metadata}/")]
    below = f"/{SKILLS_FOLDER}/"
    roots = {path.partition(below)[0] + f"/{SKILLS_FOLDER}" for path in inside if below in path}
    points = members.get(f"{metadata}/entry_points.txt")
    for _, value in announced_folders(points.data.decode(errors="replace") if points is not None else ""):
        package, colon, folder = (part.strip() for part in value.partition(":"))
        base = package.replace(".", "/")
        roots |= {f"{base}/{folder or 'skills'}"} if colon else {f"{base}/skills", base}
    if len(roots) > _MAX_ROOTS:
        raise ArchiveRefused(f"The wheel has more than {_MAX_ROOTS} folders of skills.", hint=_MISTRUST)
    return list(dict.fromkeys(folder for root in sorted(roots) for folder in skill_folders(inside, root)))


def _require_recorded(members: Mapping[str, ArchiveMember], metadata: str, folders: list[str]) -> None:
    """Refuse a wheel whose list of files does not have those of its skills, exactly as they are."""
    listed = members[f"{metadata}/RECORD"].data.decode(errors="replace")
    try:
        hashes = {row[0]: row[1] for row in csv.reader(listed.splitlines()) if len(row) > 1}
    except csv.Error:
        raise ArchiveRefused("The wheel's list of files cannot be read.", hint=_MISTRUST) from None
    of_skills = tuple(f"{folder}/" for folder in folders)
    for path, member in members.items():
        if path.startswith(of_skills):
            digest = base64.urlsafe_b64encode(hashlib.sha256(member.data).digest()).rstrip(b"=").decode()
            if hashes.get(path) != f"sha256={digest}":
                raise IntegrityFailed(f"{shown(path, 300)} is not as the wheel's list of files says.", hint=_MISTRUST)
