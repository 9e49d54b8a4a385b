"""The seam of all kinds of sources: an address is resolved to one exact state, and skills are read from that state."""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Protocol

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from metier.hub.sources.address import Kind, SourceAddress
    from metier.skill.package import Files


class Permit(Protocol):
    """Raises for a source that nothing may be fetched from.

    With `is_way`, the source that was asked leads there: it need not be among those that are allowed.
    """

    def __call__(self, address: SourceAddress, /, *, is_way: bool = False) -> None:
        """Decide about a source."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """The limits of a transfer, and who is told how far it is."""

    progress: Callable[[str, int, int | None], None] = field(default=lambda *_: None, compare=False)
    """Told what is transferred, how much of it is here, and how much there is, where that is known."""
    permit: Permit = field(default=lambda _, is_way=False: None, compare=False)
    """Asked before any source is, and before any host that one leads to."""
    max_bytes: int = 256 * 1024 * 1024
    """The most bytes that one transfer may have."""
    seconds: float = 300.0
    """The longest that one transfer may take, however slowly it trickles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """An address, and the one state of the source that it means now."""

    address: SourceAddress
    revision: str
    """A commit, a version, or `sha256:...`: the same again only for the same content."""
    is_exact: bool = False
    """Whether the address itself named exactly this state, so that it can never mean another."""
    data: object = field(default=None, compare=False)
    """Data that the kind needs again for fetching, such as an index that was downloaded already."""
    parts: Mapping[str, str] | None = field(default=None, compare=False)
    """The states of single skills by their paths, where the source announces those."""
    versions: Mapping[str, str] | None = field(default=None, compare=False)
    """The versions of single skills by their paths, where the source announces those."""
    deprecated: Mapping[str, str] | None = field(default=None, compare=False)
    """The sentences about single skills that should not be used any more, by their paths."""
    yanked: Mapping[str, str] | None = field(default=None, compare=False)
    """The reasons why states were withdrawn, where the source tells, by their revisions."""
    known: tuple[str, ...] = field(default=(), compare=False)
    """Where skills were found before: they are found there again, even in folders that only an address names."""

    def revision_of(self, path: str) -> str:
        """The state of the skill at a path, which stays the same when only others change, if the source tells."""
        return (self.parts or {}).get(path, self.revision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A skill that a source has. Its files are read when they are asked for."""

    folder: str
    """The folder's name, which is the skill's name in most sources."""
    path: str
    """Where it lies in the source; empty for the root."""
    skill_file: Callable[[], bytes] = field(compare=False)
    """Gives its SKILL.md."""
    files: Callable[[], Files] = field(compare=False)
    """Gives all of its files, verified by whatever the source announced."""
    package: str = ""
    """The package that it belongs to: a plugin, a distribution, a repository."""
    version: str = ""
    """The version of that package, where it has one."""
    yanked: str = ""
    """The reason why its author withdrew this version; empty where they did not."""
    notes: tuple[str, ...] = ()
    """Sentences for the person who adds it, such as parts of a plugin that are left out."""
    source: SourceAddress | None = None
    """The source that its files come from, where that is not the one that was asked: policies decide about it too."""
    resolved: Resolved | None = None
    """The state of that source."""
    is_plugin: bool = False
    """Whether it stands for all skills of a plugin that is fetched from `source`, and only when it is chosen."""
    about: str = ""
    """The description that its source announces, by which it can be chosen before it is fetched."""
    folders: tuple[str, ...] = ()
    """The folders of a plugin that are skills or hold some, where they are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One state of a source, and the skills in it."""

    resolved: Resolved
    candidates: Sequence[Candidate]
    warnings: tuple[str, ...] = ()

    @property
    def offered(self) -> list[Candidate]:
        """The skills to choose from: one that was withdrawn only where the address names its version or digest."""
        return [one for one in self.candidates if not one.yanked or self.resolved.address.ref]


KINDS: dict[Kind, str] = {
    "dir": "metier.hub.sources.folder",
    "git": "metier.hub.sources.git",
    "archive": "metier.hub.sources.archive",
    "well-known": "metier.hub.sources.well_known",
    "marketplace": "metier.hub.sources.marketplace",
    "apm": "metier.hub.sources.apm",
    "pypi": "metier.hub.sources.distribution",
    "oci": "metier.hub.sources.oci",
}
"""The module of each kind, with two functions: `resolve` of an address and a transfer gives `Resolved`, and `fetch` of
that and a transfer is a context of `Fetched`, with which what skills are read from is gone."""


def resolve(address: SourceAddress, transfer: Transfer | None = None) -> Resolved:
    """The state that an address means now, found by at most one request."""
    transfer = transfer or Transfer()
    transfer.permit(address)
    found: Resolved = importlib.import_module(KINDS[address.kind]).resolve(address, transfer)
    return found


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer | None = None) -> Iterator[Fetched]:
    """The skills of a state of a source."""
    transfer = transfer or Transfer()
    transfer.permit(resolved.address)
    with importlib.import_module(KINDS[resolved.address.kind]).fetch(resolved, transfer) as fetched:
        yield fetched
