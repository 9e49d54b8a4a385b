"""Paths inside a virtual shell."""

from __future__ import annotations

import re

from metier.errors import InvalidArgument, ShellRefused

MOST_BYTES = 4_096
MOST_NAME = 255
"""Of a path, and of each name in it."""
unseen = re.compile(
    "[\x01-\x1f\x7f-\x9f\u180e\u200b-\u200d\u202a-\u202e\u2060\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
).search
"""A character that no name may have, as two names would look the same by it. The interpreter refuses them too."""


def normal(path: str, folder: str = "/") -> str:
    """A path from the root, as the shell knows it: without empty parts, dots and backslashes.

    A step up is refused wherever it stands, because whoever checks a path should not have to follow it.

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
    """Whether a path is a folder or in it.

    >>> is_inside("/a/b", "/a"), is_inside("/ab", "/a"), is_inside("/a", "/")
    (True, False, True)
    """
    return folder == "/" or path == folder or path.startswith(folder + "/")
