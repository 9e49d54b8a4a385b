"""The test suite of a skill: cases of routing, scripts, rules and behaviour, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

AssertionKind: TypeAlias = Literal[
    "answer",  # the last text of the agent
    "stdout",
    "stderr",
    "exit",
    "file",  # it is there, and like that
    "no-file",
    "unchanged",  # a file is as it was before
    "changed-only",  # no other file is new, changed or gone
    "called",  # a tool was called, and not refused
    "not-called",  # no call of a tool was even tried
    "refused",  # a call of a tool was refused
    "skill-read",  # the instructions of the skill reached the model
    "tokens",  # at most so many
    "seconds",
    "judge",  # a model says whether a sentence holds
    "text",  # a sentence that nothing here can check
]
Outcome: TypeAlias = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatch:
    """Conditions on a text, all of which must hold; without any, each text will do."""

    contains: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    regex: tuple[str, ...] = ()
    """Regular expressions, each found somewhere in the text."""
    equals: str | None = None
    """The whole text, but for white space at both ends."""
    json: Mapping[str, Any] | None = None
    """Values inside the JSON that the text is, each by its path: `{"rows.0.total": 12}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """One assertion about what a script or an agent did."""

    kind: AssertionKind
    target: str = ""
    """The file, the tool, or the sentence that it is about."""
    match: TextMatch | None = None
    """The conditions on the text: of the answer, of an output, of a file."""
    arguments: Mapping[str, TextMatch] = field(default_factory=dict)
    """The conditions on arguments of a tool call, by name."""
    value: float | None = None
    """The exit code, or the most tokens or seconds."""
    paths: tuple[str, ...] = ()
    """The files that may change, in which `*` stands for anything; or those that a judge is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mock:
    """A tool that answers from the suite and does nothing."""

    tool: str
    """The name, as models call it: `Bash`, `mcp__crm__find`, or one that exists nowhere else."""
    arguments: Mapping[str, TextMatch] = field(default_factory=dict)
    """It answers calls whose arguments are like that; the first mock that fits counts."""
    result: str = ""
    error: str = ""
    """The error that it answers instead of a result."""
    function: str = ""
    """`evals/mocks.py:name`: a function of a file of the suite, which gets the arguments and gives the result."""
    description: str = ""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of its arguments, for a tool that exists nowhere else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The surroundings of a case: files of its workspace, tools that only answer, a clock, variables."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    """The content of each file, by its path in the workspace."""
    mocks: tuple[Mock, ...] = ()
    now: str = ""
    """The moment that scripts and agents are told it is, in ISO 8601."""
    env: Mapping[str, str] = field(default_factory=dict)
    mcp: Mapping[str, tuple[Mock, ...]] = field(default_factory=dict)
    """MCP servers by name, each with its tools, by the names that the server itself gives them."""
    network: tuple[str, ...] = ()
    """Hosts that the case may reach; none by default. Policy has the last word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingCase:
    """A prompt that should bring the skill up, or should not."""

    prompt: str
    should_trigger: bool
    top: int = 3
    """The worst rank at which it still counts as brought up."""
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCase:
    """A run of a script, and what must come of it."""

    id: str
    script: str
    """Relative to the skill: `scripts/check.py`."""
    args: tuple[str, ...] = ()
    stdin: str = ""
    environment: Environment = field(default_factory=Environment)
    assertions: tuple[Assertion, ...] = ()
    timeout: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCase:
    """A tool call that must be allowed, asked about or refused while the skill is active."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expect: Outcome = "allow"
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStep:
    """One step of a scripted model: what it says, and which tools it calls."""

    say: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourCase:
    """A prompt for an agent, and what it must have done in the end."""

    id: str
    prompt: str
    expected_output: str = ""
    """The aim in words, for people and for a judge."""
    environment: Environment = field(default_factory=Environment)
    assertions: tuple[Assertion, ...] = ()
    steps: tuple[ModelStep, ...] = ()
    """The steps of a scripted model with the skill."""
    steps_without: tuple[ModelStep, ...] = ()
    """Those without it."""
    max_turns: int = 30
    timeout: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationCase:
    """An answer whose grade is known, by which a judge is tested before it counts."""

    sentence: str
    answer: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A part of a file that is not used, or a problem with it: said to its author, never fatal to the others."""

    message: str
    path: str = ""
    """The file."""
    line: int = 0
    at: str = ""
    """The place in it: `evals.3.assertions`."""
    is_error: bool = False
    """Whether the case is not what its author wants it to be; else it is only left out."""

    @property
    def place(self) -> str:
        """The file with the line, and the place in it."""
        return f"{self.path}{f':{self.line}' if self.line else ''} {self.at}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """All tests of one skill, from all of its files."""

    skill: str = ""
    """The name that the files give the skill; empty where they give none."""
    routing: tuple[RoutingCase, ...] = ()
    scripts: tuple[ScriptCase, ...] = ()
    rules: tuple[RuleCase, ...] = ()
    behaviour: tuple[BehaviourCase, ...] = ()
    calibration: tuple[CalibrationCase, ...] = ()
    max_tokens: int = 5_000
    """The most tokens of the instructions."""
    files: tuple[str, ...] = ()
    """The files that it was read from, and those that they name, relative to the skill: kept from the skill itself."""
    notes: tuple[Note, ...] = ()
