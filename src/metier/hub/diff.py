"""The difference between two states of a skill, as a unified diff of all its files."""

from __future__ import annotations

import bisect
from collections import Counter
from difflib import Match, SequenceMatcher
from typing import TYPE_CHECKING

from metier.hub.diff_apply import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.skill.package import FileMode, Files

_CONTEXT = 3
_MAX_GAP = 10_000
"""Lines before times lines after between which line by line is compared; beyond, all of them count as changed."""
_MAX_WORK = 400_000
"""The same for a whole file: comparing lines that repeat takes the cube of their number."""
_NO_END = "\\ No newline at end of file\n"
_MODES: dict[FileMode, str] = {"file": "100644", "exec": "100755", "link": "120000"}


def difference(before: Files, after: Files) -> str:
    """A unified diff from one state of a skill's files to another; empty where there is none.

    >>> before, after = {"SKILL.md": ("file", b"one\\ntwo\\n")}, {"SKILL.md": ("file", b"one\\n2\\n")}
    >>> print(difference(before, after), end="")
    diff --git a/SKILL.md b/SKILL.md
    --- a/SKILL.md
    +++ b/SKILL.md
    @@ -1,2 +1,2 @@
     one
    -two
    +2
    """
    paths = sorted({*before, *after}, key=lambda path: (path != "SKILL.md", path))
    return "".join(text for path in paths for text in _of_file(path, before.get(path), after.get(path)))


def _of_file(path: str, old: tuple[FileMode, bytes] | None, new: tuple[FileMode, bytes] | None) -> Iterator[str]:
    if old == new:
        return
    names = [_quoted(f"{side}/{path}") for side in "ab"]
    yield f"diff --git {names[0]} {names[1]}\n"
    if old is None and new is not None:
        yield f"new file mode {_MODES[new[0]]}\n"
    elif new is None and old is not None:
        yield f"deleted file mode {_MODES[old[0]]}\n"
    elif old is not None and new is not None and old[0] != new[0]:
        yield f"old mode {_MODES[old[0]]}\nnew mode {_MODES[new[0]]}\n"
    was, now = (old or ("file", b""))[1], (new or ("file", b""))[1]
    if was == now:
        return
    if not (_is_text(was) and _is_text(now)):
        yield f"Binary files {names[0]} ({len(was):,} bytes) and {names[1]} ({len(now):,} bytes) differ\n"
        return
    yield f"--- {names[0] if old is not None else '/dev/null'}\n+++ {names[1] if new is not None else '/dev/null'}\n"
    yield from _hunks(lines_of(was), lines_of(now))


def _quoted(path: str) -> str:
    if '"' not in path and path.isprintable():
        return path
    escaped = "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in _raw(path))
    return f'"{escaped}"'


def _raw(path: str) -> bytes:
    return path.encode(errors="surrogateescape")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[str]:
    for group in _Matched(old, new).get_grouped_opcodes(_CONTEXT):
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        yield f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@\n"
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in old[a1:a2])
            else:
                yield from (_line("-", line) for line in old[a1:a2])
                yield from (_line("+", line) for line in new[b1:b2])


def _range(start: int, stop: int) -> str:
    count = stop - start
    return f"{start + 1 if count else start},{count}" if count != 1 else f"{start + 1}"


def _line(mark: str, line: bytes) -> str:
    text = mark + line.decode()
    return text if line.endswith(b"\n") else f"{text}\n{_NO_END}"


class _Matched(SequenceMatcher[bytes]):
    """Two lists of lines, compared in bounded time whatever they hold.

    Lines that both have once hold the rest together, and only the short stretches between them are compared closely.
    """

    def __init__(self, old: list[bytes], new: list[bytes]) -> None:
        super().__init__(None, (), (), autojunk=False)
        self._old, self._new = old, new

    def get_matching_blocks(self) -> list[Match]:
        old, new = self._old, self._new
        blocks: list[Match] = []
        for i, j in _pairs(old, new):
            if blocks and blocks[-1].a + blocks[-1].size == i and blocks[-1].b + blocks[-1].size == j:
                blocks[-1] = blocks[-1]._replace(size=blocks[-1].size + 1)
            else:
                blocks.append(Match(i, j, 1))
        return [*blocks, Match(len(old), len(new), 0)]


def _pairs(old: list[bytes], new: list[bytes]) -> Iterator[tuple[int, int]]:
    """The pairs of equal old and new lines, in order."""
    i = j = 0
    work = _MAX_WORK
    for to_i, to_j in (*_anchors(old, new), (len(old), len(new))):
        while i < to_i and j < to_j and old[i] == new[j]:
            yield i, j
            i, j = i + 1, j + 1
        end_i, end_j = to_i, to_j
        while end_i > i and end_j > j and old[end_i - 1] == new[end_j - 1]:
            end_i, end_j = end_i - 1, end_j - 1
        gap = (end_i - i) * (end_j - j)
        if 0 < gap <= min(_MAX_GAP, work):
            work -= gap
            closely = SequenceMatcher(None, old[i:end_i], new[j:end_j], autojunk=False)
            for a, b, size in closely.get_matching_blocks():
                yield from ((i + a + step, j + b + step) for step in range(size))
        yield from zip(range(end_i, to_i), range(end_j, to_j), strict=True)
        if to_i < len(old) and to_j < len(new):
            yield to_i, to_j
        i, j = to_i + 1, to_j + 1


def _anchors(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Lines that both have exactly once, as many as stand in the same order."""
    counts_old, counts_new = Counter(old), Counter(new)
    where = {line: at for at, line in enumerate(new) if counts_new[line] == 1}
    pairs = [(at, where[line]) for at, line in enumerate(old) if counts_old[line] == 1 and line in where]
    # The longest run of increasing places: the smallest end of a run of each length, and who came before whom.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect.bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    chain: list[tuple[int, int]] = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
