"""Values that must not be seen, out of whatever a script writes.

A value is known as it is, line by line, and as it reads in base64, in a URL and in JSON. A script that wants to tell a
secret can still turn it into something else: that it has nobody to tell it to is up to the network that it gets.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import stat
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

from metier._lazy import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from metier.run import Outcome
    from metier.run.job import OutputLine


MARK = "***REDACTED***"
SHORTEST = 4
"""Characters below which a value is left as it is: it would be found in every other word."""


class Masks:
    """The values of some secrets, and how they are taken out of text.

    >>> Masks(["hunter2!"]).hide("pass hunter2! as hunter2%21 or aHVudGVyMiE=")
    'pass ***REDACTED*** as ***REDACTED*** or ***REDACTED***'
    """

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values for form in _forms(value)}
        # The longest first: a value must not be taken for another one that it begins with.
        self._forms = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, self._forms))) if forms else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    @property
    def longest(self) -> int:
        """Characters of the longest form of a value."""
        return len(self._forms[0]) if self._forms else 0

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """The text with a mark for each value; of one that `is_cut` at its end, also for the part of a value there."""
        if self._pattern is None:
            return text
        hidden = self._pattern.sub(MARK, text)
        return self._without_part(hidden) if is_cut else hidden

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the positions of values in a text."""
        if self._pattern is not None:
            yield from (found.span() for found in self._pattern.finditer(text))

    def _without_part(self, text: str) -> str:
        longest = max((_overlap(text, form) for form in self._forms), default=0)
        return text[:-longest] + MARK if longest else text

    def hide_in(self, outcome: Outcome) -> Outcome:
        """The outcome with marks in what the job wrote."""
        was_ended = outcome.killed_by is not None
        return replace(
            outcome,
            stdout=self.hide(outcome.stdout, is_cut=outcome.stdout_truncated or was_ended),
            stderr=self.hide(outcome.stderr, is_cut=outcome.stderr_truncated or was_ended),
        )


class MaskedLines:
    """Lines on their way to a listener, with marks in them, also where a line comes in several pieces."""

    def __init__(self, masks: Masks, tell: Callable[[OutputLine], None]) -> None:
        self._masks = masks
        self._tell = tell
        self._held: dict[str, OutputLine] = {}

    def __call__(self, line: OutputLine) -> None:
        """Tell a line; of one that has not ended, what may be the beginning of a value waits for the rest."""
        held = self._held.pop(line.stream, None)
        if held is not None:
            line = replace(line, text=held.text + line.text)
        if line.text.endswith("\n"):
            self._say(line, line.text)
            return
        # What begins before this is here with all that could belong to it.
        certain = len(line.text) - self._masks.longest + 1
        for start, end in self._masks.spans(line.text):
            if start < certain < end:
                certain = end
        certain = max(0, certain)
        if certain < len(line.text):
            self._held[line.stream] = replace(line, text=line.text[certain:])
        if certain:
            self._say(line, line.text[:certain])

    def finish(self, *, is_cut: bool) -> None:
        """Tell what still waits; the job has ended, or was ended in the middle of a line."""
        for line in self._held.values():
            self._say(line, line.text, is_cut=is_cut)
        self._held.clear()

    def _say(self, line: OutputLine, text: str, *, is_cut: bool = False) -> None:
        self._tell(replace(line, text=self._masks.hide(text, is_cut=is_cut)))


def _forms(value: str) -> Iterator[str]:
    lines = [line.strip() for line in value.splitlines()]
    for part in dict.fromkeys((value, value.strip(), *lines)):
        if len(part) < SHORTEST:
            continue
        data = part.encode(errors="surrogateescape")
        yield part
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        for written in (quote(data, safe=""), quote(data), quote_plus(data)):
            yield written
            yield re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), written)
        yield from _in_base64(data)


def _in_base64(data: bytes) -> Iterator[str]:
    """The base64 forms of bytes, alone or inside of something longer, such as `user:password`."""
    for whole in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
        yield whole
        yield whole.rstrip("=")
    for before in range(3):
        # The characters that hold bits of the neighbours differ, so they are left out.
        written = base64.b64encode(bytes(before) + data).decode().rstrip("=")
        first = (0, 2, 3)[before]
        last = len(written) - (1 if (before + len(data)) % 3 else 0)
        inner = written[first:last]
        if len(inner) >= 2 * SHORTEST:
            yield inner
            yield inner.replace("+", "-").replace("/", "_")


def _overlap(text: str, form: str) -> int:
    """The number of characters at the end of a text that begin a form; too few count as none."""
    for length in range(min(len(form) - 1, len(text)), SHORTEST - 1, -1):
        if text.endswith(form[:length]):
            return length
    return 0


MOST_FILES = 20_000
MAX_BYTES = 1024 * 1024
_FLAGS = os.O_RDWR | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


class NewFiles:
    """The files of a folder before something ran there, to find new ones after it."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._before: set[str] = set()
        for count, path in enumerate(_files(folder)):
            if count == MOST_FILES:
                break
            self._before.add(path)

    def hide(self, masks: Masks) -> tuple[str, ...]:
        """Put marks into the files that are new; what people should know of it."""
        if len(self._before) == MOST_FILES:
            return ("New files were not searched for secrets, as the workspace has too many.",)
        notes = []
        for count, path in enumerate(_files(self._folder)):
            if count >= 2 * MOST_FILES:
                notes.append("Not all new files were searched for secrets, as there are too many.")
                break
            with contextlib.suppress(OSError):
                if path not in self._before and _hide_in(path, masks):
                    notes.append(f"A secret was taken out of {os.path.relpath(path, self._folder)}.")
        return tuple(notes)


def _files(folder: str) -> Iterator[str]:
    # Not `os.walk`, which calls itself in some versions of Python, and a script can make folders as deep as it likes.
    pending = [folder]
    while pending:
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    yield entry.path


def _hide_in(path: str, masks: Masks) -> bool:
    """Whether a file had something to hide, which it has no longer."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    descriptor = os.open(path, _FLAGS)
    with os.fdopen(descriptor, "r+b") as file:
        status = os.fstat(descriptor)
        # Another name may be that of a file which was there before.
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1 or status.st_size > MAX_BYTES:
            return False
        data = file.read(MAX_BYTES + 1)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return False
        hidden = masks.hide(text)
        if hidden == text:
            return False
        file.seek(0)
        file.write(hidden.encode())
        file.truncate()
    return True
