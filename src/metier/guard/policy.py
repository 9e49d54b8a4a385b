"""What the people responsible for an agent allow it to do with skills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeAlias

from metier.errors import InvalidArgument
from metier.guard.rules import parse_rules
from metier.skill import shown

if TYPE_CHECKING:
    from metier.guard.decision import Outcome

Rules: TypeAlias = str | Sequence[str]
"""Tool rules as a person writes them: `"Read, Bash(git:*)"`, or a list of such."""

_OUTCOMES = ("allow", "ask", "deny")
_LAYERS = ("enterprise", "personal", "project", "plugin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What is allowed, asked or denied. It narrows what skills may do and never widens what one declares.

    >>> Policy(deny="Bash(curl:*), WebFetch", untrusted="deny").untrusted
    'deny'
    """

    allow: Rules | None = None
    """The only tool calls there may be; None restricts nothing."""
    ask: Rules = ()
    """Tool calls that somebody must agree to first."""
    deny: Rules = ()
    """Tool calls that never happen."""
    blocked: Sequence[str] = ()
    """Skills, by name or digest, that are not shown, loaded, read or run, also where they are active already."""
    untrusted: Outcome = "ask"
    """Loading, by a model, of a skill that nobody vouches for; its scripts are treated no better."""
    scripts: Outcome = "allow"
    """Running a script of a skill."""
    unsandboxed: Outcome = "deny"
    """Running anything in a runner that isolates nothing."""
    hooks: Outcome = "deny"
    """Running the hooks that a skill declares."""
    injection: Outcome = "deny"
    """Running the commands that a skill's instructions inject their output from."""
    script_reads: Outcome = "deny"
    """Reading a script instead of running it: it costs context and gains nothing."""
    advisory: Sequence[str] = ()
    """Layers whose `allowed-tools` were written as suggestions and restrict nothing."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type == "Outcome" and value not in _OUTCOMES:
                raise InvalidArgument(
                    f"{item.name} is {value!r} in a policy.", hint=f"It is one of {', '.join(_OUTCOMES)}."
                )
        for name in ("blocked", "advisory"):
            if isinstance(getattr(self, name), str) or not _is_texts(getattr(self, name)):
                raise InvalidArgument(f"{name} is a list of texts in a policy.", hint=f'Write {name}=["..."].')
        for name in ("allow", "ask", "deny"):
            rules = getattr(self, name)
            if not (rules is None and name == "allow") and not _is_texts(rules):
                raise InvalidArgument(
                    f"{name} is {rules!r:.80} in a policy.",
                    hint=f'Write {name}="Read, Bash(git:*)", or a list of such.',
                )
            wrong = [rule.text for rule in parse_rules(rules) if rule.is_malformed]
            if wrong:
                raise InvalidArgument(
                    f"{name} has the rule {shown(wrong[0])!r} in a policy, which cannot be read.",
                    hint="A rule is `Tool` or `Tool(pattern)`, with every parenthesis closed.",
                )
        for layer in self.advisory:
            if layer not in _LAYERS:
                raise InvalidArgument(f"There is no layer {layer!r}.", hint=f"Layers are {', '.join(_LAYERS)}.")


def _is_texts(value: object) -> bool:
    """Whether it is text, or several."""
    if isinstance(value, str):
        return True
    return isinstance(value, list | tuple | set | frozenset) and all(isinstance(item, str) for item in value)
