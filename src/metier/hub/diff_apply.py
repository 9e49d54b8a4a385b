"""Unified diffs of several files, applied to the files of a skill: all of it exactly, or nothing.

The diff is a stranger's. Its lines must be there byte for byte, and where one is not, nothing is applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier.errors import ProposalInvalid
from metier.hub.diff_parser import NO_END, SHAPE, Hunk, changes_of
from metier.hub.skill_files import require_sound
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metier.hub.diff_parser import FileDiff
    from metier.skill.package import FileMode, Files

_MAX_SEARCHES = 100
"""Hunks that are not where they say: each of them costs a look through its whole file."""

_NEW: tuple[FileMode, bytes] = ("file", b"")
_RETRY = "Read the file again, and make the diff of what it says now."


def apply_diff(files: Files, diff: str) -> dict[str, tuple[FileMode, bytes]]:
    """The files of a skill after a unified diff; raises `ProposalInvalid` or `FileRefused`, and changes nothing itself.

    >>> before = {"SKILL.md": ("file", b"one\\ntwo\\n")}
    >>> apply_diff(before, "--- a/SKILL.md\\n+++ b/SKILL.md\\n@@ -1,2 +1,2 @@\\n one\\n-two\\n+deux\\n")
    {'SKILL.md': ('file', b'one\\ndeux\\n')}
    """
    after = dict(files)
    touched: set[str] = set()
    searches = _Searches()
    for change in changes_of(diff):
        for path in {change.old, change.new} - {None}:
            if path in touched:
                raise ProposalInvalid(
                    f"The diff has {shown(path or '')!r} twice.", hint="Put all its hunks behind one header."
                )
            touched.add(path or "")
        _apply(change, files, after, searches)
    if not touched:
        raise ProposalInvalid("There is no diff in it.", hint=SHAPE)
    require_sound(after)
    return after


def _apply(change: FileDiff, before: Files, after: dict[str, tuple[FileMode, bytes]], searches: _Searches) -> None:
    path = change.path
    if change.kind in ("add", "rename") and path in before:
        raise ProposalInvalid(f"{shown(path)!r} exists already.", hint="Change it instead of adding it.", path=path)
    found = _NEW if change.kind == "add" else before.get(change.old or path)
    if found is None:
        raise ProposalInvalid(
            f"The skill has no file {shown(change.old or path)!r}.",
            hint="Paths are relative to the skill's folder; a new file has --- /dev/null.",
            path=path,
        )
    mode, data = found
    if mode == "link":
        raise ProposalInvalid(f"{shown(path)!r} is a link.", hint="A diff cannot change where it leads.", path=path)
    content = _patched(data, change, searches)
    if change.kind in ("delete", "rename"):
        del after[change.old or path]
    if change.kind != "delete":
        after[path] = (change.mode or mode, content)
    elif content:
        raise ProposalInvalid(
            f"The diff deletes {shown(path)!r}, and not all of its lines.", hint=_RETRY, path=path, line=change.line
        )


class _Searches:
    """Counts the hunks that were not at the line that they name."""

    def __init__(self) -> None:
        self.left = _MAX_SEARCHES

    def begin(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ProposalInvalid(f"More than {_MAX_SEARCHES} hunks are not where they say.", hint=_RETRY)


def _patched(data: bytes, change: FileDiff, searches: _Searches) -> bytes:
    lines = lines_of(data)
    hunks = _with_line_ends_of(lines, change.hunks)
    done: list[bytes] = []
    position = shift = 0
    for hunk in hunks:
        old = hunk.side(b"+")
        declared = hunk.start - 1 if old else hunk.start
        at = _place(hunk, old, lines, position, declared + shift, change.path, searches)
        shift = at - declared
        done += lines[position:at]
        done += hunk.side(b"-")
        position = at + len(old)
    done += lines[position:]
    if any(not line.endswith(b"\n") for line in done[:-1]):
        raise ProposalInvalid(
            f"A line in the middle of {shown(change.path)!r} would have no end.",
            hint=f"`{NO_END}` stands behind the last line only, and behind every version of it that has none.",
            path=change.path,
        )
    return b"".join(done)


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file as diffs count them, with their ends: a carriage return alone ends none.

    >>> lines_of(b"one\\r\\ntwo\\rthree")
    [b'one\\r\\n', b'two\\rthree']
    """
    *lines, last = data.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _with_line_ends_of(lines: list[bytes], hunks: Sequence[Hunk]) -> Sequence[Hunk]:
    """The hunks, as they were meant where every line of a file ends in CR LF and none in the diff does.

    No such hunk could be found in the file otherwise.
    """
    if not lines or not all(line.endswith(b"\r\n") for line in lines):
        return hunks
    if any(text.endswith(b"\r\n") for hunk in hunks for _, text in hunk.body) or not any(h.side(b"+") for h in hunks):
        return hunks
    return [
        Hunk(
            header=hunk.header,
            start=hunk.start,
            body=tuple((mark, text[:-1] + b"\r\n" if text.endswith(b"\n") else text) for mark, text in hunk.body),
        )
        for hunk in hunks
    ]


def _place(
    hunk: Hunk, old: list[bytes], lines: list[bytes], position: int, wanted: int, path: str, searches: _Searches
) -> int:
    """The index of the line at which a hunk begins; never before `position`."""
    if not old:
        if not position <= wanted <= len(lines):
            raise ProposalInvalid(
                f"The hunk {hunk.header} is outside {shown(path)!r}, which has {len(lines):,} lines.", hint=_RETRY
            )
        return wanted
    if wanted >= position and lines[wanted : wanted + len(old)] == old:
        return wanted
    # They may stand elsewhere, as they are and in one place only. To search one long text takes time in proportion
    # to it; to compare line by line does not.
    searches.begin()
    whole, block = b"\n" + b"".join(lines[position:]), b"\n" + b"".join(old)
    first = whole.find(block)
    if first < 0 or not (block.endswith(b"\n") or len(whole) == first + len(block)):
        raise ProposalInvalid(_mismatch(hunk, old, lines, max(wanted, 0), path), hint=_RETRY, path=path)
    if whole.find(block, first + 1) >= 0:
        raise ProposalInvalid(
            f"The lines of the hunk {hunk.header} are not where it says in {shown(path)!r}, and stand in more than one "
            "other place.",
            hint="Give more lines of context, or the right line number.",
            path=path,
        )
    return position + whole.count(b"\n", 0, first)


def _mismatch(hunk: Hunk, old: list[bytes], lines: list[bytes], at: int, path: str) -> str:
    where = f"The hunk {hunk.header} does not fit {shown(path)!r}"
    for number, line in enumerate(old, at):
        found = lines[number] if number < len(lines) else None
        if found is None:
            return f"{where}: line {number + 1:,} is beyond its end."
        if found != line:
            return f"{where}: line {number + 1:,} is {_format_line(found)}, not {_format_line(line)}."
    return f"{where}: it overlaps the one before it."


def _format_line(line: bytes) -> str:
    text = repr(shown(line.removesuffix(b"\n").decode(errors="replace"), 80))
    return text if line.endswith(b"\n") else f"{text} without a line end ({NO_END})"
