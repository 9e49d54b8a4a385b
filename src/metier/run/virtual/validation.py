"""Validation for the virtual shell: paths, values of a worker, and errors with precise codes."""

from __future__ import annotations

import math
from typing import Literal

from metier._lazy import dataclass, fields
from metier.errors import InvalidArgument, ShellRefused
from metier.run.host_files import MOST_BYTES, MOST_NAME, FolderLimits, unseen


def normal(path: str, folder: str = "/") -> str:
    """A path from the root, as the shell knows it: without empty parts, dots and backslashes.

    A step up is refused wherever it stands, so that a check of a path need not follow it.

    >>> normal(""), normal("a//b/"), normal("./x", "/work"), normal("c\\\\d"), normal("/file..txt")
    ('/', '/a/b', '/work/x', '/c/d', '/file..txt')
    >>> try:
    ...     normal("/safe/../x")
    ... except ShellRefused as error:
    ...     print(error)
    The path '/safe/../x' has a step up.
    """
    if not isinstance(path, str):
        raise InvalidArgument(
            f"A path is text, not {type(path).__name__}.", hint="Give a path such as /workspace/a.txt."
        )
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise ShellRefused(f"The path {path!r:.80} is no text.", hint="Use valid Unicode.", path=path) from None
    if "\0" in path or size > MOST_BYTES:
        raise ShellRefused(
            f"The path {path!r:.80} cannot be used.",
            hint=f"Paths have at most {MOST_BYTES} bytes, and no NUL.",
            path=path,
        )
    if unseen.search(path):
        raise ShellRefused(
            f"The path {path!r:.80} has a character that cannot be seen.", hint="Use names that can be read.", path=path
        )
    text = path.replace("\\", "/")
    parts = [
        part for part in (text if text.startswith("/") else f"{folder}/{text}").split("/") if part not in ("", ".")
    ]
    if ".." in parts:
        raise ShellRefused(f"The path {path!r:.80} has a step up.", hint="Write the path without `..`.", path=path)
    if any(len(part.encode()) > MOST_NAME for part in parts):
        raise ShellRefused(
            f"The path {path!r:.80} has a name that exceeds {MOST_NAME} bytes.", hint="Use shorter names.", path=path
        )
    return "/" + "/".join(parts)


def is_inside(path: str, folder: str) -> bool:
    """Whether a path of the shell, which has slashes on every system, is a folder or lies in it.

    >>> is_inside("/a/b", "/a"), is_inside("/ab", "/a"), is_inside("/a", "/")
    (True, False, True)
    """
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def refused(code: str, message: str, hint: str, **context: object) -> ShellRefused:
    """The error with a code that is more precise than `shell-refused`."""
    error = ShellRefused(message, hint=hint, **context)
    error.code = code
    return error


def refusal_of(kind: str, detail: str, path: str) -> ShellRefused:
    """The error for what the worker would not do. Its own words are shown only where there are no better ones."""
    about = {
        "missing": ("shell-missing", f"{path}: No such file or directory.", "List the folder to see what is there."),
        "is-folder": ("shell-is-folder", f"{path}: Is a directory.", "Name a file in it."),
        "no-folder": ("shell-no-folder", f"{path}: Not a directory.", "Name a folder."),
        "not-empty": ("shell-not-empty", f"{path}: Directory not empty.", "Remove it with recursive=True."),
        "is-root": ("shell-root", "The root cannot be removed.", "Remove what is in it."),
        "exists": ("shell-exists", f"{detail}: File exists.", "Remove it first, or choose another path."),
        "inside": ("shell-inside", f"{detail} is inside what should be put there.", "Choose another path."),
        "read-only": ("shell-read-only", f"{path}: Read-only file system.", "Skills cannot be changed; copy the file."),
        "over": ("shell-limit", f"{detail[:1].upper()}{detail[1:]}.", "Remove files, or give the shell larger limits."),
        "snapshot": ("shell-snapshot", "This is no snapshot of a shell, or it is damaged.", "Take a new one."),
    }
    code, message, hint = about.get(
        kind, ("shell-refused", f"The shell could not do that: {detail}", "Try another way.")
    )
    return refused(code, message, hint, path=path)


def checked_text(value: object, most: int) -> str:
    """Text without NUL that can be written as UTF-8, of at most so many characters."""
    if not isinstance(value, str) or len(value) > most or "\0" in value:
        raise ValueError("what should be text is not")
    value.encode()
    return value


def checked_path(value: object) -> str:
    """A path from the root, in its normal form."""
    try:
        return normal(checked_text(value, 8_192))
    except ShellRefused as error:
        raise ValueError(str(error)) from None


def checked_number(value: object, least: int, most: int) -> int:
    """A whole number in a range."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError("what should be a number is not")
    return value


def checked_mode(value: object) -> int:
    """The permissions of a file."""
    return checked_number(value, 0, 0o177777) & 0o777


def checked_milliseconds(value: object) -> float:
    """A span of time."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise ValueError("what should be a time is not")
    return float(min(value, 1e9))


MOST_FILE_BYTES = 10_000_000
MOST_TOTAL_BYTES = 100_000_000
MOST_FILES = 9_000
"""Limits of the interpreter itself: bytes in a file and in all, and nodes."""
MOST_SECONDS = 600.0
_MOST = {
    "seconds": MOST_SECONDS,
    "file_bytes": MOST_FILE_BYTES,
    "total_bytes": MOST_TOTAL_BYTES,
    "files": MOST_FILES,
    "depth": 100,
    "command_bytes": 8_000_000,
    "output_bytes": 8 * 1024 * 1024,
    "commands": 1_000_000_000,
    "loop_turns": 1_000_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLimits(FolderLimits):
    """Limits of a virtual shell. All are positive, and none is above that of the interpreter itself.

    Time, commands and turns are counted for each command line; files are what is there after it. A command that leaves
    more than it may is undone.

    >>> try:
    ...     ShellLimits(seconds=0)
    ... except InvalidArgument as error:
    ...     print(error)
    The limit `seconds` is 0, and must be above 0 and at most 600.
    """

    seconds: float = 30.0
    commands: int = 1_000_000
    loop_turns: int = 1_000_000
    """For all loops of a command line together."""
    output_bytes: int = 256 * 1024
    """For each of the two streams; what is more is dropped, and a flag says so."""
    command_bytes: int = 1024 * 1024
    """For a command line, as UTF-8."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, most = getattr(self, field.name), _MOST[field.name]
            is_number = type(value) is int or (
                field.name == "seconds" and type(value) is float and math.isfinite(value)
            )
            if not is_number or not 0 < value <= most:
                raise InvalidArgument(
                    f"The limit `{field.name}` is {value!r:.40}, and must be above 0 and at most {most:.0f}.",
                    hint="Give a positive number.",
                    name=field.name,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellUsage:
    """The content of a workspace, beside that of every new shell and beside its skills."""

    nodes: int
    """Files, folders and links, and the root."""
    files: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellEntry:
    """A file, folder or link of a workspace."""

    path: str
    kind: Literal["file", "folder", "link"]
    size: int
    mode: int

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]
