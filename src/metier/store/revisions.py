"""The contents of skills by digest, their history, and the content that belongs in each folder."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from metier._lazy import dataclass, field, replace
from metier.errors import FileMissing, IntegrityFailed
from metier.hints import for_people
from metier.store.rows import Table, now, require_choice, require_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.skill.package import FileMode, Files
    from metier.store.blobs import Blobs
    from metier.store.rows import TenantRows

_IS_KEPT = "SELECT 1 FROM revisions WHERE tenant = ? AND digest = ? AND kept = 1"
_MODES = ("file", "exec", "link")
InstallState: TypeAlias = Literal["enabled", "disabled", "quarantined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionFile:
    """One file of a revision."""

    path: str
    sha256: str
    """The hash of its content; of a link, that of its target."""
    size: int
    mode: FileMode = "file"
    kind: str = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The content of a skill at one time."""

    digest: str
    skill: str
    frontmatter: Mapping[str, Any] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    declared: tuple[str, ...] = ()
    """The tools that its frontmatter declares."""
    files: tuple[RevisionFile, ...] = ()
    parent: str = ""
    """The digest of the content before it."""
    first_seen: str = ""


_REVISIONS = Table(
    name="revisions",
    record=Revision,
    order=("digest",),
    only=("digest", "skill", "frontmatter", "capabilities", "declared", "parent", "first_seen"),
    json={"frontmatter": dict, "capabilities": dict, "declared": tuple},
)
REVISION_FILES = Table(name="revision_files", record=RevisionFile, order=("position",))


def revision_files(files: Files) -> tuple[RevisionFile, ...]:
    """Return the files of a revision from their contents, by path.

    >>> [file.kind for file in revision_files({"SKILL.md": ("file", b"..."), "scripts/x.py": ("exec", b"...")})]
    ['skill', 'script']
    """
    from metier.skill.package import kind_of

    return tuple(
        RevisionFile(
            path=path,
            sha256=hashlib.sha256(data).hexdigest(),
            size=len(data),
            mode=mode,
            kind="link" if mode == "link" else kind_of(path),
        )
        for path, (mode, data) in sorted(files.items())
    )


class Revisions:
    """The revisions of a tenant."""

    def __init__(self, rows: TenantRows, blobs: Blobs) -> None:
        self._rows = rows
        self._blobs = blobs

    def put(self, revision: Revision, files: Files | None = None) -> None:
        """Keep a revision, with its content where that is given; an existing one stays as it is.

        Raises `IntegrityFailed` for content that does not make the digest.
        """
        require_key("digest", revision.digest)
        if files is not None:
            _check(revision, files)
            # Before the row that refers to them, so that no row is without its content; in one order, so that two
            # processes that keep the same contents do not wait for each other.
            paths = sorted(files, key=lambda path: hashlib.sha256(files[path][1]).digest())
            self._blobs.put(files[path][1] for path in paths)
        revision = replace(revision, first_seen=revision.first_seen or now())
        listed = {"file_count": len(revision.files), "bytes": sum(file.size for file in revision.files)}
        listed["kept"] = int(files is not None)
        with self._rows.transaction():
            if not self._rows.insert(_REVISIONS, revision, unless_there=True, **listed):
                if files is None or self.has(revision.digest):
                    return
                # The earlier list of files was never compared with its content.
                self._rows.update(_REVISIONS, listed, digest=revision.digest)
                self._rows.delete(REVISION_FILES, digest=revision.digest)
            rows = ({**REVISION_FILES.to_row(file), "position": place} for place, file in enumerate(revision.files))
            self._rows.insert_all(REVISION_FILES, [{**row, "digest": revision.digest} for row in rows])

    def get(self, digest: str) -> Revision | None:
        """Return the revision with this digest."""
        with self._rows.snapshot():
            found = self._rows.first(_REVISIONS, digest=digest)
            return found and replace(found, files=tuple(self._rows.select(REVISION_FILES, digest=digest)))

    def file(self, digest: str, path: str) -> RevisionFile | None:
        """Return what is known of one file of a revision."""
        return self._rows.first(REVISION_FILES, digest=digest, path=path)

    def has(self, digest: str) -> bool:
        """Return whether the content of this digest is kept."""
        return bool(self._rows.statement(_IS_KEPT, digest))

    def files(self, digest: str) -> dict[str, tuple[FileMode, bytes]]:
        """Return the content of every file, by path."""
        if not self.has(digest):
            raise FileMissing(
                f"The content of {digest:.20}… was not kept here.",
                hint="Only what was deployed, proposed or approved here can be brought back.",
                digest=digest,
            )
        listed = self._rows.select(REVISION_FILES, digest=digest)
        found = {file.path: (file.mode, self._blobs.get(file.sha256)) for file in listed}
        _require_digest(digest, found)
        return found


def _check(revision: Revision, files: Files) -> None:
    for mode, _ in files.values():
        require_choice("mode of a file", mode, _MODES)
    expected = {file.path: (file.mode, file.sha256, file.size) for file in revision_files(files)}
    if {file.path: (file.mode, file.sha256, file.size) for file in revision.files} != expected:
        raise IntegrityFailed(
            f"The files of {revision.skill!r} are not those that the revision lists.",
            hint="Read the skill again; it may have changed meanwhile.",
            digest=revision.digest,
        )
    _require_digest(revision.digest, files)


def _require_digest(digest: str, files: Files) -> None:
    from metier.skill.package import digest_of_files

    if digest_of_files(files) != digest:
        raise IntegrityFailed(
            f"The content is not that of {digest:.20}….",
            hint=for_people(
                "Read the skill again; it may have changed meanwhile. `metier store check` looks at what is stored."
            ),
            digest=digest,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One step in the history of a skill."""

    number: int
    """From 1 on, in each folder by itself."""
    skill: str
    location: str
    digest: str
    by: str
    reason: str
    proposal: str = ""
    """The proposal that it came from."""
    at: str = ""


_VERSIONS = Table(name="versions", record=Version, order=("number",))
_VERSIONS_BY_TIME = Table(name="versions", record=Version, order=("at", "location", "number"))


class Versions:
    """The histories of a tenant's skills."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def add(self, skill: str, location: str, digest: str, *, by: str, reason: str, proposal: str = "") -> Version:
        """Note that a skill has this content from now on."""
        require_key("location", location)
        require_key("skill", skill)
        with self._rows.transaction():
            version = Version(
                number=self._rows.next_number(_VERSIONS, location=location),
                skill=skill,
                location=location,
                digest=digest,
                by=by,
                reason=reason,
                proposal=proposal,
                at=now(),
            )
            self._rows.insert(_VERSIONS, version)
        return version

    def of(self, location_or_skill: str) -> list[Version]:
        """Return the history of a folder, or else of a skill in all folders, the oldest first."""
        found = self._rows.select(_VERSIONS, location=location_or_skill)
        return found or self._rows.select(_VERSIONS_BY_TIME, skill=location_or_skill)


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """The content of a folder, the person who put it there, and whether it may be used."""

    location: str
    """The folder of the skill."""
    skill: str
    source: str = ""
    layer: str = ""
    digest: str
    state: InstallState = "enabled"
    by: str = ""
    at: str = ""


INSTALLS = Table(name="installs", record=Install, order=("location",))


class Installs:
    """The installs of a tenant."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def put(self, install: Install) -> Install:
        """Note the content of a folder, in place of the one before."""
        require_key("location", install.location)
        require_choice("state of an install", install.state, get_args(InstallState))
        install = install if install.at else replace(install, at=now())
        with self._rows.transaction():
            self._rows.replace(INSTALLS, install, key=("location",))
            self._rows.bump()
        return install

    def get(self, location: str) -> Install | None:
        """Return the install of a folder."""
        return self._rows.first(INSTALLS, location=location)

    def all(self) -> list[Install]:
        """Return all installs, by folder."""
        return self._rows.select(INSTALLS)

    def remove(self, location: str) -> bool:
        """Forget a folder; False when nothing was noted about it."""
        with self._rows.transaction():
            was_there = self._rows.delete(INSTALLS, location=location)
            if was_there:
                self._rows.bump()
        return was_there
