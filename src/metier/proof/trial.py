"""One trial of a script or an agent: its terms, and the transcript that graders look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from metier._lazy import dataclass, field
from metier.proof.budget import TrialBudget

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from metier.proof.suite import Assertion, BehaviourCase


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """A tool call of a trial."""

    tool: str
    """The name by which our rules know it: what a client calls `run_shell_command` is `Bash`."""
    arguments: Mapping[str, Any]
    outcome: Literal["ok", "failed", "refused"]
    code: str = ""
    """The code of a refusal or of a failure."""
    is_whole: bool = True
    """Whether all of its arguments are known: records shorten long ones, and have no secrets."""
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """The traces of one trial, collected around it: nothing that a skill says of itself is part of a verdict."""

    answer: str = ""
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    calls: tuple[TracedCall, ...] = ()
    skill_read: bool = False
    """Whether the instructions reached the model, by the audit record of the load or of the read of SKILL.md."""
    digest: str = ""
    """The digest of the content that was read."""
    before: Mapping[str, bytes] = field(default_factory=dict)
    """The files of the workspace before, by path."""
    after: Mapping[str, bytes] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """The paths that are not in `after`: of links, pipes and what is too large; `*` where not all were listed."""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """In US dollars; None where the price is not known."""
    seconds: float = 0.0
    turns: int = 0
    """Requests to the model."""
    paths: int = 0
    """Reads and runs of files of skills."""
    path_errors: int = 0
    """Reads and runs of files that are not there."""
    script_reads: int = 0
    violations: int = 0
    """Calls that rules refused."""
    error: str = ""
    """Why the trial came to no end. Such a trial never passes.

    `timeout: ...` and `turns: ...` are failures of the arm; `model: ...` (a provider that failed, a client that did not
    start) is a failure that says nothing of the skill; `budget: ...` and `stale: ...` are trials that were not run.
    """
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """All tokens, of requests and answers."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """The result of one assertion: whether it holds, and why; None where nothing could tell."""

    assertion: Assertion
    passed: bool | None
    why: str = ""


Arm = Literal["with", "without", "previous"]
"""The variant of a trial: with the skill, without it, or with the version before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of a behaviour case, as an executor gets it."""

    case: BehaviourCase
    arm: Arm
    skill: str
    """The name of the skill."""
    folder: Path | None
    """The copy of the skill, without its tests, below a folder that holds nothing else; None in the arm without it."""
    neighbours: Path | None = None
    """Other skills that the agent has in every arm."""
    workspace: Path
    """An empty folder of this trial, where the files of the case are written."""
    sources: Mapping[str, bytes] = field(default_factory=dict)
    """The files of the skill with its tests, by path, for mocks that are functions."""
    number: int = 0
    """Which repetition it is, from 0."""
    max_cost: float | None = None
    """The most that may be spent on it, in US dollars; None for no limit of its own."""
    max_seconds: float = 300.0
    """The time that it may take, which the executor keeps to."""
    budget: TrialBudget = field(default_factory=TrialBudget)
    """The budget of all trials. Whoever spends money holds the worst case of it first: `budget.hold(worst)`."""


class TrialRunner(Protocol):
    """A way to run trials: a scripted model, a recording, a model through our agent, or a client program."""

    @property
    def name(self) -> str:
        """`scripted`, `recorded`, `openai:gpt-5`, `claude-code`: as reports and `--with` have it."""

    def refusal(self, case: BehaviourCase, arm: Arm, number: int) -> str:
        """The reason why it cannot run a trial, with what to do about it, in one sentence; empty where it can."""

    async def run(self, trial: Trial) -> Transcript:
        """Run one trial to its end or its limits; what goes wrong is the `error` of the transcript."""
