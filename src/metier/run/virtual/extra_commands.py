"""Commands that the interpreter lacks or has otherwise: `chmod`, and native programs. This runs in the worker."""

from __future__ import annotations

import functools
import re

from bashkit import BuiltinResult

from metier.run.virtual.filesystem import kind_of, put, take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bashkit import BuiltinContext, FileSystem

    from metier.run.virtual.channel import Channel, Head

NATIVE = {"python3": "python3", "python": "python3", "node": "node"}
"""Programs that run natively, and their names there."""
KIND = "script-kind"
"""The command by which a command line asks for the program of a file."""
_SYSTEM = ("/bin", "/usr", "/proc", "/dev", "/etc")
"""Folders that a native program has of its own."""


def extra_commands(
    settings: Head, channel: Channel, mounts: Mapping[str, FileSystem], cancel: Callable[[], None]
) -> dict[str, Callable[[BuiltinContext], BuiltinResult]]:
    """The commands by their names. `cancel` ends the command line that one of them is in."""
    found: dict[str, Callable[[BuiltinContext], BuiltinResult]] = {
        "chmod": _chmod,
        KIND: functools.partial(_kind, settings["programs"]),
    }
    for name, program in NATIVE.items():
        native = _NativeProgram(program, settings["is_native"], channel, mounts, cancel)
        found.update(dict.fromkeys((name, f"/bin/{name}", f"/usr/bin/{name}"), native))
    return found


def _absolute(path: str, folder: str) -> str:
    parts: list[str] = []
    for part in (path if path.startswith("/") else f"{folder}/{path}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _kind(programs: Mapping[str, str], context: BuiltinContext) -> BuiltinResult:
    """Print how a file is run that a command line names by its path: by another program, or stopping on an error.

    A file with a known extension needs no permission: tools that write files here cannot give it any.
    """
    path, files = _absolute(context.argv[0], context.cwd), context.fs
    by_name = next((program for end, program in programs.items() if path.endswith(end)), "").replace("bash", "sh")
    try:
        about = files.stat(path)
        if about["file_type"] != "file" or not (by_name or about["mode"] & 0o111):
            return BuiltinResult()
        start = files.read_file(path)[:200]
    except RuntimeError:
        return BuiltinResult()
    first = start.partition(b"\n")[0].decode("utf-8", "replace") if start.startswith(b"#!") else ""
    program = first.rpartition("/")[2].split()
    named = next((word for word in reversed(program) if not word.startswith("-")), "")
    by_first_line = next((value for value in ("python3", "node") if named.startswith(value.rstrip("3"))), "sh")
    return BuiltinResult(stdout=by_first_line if named else by_name or "sh")


class _NativeProgram:
    """Has a program run natively, over the files of this shell, and takes over its changes."""

    def __init__(
        self,
        program: str,
        is_native: bool,
        channel: Channel,
        mounts: Mapping[str, FileSystem],
        cancel: Callable[[], None],
    ) -> None:
        self._program, self._is_native = program, is_native
        self._channel, self._mounts, self._cancel = channel, mounts, cancel

    def __call__(self, context: BuiltinContext) -> BuiltinResult:
        if not self._is_native:
            return BuiltinResult(
                stderr=f"{context.name}: there is no such program in the virtual shell, and no sandbox to run it in\n",
                exit_code=126,
            )
        files = context.fs
        skipped = frozenset((*self._mounts, *_SYSTEM))
        head = {
            "event": "native",
            "argv": [self._program, *context.argv],
            "folder": context.cwd,
            "env": dict(context.env),
            "files": take(files, "/", skipped),
        }
        self._channel.send(head, [(context.stdin or "").encode("utf-8", "replace")])
        reply, (out, err) = self._channel.receive()
        for path in sorted(reply["gone"], reverse=True):
            if kind_of(files, path):
                files.remove(path, recursive=True)
        put(files, reply["files"])
        if reply["is_late"]:
            self._cancel()
        return BuiltinResult(
            stdout=out.decode("utf-8", "replace"), stderr=err.decode("utf-8", "replace"), exit_code=reply["code"]
        )


def _chmod(context: BuiltinContext) -> BuiltinResult:
    """`chmod`, which leaves a read-only file alone that already has the requested mode.

    The interpreter's own refuses both, and scripts make themselves executable before they run.
    """
    recursive, words, is_open = False, [], True
    for word in context.argv:
        if is_open and word == "--":
            is_open = False
        elif is_open and word == "--help":
            return BuiltinResult(stdout="Usage: chmod [-R] MODE FILE...\nChange the mode of each FILE to MODE.\n")
        elif is_open and word in ("-R", "--recursive"):
            recursive = True
        elif is_open and word in ("-v", "-c", "-f", "--verbose", "--changes", "--quiet", "--silent"):
            continue
        else:
            words.append(word)
    if len(words) < 2:
        return BuiltinResult(stderr="chmod: missing operand\n", exit_code=1)
    asked, *paths = words
    wrong: list[str] = []
    while paths:
        path = paths.pop(0)
        full = _absolute(path, context.cwd)
        try:
            about = context.fs.stat(full)
        except RuntimeError:
            wrong.append(f"cannot access '{path}': No such file or directory")
            continue
        is_folder, old = about["file_type"] == "directory", about["mode"] & 0o7777
        mode = _mode(asked, old, is_folder=is_folder)
        if mode is None:
            wrong.append(f"invalid mode: '{asked}'")
            continue
        if mode != old:
            try:
                context.fs.chmod(full, mode)
            except RuntimeError as error:
                text = "Read-only file system" if "read-only" in str(error) else str(error).removeprefix("io error: ")
                wrong.append(f"changing permissions of '{path}': {text}")
        if recursive and is_folder:
            paths[:0] = [f"{path.rstrip('/')}/{entry['name']}" for entry in context.fs.read_dir(full)]
    return BuiltinResult(stderr="".join(f"chmod: {text}\n" for text in wrong), exit_code=1 if wrong else 0)


_WHO = {"u": 0o4700, "g": 0o2070, "o": 0o1007}
_UMASK = 0o022
_CLAUSE = re.compile(r"([ugoa]*)((?:[-+=][rwxXstugo]*)+)").fullmatch
_CHANGES = re.compile(r"([-+=])([rwxXstugo]*)").findall
_WHAT = {"r": 0o444, "w": 0o222, "x": 0o111, "s": 0o6000, "t": 0o1000}


def _mode(asked: str, mode: int, *, is_folder: bool) -> int | None:
    """The requested mode, in digits or in letters; None if that is no mode."""
    if asked and len(asked) <= 5 and all(digit in "01234567" for digit in asked):
        return int(asked, 8)
    for clause in asked.split(","):
        matched = _CLAUSE(clause)
        if matched is None:
            return None
        letters = matched[1]
        if letters and "a" not in letters:
            who = sum(_WHO[letter] for letter in set(letters))
        else:
            who = 0o7777 if letters else 0o7777 & ~_UMASK
        for sign, permissions in _CHANGES(matched[2]):
            bits = _bits(permissions, mode, is_folder=is_folder) & who
            mode = mode | bits if sign == "+" else mode & ~bits if sign == "-" else (mode & ~(who & 0o777)) | bits
    return mode


def _bits(letters: str, mode: int, *, is_folder: bool) -> int:
    bits = 0
    for letter in letters:
        if letter == "X":
            bits |= 0o111 if is_folder or mode & 0o111 else 0
        elif letter in _WHO:
            # `g=u` gives one class what another has.
            own = mode >> {"u": 6, "g": 3, "o": 0}[letter] & 0o7
            bits |= own << 6 | own << 3 | own
        else:
            bits |= _WHAT[letter]
    return bits
