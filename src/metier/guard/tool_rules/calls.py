"""Decisions about tool calls: the rules of a policy first, then the ceiling of every active skill."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from metier._cache import BoundedCache
from metier._paths import real_path
from metier.guard.decision import allow, amend, ask, issue, refuse
from metier.guard.policy.program import ALLOWED_TOOLS
from metier.guard.remedies import ask_somebody
from metier.guard.tool_rules.arguments import COMMAND_ARGUMENTS, PATH_ARGUMENTS
from metier.guard.tool_rules.matching import forbids, permits
from metier.hints import Hint, run_script
from metier.skill import shown
from metier.skill.tool_rules import canonical_tool, is_patch, parse_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from metier.guard.decision import Action, Ceiling, Decision, Outcome
    from metier.guard.policy.program import Policy
    from metier.guard.tool_rules.patterns import Match
    from metier.skill.tool_rules import ToolRule

_CONTROL = allow(reason="Skill-control tools are always there.", check="control tool")
_FREE = allow(reason="No active skill and no policy restricts it.", check="default")
USE_ALLOWED = "Use what is allowed, or do the task another way."
_READING = ("read", "grep")
"""Tools that show what is in a file."""
OUTSIDE = "outside-allowed-tools"
"""The code of a call that an advisory list does not name."""
_ENFORCED = f"The skill's list is enforced here; the policy setting {ALLOWED_TOOLS} is for people to change."
_MOST_CACHED = 256
_MAX_CACHED_COMMAND = 1_000
_MAX_PATH = 4_096
_CODE = (str, list, tuple)
_MAY_DECIDE = re.compile(r"metier|approve|propose|[/\\'\"]").search
"""Finds something in every text that `match_human_only` could match: the program, a verb, or a path or quotes."""
_NAMES_FILE = re.compile("[<>/]").search


class _ByRules(NamedTuple):
    """The decision of all rules about a tool, or about one command, whatever else the arguments are."""

    denied: Decision | None
    """The denial that comes before any other."""
    otherwise: Decision | None
    """The decision without that; None where it depends on the arguments."""
    ceilings: tuple[Ceiling, ...]
    """The ceilings that it holds under: as long as they live, nothing else can have their ids."""


class CallRules:
    """The rules for tool calls that a policy gives, ready to be matched."""

    def __init__(
        self,
        allow: tuple[ToolRule, ...] | None = None,
        ask: tuple[ToolRule, ...] = (),
        deny: tuple[ToolRule, ...] = (),
        *,
        script_reads: Outcome = "allow",
        whose: str = "policy",
    ) -> None:
        """`whose` names the owner of the rules in each decision."""
        self._allow = allow
        self._ask = ask
        self._deny = deny
        self._script_reads = script_reads
        self._whose = whose
        self._cached: BoundedCache[tuple[object, ...], _ByRules] = BoundedCache(_MOST_CACHED)

    @classmethod
    def of(cls, policy: Policy) -> CallRules:
        """The rules of a policy."""
        allow = None if policy.allow is None else parse_rules(policy.allow)
        return cls(allow, parse_rules(policy.ask), parse_rules(policy.deny), script_reads=policy.script_reads)

    def decide(self, action: Action) -> Decision:
        """Allowed only inside every ceiling and inside the policy."""
        if action.is_control:
            # No skill can forbid these, nor a rule about all tools; a policy that names them can.
            return self._denied(action) or self._to_ask(action) or _CONTROL
        command = _cacheable_command(action)
        key = (action.tool, command, *map(id, action.ceilings))
        cached = self._cached.get(key)
        if cached is None:
            cached = self._cached[key] = self._by_rules(action, command)
        if cached.otherwise is None:
            return self._denied(action) or self._decide(action)
        if cached.denied is not None:
            return cached.denied
        # The code that a tool is given is looked at each time, whatever the rules say about the tool.
        return (_decides_about_skills(action) if command is None else None) or cached.otherwise

    def _by_rules(self, action: Action, command: str | None) -> _ByRules:
        if command is not None:
            denied = self._denied(action)
        elif self._ignores_arguments(action):
            denied = self._denied_by_rule(action)
        else:
            return _ByRules(None, None, action.ceilings)
        return _ByRules(denied, denied or self._decide(action), action.ceilings)

    def _ignores_arguments(self, action: Action) -> bool:
        """Whether the same is decided about a tool whatever its arguments are: no rule about it has a pattern."""
        name = canonical_tool(action.tool)
        if name == "bash" or name in _READING or is_patch(action.tool):
            return False
        lists = [self._deny, self._ask, self._allow or ()]
        lists += [rules for ceiling in action.ceilings for rules in (ceiling.allowed or (), ceiling.disallowed)]
        return all(rule.pattern is None for rules in lists for rule in rules if rule.may_name(name))

    def _decide(self, action: Action) -> Decision:
        """The decision about a call that no rule of the policy denies."""
        granted, asking, noted = _FREE, None, None
        matches: dict[tuple[ToolRule, ...], Match] = {}
        for ceiling in action.ceilings:
            decision = self._inside(ceiling, action, matches)
            if decision.outcome == "deny":
                return decision
            if decision.outcome == "ask":
                # An agreement lifts nothing that another skill or the policy is against.
                asking = asking or decision
            elif decision.code == OUTSIDE:
                noted = decision
            elif decision is not _FREE:
                granted = decision
        if self._allow is not None:
            match = permits(self._allow, action.tool, action.arguments, workspace=action.workspace)
            if not match.allowed:
                reason = f"Policy does not allow this use of tool {action.tool!r}. {_outside(self._allow, match)}"
                return _deny(reason, f"{self._whose}: allow")
            granted = _allow_by(f"{self._whose}: allow", match) if granted is _FREE else granted
        return asking or self._to_ask(action) or noted or granted

    def _denied(self, action: Action) -> Decision | None:
        return self._denied_by_rule(action) or _decides_about_skills(action)

    def _denied_by_rule(self, action: Action) -> Decision | None:
        found = _forbidden(_rules_for(self._deny, action), action)
        if found is None:
            return None
        return _deny(f"Policy forbids this use of tool {action.tool!r}. {found.reason}", f"{self._whose}: deny", found)

    def _to_ask(self, action: Action) -> Decision | None:
        found = _forbidden(_rules_for(self._ask, action), action)
        if found is None:
            return None
        return ask(
            reason=f"Policy says to ask before tool {action.tool!r} is used so.",
            check=_rule(f"{self._whose}: ask", found),
            code="approval-needed",
            hint=ask_somebody(),
        )

    def _inside(self, ceiling: Ceiling, action: Action, matches: dict[tuple[ToolRule, ...], Match]) -> Decision:
        """The decision of one ceiling; `matches` are those of the lists before it, as many skills have the same."""
        tool, owner = action.tool, ceiling.owner
        whose = f"Skill {owner!r} cannot use tool {tool!r}" if owner else f"Tool {tool!r} cannot be used"
        prefix = f"{owner}: " if owner else ""
        found = _forbidden(ceiling.disallowed, action)
        if found is not None:
            return _deny(f"{whose} so. {found.reason}", f"{prefix}disallowed-tools", found)
        granted = _FREE
        if ceiling.allowed is not None:
            match = matches.get(ceiling.allowed)
            if match is None:
                match = permits(ceiling.allowed, tool, action.arguments, workspace=action.workspace)
                matches[ceiling.allowed] = match
            if match.allowed:
                granted = _allow_by(f"{prefix}allowed-tools", match)
            elif ceiling.advisory:
                granted = _note_outside(ceiling)
            else:
                refusal = _deny(f"{whose}. {_outside(ceiling.allowed, match)}", f"{prefix}allowed-tools")
                return amend(refusal, hint=f"{refusal.hint} {_ENFORCED}") if owner else refusal
        if ceiling.scripts and self._script_reads != "allow" and canonical_tool(tool) in _READING:
            script = _script(action.arguments, action.workspace, ceiling.scripts)
            if script is not None:
                return issue(
                    outcome=self._script_reads,
                    reason=f"{script} is a script of skill {owner!r}: run it instead of reading it.",
                    check=f"policy: script_reads {self._script_reads}",
                    code="script-read",
                    hint=run_script(owner, script),
                )
        return granted


def _cacheable_command(action: Action) -> str | None:
    """The command of a call whose decision may be cached: one that names no file, which may be a link; else None."""
    command = action.shell_command
    return None if command is None or len(command) > _MAX_CACHED_COMMAND or _NAMES_FILE(command) else command


def _decides_about_skills(action: Action) -> Decision | None:
    """Against a command by which people decide about skills: no agent decides about itself by calling it."""
    code = _code_texts(action.arguments)
    if not any(map(_MAY_DECIDE, code)):
        return None
    from metier.guard.tool_rules.human_only_commands import match_human_only

    found = match_human_only(action, code)
    if found is None:
        return None
    return refuse(
        reason="Deciding about skills is for people.",
        check=_rule("built in: deny", found),
        code="tool-not-allowed",
        hint=Hint("Do it yourself, at a terminal.", model="Ask the user to do it."),
    )


def _code_texts(arguments: Mapping[str, Any]) -> list[str]:
    given = (arguments.get(name) for name in COMMAND_ARGUMENTS)
    return [text if isinstance(text, str) else " ".join(map(str, text)) for text in given if isinstance(text, _CODE)]


def _rules_for(rules: tuple[ToolRule, ...], action: Action) -> tuple[ToolRule, ...]:
    return tuple(rule for rule in rules if "*" not in rule.tool) if action.is_control else rules


def _forbidden(rules: tuple[ToolRule, ...], action: Action) -> Match | None:
    if not rules:
        return None
    arguments = action.arguments
    if action.skill_names is not None:
        # A rule that names a skill is about that skill, whichever of its spellings a call has.
        arguments = {**arguments, "": action.skill_names()}
    return forbids(rules, action.tool, arguments, workspace=action.workspace)


def _outside(rules: tuple[ToolRule, ...], match: Match) -> str:
    if not rules:
        return "No tools are allowed."
    wrong = next((rule.text for rule in rules if rule.is_malformed), None)
    return match.reason if wrong is None else f"{match.reason} The rule {shown(wrong)} cannot be read."


def _script(arguments: Mapping[str, Any], workspace: str, scripts: tuple[str, ...]) -> str | None:
    for name in PATH_ARGUMENTS:
        path = arguments.get(name)
        if isinstance(path, str) and path and "\0" not in path:
            full = os.path.join(workspace, os.path.expanduser(path))
            plain = os.path.normpath(full)
            # No system opens a longer path as it is, and its links take time in proportion to its square.
            real = next((real_path(one) for one in (full, plain) if len(one) <= _MAX_PATH), plain)
            if plain in scripts or real in scripts:
                return path
    return None


def _allow_by(whose: str, match: Match) -> Decision:
    return allow(reason=match.reason or "A rule allows it.", check=_rule(whose, match))


def _note_outside(ceiling: Ceiling) -> Decision:
    """The permission for a call outside of a list that is advisory, with a note for the record."""
    which = f"the allowed-tools of skill {ceiling.owner!r}, which are advisory"
    return allow(
        reason=f"It is outside of {which}: {ceiling.advisory}.",
        check=f"{ceiling.owner}: allowed-tools (advisory)",
        code=OUTSIDE,
    )


def _deny(reason: str, whose: str, match: Match | None = None) -> Decision:
    return refuse(
        reason=reason,
        check=_rule(whose, match),
        code="tool-not-allowed",
        hint=USE_ALLOWED,
    )


def _rule(whose: str, match: Match | None) -> str:
    return whose if match is None or match.rule is None else f"{whose} {match.rule.text}"
