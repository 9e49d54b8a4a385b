"""A model on the wire for all tests here, and the conversations that were had with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.wire.clients import MODELS, WIRES
from tests.wire.conversation import Conversation, Delivery, Way, converse
from tests.wire.script import fixtures, write_skills
from tests.wire.server import Recorder, recorded_model

from metier import Library

CASES: list[tuple[Way, bool, Delivery]] = [
    ("raw", False, "result"),
    ("raw", True, "instructions"),
    ("pydantic-ai", True, "result"),
    ("pydantic-ai", False, "instructions"),
]
"""By hand or not, streamed or not, and where skills are delivered: every two of these meet.

In `make test` each is had on one wire."""


@pytest.fixture(scope="session")
def skills(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The skills on disk."""
    return write_skills(tmp_path_factory.mktemp("wire") / "skills")


@pytest.fixture(scope="session")
def library(skills: Path) -> Library:
    """The library of them."""
    return Library.from_folder(skills, cache=False)


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """A model on the wire, started once."""
    made = [fixture for wire in WIRES for fixture in fixtures(wire, MODELS[wire])]
    with recorded_model(made, tmp_path_factory.mktemp("model")) as recorder:
        yield recorder


@pytest.fixture
def recorder(recording: Recorder) -> Recorder:
    """The model on the wire, with nothing recorded yet."""
    recording.begin()
    return recording


@pytest.fixture(
    scope="session",
    params=[
        pytest.param((wire, *case), marks=[] if place == number else [pytest.mark.slow])
        for place, wire in enumerate(WIRES)
        for number, case in enumerate(CASES)
    ],
    ids=lambda case: f"{case[0]}-{case[1]}-{'streamed' if case[2] else 'whole'}-{case[3]}",
)
def conversation(request: pytest.FixtureRequest, recording: Recorder, library: Library) -> Conversation:
    """The scripted conversation on every wire, by hand and through pydantic-ai, streamed and not."""
    return anyio.run(converse, recording, library, *request.param)
