"""What one skill lets its reader do while it is active: a ceiling over tool calls, never a grant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metier.guard.tool_rules.rules import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The tool rules of one active skill.

    >>> from metier.guard.tool_rules.rules import parse_rules
    >>> Ceiling(owner="deploy", allowed=parse_rules("Bash(git:*) Read")).owner
    'deploy'
    """

    owner: str
    """The name of the skill; empty for rules that are nobody's."""
    digest: str = ""
    """The content of the skill that declares them."""
    layer: str = ""
    """Who put the skill there."""
    allowed: tuple[Rule, ...] | None = None
    """None: the skill restricts nothing. Empty: it allows nothing."""
    disallowed: tuple[Rule, ...] = ()
    scripts: tuple[str, ...] = ()
    """Absolute paths of its scripts, which are run and not read."""
    run_scripts_with: str = "skills_run"
    """The tool that runs them, for the message."""
