"""Tool rules: `Tool` or `Tool(pattern)`, as `allowed-tools` and `disallowed-tools` have them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from metier.skill.fields import split_tools
from metier.skill.tool_names import canonical_tool, is_known_tool

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PATTERN = 1024
"""Characters of a pattern; a longer one is malformed."""

_RULE = re.compile(r"([^\s()]+)(?:\((.*)\))?", re.DOTALL)
_NAME = re.compile(r"[^\s,;()]+")
_SEVERAL = re.compile(
    r"""
      [^\s"']*([,;|`]|:(?![*/\\]))        # the program ends where something else begins
    | .*(:(\s|$)|\\:|:\*\s*([^\s:|]|\|\|)) # a colon that was meant for `:*`, or `:*` that is not at the end
    | .*(`|,(\s|$)|(?<!\\);.*:\*)          # several commands; one command of several parts is written as it is
    | (?P<quote>["']).*:\*(?P=quote)$     # quotes around all of it
    """,
    re.DOTALL | re.VERBOSE,
)
"""Several commands in one pattern, or a pattern that would be about nothing."""
# A pattern in other brackets, or behind a colon.
_ATTACHED = re.compile(r"(\w+)[\[{].*|(?i:(bash|shell)):.*", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """One rule about one tool.

    >>> parse_rules("Bash(git:*)")
    (ToolRule(tool='bash', pattern='git:*', text='Bash(git:*)', is_malformed=False),)
    """

    tool: str
    """The name that tools are compared by; `*` is every tool, `mcp__server__*` every tool of a server."""
    pattern: str | None = None
    """What the arguments must be like; None: whatever they are."""
    text: str = ""
    """As written."""
    is_malformed: bool = False
    """It cannot be understood: it allows nothing, and forbids every use of its tool."""

    def names(self, tool: str) -> bool:
        """Whether the rule is about a tool, which goes by its canonical name.

        >>> parse_rules("mcp__files__*")[0].names("mcp__files__read")
        True
        """
        own = self.tool
        if own == tool:
            return True
        if own.endswith("*"):
            return tool.startswith(own[:-1])
        return own.startswith("mcp__") and own.count("__") == 1 and tool.startswith(own + "__")


def parse_rules(value: str | Iterable[str] | None) -> tuple[ToolRule, ...]:
    """Rules from a list, or from text that separates them by commas, blanks or line ends outside parentheses.

    >>> [(rule.tool, rule.pattern) for rule in parse_rules("Bash(git add:*), Read  Bash(*)")]
    [('bash', 'git add:*'), ('read', None), ('bash', None)]
    >>> parse_rules(["Bash(git"])[0].is_malformed
    True
    """
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else list(value)
    found: list[ToolRule] = []
    for text in (text for item in items for text in split_tools(_joined(item))):
        if text.startswith("(") and found:
            # A pattern that has lost its name was meant for what stands before it.
            found[-1] = replace(found[-1], pattern="", is_malformed=True)
        found += _rules_of(text)
    return tuple(dict.fromkeys(found))


def unknown_tools(value: str | Iterable[str] | None) -> tuple[str, ...]:
    """The rules that name tools which no agent is known to have, as written.

    >>> unknown_tools("Bash(git:*), Frobnicate, mcp__files__read")
    ('Frobnicate',)
    """
    return tuple(rule.text for rule in parse_rules(value) if not is_known_tool(rule.tool))


def _joined(text: str) -> str:
    """The text without blanks between a name and its pattern: `Bash (git:*)` must not become the whole of `Bash`."""
    parts: list[str] = []
    depth = 0
    for character in text:
        if character == "(":
            while not depth and parts and parts[-1].isspace():
                parts.pop()
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        parts.append(character)
    return "".join(parts)


def _rules_of(text: str) -> list[ToolRule]:
    found = _RULE.fullmatch(text)
    tool = canonical_tool(found[1]) if found else ""
    pattern = found[2] if found else ""
    is_several = tool == "bash" and pattern is not None and _SEVERAL.match(pattern.strip()) is not None
    is_attached = _ATTACHED.fullmatch(found[1]) is not None if found else False
    if found and _is_tool(tool) and not is_several and not is_attached and (pattern is None or _is_pattern(pattern)):
        pattern = None if pattern is None or pattern.strip() == "*" else pattern.strip()
        if pattern is None or not tool.endswith("*"):
            return [ToolRule(tool=tool, pattern=pattern, text=text)]
    # A parenthesis that is never closed swallows the rules after it; what they forbid stays forbidden.
    names = dict.fromkeys(map(canonical_tool, _NAME.findall(text)))
    if attached := _ATTACHED.fullmatch(text):
        names |= {canonical_tool(attached[1] or attached[2]): None}
    return [ToolRule(tool=name, pattern="", text=text, is_malformed=True) for name in names]


def _is_tool(name: str) -> bool:
    return "*" not in name[:-1] and (name == "*" or name.startswith("mcp__") or "*" not in name)


def _is_pattern(pattern: str) -> bool:
    depth = 0
    for character in pattern.replace("\\(", "").replace("\\)", ""):
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    is_empty = any(part.strip() in ("", ":*") for part in pattern.split(" | "))
    return depth == 0 and not is_empty and len(pattern) <= MAX_PATTERN and not _CONTROL.search(pattern)
