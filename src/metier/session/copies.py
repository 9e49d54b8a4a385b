"""The verified copies of loaded skills: the one root that every tool reads and runs them from.

The files of a skill may change at any time, also between a look at them and their use. A copy is made when a skill is
loaded, by reads that no link leads out of, and counts only when the digest of exactly what was copied is the one that
was decided about and recorded. Its path is what a model is told as the root of the skill. What is not part of a
package, such as installed modules and bytecode, is not in its copy.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import threading
import time
import weakref
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Literal, TypeAlias

from metier._lazy import logger
from metier._paths import is_inside, safe_rmtree
from metier.errors import MetierError, SkillChanged, SkillUnreadable
from metier.run.environment import temporary_folder
from metier.skill import FolderPackage
from metier.skill.folder import Identity
from metier.skill.package import MAX_PACKAGE_BYTES, DigestEntry, checked_path, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from metier.library import Entry
    from metier.session.active_skills import ActiveSkill
    from metier.skill import PackageListing

    Key: TypeAlias = tuple[str, str, str]
    """The folder of copies, the name of a skill, and its digest."""
    Mode: TypeAlias = Literal["file", "exec", "link"]
    Snapshot: TypeAlias = dict[str, tuple[int, Identity]]
    """Mode and identity of all that is in a folder, by path."""

log = logger("metier.session")

_MOST_IDLE = 128
_MOST_IDLE_BYTES = 32 * 1024 * 1024
"""The number and the bytes of unused copies that are kept."""


class Copies:
    """The copies of one session's skills, each kept for as long as the skill is active.

    Whatever a script does to the copy it runs from, the next use finds what was loaded. Copies that are still there
    when nobody has this object any more, or when the program ends, go then.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._kept: dict[tuple[str, str], _Copy] = {}
        self._is_closed = False
        weakref.finalize(self, _abandon_all, self._kept)

    def keep(self, entry: Entry, digest: str, listing: PackageListing) -> str:
        """Copy a skill that is being loaded, and return the root that models are told.

        Raises `SkillChanged` when its files are no longer those of the digest. A skill that cannot be copied, for want
        of room or for the names of its files, can still be loaded for its instructions; whatever would use its files
        says what is wrong.
        """
        copy = self._acquire(entry.name, digest)
        try:
            copy.require(entry, digest, listing)
        except SkillChanged:
            self._forget(entry.name, digest)
            raise
        except MetierError as error:
            log.warning("no copy of %s: %s", entry.name, error)
        finally:
            _shared.release(copy)
        return copy.root

    @contextlib.contextmanager
    def of(self, active: ActiveSkill) -> Iterator[str]:
        """The root of a skill, with its files as they were when it was loaded; it stays for as long as it is used.

        Raises `SkillChanged` when the copy is damaged and the files it was made of are no longer those.
        """
        copy = self._acquire(active.name, active.digest)
        try:
            copy.require(active.entry, active.digest, active.listing)
            yield copy.root
        finally:
            _shared.release(copy)

    @contextlib.contextmanager
    def passing(self, entry: Entry, digest: str) -> Iterator[str]:
        """The root of a verified copy of a skill that is not loaded, for as long as it is looked at.

        Raises `SkillChanged` when its files are no longer those of the digest.
        """
        copy = _shared.acquire(entry.name, digest)
        try:
            copy.require(entry, digest, entry.package.listing())
            yield copy.root
        finally:
            _shared.release(copy)

    def verified(self, actives: Iterable[ActiveSkill]) -> Iterator[tuple[ActiveSkill, MetierError | None]]:
        """Each skill, after a look at its copy, with what is wrong if there is none: then nothing is at its root."""
        for one in actives:
            try:
                with self.of(one):
                    yield one, None
            except MetierError as error:
                yield one, error

    def forget(self, active: ActiveSkill) -> None:
        """Remove the copy of a skill, as soon as nobody uses it."""
        self._forget(active.name, active.digest)

    def close(self) -> None:
        """Remove all copies, and keep none from now on."""
        with self._lock:
            self._is_closed = True
        _abandon_all(self._kept)

    def _acquire(self, name: str, digest: str) -> _Copy:
        with self._lock:
            copy = self._kept.get((name, digest))
            if copy is None:
                copy = _shared.acquire(name, digest)
                if self._is_closed:
                    return copy
                self._kept[name, digest] = copy
            return _shared.acquire_again(copy)

    def _forget(self, name: str, digest: str) -> None:
        with self._lock:
            copy = self._kept.pop((name, digest), None)
        if copy is not None:
            _shared.release(copy)


class _Shared:
    """The copies of this process: one for each content, however many sessions have it loaded.

    A few that nobody uses are laid aside under other names, for whoever loads the same next: most of what a load costs
    is to make a copy and to remove it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._copies: dict[Key, _Copy] = {}
        self._idle: OrderedDict[Key, _Copy] = OrderedDict()
        self._idle_bytes = 0
        self._most_idle = _MOST_IDLE
        self._abandoned: deque[_Copy] = deque()
        """Copies of sessions that nobody has any more: the interpreter may say so while this very lock is held."""
        atexit.register(self.end)

    def acquire(self, name: str, digest: str) -> _Copy:
        key = (os.path.realpath(temporary_folder()), name, digest)
        with self._lock:
            copy = self._copies.get(key)
            if copy is None:
                copy = self._idle.pop(key, None)
                if copy is None:
                    copy = _Copy(key)
                self._idle_bytes -= copy.size
                copy.bring_back()
                self._copies[key] = copy
            copy.users += 1
        self._release_abandoned()
        return copy

    def acquire_again(self, copy: _Copy) -> _Copy:
        with self._lock:
            copy.users += 1
        self._release_abandoned()
        return copy

    def release(self, copy: _Copy) -> None:
        with self._lock:
            gone = self._release(copy)
        for copy in gone:
            copy.remove()
        self._release_abandoned()

    def abandon(self, copies: Iterable[_Copy]) -> None:
        """Release copies without waiting for anybody."""
        self._abandoned.extend(copies)
        self._release_abandoned()

    def _release_abandoned(self) -> None:
        # Whoever has the lock comes here after giving it back.
        while self._abandoned and self._lock.acquire(blocking=False):
            try:
                gone = self._release(self._abandoned.popleft()) if self._abandoned else ()
            finally:
                self._lock.release()
            for copy in gone:
                copy.remove()

    def _release(self, copy: _Copy) -> Sequence[_Copy]:
        """Release a copy for one user; returns the copies to remove."""
        copy.users -= 1
        if copy.users:
            return ()
        del self._copies[copy.key]
        copy.lay_aside()
        self._idle[copy.key] = copy
        self._idle_bytes += copy.size
        gone = []
        while self._idle and (len(self._idle) > self._most_idle or self._idle_bytes > _MOST_IDLE_BYTES):
            gone.append(self._idle.popitem(last=False)[1])
            self._idle_bytes -= gone[-1].size
        return gone

    def end(self) -> None:
        """Keep nothing that nobody uses from now on: the program ends."""
        self._most_idle = 0
        self.remove_idle()

    def remove_idle(self) -> None:
        """Remove what nobody uses."""
        self._release_abandoned()
        with self._lock:
            gone = tuple(self._idle.values())
            self._idle.clear()
            self._idle_bytes = 0
        for copy in gone:
            copy.remove()


_shared = _Shared()


def remove_idle() -> None:
    """Remove the copies that are kept for whoever loads the same next."""
    _shared.remove_idle()


def _abandon_all(kept: dict[tuple[str, str], _Copy]) -> None:
    found = (kept.pop(key, None) for key in tuple(kept))
    _shared.abandon(copy for copy in found if copy is not None)


class _Copy:
    """A copy on disk, and how many use it. Its root stays the same for as long as anybody does."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.users = 0
        self.root = ""
        self._folder = ""
        self._aside = ""
        self._owner = 0
        self._lock = threading.Lock()
        self._digest = ""
        self._snapshot: Snapshot = {}
        self._is_settled = False
        self.size = 0
        """The bytes of its files, while nobody uses it."""

    def require(self, entry: Entry, digest: str, listing: PackageListing) -> None:
        """Make it, or look whether it still holds what was copied; one that does not is made again."""
        with self._lock:
            if self._snapshot and self._is_intact():
                return
            self.lay_aside()
            self.remove()
            try:
                self._make_folder()
                os.mkdir(self.root)
                is_whole = _write(entry, digest, listing, self.root)
                self._digest = digest if is_whole else FolderPackage(self.root).digest()
                self._snapshot, self._is_settled = _snapshot(self.root), False
            except BaseException as error:
                safe_rmtree(self._folder)
                if not self._digest:
                    # What models are told although it is not there must be nobody else's to make.
                    self._set(f"skill-copy-{os.urandom(16).hex()}")
                if isinstance(error, OSError):
                    raise SkillUnreadable(
                        f"The files of skill {entry.name!r} cannot be copied: {error.strerror or error}.",
                        hint=f"Skills are used from a copy; make room for it in {self.key[0]}.",
                        name=entry.name,
                    ) from None
                raise

    def lay_aside(self) -> None:
        """Give its folder another name: at its root is nothing any more."""
        self.size = sum(identity.size for _, identity in self._snapshot.values())
        # What was made by the process that this one was forked from is not ours to move.
        if self._snapshot and self._owner == os.getpid():
            self._aside = os.path.join(self.key[0], f"skill-idle-{os.urandom(16).hex()}")
            with contextlib.suppress(OSError):
                os.rename(self._folder, self._aside)
                return
        self._snapshot = {}

    def bring_back(self) -> None:
        """Undo `lay_aside`; where that cannot be, it will be made anew."""
        if self._snapshot:
            try:
                os.rename(self._aside, self._folder)
            except OSError:
                self.remove()
                self._folder = self.root = self._digest = ""

    def remove(self) -> None:
        """Remove what was laid aside."""
        if self._snapshot and self._owner == os.getpid():
            safe_rmtree(self._aside)
        self._snapshot = {}

    def _make_folder(self) -> None:
        """A folder that nobody else may enter, under the same name each time and in each process, if that is free.

        A conversation that goes on in another process then finds a skill where it was told that it is. Commands have
        that name in them: there is no word in it that rules about commands look for.
        """
        self._owner = os.getpid()
        if not self._folder:
            _, name, digest = self.key
            token = hashlib.sha256(f"{name}\0{digest}".encode(errors="surrogatepass")).hexdigest()[:16]
            self._set(f"skill-copy-{token}")
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._folder, 0o700)
                return
            self._set(f"skill-copy-{os.urandom(16).hex()}")
        os.mkdir(self._folder, 0o700)

    def _set(self, folder: str) -> None:
        self._folder = os.path.join(self.key[0], folder)
        self.root = os.path.join(self._folder, self.key[1])

    def _is_intact(self) -> bool:
        """Whether it holds what was copied and nothing else; all is read again only when a file may have changed."""
        now = time.time_ns()
        try:
            found = _snapshot(self.root)
            if found == self._snapshot and self._is_settled:
                return True
            added = sorted(found.keys() - self._snapshot.keys())
            for path in added:
                _remove(os.path.join(self.root, path))
            if added:
                found = _snapshot(self.root)
            if found.keys() != self._snapshot.keys() or FolderPackage(self.root).digest() != self._digest:
                return False
        except (OSError, MetierError):
            return False
        self._snapshot, self._is_settled = found, all(identity.is_settled(now) for _, identity in found.values())
        return True


def _snapshot(root: str) -> Snapshot:
    found: Snapshot = {}
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(os.path.join(root, prefix)) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                found[f"{prefix}{entry.name}"] = (status.st_mode, Identity.of(status))
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{prefix}{entry.name}/")
    return found


def _remove(path: str) -> None:
    """Remove what somebody has put into a copy; what lay in a folder that is gone is gone with it."""
    if os.path.isdir(path) and not os.path.islink(path):
        safe_rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _write(entry: Entry, digest: str, listing: PackageListing, root: str) -> bool:
    """Write the files of a skill into an empty folder; raises `SkillChanged` unless they are what was loaded.

    Whether all of it is there: a link that leads elsewhere is part of what was loaded, and left out.
    """
    entries: list[DigestEntry] = []
    links: dict[str, str] = {}
    # Not what the folder holds now: a file that was put there since is no part of what was loaded, nor in its way.
    for path, mode, size in _files(entry, listing):
        target = os.path.join(root, *checked_path(path))
        if "/" in path:
            os.makedirs(os.path.dirname(target), exist_ok=True)
        if mode == "link":
            links[target] = _link_of(entry, path)
            entries.append(DigestEntry(path, "link", hashlib.sha256(os.fsencode(links[target])).digest()))
            continue
        try:
            data = entry.package.read(path, limit=size)
        except MetierError as error:
            raise _changed_error(entry, f" {error}") from None
        entries.append(DigestEntry(path, mode, hashlib.sha256(data).digest()))
        with open(target, "xb") as opened:
            opened.write(data)
        os.chmod(target, 0o555 if mode == "exec" else 0o444)
    if digest_of(entries) != digest:
        raise _changed_error(entry)
    for link, leads_to in links.items():
        # Only where everything else is already written, so that nothing is written through one.
        with contextlib.suppress(OSError):
            os.symlink(leads_to, link)
    outside = [link for link in links if not is_inside(os.path.realpath(link), root)]
    for link in outside:
        with contextlib.suppress(OSError):
            os.unlink(link)
    return not links


def _files(entry: Entry, listing: PackageListing) -> Iterator[tuple[str, Mode, int]]:
    """Path, mode and most bytes of each file that a digest is made of."""
    if listing.stopped_at is None:
        for file in listing.files:
            yield file.path, "link" if file.kind == "link" else "exec" if file.executable else "file", file.size
        return
    # A digest has more files in it than a listing.
    for one in entry.package.contents():
        yield one.path, one.mode, MAX_PACKAGE_BYTES


def _link_of(entry: Entry, path: str) -> str:
    """The target of a link of a skill, which need not be inside it."""
    try:
        return os.readlink(os.path.join(os.path.dirname(entry.location), *path.split("/")))
    except OSError:
        raise _changed_error(entry, f" {path!r} is no link.") from None


def _changed_error(entry: Entry, why: str = "") -> SkillChanged:
    return SkillChanged(
        f"The files of skill {entry.name!r} have changed since it was loaded.{why}",
        hint="Load it again.",
        name=entry.name,
    )
