"""`Read`: the text of a file, or a part of it."""

from __future__ import annotations

import base64
import codecs
from typing import TYPE_CHECKING

from metier.errors import FileTooLarge
from metier.skill import shown
from metier.skill.diagnostic import shown_text
from metier.tools.function import FunctionTool
from metier.tools.patch import line_range, split_lines
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
