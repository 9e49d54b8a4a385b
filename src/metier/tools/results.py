"""Whatever a tool gives back, as a result that JSON can hold and that has a bounded size."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Set
from typing import Any

from metier.errors import MetierError
from metier.guard.audit.redaction import redact
from metier.hints import for_model
from metier.skill import shown
from metier.tools.tool import ToolResult

MAX_RESULT_BYTES = 1024 * 1024
_MAX_ERROR = 4_096


def result_of(value: Any) -> ToolResult:
    """A value that a tool returned, as a result; a `ToolResult` stays what it is.

    >>> result_of({"when": {3}}).result
    {'when': [3]}
    >>> result_of("x" * 2_000_000).truncated
    True
    """
    given = value if isinstance(value, ToolResult) else ToolResult(success=True, result=value)
    result, truncated = _bounded(given.result)
    return dataclasses.replace(
        given,
        result=result,
        truncated=given.truncated or truncated,
        error=None if given.error is None else _cut(str(given.error), _MAX_ERROR)[0],
        data=_plain(given.data),
    )


def failure_of(tool: str, error: BaseException, words: Mapping[str, str] | None = None) -> ToolResult:
    """The error of a tool as a failed result: one of our own errors as it is, any other by its type and text.

    The hint is still to be worded, unless `words` are given: the tools by which the model uses skills.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, MetierError):
        hint = error.hint if words is None else for_model(error.hint, words)
        return ToolResult.failure(error.code, _cut(error.message, _MAX_ERROR)[0], hint=hint)
    try:
        text = str(error)
    except Exception:
        text = ""
    # What a program says of its failure may quote what it was configured with.
    said = f": {shown(redact(text[:4_000]), 1_000)}" if text else ""
    return ToolResult.failure(
        "tool-failed",
        f"The tool '{tool}' failed: {type(error).__name__}{said}",
        hint="Check the arguments; the same call is likely to fail again.",
    )


def _bounded(value: Any) -> tuple[Any, bool]:
    if value is None or isinstance(value, bool):
        return value, False
    if isinstance(value, str):
        return _cut_result(value)
    text = _as_json(value)
    if text is None:
        return _cut_result(str(value))
    if len(text) > MAX_RESULT_BYTES:
        return _cut_result(text)
    return json.loads(text), False


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    text = _as_json(dict(data))
    plain: dict[str, Any] = {} if text is None else json.loads(text)
    return plain


def _as_json(value: Any) -> str | None:
    """The value as JSON text, or None when it cannot be written so."""
    try:
        text = json.dumps(value, default=_substitute, allow_nan=False, ensure_ascii=False)
        return text.encode(errors="replace").decode()
    except (TypeError, ValueError, RecursionError):
        return None


def _substitute(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Set) else str(value)


def _cut_result(text: str) -> tuple[str, bool]:
    cut, total = _cut(text, MAX_RESULT_BYTES)
    if total <= MAX_RESULT_BYTES:
        return cut, False
    return f"{cut}\n[Result truncated: the first {MAX_RESULT_BYTES:,} of {total:,} bytes]", True


def _cut(text: str, limit: int) -> tuple[str, int]:
    """As much of a text as fits in a number of bytes, without half characters, and how many bytes there were."""
    data = text.encode(errors="replace")
    return data[:limit].decode(errors="ignore"), len(data)
