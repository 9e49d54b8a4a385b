"""The tier of behaviour: prompts for an agent, with the skill, without it and with the version before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metier._lazy import dataclass, field
from metier.errors import InvalidArgument
from metier.proof.budget import TrialBudget
from metier.proof.statistics import BOUND

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from metier.proof.judge import AskModel
    from metier.proof.model_price import ModelPrice
    from metier.proof.report import TierResult
    from metier.proof.subject import TestSubject
    from metier.proof.trial import Arm, TrialRunner


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourSettings:
    """The choices of whoever tests behaviour: which models, how often, and for how much."""

    runners: tuple[TrialRunner | str, ...] = ()
    """`scripted`, `recorded`, models such as `openai:gpt-5`, clients such as `claude-code` or `codex:gpt-5`, and
    executors; none for whatever is free and can run."""
    repeats: int = 1
    arms: tuple[Arm, ...] = ("with", "without", "previous")
    """The arms to run; `previous` only for skills whose folder `previous` has."""
    previous: Mapping[str, Path] = field(default_factory=dict)
    """The folder of the version before, by the name of the skill."""
    neighbours: Path | None = None
    """A folder with other skills that the agent has in every arm."""
    budget: TrialBudget = field(default_factory=TrialBudget)
    """The money and the time for everything that is tested with these settings."""
    max_trial_cost: float | None = None
    """The most that one trial may cost, in US dollars."""
    prices: Mapping[str, ModelPrice] = field(default_factory=dict)
    """Prices by the names of models, before those of genai-prices."""
    judge: AskModel | str | None = None
    """A model, or its name, that grades assertions which no code can check."""
    concurrency: int = 2
    """The number of trials that run at once."""
    min_pass_rate: float = 1.0
    """The share of the trials with the skill that must pass, in each case."""
    bound: float = BOUND
    """The smallest difference of pass rates that matters."""
    record: bool = False
    """Whether answers of models are kept beside the suite, to be replayed by `recorded`."""

    def __post_init__(self) -> None:
        for name, fits, should in (
            ("repeats", 1 <= self.repeats <= 1_000, "from 1 to 1000"),
            ("concurrency", 1 <= self.concurrency <= 64, "from 1 to 64"),
            ("min_pass_rate", 0 <= self.min_pass_rate <= 1, "from 0 to 1"),
            ("bound", 0 < self.bound < 1, "between 0 and 1"),
            ("arms", "with" in self.arms, "`with` and perhaps others"),
        ):
            if not fits:
                raise InvalidArgument(f"{name} is {getattr(self, name)!r}.", hint=f"It must be {should}.")


def run_behaviour(subject: TestSubject, settings: BehaviourSettings) -> TierResult:
    """Run each behaviour case with every executor, and grade what it did."""
    import anyio

    from metier.proof.evaluation import evaluate

    return anyio.run(evaluate, subject, settings)
