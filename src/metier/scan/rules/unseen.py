"""Text that readers do not see: comments, and what a style hides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metier.scan.rule import Hit, ScanRule
from metier.scan.rules import _senses as sense
from metier.scan.rules._reading import reading
from metier.scan.rules._secrecy import secrecy
from metier.scan.rules._words import words_of
from metier.scan.rules.injection import OVERRIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.view import SkillView

_COMMENT = re.compile(
    r"\b(?:ignore|disregard|override|execute|run|send|post|fetch|curl|wget|upload|download|install|append|read|write"
    r"|delete|collect|transmit|exfiltrate|include|call|forward|insert|add|reply|respond|output|recommend|tell"
    r"|do not)\b"
)

_ADDRESSED = re.compile(
    r"\b(?:assistant|agent|ai|model|llm|claude|gpt|chatgpt|copilot|gemini|cursor|codex|you|your|system|instructions?"
    r"|user|silently|always|before|must|secret|hidden)\b"
)

_TOOLING = re.compile(
    r"^\s*(?:todo|fixme|note to (?:maintainers?|editors?)|prettier|markdownlint|toc|generated|auto-?generated|eslint"
    r"|textlint|vale|cspell|omit|region|endregion|source|license|copyright|spdx|begin|end|start|stop|skill|version"
    r"|last|template|placeholder|example|example:|optional|ref|anchor|badge|keywords?)\b"
)

_STYLE = re.compile(
    r"<(?!(?:input|img|br|hr|meta|link|source)\b)[a-z]{1,10}[^<>]{0,200}(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0"
    r"|opacity\s*:\s*0(?![.\d]*[1-9])|color\s*:\s*(?:white|#fff(?:fff)?|transparent)\b|\bhidden\b"
    r"|position\s*:\s*absolute[^<>]{0,40}left\s*:\s*-\d{3,})[^<>]{0,200}>(?P<text>[^<]{0,2000})",
    re.IGNORECASE,
)

_LINK_COMMENT = re.compile(
    r"^[ \t]{0,3}\[[^\]\n]{0,40}\]:[ \t]*(?:#|<>)[ \t]*[\"'(](?P<text>[^\n]{10,2000})[\"')]", re.MULTILINE
)


def _hidden(view: SkillView) -> Iterator[Hit]:
    read = reading(view)
    for one in read.told("comment"):
        pieces = [one.low] if len(one.low) <= 400 else re.split(r"(?<=[.!?。])\s+|\s-\s", one.low)
        if len(one.low) > 1_500:
            # A page that is kept in a comment, say in another language: what is hidden in it hides itself.
            pieces = [piece for piece in pieces if OVERRIDE.search(piece) or secrecy(piece)]
        template = one.path.lower().endswith(_TEMPLATES)
        if any(_bids(piece, template=template) for piece in pieces):
            yield one.hit(one.text, "info" if one.warned and read.about_security else "high")
    for file in view.files:
        if file.role not in ("instructions", "markdown"):
            continue
        low = file.text.lower()
        if "style" in low or "hidden" in low:
            yield from _in(file.path, file.text, _STYLE)
        if "]: #" in file.text or "]:#" in file.text or "]: <>" in file.text:
            yield from _in(file.path, file.text, _LINK_COMMENT)


def _in(path: str, text: str, pattern: re.Pattern[str]) -> Iterator[Hit]:
    for found in pattern.finditer(text):
        if _bids(" ".join(found["text"].lower().split())):
            yield Hit(path, text.count("\n", 0, found.start()) + 1, found["text"])


_TEMPLATES = (".html", ".htm", ".xhtml", ".svg", ".xml", ".vue", ".svelte")
"""Files that are edited and not read: their comments speak to whoever edits them, and are seen by them."""


def _bids(low: str, *, template: bool = False) -> bool:
    """Whether a text that readers do not see tells an agent what to do."""
    if len(low) < 20 or _TOOLING.match(low):
        return False
    words = words_of(low)
    if OVERRIDE.search(low) or (
        sense.SEND.within(low, words)
        and (sense.SECRET.within(low, words) or sense.CONTEXT.within(low, words) or "http" in low)
    ):
        return True
    if not _COMMENT.search(low) or not _ADDRESSED.search(low):
        return False
    return (
        sense.STEALTH.within(low, words)
        or "http" in low
        or (sense.AGENT_FILE.within(low, words) and "must" in low)
        or bool(
            re.search(
                r"\b(?:assistant|agent|ai|claude|llm|model)s?\b[^\n]{0,30}(?:must|should|:)|\byou must\b"
                r"|\balways (?:run|execute|send|recommend|call)",
                low,
            )
            or (not template and re.search(r"\balways (?:include|add|append)", low))
        )
    )


RULES = (
    ScanRule(
        id="HIDDEN_COMMENT_DIRECTIVE",
        ast="AST04",
        category="defense_evasion_obfuscation",
        severity="high",
        message="Text that readers do not see tells the agent what to do.",
        hint="Read the source of the file, not the rendered page, and remove what is hidden.",
        check=_hidden,
    ),
)
