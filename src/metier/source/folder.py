"""Skills in a folder on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from metier._paths import is_inside
from metier.errors import SourceUnavailable
from metier.skill import MAX_SKILL_BYTES, Diagnostic, FolderPackage, Identity, read_skill_file
from metier.skill.package import STAGING
from metier.source.source import (
    ARCHIVE_SUFFIXES,
    FoundSkills,
    SourceDiagnostic,
    absolute,
    checked_skill_name,
    require_one,
)

if TYPE_CHECKING:
    from pathlib import Path

    from metier.skill import IdentityRow


MAX_DEPTH = 6
MAX_FOLDERS = 2_000

_NEVER = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", STAGING})
# A skill may well be called "build"; a folder of build products is not searched for skills.
_NOT_SEARCHED = frozenset({"dist", "build"})


class FolderSource:
    """The skills below a folder: every folder with a SKILL.md, at most six levels down.

    The search stops at a skill (what lies below is its own), follows links to folders once, and says where a limit
    cut it short. With `whole_root` the folder may itself be a skill. With `contain`, links to folders outside that
    path are refused, as they must be in a place nobody has trusted yet. `skill_name` replaces the name in the
    frontmatter of its one skill.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        name: str | None = None,
        whole_root: bool = True,
        contain: Path | str | None = None,
        skill_name: str | None = None,
    ) -> None:
        self.root = absolute(root)
        self.name = name or os.path.basename(self.root) or "root"
        self._whole_root = whole_root
        self._contain = os.path.realpath(contain) if contain is not None else None
        self._skill_name = checked_skill_name(skill_name)

    def __repr__(self) -> str:
        return f"FolderSource({self.root!r})"

    def find_skills(self) -> FoundSkills:
        """Find the skills: one directory listing and one `lstat` for each of them."""
        if self._contain is not None:
            real = os.path.realpath(self.root)
            if not is_inside(real, self._contain) and os.path.isdir(real):
                note = Diagnostic("symlink-escape", None, (self.root, self._contain))
                return FoundSkills({}, (SourceDiagnostic(self.root, note),))
        search = _Search(self.root, self._contain)
        own = search.run(whole_root=self._whole_root)
        if own is not None:
            identity = self.identity(own)
            return FoundSkills({own: identity} if identity is not None else {})
        require_one(self.root, search.found, self._skill_name)
        return FoundSkills(search.found, tuple(search.findings), tuple(search.folders))

    def identity(self, key: str) -> IdentityRow | None:
        """One `lstat`."""
        try:
            status = os.lstat(f"{self.root}/{key}")
        except OSError:
            return None
        return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def read(self, key: str) -> tuple[bytes, Identity]:
        """The bytes of one SKILL.md."""
        return read_skill_file(f"{self.root}/{key}", MAX_SKILL_BYTES, self._contain)

    def package(self, key: str) -> FolderPackage:
        """The skill's folder."""
        return FolderPackage(os.path.dirname(f"{self.root}/{key}"), contain=self._contain)

    def folder(self, key: str) -> str:
        """The name of the skill's folder."""
        parent, slash, _ = key.rpartition("/")
        return parent.rpartition("/")[2] if slash else os.path.basename(self.root)

    def location(self, key: str) -> str:
        """The absolute path of the SKILL.md."""
        # Every decision about a skill asks for it, and `os.path.join` takes a while.
        path = key if os.sep == "/" else key.replace("/", os.sep)
        return f"{self.root}{path}" if self.root.endswith(os.sep) else f"{self.root}{os.sep}{path}"

    def forced_name(self, key: str) -> str | None:
        """The name given with the folder."""
        return self._skill_name

    def cache_key(self) -> str:
        """The path, and what changes the meaning of a scan."""
        return f"folder:{self.root}:{self._whole_root}:{self._contain or ''}:{self._skill_name or ''}"


class _Search:
    """One walk through a tree of skills."""

    def __init__(self, root: str, contain: str | None) -> None:
        self.root = root
        self.contain = contain
        self.found: dict[str, IdentityRow] = {}
        self.findings: list[SourceDiagnostic] = []
        self.folders: dict[str, None] = {}
        self._in_root: list[str] = []
        self._barren = 0
        """Folders searched in vain: a collection may have any number of folders, a tree of something else may not."""
        self._links: list[tuple[str, str, int]] = []
        self._followed: dict[str, str] = {}
        """Real path of each folder that a link led to, and the link."""

    def run(self, *, whole_root: bool) -> str | None:
        """Search the tree; returns the SKILL.md in the root itself when that makes the root a skill."""
        self.folders[self.root] = None
        waiting = self._look(self.root, "", 0)
        if self._in_root:
            own = "SKILL.md" if "SKILL.md" in self._in_root else min(self._in_root)
            # A stray file must not hide a whole collection.
            if whole_root and not self.found:
                return own
            self._note(f"{self.root}/{own}", "root-skill-ignored", own)
        self._search(waiting)
        # Links come last, so that a folder counts where it really is. Those found behind links are compared by their
        # real paths; those found without are known to have none on the way.
        real_root = os.path.realpath(self.root)
        reached = (
            {f"{real_root}/{key.rpartition('/')[0]}": f"{self.root}/{key}" for key in self.found} if self._links else {}
        )
        while self._links:
            before = len(self.found)
            self._search(self._follow_links(real_root, reached))
            for key in list(self.found)[before:]:
                real = os.path.realpath(f"{self.root}/{key.rpartition('/')[0]}")
                if reached.setdefault(real, f"{self.root}/{key}") != f"{self.root}/{key}":
                    self._note(f"{self.root}/{key}", "symlink-duplicate", f"{self.root}/{key}", reached[real])
                    del self.found[key]
        return None

    def _search(self, waiting: list[tuple[str, str, int]]) -> None:
        while waiting:
            path, prefix, depth = waiting.pop()
            if self._barren == MAX_FOLDERS:
                self._note(self.root, "scan-limit", f"{MAX_FOLDERS:,} folders without a skill")
                self._links.clear()
                return
            self.folders[path] = None
            before = len(self.found)
            waiting.extend(self._look(path, prefix, depth))
            if len(self.found) == before:
                self._barren += 1

    def _look(self, path: str, prefix: str, depth: int) -> list[tuple[str, str, int]]:
        """List one folder; returns the folders below that are not skills themselves."""
        below: list[tuple[str, str, int]] = []
        found = self.found
        lstat = os.lstat
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    name = entry.name
                    if name in _NEVER:
                        continue
                    if len(name) == 8 and not prefix and name.lower() == "skill.md":
                        self._in_root.append(name)
                        continue
                    if not entry.is_dir(follow_symlinks=False):
                        if entry.is_symlink():
                            self._links.append((f"{path}/{name}", f"{prefix}{name}", depth))
                        elif name.endswith(ARCHIVE_SUFFIXES):
                            self._note(f"{path}/{name}", "archive-ignored", name)
                        continue
                    try:
                        status = lstat(f"{path}/{name}/SKILL.md")
                    except OSError:
                        below.extend(self._enter(f"{path}/{name}", f"{prefix}{name}", depth + 1))
                    else:
                        found[f"{prefix}{name}/SKILL.md"] = (
                            status.st_ino,
                            status.st_size,
                            status.st_mtime_ns,
                            status.st_ctime_ns,
                        )
        except OSError as error:
            self._not_listed(path, prefix, error)
        return below

    def _not_listed(self, path: str, prefix: str, error: OSError) -> None:
        """The root must be a folder that can be listed; one below may have vanished or be closed to us."""
        if prefix:
            if not isinstance(error, FileNotFoundError | NotADirectoryError):
                self._note(path, "folder-unreadable", path, error.strerror or str(error))
        elif isinstance(error, FileNotFoundError):
            raise SourceUnavailable(f"There is no folder {path}.", hint="Check the path.", path=path) from None
        elif isinstance(error, NotADirectoryError):
            raise SourceUnavailable(f"{path} is not a folder.", hint="Name the folder of skills.", path=path) from None
        else:
            raise SourceUnavailable(
                f"{path} cannot be read: {error.strerror}.",
                hint="Check its permissions.",
                path=path,
                errno=error.errno,
            ) from None

    def _enter(self, path: str, prefix: str, depth: int) -> list[tuple[str, str, int]]:
        """A folder without a SKILL.md: one with a skill.md of another case, or one to search."""
        try:
            own = _skill_file_in(path)
            if own is not None:
                self.found[f"{prefix}/{own}"] = Identity.of(os.lstat(f"{path}/{own}"))
                return []
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self._note(path, "folder-unreadable", path, error.strerror or str(error))
            return []
        if path.rpartition("/")[2] in _NOT_SEARCHED:
            return []
        if depth >= MAX_DEPTH:
            if _has_folders(path):
                self._note(path, "scan-limit", f"a depth of {MAX_DEPTH} folders")
            return []
        return [(path, f"{prefix}/", depth)]

    def _follow_links(self, real_root: str, reached: dict[str, str]) -> list[tuple[str, str, int]]:
        """Take the links found so far to the folders they lead to; returns those to search."""
        below: list[tuple[str, str, int]] = []
        links, self._links = sorted(self._links), []
        for path, prefix, depth in links:
            real = os.path.realpath(path)
            if not os.path.isdir(real):
                if not os.path.exists(real):
                    self._note(path, "symlink-broken", path)
                continue
            if is_inside(real_root, real):
                continue  # a link to where we came from
            same = reached.get(real) or self._followed.get(real)
            if same is None and is_inside(real, real_root) and _join(self.root, real, real_root) in self.folders:
                same = _join(self.root, real, real_root)
            if same is not None:
                self._note(path, "symlink-duplicate", path, same)
                continue
            if self.contain is not None and not is_inside(real, self.contain):
                self._note(path, "symlink-escape", path, self.contain)
                continue
            self._followed[real] = path
            try:
                status = os.lstat(f"{path}/SKILL.md")
            except OSError:
                below.extend(self._enter(path, prefix, depth + 1))
            else:
                self.found[f"{prefix}/SKILL.md"] = Identity.of(status)
        return below

    def _note(self, where: str, code: str, *values: str) -> None:
        self.findings.append(SourceDiagnostic(where, Diagnostic(code, None, values)))


def _join(root: str, real: str, real_root: str) -> str:
    return f"{root}/{real[len(real_root) + 1 :]}"


def _skill_file_in(path: str) -> str | None:
    """The SKILL.md of a folder whatever its case; the exact name wins."""
    with os.scandir(path) as entries:
        names = [entry.name for entry in entries if entry.name.lower() == "skill.md"]
    return "SKILL.md" if "SKILL.md" in names else min(names, default=None)


def _has_folders(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return any(entry.is_dir() for entry in entries)
    except OSError:
        return False
