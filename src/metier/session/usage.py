"""What telemetry is told of a session: the skills that a call uses, and what models have spent on them."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from metier._telemetry import measure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metier._telemetry import ToolCall
    from metier.session.active_skills import ActiveSkill


class TokenUsage:
    """The tokens of one conversation, by the skills that were active; told when each of them ends."""

    def __init__(self) -> None:
        self._tokens: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def add(self, skills: Iterable[str], model: str, tokens: int) -> None:
        """Count an answer of a model for all skills that were active."""
        with self._lock:
            for skill in skills:
                spent = self._tokens.setdefault(skill, {})
                spent[model] = spent.get(model, 0) + tokens

    def end(self, skill: str) -> None:
        """A run of a skill is over."""
        with self._lock:
            spent = self._tokens.pop(skill, {})
        for model, tokens in spent.items():
            measure("skill.run.tokens", tokens, skill=skill, model=model)


def describe(call: ToolCall, active: Iterable[ActiveSkill], name: str) -> None:
    """Say of a tool call which skill it used, and where that comes from."""
    one = next((one for one in active if one.name == name), None)
    if one is not None:
        location = one.entry.location
        uri = Path(location).as_uri() if os.path.isabs(location) else location
        call.describe(gen_ai__skill__description=one.entry.description, gen_ai__skill__source__uri=uri)
