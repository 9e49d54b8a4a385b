"""Inspection of content: its capabilities and scan report, each computed once for a digest."""

from __future__ import annotations

import functools
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from metier._cache import BoundedCache
from metier._lazy import logger
from metier.errors import FileRefused, FileTooLarge, PackageTooLarge, PolicyInvalid
from metier.skill.package import MAX_FILE_BYTES, content_of, entries_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.guard.decision import Subject
    from metier.guard.policy.effective import ScanSettings
    from metier.guard.signers import TrustedSigners
    from metier.library import Entry
    from metier.scan import ScanReport
    from metier.scan.capabilities import Capabilities
    from metier.scan.finding import Finding
    from metier.scan.pack_store import PackRef
    from metier.scan.suppression import Suppression
    from metier.skill import Package, PackageListing
    from metier.skill.package import DigestEntry, FileMode

log = logger("metier.guard")

_KEPT = 512
_MAX_SUPPRESSION_BYTES = 1024 * 1024
_MAX_BYTES = 32 * 1024 * 1024


class PackageSnapshot:
    """The files of a package as they were at one moment, all of them those of one digest.

    Whatever is concluded from it is true of that digest, whoever changes the files meanwhile.
    """

    def __init__(self, package: Package, digest: str) -> None:
        """Read everything; raises `SkillChanged` where the package is not, or does not stay, what the digest says."""
        self._entries = entries_of(package, digest)
        self._listing = package.listing()
        self._digest = digest
        self.files: dict[str, tuple[FileMode, bytes]] = {}
        """Path to mode and content; the content of a link is where it leads."""
        self.too_large: dict[str, FileTooLarge] = {}
        """The files that are too large to be inspected, which are never taken for harmless."""
        for entry in self._entries:
            try:
                self.files[entry.path] = (entry.mode, content_of(package, entry))
            except FileTooLarge as error:
                self.too_large[entry.path] = error

    def listing(self) -> PackageListing:
        """All files."""
        return self._listing

    def read(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        """The content of one file."""
        if path in self.too_large:
            raise self.too_large[path]
        mode, data = self.files.get(path, ("link", b""))
        if mode == "link" or len(data) > limit:
            raise FileRefused(f"{path!r} is no file of this size.", hint="Read another.", path=path)
        return data

    def signature(self) -> str:
        """The digest: nothing in it changes."""
        return self._digest

    def digest(self) -> str:
        """The digest that it was taken for."""
        return self._digest

    def contents(self) -> list[DigestEntry]:
        """Every file with the hash of its content."""
        return self._entries

    def link_target(self, path: str) -> bytes:
        """The target of a link."""
        return self.files[path][1]


_capabilities: BoundedCache[tuple[object, ...], Capabilities] = BoundedCache(_KEPT)
_signers: BoundedCache[tuple[str, TrustedSigners], str] = BoundedCache(_KEPT)
_reports: BoundedCache[tuple[str, tuple[Suppression, ...], tuple[PackRef, ...]], ScanReport] = BoundedCache(_KEPT)


def capabilities_of(entry: Entry, digest: str, *, network: tuple[str, ...], write: tuple[str, ...]) -> Capabilities:
    """The capabilities of the content of a digest; raises `SkillChanged` where the package is another by now.

    `network` are the tools that count as reaching the network, `write` those that count as writing files.
    """
    key = (digest, network, write)
    found = _capabilities.get(key)
    if found is None:
        from metier.scan.capabilities import infer

        found = _capabilities[key] = infer(_snapshot(entry.package, digest), network=network, write=write)
    return found


def scan_report_of(
    entry: Entry, digest: str, suppressions: tuple[Suppression, ...], packs: tuple[PackRef, ...] = ()
) -> ScanReport:
    """The report of the scanner, with the rules of packs, on the content of a digest, without suppressed findings."""
    key = (digest, suppressions, packs)
    found = _reports.get(key)
    if found is None:
        from metier.scan import scan

        found = scan(_snapshot(entry.package, digest), packs=packs, suppressions=suppressions)
        if found.status == "ok":
            # A scan that failed is tried again: what was wrong may be mended.
            _reports[key] = found
    return found


def findings_together(
    subjects: Sequence[Subject], settings: ScanSettings, *, is_known_enough: bool = False
) -> tuple[Finding, ...]:
    """Findings about the last skill together with one of the others, which neither has alone.

    With `is_known_enough`, nothing is scanned for it: only skills count of which there is a report.
    """
    if settings.together == "off" or len(subjects) < 2:
        return ()
    suppressions = current_suppressions(settings.suppressions)
    reports = []
    for one in subjects:
        report = _reports.get((one.digest, suppressions, settings.packs))
        if report is None and not is_known_enough and one.entry is not None and one.digest:
            report = scan_report_of(one.entry, one.digest, suppressions, settings.packs)
        reports.append(report)
    *others, last = reports
    known = [one for one in others if one is not None]
    if last is None or not known:
        return ()
    from metier.scan.together import found_together

    return tuple(found for one in known for found in found_together((one, last), settings.together))


def signer_of(entry: Entry, digest: str, trusted: TrustedSigners) -> str:
    """The signer of the content of a digest, empty for none; raises where the content is not what was signed."""
    key = (digest, trusted)
    found = _signers.get(key)
    if found is None:
        from metier.guard.signatures import verify

        found = _signers[key] = verify(_snapshot(entry.package, digest).files, trusted).signer
    return found


def _snapshot(package: Package, digest: str) -> PackageSnapshot:
    """The files of a package; raises for one that would take too long to look into: nobody waits minutes to decide."""
    size = sum(file.size for file in package.listing().files)
    if size > _MAX_BYTES:
        raise PackageTooLarge(
            f"It has {size:,} bytes, too many to be looked into.", hint=f"At most {_MAX_BYTES:,} are.", size=size
        )
    return PackageSnapshot(package, digest)


def current_suppressions(path: str | None) -> tuple[Suppression, ...]:
    """The suppressions of a file that have not run out. One that cannot be used suppresses nothing."""
    if path is None:
        return ()
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    now = datetime.now(UTC)
    read = _read_suppressions(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return tuple(one for one in read if not one.is_expired(now))


@functools.lru_cache(16)
def _read_suppressions(path: str, *_version: int) -> tuple[Suppression, ...]:
    from metier.scan.suppression import read_suppressions

    try:
        with open(path, encoding="utf-8") as file:
            return read_suppressions(file.read(_MAX_SUPPRESSION_BYTES), where=path)
    except (OSError, ValueError, PolicyInvalid) as error:
        log.warning("no finding is suppressed: %s", error)
        return ()
