"""The tokens of a conversation: measured by the skills that were active, and told in audit records."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from metier._lazy import replace
from metier._telemetry import measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from metier.guard import Subject
    from metier.session.active_skills import ActiveSkill
    from metier.session.context import SessionContext

    _Tokens: TypeAlias = tuple[str, Subject | None, int, int]

_NONE: Mapping[str, Any] = {}


class TokenUsage:
    """The tokens of one conversation.

    For telemetry they count for every skill that was active, until that ends. In the audit log they count once, for the
    skill that was loaded last: the record of the next tool call tells of them, or where none comes one of their own.
    """

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._tokens: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()
        self._untold: _Tokens | None = None
        """The model, the skill, and the tokens in and out that no record tells of yet."""

    def add(self, active: Sequence[ActiveSkill], model: str, tokens: int, output: int = 0) -> None:
        """Count an answer of a model; `output` are those of its tokens that the answer has."""
        skill = active[-1].subject if active else None
        before = None
        with self._lock:
            for one in active:
                spent = self._tokens.setdefault(one.name, {})
                spent[model] = spent.get(model, 0) + tokens
            if tokens > 0:
                new = (model, skill, max(0, tokens - output), min(tokens, output))
                before, self._untold = self._untold, new
                if before is not None and before[:2] == new[:2]:
                    self._untold = (model, skill, before[2] + new[2], before[3] + new[3])
                    before = None
        self._write(before)

    def take(self, active: Sequence[ActiveSkill]) -> Mapping[str, Any]:
        """Return the fields of the record of a call that tell of the tokens so far; each is told once."""
        if self._untold is None:
            return _NONE
        untold = self._pop()
        if untold is None:
            return _NONE
        model, skill, tokens_in, tokens_out = untold
        if (model, skill) == (self._context.actor.model, active[-1].subject if active else None):
            return {"tokens_in": tokens_in, "tokens_out": tokens_out}
        self._write(untold)
        return _NONE

    def record(self) -> None:
        """Write a record of the tokens that no other one tells of."""
        self._write(self._pop())

    def _pop(self) -> _Tokens | None:
        with self._lock:
            untold, self._untold = self._untold, None
        return untold

    def _write(self, untold: _Tokens | None) -> None:
        if untold is None:
            return
        from metier.guard.audit.governance_events import governance_record

        model, skill, tokens_in, tokens_out = untold
        about = {} if skill is None else {name: getattr(skill, name) for name in ("source", "digest", "layer")}
        record = governance_record(
            "model.answered",
            actor=replace(self._context.actor, model=model),
            reason="It answered, and called no tool that tells of its tokens.",
            skill="" if skill is None else skill.name,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            **about,
        )
        self._context.guard.record(record)

    def end(self, skill: str) -> None:
        """A run of a skill is over."""
        with self._lock:
            spent = self._tokens.pop(skill, {})
        for model, tokens in spent.items():
            measure("skill.run.tokens", tokens, skill=skill, model=model)
