"""Search tools: `Glob` finds files by path patterns, `Grep` finds lines by a regular expression.

The expressions are those of Rust's `regex`, as in ripgrep: matching takes time in proportion to the text, so that no
expression can hang the host. It has no look-around and no back-references.
"""

from __future__ import annotations

import fnmatch
import re
import threading
from functools import partial
from typing import TYPE_CHECKING

from metier._lazy import dataclass, field
from metier.errors import FileTooLarge, InvalidArgument, MetierError
from metier.skill import shown
from metier.skill.names import path_fits
from metier.skill.untrusted_text import shown_text
from metier.tools.function import FunctionTool
from metier.tools.patch import split_lines
from metier.tools.tool import ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from metier.tools.workspace import Workspace


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
        return any(path_fits(parts, names) for parts in self._alternatives)


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
    """A pattern for each name; None stands for any number of folders."""
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


MAX_MATCHES = 500
_MAX_PATTERN = 1_000
_MAX_FILE_BYTES = 4 * 1024 * 1024
_MAX_TOTAL_BYTES = 64 * 1024 * 1024
_MAX_LINE = 8_192
"""Characters of a line that are searched; of one that matches, `_MAX_SHOWN` are shown."""
_MAX_SHOWN = 400
_REGEX_BYTES = 1024 * 1024


@dataclass(slots=True, kw_only=True)
class _Found:
    lines: list[str] = field(default_factory=list)
    files: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)


def grep_tool(workspace: Workspace, unsearched: Callable[[], Collection[str]] = tuple) -> FunctionTool:
    """The tool `Grep`; files that are `unsearched`, by their real paths, are passed over where they are not named."""

    async def grep(pattern: str, path: str = ".", glob: str | None = None, ignore_case: bool = False) -> ToolResult:
        """Search the files of the workspace for lines that match a regular expression.

        Version control, installed modules, links and files that are no text are passed over.

        Args:
            pattern: The regular expression, without look-around and back-references.
            path: The file or folder to search.
            glob: Only files whose paths fit this, such as *.py or docs/**.
            ignore_case: Take capitals and small letters for the same.
        """
        from anyio.to_thread import run_sync

        matches = _matcher(pattern, ignore_case=ignore_case)
        wanted = None if glob is None else PathPattern(glob if "/" in glob else f"**/{glob}")
        stop = threading.Event()
        search = partial(_search, workspace, path, wanted, matches, stop.is_set, unsearched())
        try:
            found = await run_sync(search, abandon_on_cancel=True)
        finally:
            stop.set()
        return ToolResult(
            success=True,
            result="\n".join([*found.lines, *found.notes]) or "No matches found.",
            truncated=bool(found.notes),
            data={
                "message": f"Found {len(found.lines):,} matching lines in {len(found.files):,} files",
                "count": len(found.lines),
                "paths": list(found.files),
            },
        )

    return FunctionTool(grep, name="Grep")


def _matcher(pattern: str, *, ignore_case: bool) -> Callable[[str], bool]:
    # The schema validator is the linear engine that is at hand: a text fits a `pattern` that is found anywhere in it.
    import jsonschema_rs

    if not pattern or len(pattern) > _MAX_PATTERN:
        raise InvalidArgument(
            f"The pattern cannot be empty or longer than {_MAX_PATTERN:,} characters.", hint="Search for less."
        )
    try:
        return jsonschema_rs.validator_for(
            {"pattern": f"(?i:{pattern})" if ignore_case else pattern},
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_REGEX_BYTES, dfa_size_limit=_REGEX_BYTES),
        ).is_valid
    except ValueError:
        raise InvalidArgument(
            f"{shown(pattern)!r} is no regular expression that can be used.",
            hint="Escape ( ) [ ] { } . * + ? with a backslash to search for them; there is no look-around.",
        ) from None


def _search(
    workspace: Workspace,
    path: str,
    wanted: PathPattern | None,
    matches: Callable[[str], bool],
    should_stop: Callable[[], bool],
    unsearched: Collection[str],
) -> _Found:
    found = _Found()
    left = _MAX_TOTAL_BYTES
    for named, file in _files(workspace, path, found):
        if wanted is not None and not wanted.matches(named):
            continue
        if file in unsearched:
            found.notes["[Scripts of skills were passed over: run them instead of reading them]"] = None
            continue
        try:
            data = workspace.read(file, limit=_MAX_FILE_BYTES, tool="Grep").data
        except FileTooLarge:
            found.notes[f"[Files over {_MAX_FILE_BYTES:,} bytes were passed over]"] = None
            continue
        except MetierError:
            if file == path:
                raise  # it was named, and whoever named it is told
            continue  # gone or closed meanwhile
        left -= len(data)
        if left < 0:
            found.notes[f"[The search stopped after {_MAX_TOTAL_BYTES:,} bytes]"] = None
            break
        if b"\0" in data[:_MAX_LINE]:
            continue
        for number, line in enumerate(split_lines(data.decode(errors="replace")), 1):
            if should_stop():
                return found
            text = line.rstrip("\r\n")
            if not matches(text[:_MAX_LINE]):
                continue
            if len(found.lines) == MAX_MATCHES:
                found.notes[f"[The search stopped after {MAX_MATCHES:,} lines]"] = None
                return found
            cut = f"{text[:_MAX_SHOWN]}{'…' if len(text) > _MAX_SHOWN else ''}"
            found.lines.append(f"{shown(named, _MAX_LINE)}:{number}:{shown_text(cut)}")
            found.files[named] = None
    return found


def _files(workspace: Workspace, path: str, found: _Found) -> Iterator[tuple[str, str]]:
    """The name of each file in the results, and the path to read it by."""
    if not workspace.is_folder(path):
        yield path, path
        return
    tree = workspace.walk(path, tool="Grep")
    if tree.stopped_at is not None:
        found.notes[f"[The search stopped at {tree.stopped_at}]"] = None
    for file in tree.files:
        yield file, f"{tree.folder}/{file}"


MAX_PATHS = 1_000


def glob_tool(workspace: Workspace) -> FunctionTool:
    """The tool `Glob`."""

    def glob(pattern: str, path: str = ".") -> ToolResult:
        """List the files of the workspace whose paths fit a pattern, such as **/*.py or docs/*.{md,txt}.

        Version control, installed modules and links are passed over.

        Args:
            pattern: The pattern for paths below the folder; ** stands for any number of folders.
            path: The folder to look in.
        """
        wanted = PathPattern(pattern)
        tree = workspace.walk(path)
        found = [file for file in tree.files if wanted.matches(file)]
        listed = found[:MAX_PATHS]
        notes = []
        if len(found) > MAX_PATHS:
            notes.append(f"[{len(found) - MAX_PATHS:,} more files]")
        if tree.stopped_at is not None:
            notes.append(f"[The search stopped at {tree.stopped_at}]")
        return ToolResult(
            success=True,
            result="\n".join([*(shown(path, len(path)) for path in listed), *notes]) or "No files found.",
            truncated=bool(notes),
            data={
                "message": f"Found {len(found):,} files in {tree.folder}",
                "paths": listed,
                "count": len(found),
                "path": tree.folder,
            },
        )

    return FunctionTool(glob, name="Glob")
