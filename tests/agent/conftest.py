"""Agents at work in tests: declared in a line, with a model that follows a script and a log to look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from metier import Library
from metier.agent import Agent, Agents, Manifest
from metier.testing import AuditProbe, ScriptedModel, library


def declared(id: str = "clerk", **fields: Any) -> Manifest:  # noqa: A002
    """An agent as a file would declare it."""
    if fields.get("uses_skills"):
        fields.setdefault("catalog", "own")
    return Manifest(**{"id": id, "name": id, "description": f"Does {id}."} | fields)


class Stage:
    """An agent, the model it runs on, and what was recorded."""

    def __init__(
        self,
        skills: Library | Sequence[str | Mapping[str, str | bytes]],
        steps: Sequence[Any],
        manifests: Sequence[Manifest],
        **options: Any,
    ) -> None:
        self.library = skills if isinstance(skills, Library) else library(*skills)
        self.model = ScriptedModel(steps)
        self.audit = AuditProbe()
        self.agents = Agents(manifests, self.library)
        if "guard" not in options:
            options.setdefault("audit", self.audit)
        self.agent = Agent(manifests[0], self.agents, **{"model": self.model} | options)

    @property
    def requests(self) -> Any:
        """What the model was asked."""
        return self.model.requests


Staging = Callable[..., Stage]


@pytest.fixture
def stage(tmp_path: Path) -> Staging:
    """Sets a stage: skills, the steps of the model, and agents, of which the first is at work."""

    def make(skills: Any = (), steps: Sequence[Any] = ("Done.",), *manifests: Manifest, **options: Any) -> Stage:
        options.setdefault("workspace", tmp_path / "workspace")
        return Stage(skills, steps, manifests or (declared(),), **options)

    return make


@pytest.fixture
def declare() -> Callable[..., Manifest]:
    """Declares an agent."""
    return declared


@pytest.fixture(autouse=True)
def nobody_else_writes(quiet_files: None) -> None:
    """The files of a test are its own."""
