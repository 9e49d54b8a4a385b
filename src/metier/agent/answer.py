"""The result of an agent: its answer and its usage of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.usage import RunUsage

    from metier.guard import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """The usage of models by a run, with that of the agents which it started.

    >>> ModelUsage(requests=1, input_tokens=10) + ModelUsage(requests=2, output_tokens=5)
    ModelUsage(requests=3, input_tokens=10, output_tokens=5)
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    @classmethod
    def of(cls, usage: RunUsage) -> ModelUsage:
        """The usage that pydantic-ai counted."""
        return cls(
            requests=usage.requests,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
        )

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of an agent.

    >>> str(Answer(text="Four.", agent="clerk", turns=1))
    'Four.'
    """

    text: str
    agent: str
    """The id of the agent."""
    turns: int
    """The number of requests to its model; the agents that it started are not counted."""
    usage: ModelUsage = field(default_factory=ModelUsage)
    session: str = ""
    """The id of the session it was given in, as audit records have it."""
    history: tuple[ModelMessage, ...] = field(default=(), repr=False)
    """The conversation up to and with it, for the next `run`."""
    questions: tuple[Question, ...] = ()
    """The questions that somebody has to answer before the agent goes on; none where it has answered."""
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    """A run that is suspended, as JSON holds it, for `Agent.resume`."""

    @property
    def is_suspended(self) -> bool:
        """Whether it is no answer yet: something waits for somebody to agree."""
        return bool(self.questions)

    def __str__(self) -> str:
        return self.text
