"""Skills as the skills extension of the protocol has them: frontmatter as written, and every file with its digest."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from metier._cache import BoundedCache
from metier._lazy import dataclass, logger
from metier.errors import MetierError, PackageTooLarge, SkillInvalid
from metier.serve.mcp.typed_frontmatter import typed_mapping
from metier.serve.mcp.uris import uri_of
from metier.skill.frontmatter import split
from metier.skill.names import is_valid_name
from metier.skill.validate import check_strictly

if TYPE_CHECKING:
    from metier.library import Entry

log = logger("metier.serve")

FILE = "SKILL.md"
MAX_FILES = 512
MAX_BYTES = 16 * 1024 * 1024
_MAX_KEPT = 10_000
_FATAL = re.compile(r"spec-(?!unexpected-field)|portable-tools-list").match


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillManifest:
    """The description of a skill for a host, before it reads any of its files."""

    name: str
    frontmatter: dict[str, Any]
    files: tuple[tuple[str, str, int], ...]
    """Path, digest and size of each."""
    scripts: frozenset[str] = frozenset()
    """The paths of those that are run and not read."""

    def as_dict(self, *, is_bare: bool = False, has_scripts: bool = True) -> dict[str, Any]:
        """The entry as the protocol has it; a bare one says of the skill no more than its name."""
        resources = [
            {"uri": uri_of(self.name, path), "digest": digest, "size": size}
            for path, digest, size in self.files
            if has_scripts or path not in self.scripts
        ]
        frontmatter = {"name": self.name} if is_bare else self.frontmatter
        return {"uri": uri_of(self.name, FILE), "frontmatter": frontmatter, "resources": resources}


class SkillManifests:
    """The manifests of skills, made again when a file may have changed."""

    def __init__(self) -> None:
        self._kept: BoundedCache[tuple[int, str], tuple[str, SkillManifest | MetierError]] = BoundedCache(_MAX_KEPT)

    def of(self, entry: Entry) -> SkillManifest:
        """The manifest of a skill; raises where the extension has no way to serve it."""
        where = (id(entry.place), entry.key)
        signature = entry.package.signature()
        kept = self._kept.get(where)
        if kept is None or kept[0] != signature:
            kept = (signature, _make_manifest(entry))
            self._kept[where] = kept
        made = kept[1]
        if isinstance(made, MetierError):
            # Another one each time: what is raised again and again keeps every place that it was raised from.
            raise type(made)(made.message, hint=made.hint)
        return made


def _make_manifest(entry: Entry) -> SkillManifest | MetierError:
    try:
        scripts = frozenset(file.path for file in entry.package.listing().scripts())
        return SkillManifest(name=entry.name, files=_files(entry), frontmatter=_frontmatter(entry), scripts=scripts)
    except MetierError as error:
        log.warning("%s is not served as a skill: %s %s", entry.name, error.message, error.hint)
        return error


def _files(entry: Entry) -> tuple[tuple[str, str, int], ...]:
    package = entry.package
    listing = package.listing()
    if listing.stopped_at is not None or len(listing.files) > MAX_FILES:
        raise PackageTooLarge(f"It has more than {MAX_FILES} files.", hint="Remove what it does not need.")
    found: list[tuple[str, str, int]] = []
    total = 0
    for file in listing.files:
        try:
            data = package.read(file.path, limit=MAX_BYTES)
        except MetierError:
            if file.kind == "link":
                continue  # it leads nowhere, or out of the skill, and nobody can read it
            raise
        total += len(data)
        if total > MAX_BYTES:
            raise PackageTooLarge(f"It has more than {MAX_BYTES:,} bytes.", hint="Remove what it does not need.")
        found.append((file.path, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data)))
    return tuple(found)


def _frontmatter(entry: Entry) -> dict[str, Any]:
    """The frontmatter with the types that YAML gives its values; raises where a host could not find it the same."""
    data = entry.package.read(FILE)
    wrong = [note for note in check_strictly(data, folder="", portable=True) if _FATAL(note.code)]
    if wrong:
        raise SkillInvalid(wrong[0].message, hint=wrong[0].hint)
    text = data.decode().replace("\r\n", "\n")
    block, _, body, *_ = split(text)
    head = text.removesuffix(body).rstrip()
    # Other programs find no other: not behind a byte order mark, and none that ends in three dots.
    if block is None or not head.startswith("---") or not head.endswith("---"):
        raise SkillInvalid("Its frontmatter does not stand between two lines of ---.", hint="Write it so.")
    found = typed_mapping(block)
    if found.get("name") != entry.name or not is_valid_name(entry.name):
        raise SkillInvalid(
            f"Its name is not what it is called here, {entry.name!r}.", hint="Name it with a-z, 0-9 and single hyphens."
        )
    return found
