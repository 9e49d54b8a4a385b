"""Validation for the virtual shell: paths, values of a worker, and errors with precise codes."""

from __future__ import annotations

import math

from metier.errors import InvalidArgument, ShellRefused
from metier.run.host_files import MOST_BYTES, MOST_NAME, unseen


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
    if unseen(path):
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
