"""Copies that `metier sync` wrote into a project are weaker than what they were copied from, until it is trusted."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library
from metier.library.places import COPIES_FILE, TrustStore, copied_into


@pytest.fixture
def project(tmp_path: Path, write_skill: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a copy of a bundled skill in it, and another skill of its own."""
    (tmp_path / ".git").mkdir()
    folder = tmp_path / ".claude" / "skills"
    write_skill(folder / "csv-analyst", description="A copy.")
    write_skill(folder / "log-triage", description="Its own.")
    (folder / COPIES_FILE).write_text(json.dumps({"version": 1, "skills": {"csv-analyst": {}}}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_untrusted_copy_does_not_stand_before_what_it_was_copied_from(project: Path) -> None:
    library = Library.discover()
    assert (library.get("csv-analyst").layer, library.get("log-triage").layer) == ("plugin", "project")


def test_a_copy_counts_where_there_is_nothing_else(project: Path, write_skill: Callable[..., Path]) -> None:
    folder = project / ".claude" / "skills"
    write_skill(folder / "only-here", description="A copy.")
    (folder / COPIES_FILE).write_text(json.dumps({"version": 1, "skills": {"only-here": {}}}))
    assert Library.discover().get("only-here").layer == "project"


def test_in_a_trusted_project_a_copy_is_a_skill_like_any_other(project: Path) -> None:
    TrustStore().trust(project)
    assert Library.discover().get("csv-analyst").layer == "project"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"skills": 3}', '{"skills": ["a"]}', "[" * 100_000])
def test_a_list_that_cannot_be_read_lists_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / COPIES_FILE).write_text(text)
    assert copied_into(tmp_path) == frozenset()


def test_a_folder_in_place_of_the_list_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / COPIES_FILE).mkdir()
    free = os.dup(0)
    os.close(free)
    assert copied_into(tmp_path) == frozenset()
    after = os.dup(0)
    os.close(after)
    assert after == free
