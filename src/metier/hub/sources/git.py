"""A git repository as a source: one commit, read from its objects without ever checking it out.

A repository is fetched shallow. Where the address names a folder, only folders are fetched first and then the files
below that one; else all files but large ones, which are fetched with the skill that has them. Where that is too much,
it is begun anew: folders first, then the files that tell which skills there are, then those of the chosen skill.
"""

from __future__ import annotations

import contextlib
from posixpath import basename
from typing import TYPE_CHECKING

from metier._lazy import pattern, replace
from metier.errors import FileRefused, InvalidArgument, PackageTooLarge, SourceUnavailable
from metier.hints import for_people
from metier.hub.sources.fetch import Resolved
from metier.hub.sources.git_process import protocols, repository
from metier.hub.sources.layout import candidates_by_layout
from metier.hub.sources.tree import MAX_TREE_FILES, Tree
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metier.hub.sources.address import SourceAddress
    from metier.hub.sources.fetch import Candidate, Fetched, Transfer
    from metier.hub.sources.git_process import GitRepository
    from metier.skill.package import FileMode

_COMMIT = pattern(r"[0-9a-fA-F]{40}|[0-9a-fA-F]{64}")
_REF = pattern(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\/.-][^\x00-\x20\x7f~^:?*\[\\]*(?<![/.])")
_MODES: dict[str, FileMode] = {"100644": "file", "100664": "file", "100755": "exec", "120000": "link"}
_SUBMODULE = "160000"
_LARGE_BYTES = 256 * 1024
_CHEAP_BYTES = 32 * 1024 * 1024
"""As much is fetched at once, rather than by several requests."""
_INDEX = frozenset({"skill.md", "plugin.json", "marketplace.json"})
"""Names of the files that tell which skills and plugins there are."""
_MAX_LISTING = 64 * 1024 * 1024
_MAX_PATH = 4_096
_MAX_DEPTH = 100
_LFS = b"version https://git-lfs.github.com/spec/"
_LFS_BYTES = 1_024


def resolve(address: SourceAddress, transfer: Transfer) -> Resolved:
    """The commit that an address means now. As git has it, a tag goes before a branch of the same name.

    `data` is the full name of the ref: a lock whose commit differs although that is below `refs/tags/` tells of a tag
    that was moved.
    """
    protocols(address.location)
    if _COMMIT.fullmatch(address.ref):
        return Resolved(address=address, revision=address.ref.lower(), is_exact=True)
    meant = {name: split for split in _splits(address) for name in _full_names(split.ref)}
    kinds = ["--heads", "--tags"] if address.ref and not address.ref.startswith("refs/") else []
    with repository(address.location, transfer) as git:
        listing = git.run("ls-remote", *kinds, "--", address.location, *meant, *(f"{name}^{{}}" for name in meant))
    lines = (line.partition("\t") for line in listing.decode(errors="replace").splitlines())
    commits = {name: commit for commit, _, name in lines}
    for name, split in meant.items():
        commit = commits.get(f"{name}^{{}}", commits.get(name, ""))
        if _COMMIT.fullmatch(commit):
            return Resolved(address=split, revision=commit, data=name)
    if not address.ref:
        raise SourceUnavailable(f"{shown(address.location, 300)} has no commit.", hint="Name a branch, if it has one.")
    raise SourceUnavailable(
        f"{shown(address.location, 300)} has no branch or tag {shown(address.ref)!r}.",
        hint=for_people(
            "Name one that it has, or a whole commit id. If {ref} is a skill, write it behind the source: "
            "`metier add {source} {ref}`.",
            ref=shown(address.ref),
            source=shown(address.name, 300),
        ),
    )


@contextlib.contextmanager
def fetch(resolved: Resolved, transfer: Transfer) -> Iterator[Fetched]:
    """The skills of a commit."""
    address, commit = resolved.address, resolved.revision
    with repository(address.location, transfer, is_sha256=len(commit) == 64) as git:
        tree = GitTree(git, commit, address)
        fetched = candidates_by_layout(Tree(tree.modes, tree.contents), resolved)
        yield replace(fetched, candidates=[_with_notes(each, tree.submodules) for each in fetched.candidates])


class GitTree:
    """The files of a commit."""

    def __init__(self, git: GitRepository, commit: str, address: SourceAddress) -> None:
        self._git = git
        below = address.path
        self._is_partial = bool(below)
        self._filter = "blob:none" if below else f"blob:limit={_LARGE_BYTES}"
        is_try = not below and git.max_bytes > _CHEAP_BYTES
        try:
            self._fetch_commit(commit, address.ref, max_bytes=_CHEAP_BYTES if is_try else None)
        except PackageTooLarge:
            if not is_try:
                raise
            git.clear()
            self._filter = "blob:none"
            self._fetch_commit(commit, address.ref)
        # `--` ends the options, and a slash at the end means the folder only.
        listing = git.run(
            *("ls-tree", "-r", "-z", "--full-tree", commit, "--", *([f"{below}/"] if below else [])),
            max_bytes=_MAX_LISTING + git.size(),
        )
        self.modes: Mapping[str, FileMode]
        self.modes, self._blobs, self.submodules = _listed(listing)

    def contents(self, paths: Sequence[str]) -> Iterator[bytes]:
        """The contents of files; those that were not fetched yet are fetched all at once."""
        is_fetched = False
        for path in paths:
            data = self._git.read(self._blobs[path], path)
            if data is None and not is_fetched:
                wanted = {self._blobs[each] for each in self._asked_with(paths)}
                self._fetch("--stdin", "origin", given="".join(f"{blob}\n" for blob in sorted(wanted)).encode())
                is_fetched = True
                data = self._git.read(self._blobs[path], path)
            if data is None:
                raise SourceUnavailable(f"The source does not give {shown(path)!r}.", hint="Try again later.")
            if len(data) < _LFS_BYTES and data.startswith(_LFS):
                raise FileRefused(
                    f"{shown(path)!r} is kept in Git LFS, and the repository has only a pointer to it.",
                    hint="Clone it with git-lfs and add the folder, or ask its author for the file itself.",
                    path=path,
                )
            yield data

    def _asked_with(self, paths: Sequence[str]) -> Iterable[str]:
        """Files that are to be fetched, and those that will be wanted next: one request is cheaper than many."""
        if self._is_partial:
            return self._blobs  # all of the folder that the address names
        if any(basename(path).lower() in _INDEX for path in paths):
            return {*paths, *(path for path in self._blobs if basename(path).lower() in _INDEX)}
        return paths

    def _fetch_commit(self, commit: str, ref: str, max_bytes: int | None = None) -> None:
        try:
            self._fetch("--depth=1", "origin", commit, max_bytes=max_bytes)
        except SourceUnavailable as error:
            if "unadvertised object" not in error.message or _COMMIT.fullmatch(ref):
                raise
            # Servers of the first protocol give a commit only to those who ask for a ref that leads to it.
            self._fetch("--depth=1", "origin", ref or "HEAD", max_bytes=max_bytes)

    def _fetch(self, *words: str, given: bytes = b"", max_bytes: int | None = None) -> None:
        self._git.fetch(*words, filter=self._filter, given=given, max_bytes=max_bytes)


def _listed(listing: bytes) -> tuple[dict[str, FileMode], dict[str, str], list[str]]:
    """The modes and blobs of all files, and the paths of submodules."""
    modes: dict[str, FileMode] = {}
    blobs: dict[str, str] = {}
    submodules = []
    for line in listing.decode(errors="surrogateescape").split("\0")[:-1]:
        head, _, path = line.partition("\t")
        mode, _, blob = head.split(" ")
        if len(path) > _MAX_PATH or path.count("/") > _MAX_DEPTH:
            raise FileRefused(f"{shown(path)!r} is too long or too deep.", hint="Name a folder of the source.")
        if mode in _MODES:
            modes[path], blobs[path] = _MODES[mode], blob
        elif mode == _SUBMODULE:
            submodules.append(path)
    if len(modes) > MAX_TREE_FILES:
        raise PackageTooLarge(f"It has more than {MAX_TREE_FILES:,} files.", hint="Name a folder in it.")
    return modes, blobs, submodules


def _splits(address: SourceAddress) -> Iterator[SourceAddress]:
    """The address, and as it is where the ref goes on with folders: in `/tree/REF/PATH` both may have slashes."""
    if address.ref and not _REF.fullmatch(address.ref):
        raise InvalidArgument(f"{shown(address.ref)!r} is no name of a branch or tag.", hint="Check its name.")
    yield address
    parts = address.path.split("/") if address.path and address.ref else []
    for end in range(1, min(len(parts), 10) + 1):
        ref = "/".join((address.ref, *parts[:end]))
        if _REF.fullmatch(ref):
            yield replace(address, ref=ref, path="/".join(parts[end:]))


def _full_names(ref: str) -> tuple[str, ...]:
    if not ref:
        return ("HEAD",)
    return (ref,) if ref.startswith("refs/") else (f"refs/tags/{ref}", f"refs/heads/{ref}")


def _with_notes(candidate: Candidate, submodules: Sequence[str]) -> Candidate:
    below = f"{candidate.path}/" if candidate.path else ""
    inside = [path for path in submodules if path.startswith(below)]
    if not inside:
        return candidate
    note = f"{shown(inside[0])} is a submodule, another repository, and is left out."
    return replace(candidate, notes=(*candidate.notes, note))
