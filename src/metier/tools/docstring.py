"""What a docstring says about a function and its parameters, in the Google, numpy and Sphinx styles."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECTIONS = frozenset({"args", "arguments", "parameters", "params", "keyword args", "keyword arguments"})
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:(?:\s+(.*))?$")
_NUMPY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?$")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_FIELD = re.compile(r":\w+[^:]*:")
_HEADING = re.compile(r"[A-Z][\w ]*:$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """The parts of a docstring that a model needs."""

    summary: str = ""
    """The first paragraph, in one line."""
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse_docstring(text: str | None) -> Docstring:
    """Read a docstring.

    >>> parse_docstring("Add numbers.\\n\\nArgs:\\n    a: The first.\\n    b (int): The second.\\n").parameters
    {'a': 'The first.', 'b': 'The second.'}
    """
    if not text:
        return Docstring()
    lines = inspect.cleandoc(text).splitlines()
    summary: list[str] = []
    for line in lines:
        if not line.strip() or _FIELD.match(line) or _is_section(line):
            break
        summary.append(line.strip())
    found: dict[str, list[str]] = {}
    for at, line in enumerate(lines):
        if match := _SPHINX.match(line.strip()):
            found[match[1]] = [match[2], *_continued(lines, at + 1, _indent(line))]
        elif _is_section(line):
            following = lines[at + 1] if at + 1 < len(lines) else ""
            if following.strip() and not following.strip().strip("-"):
                _read_numpy(lines, at + 2, found)
            elif line.rstrip().endswith(":"):
                _read_google(lines, at + 1, found)
    described = {name: " ".join(part.strip() for part in parts if part.strip()) for name, parts in found.items()}
    return Docstring(summary=" ".join(summary), parameters={name: said for name, said in described.items() if said})


def _is_section(line: str) -> bool:
    return line.strip().rstrip(":").lower() in _SECTIONS


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _continued(lines: list[str], at: int, indent: int) -> list[str]:
    """The lines that belong to the one before because they stand further in."""
    end = at
    while end < len(lines) and lines[end].strip() and _indent(lines[end]) > indent:
        end += 1
    return lines[at:end]


def _read_google(lines: list[str], at: int, found: dict[str, list[str]]) -> None:
    base: int | None = None
    while at < len(lines):
        line = lines[at]
        at += 1
        if not line.strip():
            continue
        indent = _indent(line)
        if indent == 0 or (base is not None and indent < base) or _HEADING.match(line):
            return
        base = indent if base is None else base
        if indent == base and (match := _GOOGLE.match(line.strip())):
            more = _continued(lines, at, indent)
            found[match[1]] = [match[2] or "", *more]
            at += len(more)


def _read_numpy(lines: list[str], at: int, found: dict[str, list[str]]) -> None:
    while at < len(lines):
        line = lines[at]
        following = lines[at + 1] if at + 1 < len(lines) else ""
        at += 1
        if following.strip() and not following.strip().strip("-="):
            return
        if line.strip() and _indent(line) == 0 and (match := _NUMPY.match(line)):
            more = _continued(lines, at, 0)
            for name in match[1].split(","):
                found[name.strip()] = more
            at += len(more)
