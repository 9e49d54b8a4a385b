"""Which active skills a command runs something of: whatever program it names, that is a run of the skill's scripts.

What a command does cannot be told from its text alone. So a skill whose scripts may not run is also left out of what
commands see, where there is a sandbox; the text decides where there is none, and who is told why.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from metier.skill.folder import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.session.active import ActiveSkill
    from metier.session.state import State

_QUOTING = re.compile(r"[\"'\\]")
_BETWEEN = re.compile(r"[\s;|&()<>{}=,:`]+")
_MOST_WORDS = 2_000


def folders_of(session: State, one: ActiveSkill) -> tuple[str, ...]:
    """Where the files of a skill are: its own folder, the copy that it runs from, and its place in the shell."""
    named = [one.root, session.copies.root_of(one.digest), f"{session.options.mount}/{one.name}"]
    found = [path for path in named if path and os.path.isabs(path)]
    return tuple(dict.fromkeys((*found, *map(os.path.realpath, found))))


def concerned(session: State, argv: Sequence[str], folder: str) -> tuple[ActiveSkill, ...]:
    """The active skills that have scripts and whose files a command names, or is among."""
    with_scripts = [one for one in session.live() if one.listing.scripts()]
    if not with_scripts:
        return ()
    text = _QUOTING.sub("", " ".join(argv)).replace("${HOME}", "~").replace("$HOME", "~")
    words = tuple(dict.fromkeys(word for word in _BETWEEN.split(text) if word))[:_MOST_WORDS]
    paths = tuple(_paths(words, folder))
    return tuple(one for one in with_scripts if _is_named(session, one, text, words, paths))


def _paths(words: Sequence[str], folder: str) -> Iterator[str]:
    yield os.path.realpath(folder)
    for word in words:
        if "/" not in word or "\0" in word:
            continue
        full = os.path.normpath(os.path.join(folder, os.path.expanduser(word)))
        yield full
        yield os.path.realpath(full)


def _is_named(session: State, one: ActiveSkill, text: str, words: Sequence[str], paths: Sequence[str]) -> bool:
    folders = folders_of(session, one)
    if any(root in text for root in folders) or any(is_inside(path, root) for path in paths for root in folders):
        return True
    # Behind a `cd` to wherever it was, a script goes by its path in the skill.
    scripts = tuple(f"/{file.path}" for file in one.listing.scripts() if "/" in file.path)
    relative = (word for word in words if not word.startswith(("/", "~")))
    return any(f"/{word.removeprefix('./')}".endswith(scripts) for word in relative)
