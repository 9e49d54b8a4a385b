"""A parser of unified diffs: paths stay inside of a skill, and anything that is not understood is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NoReturn

from metier._lazy import dataclass, field
from metier.errors import ProposalInvalid
from metier.skill import shown
from metier.skill.package import checked_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.skill.package import FileMode

MAX_DIFF_BYTES = 1024 * 1024
_MAX_HUNKS = 5_000

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b'"': b'"', b"\\": b"\\"}
_BETWEEN = (b"diff ", b"index ", b"similarity index ", b"dissimilarity index ", b"====", b"-- ")
"""Lines around the files of a diff that say nothing about them."""
_MODES: dict[bytes, FileMode] = {b"100644": "file", b"100755": "exec"}
NO_END = "\\ No newline at end of file"
"""The line behind a last line without a line end."""
SHAPE = "Write a unified diff: --- a/SKILL.md, +++ b/SKILL.md, and hunks that begin with @@ -LINE,COUNT +LINE,COUNT @@."
"""The hint for a text of another shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines of a file, old and new."""

    header: str
    start: int
    """The first old line, from 1; for a hunk without old lines, the line that it goes behind."""
    body: tuple[tuple[bytes, bytes], ...]
    """Each line with its mark and its own line end."""

    def side(self, other: bytes) -> list[bytes]:
        """The old lines, or the new ones, given the mark of the others."""
        return [text for mark, text in self.body if mark != other]


@dataclass(slots=True, kw_only=True)
class FileDiff:
    """The changes of a diff to one file."""

    line: int
    old: str | None = None
    new: str | None = None
    kind: Literal["change", "add", "delete", "rename"] = "change"
    mode: FileMode | None = None
    hunks: list[Hunk] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The file that there is afterwards, or that is gone then."""
        return self.new or self.old or ""


def changes_of(diff: str) -> Iterator[FileDiff]:
    """Yield the changes to each file, in the order of the diff; raise `ProposalInvalid`, or `FileRefused` for a path.

    Text before the first header is what people write around diffs.

    >>> [change.path for change in changes_of("--- a/x.md\\n+++ b/x.md\\n@@ -1 +1 @@\\n-one\\n+two\\n")]
    ['x.md']
    """
    lines = _lines(diff)
    at = 0
    while at < len(lines) and not _begins(lines, at):
        at += 1
    hunks = 0
    while at < len(lines):
        change = FileDiff(line=at + 1)
        at = _headers(lines, at, change)
        while at < len(lines) and lines[at].startswith(b"@@"):
            hunk, at = _hunk(lines, at)
            change.hunks.append(hunk)
            hunks += 1
            if hunks > _MAX_HUNKS:
                raise ProposalInvalid(f"The diff has more than {_MAX_HUNKS:,} hunks.", hint="Propose it in parts.")
        while at < len(lines) and not _begins(lines, at):
            if lines[at].strip() and not lines[at].startswith(_BETWEEN):
                _not_understood(lines, at)
            at = len(lines) if lines[at] == b"-- " else at + 1  # the signature of a mail
        yield _checked(change)


def _lines(diff: str) -> list[bytes]:
    if not isinstance(diff, str) or not diff.strip():
        raise ProposalInvalid("The diff is empty.", hint=SHAPE)
    try:
        data = diff.encode()
    except UnicodeEncodeError:
        raise ProposalInvalid("The diff is not valid Unicode text.", hint="Correct the text.") from None
    if len(data) > MAX_DIFF_BYTES:
        raise ProposalInvalid(
            f"The diff has {len(data):,} bytes; at most {MAX_DIFF_BYTES:,} are read.", hint="Propose it in parts."
        )
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line[:-1] for line in lines] if all(line.endswith(b"\r") for line in lines) else lines


def _begins(lines: list[bytes], at: int) -> bool:
    if lines[at].startswith((b"diff --git ", b"Index: ")):
        return True
    return lines[at].startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ ")


def _not_understood(lines: list[bytes], at: int) -> NoReturn:
    text = shown(lines[at].decode(errors="replace"), 80)
    if lines[at].startswith((b"Binary files ", b"GIT binary patch")):
        raise ProposalInvalid("A diff cannot change a file that is not text.", hint="Propose the files as a whole.")
    raise ProposalInvalid(
        f"Line {at + 1:,} of the diff is not understood: {text!r}.",
        hint="Every line of a hunk begins with a blank, - or +, and the counts in its header are those of its lines.",
        line=at + 1,
    )


def _headers(lines: list[bytes], at: int, change: FileDiff) -> int:
    """Read what stands before the first hunk of a file; returns the line of that."""
    named = b""
    while at < len(lines) and not lines[at].startswith(b"@@"):
        line = lines[at]
        if line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            old, new = _path(line[4:], b"a/"), _path(lines[at + 1][4:], b"b/")
            _learn(change, old, new)
            return at + 2
        if line.startswith(b"diff --git "):
            if named:
                break  # the next file: this one has neither names nor hunks
            named = line
        elif line.startswith((b"new file mode ", b"deleted file mode ", b"new mode ", b"old mode ")):
            words, _, mode = line.rpartition(b" ")
            change.kind = {b"new file mode": "add", b"deleted file mode": "delete"}.get(words, change.kind)  # type: ignore[assignment]
            if words != b"old mode":
                change.mode = _mode(mode, at)
        elif line.startswith(b"rename from "):
            change.kind, change.old = "rename", _path(line[12:], b"")
        elif line.startswith(b"rename to "):
            change.kind, change.new = "rename", _path(line[10:], b"")
        elif line.startswith((b"copy from ", b"copy to ")):
            raise ProposalInvalid("The diff copies a file.", hint="Write the copy as a new file.", line=at + 1)
        elif line.startswith(b"Index: ") and named:
            break
        elif not line.startswith((*_BETWEEN, b"Index: ")) and line.strip():
            _not_understood(lines, at)
        at += 1
    if change.kind != "rename":
        _learn(change, *_file_of_header(named))
    return at


def _learn(change: FileDiff, old: str | None, new: str | None) -> None:
    if old is None and new is None:
        raise ProposalInvalid(f"The header in line {change.line:,} names no file.", hint=SHAPE, line=change.line)
    if change.kind == "rename":
        if (old, new) != (change.old, change.new):
            raise ProposalInvalid("The headers of a renamed file differ.", hint="Make the diff with `git diff`.")
        return
    if old is None or change.kind == "add":
        change.kind, old = "add", None
    elif new is None or change.kind == "delete":
        change.kind, new = "delete", None
    elif old != new:
        raise ProposalInvalid(
            f"The diff is of two files: {shown(old)!r} and {shown(new)!r}.",
            hint="Name the same file twice, relative to the skill's folder: --- a/SKILL.md and +++ b/SKILL.md.",
        )
    change.old, change.new = old, new


def _file_of_header(line: bytes) -> tuple[str | None, str | None]:
    """The file of a `diff --git` line that nothing but a mode follows: the same name twice."""
    rest = line.removeprefix(b"diff --git ")
    middle = rest.find(b'" "') + 1 if rest.startswith(b'"') else (len(rest) - 1) // 2
    if not rest or not middle or rest[middle : middle + 1] != b" ":
        return None, None
    return _path(rest[:middle], b"a/"), _path(rest[middle + 1 :], b"b/")


def _path(written: bytes, prefix: bytes) -> str | None:
    """The path in a header, below the skill's folder; None for /dev/null."""
    if written.startswith(b'"'):
        end = written.rfind(b'"')
        name = _ESCAPE.sub(lambda found: _unescaped(found[1]), written[1:end])
    else:
        name = written.partition(b"\t")[0]
    if name == b"/dev/null":
        return None
    try:
        text = name.removeprefix(prefix).decode()
    except UnicodeDecodeError:
        raise ProposalInvalid("A path in the diff is not UTF-8.", hint="Rename the file.") from None
    return "/".join(checked_path(text))


def _unescaped(code: bytes) -> bytes:
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPES.get(code, b"\\" + code)


def _mode(mode: bytes, at: int) -> FileMode:
    found = _MODES.get(mode.strip())
    if found is None:
        raise ProposalInvalid(
            f"Line {at + 1:,} of the diff makes a link, or something else that is no plain file.",
            hint="A proposal adds plain files only, with the modes 100644 and 100755.",
            line=at + 1,
        )
    return found


def _checked(change: FileDiff) -> FileDiff:
    if change.kind == "change" and not change.hunks and change.mode is None:
        raise ProposalInvalid(f"The diff says nothing about {shown(change.path)!r}.", hint=SHAPE, line=change.line)
    if change.kind == "delete":
        change.mode = None
    return change


def _hunk(lines: list[bytes], at: int) -> tuple[Hunk, int]:
    """The hunk whose header stands in a line, and the line after it."""
    header = shown(lines[at].decode(errors="replace"), 60)
    match = _HUNK.match(lines[at])
    if match is None:
        raise ProposalInvalid(f"Line {at + 1:,} of the diff is no header: {header!r}.", hint=SHAPE, line=at + 1)
    start, old_left, new_left = int(match[1]), int(match[2] or 1), int(match[4] or 1)
    body: list[tuple[bytes, bytes]] = []
    first = at
    at += 1
    while at < len(lines) and (old_left > 0 or new_left > 0 or lines[at].startswith(b"\\")):
        line = lines[at] or b" "  # editors strip the blank that an empty line of context has
        mark = line[:1]
        if mark == b"\\" and body:
            body[-1] = (body[-1][0], body[-1][1].removesuffix(b"\n"))
        elif mark in (b" ", b"-", b"+"):
            old_left -= mark != b"+"
            new_left -= mark != b"-"
            body.append((mark, line[1:] + b"\n"))
        else:
            break
        at += 1
    if old_left or new_left or not body:
        raise ProposalInvalid(
            f"The hunk {header} does not have the lines that its header counts.",
            hint="Every line of a hunk begins with a blank, - or +, and the counts in the header are theirs.",
            line=first + 1,
        )
    return Hunk(header=header, start=start, body=tuple(body)), at
