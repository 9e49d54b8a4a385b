"""What may happen: an action that somebody wants to take, and the decision about it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier.skill import shown
from metier.skill.tool_rules import parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from metier.guard.policy.allowed_tools import Enforcement
    from metier.library import Entry
    from metier.skill import Skill
    from metier.skill.tool_rules import ToolRule


Point: TypeAlias = Literal[
    "discover",
    "load",
    "unload",
    "call",
    "read",
    "run",
    "hook",
    "inject",
    "install",
    "update",
    "publish",
    "propose",
    "apply",
    "deploy",
    "write",
]
Outcome: TypeAlias = Literal["allow", "ask", "deny"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_FEW = 64
_LONG = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who acts: it goes into every audit record."""

    agent: str | None = None
    task: str | None = None
    tenant: str | None = None
    environment: str | None = None
    user: str | None = None
    session: str | None = None
    correlation_id: str | None = None
    parent: str | None = None
    """The session that started this one, for an agent that another one started."""
    model: str | None = None
    """The model that gave the last answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The skill that an action is about, as it is right now."""

    name: str
    digest: str = ""
    layer: str = ""
    source: str = ""
    trusted: bool = True
    for_models: bool = True
    """False: only people may load it (`disable-model-invocation`)."""
    for_people: bool = True
    """False: only models may load it (`user-invocable: false`)."""
    entry: Entry | None = field(default=None, compare=False, repr=False)
    """Where its files are, for whoever has to look into them."""

    @property
    def location(self) -> str:
        """The folder that it is in, where that is known."""
        return os.path.dirname(self.entry.location) if self.entry is not None else ""

    @property
    def reserved_by(self) -> Entry | None:
        """The skill of the enterprise layer that its name belongs to."""
        return self.entry.reserved_by if self.entry is not None else None

    @property
    def ref(self) -> str:
        """What it is called everywhere: `name@source`."""
        return f"{self.name}@{self.source}" if self.source else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What somebody wants to do.

    >>> action = Action(point="call", tool="Bash", arguments={"command": "git status"})
    >>> action.point
    'call'
    """

    point: Point
    skill: Subject | None = None
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    ceilings: tuple[Ceiling, ...] = ()
    """What the active skills declare for tool calls; a call must be inside each of them."""
    by: Literal["model", "user", "host", "client"] = "model"
    """Who asked for it: a model, a person, the program around both, or a client's program that speaks for a person."""
    nested: bool = False
    """Whether it was asked for inside of another skill's activation."""
    rivals: frozenset[str] = frozenset()
    """The layers that have another skill of the same name, or one it is taken for, where policy wants to know."""
    source: str = ""
    """Where a skill would come from, for an installation: `git+https://example.com/skills`."""
    pinned: bool = False
    """Whether an installation names an exact version or commit."""
    signature: str = "none"
    """What signature that is valid it has: `oms`, `sigstore` or `none`."""
    workspace: str = ""
    """The folder that relative paths in the arguments start from."""
    skill_folders: Callable[[], Iterable[str]] | None = field(default=None, compare=False, repr=False)
    """Gives the folders that skills come from, in which no tool writes."""
    skill_names: Callable[[], Sequence[str]] | None = field(default=None, compare=False, repr=False)
    """Gives what the skills are called that the arguments name, however they spell it."""
    command: str = ""
    """What would be run, for scripts, hooks and injected commands."""
    path: str = ""
    """The file of the skill that would be read or run."""
    is_control: bool = False
    """A call of a tool that controls skills themselves, which no skill can forbid."""
    isolated: bool = True
    """Whether what runs is kept from this machine. A runner that isolates nothing does not, and a skill may ask to run
    without a sandbox, where policy lets it."""

    @property
    def has_many_texts(self) -> bool:
        """Whether the arguments may hold so many texts that a decision takes a while."""
        return len(self.arguments) > _FEW or any(
            isinstance(value, Mapping | list | tuple)
            or (isinstance(value, str) and (len(value) > _LONG or value.lstrip()[:1] in ("{", "[")))
            for value in self.arguments.values()
        )

    def describe(self, decision: Decision | None = None, *, limit: int = 2_000) -> str:
        """The action in a sentence for a person who decides about it; with a `decision`, also why it is asked.

        One line, with what strangers wrote escaped. What is longer than `limit` characters is cut, and that is said.

        >>> bash = Action(point="call", tool="Bash", arguments={"command": "make\\nrm x"})
        >>> bash.describe(Decision(outcome="ask", reason="Policy says to ask."))
        'The model wants to call Bash with {"command": "make\\\\nrm x"}. Policy says to ask.'
        """
        sentence = sentence_of(self)
        more = len(sentence) - limit
        if more > 0:
            sentence = f"{sentence[:limit]}… ({more:,} characters are not shown.)"
        why = f" {shown(decision.reason, limit)}" if decision is not None and decision.reason else ""
        return f"{shown(sentence, len(sentence))}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to an action, with the rule that gave it.

    >>> Decision(outcome="deny", reason="The skill is blocked.", rule="policy: block", code="skill-blocked").is_allowed
    False
    """

    outcome: Outcome
    reason: str
    rule: str = ""
    """Which rule decided, and whose it is: `deploy: Bash(git:*)`, `policy: deny WebFetch`."""
    code: str = ""
    """A stable code for what is not allowed."""
    hint: str = ""
    would: Outcome | None = None
    """What a policy in audit mode would have decided."""
    needs_grant: bool = False
    """Whether an approval of the skill's content would settle it, which then counts until the content changes."""
    is_automatic: bool = False
    """Whether policy approves of the content by itself, which is recorded as an approval."""
    request: str = ""
    """The request for an approval that waits for an answer."""
    answered_by: str = ""
    """Where the yes came from that allowed it: `terminal`, `client:NAME over elicitation`, `program`; "" for none."""

    @property
    def is_allowed(self) -> bool:
        """Whether it may happen now, without asking anybody."""
        return self.outcome == "allow"


_WHO = {"model": "The model", "user": "The user", "host": "The program", "client": "A client's program"}
_WANTS = {
    "discover": "see",
    "hook": "run the hook",
    "inject": "run commands in the instructions",
    "propose": "propose a change",
    "apply": "apply a change",
}
_PLAIN_WORD = re.compile(r"[\w./@:+-]{1,300}").fullmatch


def sentence_of(action: Action) -> str:
    """A sentence on an action: who, what, with which skill and which arguments; whole, as strangers wrote it."""
    subject = action.skill
    about = action.tool or action.path or action.command
    words = [_WHO.get(action.by, "A program"), "wants to", _WANTS.get(action.point, action.point), _quoted(about)]
    if subject is not None:
        whose = ", ".join(dict.fromkeys(word for word in (subject.layer, subject.source) if word))
        notes = ", ".join(word for word in (whose, "" if subject.trusted else "nobody vouches for it") if word)
        of = "of " if about or action.point in ("inject", "propose", "apply") else ""
        words.append(f"{of}skill {subject.name!r}{f' ({notes})' if notes else ''}")
    if action.source:
        words.append(f"from {_quoted(action.source)}")
    if action.arguments:
        words.append(f"with {written(action.arguments)}")
    active = ", ".join(dict.fromkeys(repr(one.owner) for one in action.ceilings if one.owner))
    if active:
        words.append(f"while {active} {'are' if ', ' in active else 'is'} active")
    return " ".join(word for word in words if word) + "."


def written(arguments: Mapping[str, Any]) -> str:
    """Arguments as JSON, in one order, or as Python shows them where they are none."""
    try:
        return json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(arguments)


def _quoted(word: str) -> str:
    """A name as it is, and anything that could be taken for the sentence around it in quotation marks."""
    return word if not word or _PLAIN_WORD(word) else json.dumps(word, ensure_ascii=False)


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
