"""Vocabulary of the guard: an action, its actor, the skill that it is about, and the decision about it.

The guard alone constructs decisions. Any other room may refuse, by `refuse` or `Guard.refuse`, and can never allow.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import InitVar, dataclass, field, pattern, replace  # noqa: TC001  (others evaluate annotations)
from metier.errors import Refused
from metier.skill import shown
from metier.skill.names import readings
from metier.skill.tool_rules import canonical_tool, parse_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from metier.library import Entry, Layer
    from metier.skill import Skill
    from metier.skill.tool_rules import ToolRule

Point: TypeAlias = Literal[
    "discover",
    "load",
    "unload",
    "call",
    "answer",
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

STRICTNESS: dict[Outcome, int] = {"allow": 0, "ask": 1, "deny": 2}
INTEGRITY = "integrity check"
"""The name in place of a person's for content that was put in quarantine because it is not what was recorded."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_FEW = 64
_LONG = 32_768
_BUNDLED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bundled", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The line of a policy file that says something.

    >>> str(Origin(layer="enterprise", path="/etc/metier/policy.yaml", line=14, key="sources.allow"))
    '/etc/metier/policy.yaml:14 (enterprise)'
    """

    layer: Layer
    path: str
    line: int
    key: str = ""
    """The key on that line, with the keys that it is in: `sources.allow`."""

    def __str__(self) -> str:
        return f"{shown(self.path, 300)}:{self.line} ({self.layer})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """The user, agent, task and session that act: they go into every audit record."""

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
    """Its entry in the library, for checks that read its files."""
    copy: str = field(default="", compare=False, repr=False)
    """The folder of a verified copy of its content, which stays what it is while the files of the entry change."""

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
        """Its reference in commands and records: `name@source`."""
        return f"{self.name}@{self.source}" if self.source else self.name

    @property
    def is_bundled(self) -> bool:
        """Whether it came with this very package, which vouches for it."""
        return self.location.startswith(_BUNDLED)

    def is_among(self, blocked: frozenset[str]) -> bool:
        """Whether its name, in any reading, or its digest is one of `blocked`."""
        return bool(blocked) and (
            not blocked.isdisjoint(readings(self.name)) or (self.digest != "" and self.digest in blocked)
        )


def _may_hold_many_texts(value: object) -> bool:
    if isinstance(value, str):
        return len(value) > _LONG or value.lstrip()[:1] in ("{", "[")
    if isinstance(value, list | tuple):
        # A few short texts, such as the names of skills to load, are no more than one long text.
        is_flat = len(value) <= _FEW and all(
            isinstance(one, str) and one.lstrip()[:1] not in ("{", "[") for one in value
        )
        return not is_flat or sum(map(len, value)) > _LONG
    return isinstance(value, Mapping)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action that is to be decided about.

    >>> action = Action(point="call", tool="Bash", arguments={"command": "git status"})
    >>> action.point
    'call'
    """

    point: Point
    skill: Subject | None = None
    tool: str = ""
    arguments: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    ceilings: tuple[Ceiling, ...] = ()
    """The tool rules of the active skills; a call must be inside each of them."""
    by: Literal["model", "user", "host", "client"] = "model"
    """The cause: a model, a person, the program around both, or a client's program that speaks for a person."""
    nested: bool = False
    """Whether it was asked for inside of another skill's activation."""
    rivals: frozenset[str] = frozenset()
    """The layers that have another skill of the same name, or one it is taken for, where policy wants to know."""
    beside: tuple[Subject, ...] = ()
    """The skills that are active where another is to be loaded."""
    replaces: str = ""
    """The digest of the content that a proposal changes."""
    source: str = ""
    """The source of a skill, for an installation: `git+https://example.com/skills`."""
    pinned: bool = False
    """Whether an installation names an exact version or commit."""
    signature: Literal["oms", "sigstore", "unknown", "none"] = "none"
    """The kind of its valid signature; `unknown` for one by nobody who counts."""
    signer: str = ""
    """The signer that it proves, as policies name one."""
    unsigned_because: str = ""
    """The reason of an exception where policy wants a signature and there is none; only of a person who may decide."""
    workspace: str = ""
    """The folder that relative paths in the arguments start from."""
    skill_folders: Callable[[], Iterable[str]] | None = field(default=None, compare=False, repr=False)
    """Gives the folders that skills come from, in which no tool writes."""
    skill_names: Callable[[], Sequence[str]] | None = field(default=None, compare=False, repr=False)
    """Gives the names of the skills that the arguments name, however they spell them."""
    command: str = ""
    """The command line, for scripts, hooks and injected commands."""
    path: str = ""
    """The file of the skill that would be read or run."""
    is_control: bool = False
    """A call of a tool that controls skills themselves, which no skill can forbid."""
    isolated: bool = True
    """Whether what runs is kept from this machine. A runner that isolates nothing does not, and a skill may ask to run
    without a sandbox, where policy lets it."""

    @property
    def shell_command(self) -> str | None:
        """The command of a call that gives a shell a command and nothing else, so that no argument names a file."""
        if len(self.arguments) != 1 or canonical_tool(self.tool) != "bash":
            return None
        command = self.arguments.get("command")
        return command if isinstance(command, str) else None

    @property
    def has_many_texts(self) -> bool:
        """Whether the arguments may hold so many texts that a decision takes a while."""
        return len(self.arguments) > _FEW or any(map(_may_hold_many_texts, self.arguments.values()))

    def describe(self, decision: Decision | None = None, *, limit: int = 2_000) -> str:
        """The action in a sentence for a person who decides about it; with a `decision`, also why it is asked.

        One line, with what strangers wrote escaped. What is longer than `limit` characters is cut, and that is said.

        >>> bash = Action(point="call", tool="Bash", arguments={"command": "make\\nrm x"})
        >>> bash.describe(refuse("policy", "Policy says to ask."))
        'The model wants to call Bash with {"command": "make\\\\nrm x"}. Policy says to ask.'
        """
        sentence = sentence_of(self)
        more = len(sentence) - limit
        if more > 0:
            sentence = f"{sentence[:limit]}… ({more:,} characters are not shown.)"
        why = f" {shown(decision.reason, limit)}" if decision is not None and decision.reason else ""
        return f"{shown(sentence, len(sentence))}{why}"


class _Seal:
    """The right to construct decisions, which the guard keeps to itself."""

    __slots__ = ()


_SEAL = _Seal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of a check, and of all checks together: an outcome, its reason, and the rule that gave it.

    >>> refuse("policy: blocked", "The skill is blocked.", code="skill-blocked").is_allowed
    False
    """

    seal: InitVar[_Seal]
    outcome: Outcome
    reason: str
    check: str = ""
    """The check or rule that gave it, and whose it is: `quarantine of name x`, `deploy: Bash(git:*)`, `rule R2`."""
    origin: Origin | None = None
    """The line of a policy file that says so."""
    code: str = ""
    """A stable code for what is not allowed."""
    hint: str = ""
    would: Outcome | None = None
    """The outcome that a policy in audit mode would have enforced."""
    holds_always: bool = False
    """Whether it holds in every mode of the policy files, such as a quarantine."""
    needs_grant: bool = False
    """Whether an approval of the skill's content would settle it, which then counts until the content changes."""
    is_automatic: bool = False
    """Whether policy approves of the content by itself, which is recorded as an approval."""
    request: str = ""
    """The request for an approval that waits for an answer."""
    answered_by: str = ""
    """The source of the yes that allowed it: `terminal`, `client:NAME over elicitation`, `program`; "" for none."""

    def __post_init__(self, seal: _Seal) -> None:
        if seal is not _SEAL:
            raise TypeError("Only the guard constructs decisions: metier.guard.decision.refuse makes a refusal.")

    @property
    def is_allowed(self) -> bool:
        """Whether it may happen now, without asking anybody."""
        return self.outcome == "allow"

    @property
    def rule(self) -> str:
        """The check that decided, with the line of the policy file that it comes from."""
        return self.check if self.origin is None else f"{self.check} ({self.origin})"

    def with_hint(self, hint: str) -> Decision:
        """The same decision with another hint."""
        return amend(self, hint=hint)

    def as_error(self) -> Refused:
        """The error for a program that called something which is not allowed."""
        error = Refused(self.reason, hint=self.hint, decision=self)
        error.code = self.code or error.code
        return error


def refuse(check: str, reason: str, *, code: str = "", hint: str = "", **more: Any) -> Decision:
    """A refusal by `check`, for any room: it can only take away from what is allowed."""
    return Decision(seal=_SEAL, outcome="deny", check=check, reason=reason, code=code, hint=hint, **more)


def allow(check: str, reason: str, *, code: str = "", **more: Any) -> Decision:
    """A permission by `check`; only for modules of the guard."""
    return Decision(seal=_SEAL, outcome="allow", check=check, reason=reason, code=code, **more)


def ask(check: str, reason: str, *, hint: str, code: str = "approval-needed", **more: Any) -> Decision:
    """A question by `check`, which somebody has to answer; only for modules of the guard."""
    return Decision(seal=_SEAL, outcome="ask", check=check, reason=reason, code=code, hint=hint, **more)


def issue(outcome: Outcome, check: str, reason: str, *, code: str = "", hint: str = "", **more: Any) -> Decision:
    """A decision of any outcome by `check`; only for modules of the guard."""
    return Decision(seal=_SEAL, outcome=outcome, check=check, reason=reason, code=code, hint=hint, **more)


def amend(decision: Decision, **changes: Any) -> Decision:
    """A decision with some fields changed; only for modules of the guard."""
    return replace(decision, seal=_SEAL, **changes)


@functools.cache
def no_objection() -> Decision:
    """The decision where no check has anything to say."""
    return allow("default", "Nothing is against it.")


@functools.cache
def unguarded() -> Decision:
    """The decision for an executor that was made without a guard."""
    return allow("no gate", "There is no gate.")


_WHO = {"model": "The model", "user": "The user", "host": "The program", "client": "A client's program"}
_WANTS = {
    "discover": "see",
    "hook": "run the hook",
    "inject": "run commands in the instructions",
    "propose": "propose a change",
    "apply": "apply a change",
}
_PLAIN_WORD = pattern(r"[\w./@:+-]{1,300}")


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
    return word if not word or _PLAIN_WORD.fullmatch(word) else json.dumps(word, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """The effect of `allowed-tools` in a place, and its reason."""

    word: Literal["advisory", "enforced"]
    because: str
    """A sentence without its full stop."""

    @property
    def is_advisory(self) -> bool:
        """Whether calls outside of the list are recorded and not refused."""
        return self.word == "advisory"

    def as_dict(self) -> dict[str, str]:
        """The enforcement as JSON has it."""
        return {"enforcement": self.word, "because": self.because}

    def __str__(self) -> str:
        return f"{self.word}: {self.because}"


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
    """The layer of the skill."""
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
