"""The contents of skills that audit records name: from the library, from the store, or others in their place."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import dataclass, pattern, replace
from metier.errors import FileMissing, InvalidArgument, MetierError
from metier.hub.skill_files import package_of
from metier.library import SkillIndex
from metier.library.places import Place
from metier.skill import FolderPackage, shown
from metier.skill.package import digest_of_files, files_of
from metier.source.memory import MemorySource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metier import Entry, Library
    from metier.skill.package import Files
    from metier.store import TenantScope

_DIGEST = pattern(r"(?:sha256:)?([0-9a-f]{7,64})")
_MOST_RECORDS = 10_000
"""Records of a skill that are looked through for contents of it."""
_MOST_PARENTS = 10


class SkillLabel(NamedTuple):
    """A skill as records name it: `name@source#` and the beginning of a digest."""

    name: str
    source: str
    digest: str

    @classmethod
    def of(cls, text: str) -> SkillLabel:
        """The label in a record.

        >>> SkillLabel.of("pdf@acme#0f1e2d")
        SkillLabel(name='pdf', source='acme', digest='0f1e2d')
        """
        ref, _, digest = text.rpartition("#")
        name, _, source = (ref or text).partition("@")
        return cls(name, source, digest if ref else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSkill:
    """The content that a record means, as far as it is known."""

    entry: Entry | None
    digest: str
    root: str = ""
    """The folder of the verified copy that the session had of it."""
    code: str = ""
    """Why it is not exactly what was decided about: `content-gone`, `place-gone`."""


class RecordedSkills:
    """Finds the contents that records name, and remembers what loads say of them."""

    def __init__(self, library: Library, scopes: Sequence[TenantScope], instead: Mapping[str, Files]) -> None:
        """Look in a library first, then in the store; `instead` are contents for the skills of these names."""
        self._entries: dict[tuple[str, str], Entry] = {}
        for entry in library.entries(all=True):
            self._entries.setdefault((entry.name, entry.source), entry)
        self._library, self._scopes, self._instead = library, scopes, instead
        self._loaded: dict[tuple[str, str], SkillLabel] = {}
        self._roots: dict[tuple[str, str], str] = {}
        self._parents: dict[str, str] = {}
        self._found: dict[SkillLabel, RecordedSkill] = {}

    def note_parent(self, session: str, parent: str) -> None:
        """Note the session that started another one: its skills are held against that one, too."""
        self._parents[session] = parent

    def note(self, session: str, label: SkillLabel, root: str) -> None:
        """Note a skill that a session loaded, by its whole digest, and the folder of its copy."""
        self._loaded[label.name, label.digest[7:19]] = label
        if root:
            self._roots[session, label.digest] = root

    def find(self, session: str, label: SkillLabel, layer: str = "", *, trusted: bool = True) -> RecordedSkill:
        """The content of a label, or the one that stands in its place."""
        known = self._loaded.get((label.name, label.digest), label)
        # Rules that are named have no source.
        label = SkillLabel(label.name, label.source or known.source, known.digest)
        if label not in self._found:
            self._found[label] = self._look(label, layer or "project", trusted=trusted)
        roots = (self._roots.get((one, label.digest)) for one in self._family(session))
        return replace(self._found[label], root=next(filter(None, roots), ""))

    def _family(self, session: str) -> Iterator[str]:
        """A session and those that led to it; no more than there can be."""
        for _ in range(_MOST_PARENTS):
            yield session
            session = self._parents.get(session, "")

    def _look(self, label: SkillLabel, layer: str, *, trusted: bool) -> RecordedSkill:
        digest = label.digest
        known = self._entries.get((label.name, label.source))
        files = self._instead.get(label.name)
        if files is not None:
            digest, code = digest_of_files(files), ""
        else:
            if known is not None and self._digest_of(known) == digest:
                return RecordedSkill(entry=known, digest=digest)
            scope = next((one for one in self._scopes if one.revisions.has(digest)), None)
            files = scope.revisions.files(digest) if scope is not None else {}
            if not files or any(mode == "link" for mode, _ in files.values()):
                return RecordedSkill(entry=None, digest=digest, code="content-gone")
            code = "" if known is not None else "place-gone"
        source = MemorySource({label.name: package_of(files)}, name=label.source, skill_name=label.name)
        other = Place(layer=layer, source=source, trusted=trusted)  # type: ignore[arg-type]
        place = other if known is None else replace(known.place, source=source)
        entry = SkillIndex([place], cache=False).snapshot.entries[0]
        entry = entry.below(None, known.reserved_by if known is not None else None)
        return RecordedSkill(entry=entry, digest=digest, code=code)

    def _digest_of(self, entry: Entry) -> str:
        try:
            return self._library.digest(entry)
        except MetierError:
            return ""


def read_contents(texts: Iterable[str], library: Library, scopes: Sequence[TenantScope]) -> dict[str, Files]:
    """Read contents by skill, each named as `NAME@DIGEST`, of the library or the store, or by a folder."""
    return dict(_read_content(text, library, scopes) for text in texts)


def _read_content(text: str, library: Library, scopes: Sequence[TenantScope]) -> tuple[str, Files]:
    name, _, digest = text.rpartition("@")
    wanted = _DIGEST.fullmatch(digest)
    if not name or wanted is None:
        return _read_folder(text)
    beginning = f"sha256:{wanted[1]}"
    for entry in library.entries(all=True):
        if entry.name == name and library.digest(entry).startswith(beginning):
            return name, files_of(entry.package, library.digest(entry))
    records = (record for scope in scopes for record in scope.audit.search(skill=name, limit=_MOST_RECORDS))
    digests = {str(record.get("digest", "")) for record in records if record.get("skill") == name}
    digests |= {one.digest for scope in scopes for one in scope.versions.of(name)}
    fitting = [one for one in digests if one.startswith(beginning)]
    kept = [(scope, one) for one in fitting for scope in scopes if scope.revisions.has(one)]
    if len(fitting) != 1 or not kept:
        which = "Several contents" if len(fitting) > 1 else "No content that is kept"
        hint = "`metier history NAME` lists its versions; the folder of a skill will do, too."
        raise FileMissing(f"{which} of skill {shown(name)!r} begins with {shown(digest, 80)}.", hint=hint)
    return name, kept[0][0].revisions.files(kept[0][1])


def _read_folder(text: str) -> tuple[str, Files]:
    if not os.path.isfile(os.path.join(text, "SKILL.md")):
        hint = "Write NAME@DIGEST, with seven digits or more, or the folder of a skill."
        raise InvalidArgument(f"{shown(text, 300)} is no content of a skill.", hint=hint)
    from metier.skill.document import parse

    files = files_of(FolderPackage(text))
    return parse(files["SKILL.md"][1], folder=os.path.basename(os.path.abspath(text))).skill.name, files
