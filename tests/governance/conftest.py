"""Skills of every layer in real folders, policy files where they belong, and sessions that obey them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from metier import Guard, Library, Policy, Session
from metier.guard import Action, Decision, MemoryLog
from metier.guard.question import TERMINAL
from metier.library import Place
from metier.source import FolderSource
from metier.store import Store, TenantScope


@pytest.fixture
def log() -> MemoryLog:
    """Where the records of a test go."""
    return MemoryLog()


@pytest.fixture
def enterprise(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes the policy of the administrators."""
    file = own_home / "etc" / "policy.yaml"

    def write(text: str) -> Path:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        monkeypatch.setenv("METIER_POLICY", str(file))
        return file

    return write


@pytest.fixture
def put(own_home: Path) -> Callable[..., Path]:
    """Writes a skill into the folder of a layer, and returns its own folder."""

    def write(layer: str, name: str, body: str = "Do it.", more: str = "", **files: str) -> Path:
        folder = own_home / "skills" / layer / name
        texts = {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{more}---\n{body}\n"} | files
        for path, text in texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        return folder

    return write


@pytest.fixture
def library(own_home: Path) -> Callable[..., Library]:
    """The skills of all layers."""

    def made(**trusted: bool) -> Library:
        places = [
            Place(
                layer=layer,
                source=FolderSource(own_home / "skills" / layer, name=layer, whole_root=False),
                trusted=trusted.get(layer, True),
            )
            for layer in ("enterprise", "personal", "project", "plugin")
        ]
        return Library(places, cache=False)

    return made


@pytest.fixture
def begin(library: Callable[..., Library], log: MemoryLog, tmp_path: Path) -> Callable[..., Session]:
    """Begins a session that obeys the policy files and the store."""

    def session(policy: Policy | None = None, *, approve: Any = None, **options: Any) -> Session:
        guard = Guard(policy, audit=log, approve=approve)
        return library().session(guard=guard, workspace=tmp_path / "workspace", **{"user": "ada", **options})

    return session


@pytest.fixture
def scope() -> Any:
    """What the store keeps."""
    with Store.open() as store:
        yield store.of()


class Typed:
    """A person at a terminal of ours, who answers every question by what a function says, or by yes."""

    source = TERMINAL

    def __init__(self, answer: Callable[..., bool] = lambda *_: True) -> None:
        self._answer = answer

    def __call__(self, action: Action, decision: Decision) -> bool:
        return self._answer(action, decision)


Begin = Callable[..., Session]
Put = Callable[..., Path]
__all__ = ["Begin", "Put", "TenantScope", "Typed"]
