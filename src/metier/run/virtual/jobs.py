"""Jobs that share nothing but the process: each has an interpreter as if it were new. This runs in the worker."""

from __future__ import annotations

from bashkit import Bash, ExecutionProfile

from metier.run.virtual.execution import execute
from metier.run.virtual.extra_commands import extras
from metier.run.virtual.filesystem import content, put, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bashkit import FileSystem

    from metier.run.virtual.channel import Channel, Head

_ENVIRONMENT = {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin", "TMPDIR": "/tmp"}
"""What every job has."""


class Jobs:
    """Runs jobs, one after the other.

    An interpreter that is reset is built anew inside and has nothing of before but what it was made with. That is half
    as much work as making one, so nothing that belongs to a single job may ever be given to the constructor or to
    `set_env`: its variables are in its command line.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._mounts: dict[str, FileSystem] = {}
        self._made_with: Head | None = None
        self._bash: Bash | None = None
        self._running: Bash | None = None
        self._is_used = False

    def run(self, head: Head, blobs: list[bytes], mounts: dict[str, FileSystem]) -> tuple[Head, list[bytes]]:
        """Run a command line over files that were sent along, and tell what changed below the folders to watch."""
        bash = self._fresh(head["settings"])
        # If it fails in the middle, it is not used again.
        self._bash, self._running, self._is_used = None, bash, True
        self._mounts.update(mounts)
        given = len(blobs) - head["stdin"]
        records, files = head["records"], bash.fs()
        if records:
            put(files, records, blobs[:given])
        for folder in head["folders"]:
            if folder != "/":
                files.mkdir(folder, recursive=True)
        for path, mounted in mounts.items():
            files.mkdir(path, recursive=True)
            bash.mount(path, mounted, read_only=True)
        reply, output = execute(bash, self._channel, head, blobs[given:])
        if head["watch"]:
            before = {path: (kind, mode, blob) for (path, kind, mode), blob in zip(records, blobs, strict=False)}
            changed, contents, gone = _changes(files, head["watch"], before, frozenset(mounts))
            reply, output = {**reply, "records": changed, "gone": gone}, [*output, *contents]
        for path in mounts:
            bash.unmount(path)
        self._mounts.clear()
        if not reply["failure"]:
            self._bash = bash
        return reply, output

    def _cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    def forget(self) -> None:
        """Keep nothing of the last job. That is done when it has been answered, and not when the next one waits."""
        self._running = None
        if self._is_used and self._bash is not None:
            self._bash.reset()
        self._is_used = False

    def _fresh(self, settings: Head) -> Bash:
        self.forget()
        if self._bash is not None and settings == self._made_with:
            return self._bash
        self._made_with = settings
        return Bash(
            username="user",
            hostname="sandbox",
            cwd="/",
            env=_ENVIRONMENT,
            # This profile has no cap on the number of calls; what else it lifts is set here.
            profile=ExecutionProfile.Interactive,
            max_commands=settings["commands"],
            max_loop_iterations=settings["loop_turns"],
            timeout_seconds=settings["seconds"],
            custom_builtins=extras(settings, self._channel, self._mounts, self._cancel),
        )


def _changes(
    files: FileSystem, tops: list[str], before: dict[str, tuple[str, int, bytes]], skipped: frozenset[str]
) -> tuple[list[tuple[str, str, int]], list[bytes], list[str]]:
    changed: list[tuple[str, str, int]] = []
    contents: list[bytes] = []
    seen: set[str] = set()
    for top in tops:
        for path, kind, mode, size in sorted(walk(files, top, skipped)):
            seen.add(path)
            old = before.get(path)
            is_like = old is not None and old[0] == kind
            if is_like and kind == "d":
                continue
            # Modes and sizes of links are whatever a system says they are.
            if is_like and old is not None and (kind == "l" or (old[1] == mode and len(old[2]) == size)):
                blob = content(files, path, kind)
                if blob == old[2]:
                    continue
            else:
                blob = content(files, path, kind)
            changed.append((path, kind, mode))
            contents.append(blob)
    gone = [path for path in before if path not in seen and any(path.startswith(f"{top.rstrip('/')}/") for top in tops)]
    return changed, contents, gone
