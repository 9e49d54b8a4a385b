"""The system's `git`, run on a temporary bare repository for one source, with limits of bytes and time.

The boundary: programs that the user's own git configuration names (a credential helper, a proxy, ssh) may run, because
private repositories need them; nothing runs that a repository, a server or an environment variable of git names.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING

from metier._hosts import is_local
from metier._lazy import pattern
from metier._paths import LIST
from metier.errors import InvalidArgument, PackageTooLarge, PartMissing, SourceUnavailable
from metier.hub.sources.address import SourceAddress
from metier.skill import shown
from metier.skill.package import MAX_FILE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.errors import MetierError
    from metier.hub.sources.fetch import Transfer

_PREFIX = "metier-git-"
_ABANDONED_S = 600
_POLL_S = 0.05
_LEAST_MEMORY = 64 * 1024 * 1024
_REDIRECT = pattern(r"^warning: redirecting to (\S+)", 8)  # re.MULTILINE
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.bigFileThreshold": "1m",  # larger blobs are hashed piece by piece, never held
    "credential.interactive": "false",
    "fetch.fsckObjects": "true",
    # Harmless in a commit that is never written again, and found in repositories that are older than the checks.
    **{
        f"fetch.fsck.{each}": "ignore"
        for each in ("badTimezone", "missingSpaceBeforeDate", "zeroPaddedFilemode", "missingEmail", "badEmail")
    },
    "fetch.negotiationAlgorithm": "noop",
    "fetch.recurseSubmodules": "no",
    "fetch.unpackLimit": "1",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "http.followRedirects": "initial",
    "http.lowSpeedLimit": "1",  # a git whose parent was killed gives up too, where nothing comes any more
    "maintenance.auto": "false",
    "pack.threads": "1",
    "protocol.version": "2",
    "submodule.recurse": "false",
    "transfer.bundleURI": "false",
}
_ENVIRONMENT = {
    "GIT_ASKPASS": "",
    "GIT_ATTR_NOSYSTEM": "1",
    # The installers for macOS and Windows name the system's credential helper there.
    "GIT_CONFIG_NOSYSTEM": "0" if sys.platform in ("darwin", "win32") else "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
    "SSH_ASKPASS_REQUIRE": "never",
}
_HINTS = (
    ("dubious ownership", "The folder belongs to somebody else: `git config --global --add safe.directory FOLDER`."),
    ("could not read Username", "Give git a credential helper or use ssh: `git ls-remote ADDRESS` must ask nothing."),
    ("Authentication failed", "Check the credentials that git has for this host."),
    ("Permission denied", "Check the ssh key that git has for this host."),
    ("Host key verification failed", "Connect to the host once with ssh, and check its key."),
    ("not our ref", "The server has no such commit, or does not give it: name a branch or a tag."),
    ("unadvertised object", "The server has no such commit, or does not give it: name a branch or a tag."),
    ("attempting to allocate", "It has a file that is far too large; ask its author."),
    ("transport '", "Skills are fetched by https, ssh and git, and from the disk as git+file://."),
)
_SAYS_WHY = ("fatal:", "error:", "remote:", "ERROR:", "ssh:")
_HINT = "Check the address; `git ls-remote ADDRESS` tells more."


def protocols(location: str) -> str:
    """The protocols that git may use for an address, also where a redirect or an `insteadOf` changes it.

    >>> protocols("git://example.com/skills")
    'https:ssh:git'
    """
    scheme = location.partition("://")[0]
    if scheme == "http" and not is_local(_host(location)):
        raise InvalidArgument(f"{shown(location, 300)} is not encrypted.", hint="Use https:// or ssh://.")
    if scheme not in ("https", "ssh", "http", "git", "file"):
        raise InvalidArgument(f"Skills are not fetched by {shown(scheme)}://.", hint=_HINTS[-1][1])
    return "https:ssh" if scheme in ("https", "ssh") else f"https:ssh:{scheme}"


class GitRepository:
    """A temporary bare repository whose only remote is a source; nothing is ever checked out of it."""

    def __init__(self, location: str, folder: str, transfer: Transfer, *, is_sha256: bool) -> None:
        self._location = location
        self._transfer = transfer
        self.max_bytes = transfer.max_bytes
        self._folder = folder
        self._packs = os.path.join(folder, "objects", "pack")
        self._open = contextlib.ExitStack()
        self._reader: subprocess.Popen[bytes] | None = None
        self._git = shutil.which("git") or ""
        if not self._git:
            raise PartMissing("git is not installed.", hint="Install git, or name an archive or a folder.")
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("GIT_", "SSH_ASK"))}
        self._environment = {
            **kept,
            **_ENVIRONMENT,
            "GIT_ALLOC_LIMIT": str(max(transfer.max_bytes, _LEAST_MEMORY)),  # no delta unfolds to more than that
            "GIT_ALLOW_PROTOCOL": protocols(location),
            "GIT_DIR": folder,
        }
        seconds = int(transfer.seconds) + 1
        self._settings = _SETTINGS | {"http.lowSpeedTime": str(seconds), "remote.origin.url": location}
        os.makedirs(self._packs)
        os.mkdir(os.path.join(folder, "refs"))
        extensions = "[extensions]\nobjectFormat = sha256\n" if is_sha256 else ""
        config = f"[core]\nrepositoryFormatVersion = 1\nbare = true\n{extensions}"
        for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", config)):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)

    def run(
        self, *words: str, given: bytes = b"", config: dict[str, str] | None = None, max_bytes: int | None = None
    ) -> bytes:
        """The output of one command; raises `SourceUnavailable` where it fails or takes too long."""
        with self._file("output") as output, self._file("errors") as errors, self._file("input") as file:
            file.write(given)
            file.seek(0)
            with self._started(*words, given=file, output=output, errors=errors, config=config) as process:
                self._wait(process, self.max_bytes if max_bytes is None else max_bytes)
            errors.seek(0)
            messages = errors.read(64 * 1024).decode(errors="replace")
            if process.returncode:
                raise self._failure(messages)
            self._require_same_host(messages)
            output.seek(0)
            return output.read()

    def fetch(self, *words: str, filter: str, given: bytes = b"", max_bytes: int | None = None) -> None:  # noqa: A002
        """Fetch from the source without what a filter leaves out, and nothing but that."""
        self.run(
            *("fetch", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", *words),
            given=given,
            max_bytes=max_bytes,
            config={"remote.origin.promisor": "true", "remote.origin.partialCloneFilter": filter},
        )

    def read(self, blob: str, path: str) -> bytes | None:
        """The content of a blob, or None where it was not fetched; one process reads all of them, one by one."""
        if self._reader is None:
            started = self._started("cat-file", "--batch", given=subprocess.PIPE, output=subprocess.PIPE)
            self._reader = self._open.enter_context(started)
        given, output = self._reader.stdin, self._reader.stdout
        assert given is not None and output is not None
        size = -1
        with contextlib.suppress(BrokenPipeError):
            given.write(f"{blob}\n".encode())
            given.flush()
            head = output.readline(200).split()
            if head[1:] == [b"missing"]:
                return None
            size = int(head[2]) if len(head) == 3 and head[1] == b"blob" else -1
            if 0 <= size <= MAX_FILE_BYTES and len(data := output.read(size + 1)) == size + 1:
                return data[:-1]
        self.close()
        if size > MAX_FILE_BYTES:
            raise PackageTooLarge(
                f"{shown(path)!r} has {size:,} bytes.",
                hint=f"A file of a skill has at most {MAX_FILE_BYTES:,}.",
            )
        raise SourceUnavailable(f"{shown(path)!r} cannot be read from what was fetched.", hint="Try again.")

    def clear(self) -> None:
        """Remove all that was received, and what a command that was ended left."""
        shutil.rmtree(self._packs)
        os.mkdir(self._packs)
        for name in ("shallow", "shallow.lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, name))

    def close(self) -> None:
        """End the process that reads."""
        self._open.close()
        self._reader = None

    @contextlib.contextmanager
    def _started(
        self,
        *words: str,
        given: IO[bytes] | int,
        output: IO[bytes] | int,
        errors: IO[bytes] | int = subprocess.DEVNULL,
        config: dict[str, str] | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A command that is running; it and all that it started have ended when the context ends."""
        settings = self._settings | (config or {})
        # Without a terminal of their own neither git nor ssh can ask anybody.
        process = subprocess.Popen(
            [self._git, *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")), *words],
            stdin=given,
            stdout=output,
            stderr=errors,
            cwd=self._folder,
            env=self._environment,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                if sys.platform == "win32":
                    process.kill()
                else:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def size(self) -> int:
        """The bytes on disk of all that was received, and of what git said last."""
        found = 0
        for folder in (self._folder, self._packs):
            with os.scandir(folder) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):  # a temporary file that got its name meanwhile
                        found += entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_size
        return found

    def _wait(self, process: subprocess.Popen[bytes], most: int) -> None:
        until = time.monotonic() + self._transfer.seconds
        while process.returncode is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)
            size = self.size()
            self._transfer.progress(self._location, size, None)
            if size > most:
                raise PackageTooLarge(
                    f"{shown(self._location, 300)} gives more than {most:,} bytes.",
                    hint="Name a folder in it, which is then all that is fetched.",
                )
            if time.monotonic() > until and process.returncode is None:
                raise SourceUnavailable(
                    f"{shown(self._location, 300)} was not fetched within {self._transfer.seconds:g} s.",
                    hint="Try again later.",
                )

    def _file(self, name: str) -> IO[bytes]:
        return open(os.path.join(self._folder, f"metier-{name}"), "w+b")

    def _failure(self, messages: str) -> MetierError:
        lines = [line for line in messages.splitlines() if line.startswith(_SAYS_WHY)]
        hint = next((hint for sign, hint in _HINTS if sign in messages), _HINT)
        hint = hint.replace("ADDRESS", shown(self._location, 300))
        reason = shown(" ".join(lines or messages.splitlines()[-1:]) or "git gave no reason", 400)
        return SourceUnavailable(f"{shown(self._location, 300)} cannot be fetched: {reason}", hint=hint, reason=reason)

    def _require_same_host(self, messages: str) -> None:
        for led in _REDIRECT.findall(messages):
            if _host(led) != _host(self._location):
                raise SourceUnavailable(
                    f"{shown(self._location, 300)} leads to another host: {shown(led, 300)}.",
                    hint="Name that address where it is the right one.",
                )
            # A repository that was renamed may be one that policy denies.
            self._transfer.permit(SourceAddress(kind="git", location=led.rstrip("/")), is_way=True)


@contextlib.contextmanager
def repository(location: str, transfer: Transfer, *, is_sha256: bool = False) -> Iterator[GitRepository]:
    """A temporary repository for a source, which is gone when the context ends, or when a process was killed, soon."""
    _remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as folder, _held(folder):
        git = GitRepository(location, os.path.realpath(folder), transfer, is_sha256=is_sha256)
        with contextlib.closing(git):
            yield git


@contextlib.contextmanager
def _held(folder: str) -> Iterator[bool]:
    """Hold a folder while this process lives, so that no other one takes it for abandoned; whether nobody else does."""
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    is_mine = False
    opened = os.open(folder, LIST)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_mine = True
        yield is_mine
    finally:
        os.close(opened)


def _remove_abandoned() -> None:
    """Remove the repositories of processes that were killed."""
    if sys.platform == "win32":
        return
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{_PREFIX}*")):
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            # One that was made just now may not be held yet.
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _ABANDONED_S:
                with _held(path) as is_mine:
                    if is_mine:
                        shutil.rmtree(path, ignore_errors=True)


def _host(location: str) -> str:
    return location.partition("://")[2].partition("/")[0].rpartition("@")[2].lower()
