"""File tools: `Read`, `Write` and `Edit`."""

from __future__ import annotations

import base64
import codecs
from typing import TYPE_CHECKING

from metier.errors import FileTooLarge, InvalidArgument
from metier.hints import Hint
from metier.skill import shown
from metier.skill.untrusted_text import shown_text
from metier.tools.function import FunctionTool
from metier.tools.patch import apply_patch, line_range, split_lines
from metier.tools.tool import ToolResult
from metier.tools.workspace import MAX_FILE_BYTES

if TYPE_CHECKING:
    from metier.tools.workspace import Workspace


MAX_READ_BYTES = 512 * 1024

# These are no ways to write text in a file, and decoding them takes time out of all proportion.
_NO_ENCODINGS = frozenset({"idna", "punycode", "undefined"})


def read_tool(workspace: Workspace, *, max_bytes: int = MAX_READ_BYTES) -> FunctionTool:
    """The tool `Read`; at most `max_bytes` of a file are given at a time."""

    def read(file_path: str, offset: int = 1, limit: int | None = None, encoding: str = "utf-8") -> ToolResult:
        """Read a file of the workspace. Line ends are kept as they are.

        Args:
            file_path: The path, relative to the workspace or absolute.
            offset: The first line to read, counted from 1.
            limit: How many lines to read; all of them if left out.
            encoding: The encoding of the text, or base64 for files that are no text.
        """
        is_part = offset > 1 or limit is not None
        content = workspace.read(file_path, limit=MAX_FILE_BYTES if is_part else max_bytes)
        decoded = _decoded(content.data, encoding)
        if isinstance(decoded, ToolResult):
            return decoded
        text, name = decoded
        if is_part:
            text = line_range(text, offset, None if limit is None else max(offset, 1) + max(limit, 0))
            if len(text.encode(errors="surrogatepass")) > max_bytes:
                raise FileTooLarge(
                    f"The lines asked for make up more than {max_bytes:,} bytes, which exceeds maximum size.",
                    hint="Ask for fewer lines.",
                )
        lines = len(split_lines(text))
        visible = shown_text(text)
        note = "" if visible == text else "\n[Hidden characters are shown as escapes; encoding=base64 gives the bytes]"
        return ToolResult(
            success=True,
            result=visible + note,
            data={
                "message": f"Read {lines:,} {'line' if lines == 1 else 'lines'} of {content.path}",
                "content": text,
                "size": len(content.data),
                "encoding": name,
                "path": content.path,
            },
        )

    return FunctionTool(read, name="Read")


def _decoded(data: bytes, encoding: str) -> tuple[str, str] | ToolResult:
    """The text and the name of its encoding."""
    if encoding.lower() == "base64":
        return base64.b64encode(data).decode(), "base64"
    try:
        name = codecs.lookup(encoding).name
        if name in _NO_ENCODINGS:
            raise LookupError
        return data.decode(name), name
    except UnicodeError as error:
        where = f" at byte {error.start:,}" if isinstance(error, UnicodeDecodeError) else ""
        return _failed(f"it is not {shown(encoding, 40)} text{where}.", "Give its encoding, or base64 for raw bytes.")
    except (LookupError, ValueError):
        return _failed(f"there is no encoding {shown(encoding, 40)!r}.", "Try utf-8, utf-16, latin-1 or base64.")


def _failed(reason: str, hint: str) -> ToolResult:
    return ToolResult.failure("file-unreadable", f"Failed to read file: {reason}", hint=hint)


def write_tool(workspace: Workspace) -> FunctionTool:
    """The tool `Write`."""

    def write(file_path: str, content: str) -> ToolResult:
        """Write a file of the workspace as a whole. What was in it is replaced; folders are made as needed.

        Args:
            file_path: The path, relative to the workspace or absolute.
            content: The text, written as UTF-8 with its line ends as they are.
        """
        data = content.encode()
        path = workspace.write(file_path, data)
        message = f"Wrote {len(data):,} bytes to {path}"
        return ToolResult(success=True, result=message, data={"message": message, "path": path, "size": len(data)})

    return FunctionTool(write, name="Write")


def edit_tool(workspace: Workspace) -> FunctionTool:
    """The tool `Edit`."""

    def edit(
        file_path: str,
        old_string: str | None = None,
        new_string: str | None = None,
        replace_all: bool = False,
        patch: str | None = None,
    ) -> ToolResult:
        """Change a file of the workspace: replace old_string by new_string, or apply a unified diff.

        Args:
            file_path: The path, relative to the workspace or absolute.
            old_string: The text to replace, exactly as in the file; it must occur once unless replace_all is true.
            new_string: What to put in its place.
            replace_all: Replace every occurrence.
            patch: A unified diff of this file, instead of old_string and new_string.
        """
        count = 0

        def changed(data: bytes) -> bytes:
            nonlocal count
            # Bytes that are no UTF-8 pass through as they are, so that any text based on ASCII can be edited.
            text = data.decode(errors="surrogateescape")
            if patch is not None:
                new, count = apply_patch(text, patch), 1
            else:
                new, count = _replaced(text, old_string or "", new_string or "", everywhere=replace_all)
            return new.encode(errors="surrogateescape")

        if (patch is None) == (old_string is None) or (patch is not None and new_string is not None):
            raise InvalidArgument(
                "An edit is either old_string and new_string, or a patch.", hint="Give one of the two ways."
            )
        if patch is None and new_string is None:
            raise InvalidArgument("new_string is missing.", hint='Give "" to delete the text.')
        path = workspace.update(file_path, changed)
        what = "Applied the patch to" if patch is not None else f"Replaced {count:,} occurrence{'s' * (count != 1)} in"
        message = f"{what} {path}"
        return ToolResult(success=True, result=message, data={"message": message, "path": path, "count": count})

    return FunctionTool(edit, name="Edit")


def _replaced(text: str, old: str, new: str, *, everywhere: bool) -> tuple[str, int]:
    if not old:
        raise InvalidArgument(
            "old_string cannot be empty.",
            hint=Hint(
                "Only a file that exists is edited.",
                model=("{Write} makes new files.", "Only a file that exists is edited."),
            ),
        )
    if old == new:
        raise InvalidArgument("old_string and new_string are the same.", hint="Nothing would change.")
    if old not in text and "\r\n" in text and "\r" not in old:
        # A model that has read CRLF often writes LF.
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    count = text.count(old)
    if count == 0:
        raise InvalidArgument(
            "old_string is not in the file.", hint="Read the file and copy the text exactly, with its blanks."
        )
    if count > 1 and not everywhere:
        raise InvalidArgument(
            f"old_string occurs {count:,} times in the file.", hint="Give more of the text around it, or replace_all."
        )
    if len(text) + count * (len(new) - len(old)) > MAX_FILE_BYTES:
        raise FileTooLarge(f"The file would have more than {MAX_FILE_BYTES:,} bytes.", hint="Replace less of it.")
    return text.replace(old, new), count
