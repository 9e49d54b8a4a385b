"""What one skill lets its reader do while it is active: a ceiling over tool calls, never a grant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable

    from metier.guard.policy.allowed_tools import Enforcement
    from metier.library import Entry
    from metier.skill import Skill
    from metier.skill.tool_rules import ToolRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The tool rules of one active skill.

    >>> from metier.skill.tool_rules import parse_rules
    >>> Ceiling(owner="deploy", allowed=parse_rules("Bash(git:*) Read")).owner
    'deploy'
    """

    owner: str
    """The name of the skill; empty for rules that are nobody's."""
    digest: str = ""
    """The content of the skill that declares them."""
    layer: str = ""
    """Who put the skill there."""
    allowed: tuple[ToolRule, ...] | None = None
    """None: the skill restricts nothing. Empty: it allows nothing."""
    advisory: str = ""
    """The reason why calls outside of `allowed` are recorded and not refused; empty where they are refused."""
    disallowed: tuple[ToolRule, ...] = ()
    scripts: tuple[str, ...] = ()
    """Absolute paths of its scripts, which are run and not read."""

    def under(self, enforcement: Enforcement) -> Ceiling:
        """The same rules with the list enforced, or advisory, as a policy says by now."""
        advisory = enforcement.because if enforcement.is_advisory else ""
        return self if advisory == self.advisory else replace(self, advisory=advisory)


def declared_ceiling(
    skill: Skill,
    entry: Entry,
    enforcement: Enforcement,
    *,
    digest: str = "",
    fill: Callable[[str], str] = str,
    scripts: tuple[str, ...] = (),
) -> Ceiling:
    """The ceiling that a skill declares; `fill` puts the folders into a rule that names them by variables."""
    allowed = None if skill.allowed_tools is None else parse_rules([fill(rule) for rule in skill.allowed_tools])
    declared = Ceiling(
        owner=entry.name,
        digest=digest,
        layer=entry.layer,
        allowed=allowed,
        disallowed=parse_rules([fill(rule) for rule in skill.disallowed_tools]),
        scripts=scripts,
    )
    return declared.under(enforcement)
