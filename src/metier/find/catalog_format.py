"""Catalog formats: XML, Markdown and JSON lines. Everything that comes from a skill is escaped.

A record is one line and no text of a skill can end it, begin another, or close the block.
"""

from __future__ import annotations

import bisect
import json
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from metier._lazy import pattern
from metier.errors import InvalidArgument
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


Format: TypeAlias = Literal["xml", "markdown", "jsonl"]
Groups: TypeAlias = "Sequence[tuple[str, int]]"

_NO_LIMIT = 1 << 30
# Letters that count as printable and print nothing. One selector after an emoji is how it is written; more hide text.
_UNSEEN = pattern("[\u034f\u115f\u1160\u2800\u3164\uffa0\U000e0100-\U000e01ef]|[\ufe00-\ufe0f]{2,}")
MARKDOWN_HEADING = "## Available skills\n\n"
_MARKDOWN = pattern(r"([\\`*_\[\]<>|~#])")


class Renderer(Protocol):
    """One format. Each method gives whole lines without the last line feed, or nothing."""

    def record(self, name: str, description: str, location: str = "") -> str:
        """One skill, with the folder that its files are in where that is wanted."""

    def rest(self, total: int, groups: Groups) -> str:
        """The number of all skills, by group."""

    def names(self, names: Sequence[str], tool: str) -> str:
        """Skills by their names alone, and the tool that says more of them."""

    def more(self, count: int, tool: str) -> str:
        """The number of skills that are not listed, and the tool that finds them."""

    def whole(self, lines: Iterable[str]) -> str:
        """The block with all of its lines."""


def one_line(text: str) -> str:
    """Text on one line, with what cannot be seen shown as an escape."""
    line = " ".join(text.split())
    if not line.isprintable():
        line = shown(line, _NO_LIMIT)
    return line if line.isascii() else _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), line)


class Xml:
    """`<available_skills>` as the format's own guide writes it, a record to a line."""

    def record(self, name: str, description: str, location: str = "") -> str:
        """One skill."""
        where = f"<location>{escape_xml(location)}</location>" if location else ""
        return (
            f"<skill><name>{escape_xml(name)}</name><description>{escape_xml(description)}</description>{where}</skill>"
        )

    def rest(self, total: int, groups: Groups) -> str:
        """The number of all skills."""
        return f'<all count="{total}">{escape_xml(_listed(groups))}</all>'

    def names(self, names: Sequence[str], tool: str) -> str:
        """Skills by their names alone."""
        return f"<names_only{_search(tool)}>{escape_xml(', '.join(names))}</names_only>"

    def more(self, count: int, tool: str) -> str:
        """The number of skills that are not listed."""
        return f'<not_listed count="{count}"{_search(tool)}/>'

    def whole(self, lines: Iterable[str]) -> str:
        """The block."""
        return "\n".join(("<available_skills>", *lines, "</available_skills>"))


class Markdown:
    """A list, a record to a line."""

    def record(self, name: str, description: str, location: str = "") -> str:
        """One skill."""
        where = f" ({_markdown(location)})" if location else ""
        return f"- `{name}`{where}: {_markdown(description)}" if description else f"- `{name}`{where}"

    def rest(self, total: int, groups: Groups) -> str:
        """The number of all skills."""
        topics = f" ({_markdown(_listed(groups))})" if groups else ""
        return f"- {total:,} skills in all{topics}"

    def names(self, names: Sequence[str], tool: str) -> str:
        """Skills by their names alone."""
        described = f", described by `{tool}`" if tool else ""
        return f"- {len(names):,} more with names only{described}: {', '.join(f'`{name}`' for name in names)}"

    def more(self, count: int, tool: str) -> str:
        """The number of skills that are not listed."""
        return f"- {count:,} more not listed" + (f": find them with `{tool}`" if tool else "")

    def whole(self, lines: Iterable[str]) -> str:
        """The block."""
        return MARKDOWN_HEADING + "\n".join(lines)


class JsonLines:
    """An object to a line: `name` and `description` for a skill; `count`, `names_only`, `not_listed` for the rest."""

    def record(self, name: str, description: str, location: str = "") -> str:
        """One skill."""
        return _json({"name": name, "description": description} | ({"location": location} if location else {}))

    def rest(self, total: int, groups: Groups) -> str:
        """The number of all skills."""
        return _json({"count": total, "groups": dict(groups)})

    def names(self, names: Sequence[str], tool: str) -> str:
        """Skills by their names alone."""
        return _json({"names_only": list(names)} | ({"search": tool} if tool else {}))

    def more(self, count: int, tool: str) -> str:
        """The number of skills that are not listed."""
        return _json({"not_listed": count} | ({"search": tool} if tool else {}))

    def whole(self, lines: Iterable[str]) -> str:
        """The block."""
        return "\n".join(lines)


_RENDERERS: dict[Format, Renderer] = {"xml": Xml(), "markdown": Markdown(), "jsonl": JsonLines()}


def renderer(format: Format) -> Renderer:  # noqa: A002
    """The renderer of a format."""
    if format not in _RENDERERS:
        raise InvalidArgument(f"There is no format {format!r}.", hint=f"Formats are {', '.join(_RENDERERS)}.")
    return _RENDERERS[format]


def _search(tool: str) -> str:
    return f' search="{escape_xml(tool)}"' if tool else ""


def _listed(groups: Groups) -> str:
    return ", ".join(f"{name} {count}" for name, count in groups)


_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def escape_xml(text: str) -> str:
    """Text for XML, as `html.escape` has it, without the table of all named characters that its module brings."""
    return text.translate(_ESCAPED)


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_SENTENCE = pattern("[.!?](?=\\s|$)|[\u3002\uff01\uff1f]")
_WORD = pattern(r"\s+")
_LEFT_OF = 0.6
"""A sentence may end this much earlier than the last word that fits."""


def shortened(text: str, limit: int, size: Callable[[str], int]) -> str:
    """The longest beginning of a text whose size is within the limit; "" when not even a word fits.

    >>> shortened("Fill PDF forms. Use it for tax forms.", 20, len)
    'Fill PDF forms.'
    >>> shortened("Fill PDF forms and sign them", 20, len)
    'Fill PDF forms and…'
    """
    if size(text) <= limit:
        return text
    fitting = _longest(text, [match.start() for match in _WORD.finditer(text)], limit, size)
    if not fitting:
        # One word longer than the limit, or a script without blanks.
        fitting = _longest(text, list(range(1, min(len(text), limit + 1))), limit, size)
    end = len(fitting)
    # One character more, to see what follows an end.
    ends = [match.end() for match in _SENTENCE.finditer(text, 0, end + 1) if match.end() <= end]
    if ends and ends[-1] >= _LEFT_OF * end and size(text[: ends[-1]]) <= limit:
        return text[: ends[-1]]
    return _with_ellipsis(fitting) if fitting else ""


def _longest(text: str, ends: list[int], limit: int, size: Callable[[str], int]) -> str:
    """The longest of the beginnings that fits with an ellipsis; sizes grow with length."""
    fitting = bisect.bisect(ends, limit, key=lambda end: size(_with_ellipsis(text[:end])))
    return text[: ends[fitting - 1]] if fitting else ""


def _with_ellipsis(text: str) -> str:
    return text.rstrip(" ,;:.-") + "…"
