"""Path patterns: `*`, `?` and `[...]` within a name, `**` for any number of folders, `{a,b}` for either."""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING

from metier.errors import InvalidArgument
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MAX_LENGTH = 1_024
_MAX_ALTERNATIVES = 64
_BRACES = re.compile(r"\{([^{}]*)\}")


class PathPattern:
    """A pattern for paths with `/` between their names. Matching takes time in proportion to the path.

    >>> pattern = PathPattern("src/**/*.{py,pyi}")
    >>> pattern.matches("src/a.py"), pattern.matches("src/b/c.pyi"), pattern.matches("a.py")
    (True, True, False)
    """

    def __init__(self, text: str) -> None:
        """Raises `InvalidArgument` for a pattern that is empty, too long or leads upwards."""
        if not text.strip() or len(text) > _MAX_LENGTH or "\0" in text:
            raise InvalidArgument(
                f"The pattern cannot be empty or longer than {_MAX_LENGTH} characters.", hint="Try **/*.md."
            )
        self._alternatives = [_compiled(alternative) for alternative in _expanded(text)]

    def matches(self, path: str) -> bool:
        """Whether the whole of a relative path fits."""
        names = path.split("/")
        return any(_fits(parts, names) for parts in self._alternatives)


def _expanded(text: str) -> list[str]:
    done: list[str] = []
    waiting = [text]
    while waiting:
        current = waiting.pop()
        match = _BRACES.search(current)
        if match is None:
            done.append(current)
        else:
            for option in match[1].split(","):
                waiting.append(current[: match.start()] + option + current[match.end() :])
        if len(done) + len(waiting) > _MAX_ALTERNATIVES:
            raise InvalidArgument(
                f"The pattern {shown(text)!r} has more than {_MAX_ALTERNATIVES} alternatives.",
                hint="Make several calls.",
            )
    return done


def _compiled(text: str) -> list[Callable[[str], object] | None]:
    """What each name must match; None stands for any number of folders."""
    parts: list[Callable[[str], object] | None] = []
    for segment in text.split("/"):
        if segment == "..":
            raise InvalidArgument(
                f"The pattern {shown(text)!r} leads upwards.", hint="Patterns match below the folder that is searched."
            )
        if segment == "**":
            if not parts or parts[-1] is not None:
                parts.append(None)
        elif segment not in ("", "."):
            parts.append(re.compile(fnmatch.translate(segment)).match)
    return parts


def _fits(parts: list[Callable[[str], object] | None], names: list[str]) -> bool:
    # All the places in the pattern that the names so far can have led to, at once: nothing is ever tried again.
    places = _reached(parts, [0])
    for name in names:
        following = [
            place if part is None else place + 1
            for place in places
            if place < len(parts) and ((part := parts[place]) is None or part(name))
        ]
        places = _reached(parts, following)
        if not places:
            return False
    return len(parts) in places


def _reached(parts: list[Callable[[str], object] | None], places: Iterable[int]) -> set[int]:
    return {
        further
        for place in places
        for further in ((place, place + 1) if place < len(parts) and parts[place] is None else (place,))
    }
