"""While somebody edits a skill that was good, the last good version stays until the new one is whole."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tables import crossed

from metier import Library, Policy, Session
from metier.errors import MetierError, Refused, SkillNotFound

pytestmark = pytest.mark.covers("ACC-5")

Write = Callable[..., Path]

GOOD = """---
name: greet
description: >-
  Greets people. Use when somebody comes: in the morning.
allowed-tools: [Read, "Bash(git:*)"]
metadata:
  owner: "ops: day"
---

# Grüße

Say hello. Then say:

---

Welcome.
"""

UNFINISHED = {
    "cut in a field": b"---\nname: greet\ndescr",
    "cut before the end of the block": b"---\nname: greet\ndescription: Greets.\n",
    "cut in the closing line": b"---\nname: greet\ndescription: Greets.\n--",
    "no body yet": b"---\nname: greet\ndescription: Greets.\n---\n",
    "no frontmatter": b"# Greeting\n\nSay hello to everybody.\n",
    "no opening line": b"name: greet\ndescription: Greets.\n---\nSay hello.\n",
    "an open quote": b'---\nname: greet\ndescription: "Greets.\n---\nSay hello.\n',
    "an open list": b"---\nname: greet\ndescription: Greets.\nallowed-tools: [Read, Ba\n---\nSay hello.\n",
    "a name that is half another": b"---\nname: greet: all\ndescription: Greets.\n---\nSay hello.\n",
    "no name": b"---\ndescription: Greets.\n---\nSay hello.\n",
    "no description": b"---\nname: greet\n---\nSay hello.\n",
    "a scope that is not written out": b"---\nname: greet\ndescription: G.\nscope: agents: [ops]\n---\nSay hello.\n",
    "half a character": "---\nname: greet\ndescription: Greets.\n---\nSay grü".encode()[:-1],
    "text before it": b"TODO\n---\nname: greet\ndescription: Greets.\n---\nSay hello.\n",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "skills" / "folder" / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(GOOD, encoding="utf-8")
    return path


@pytest.fixture
def library(file: Path) -> Library:
    return Library.from_folder(file.parents[1], cache=False)


@crossed(("refreshed", [False, True]), ("broken", UNFINISHED.values()), one_in=2)
def test_an_unfinished_edit_is_not_served(library: Library, file: Path, broken: bytes, refreshed: bool) -> None:
    good, digest = library.document("greet"), library.digest("greet")
    file.write_bytes(broken)
    if refreshed:
        library.refresh()
        assert library.get("greet").is_stale
        assert "stale" in [note.code for note in library.get("greet").diagnostics]
    assert [entry.name for entry in library] == ["greet"]
    assert library.document("greet") == good
    assert library.digest("greet") == digest, "what was approved is what is served"
    file.write_text(GOOD.replace("Welcome", "Be welcome"), encoding="utf-8")
    library.refresh()
    assert not library.get("greet").is_stale
    assert library.document("greet").body.endswith("Be welcome.")
    assert library.digest("greet") != digest


@pytest.mark.parametrize(
    "text",
    [GOOD, GOOD.replace("\n", "\r\n"), "\ufeff" + GOOD, GOOD.replace(">-\n  ", "")],
    ids=["plain", "crlf", "bom", "repaired from the start"],
)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_no_cut_of_a_file_changes_what_its_fields_say(file: Path, text: str, step: int, quiet_files: None) -> None:
    """At whatever byte the writing of a file stops, its name, description and limits are the good ones."""
    data = text.encode()
    file.write_bytes(data)
    library = Library.from_folder(file.parents[1], cache=False)
    good = library.document("greet")
    for end in (*range(0, len(data), step), len(data)):
        file.write_bytes(data[:end])
        library.refresh()
        assert [entry.name for entry in library] == ["greet"], end
        document, entry = library.document("greet"), library.get("greet")
        for skill in (document.skill, entry.skill):
            assert (skill.description, skill.allowed_tools) == (good.skill.description, good.skill.allowed_tools), end
        assert entry.is_stale or good.body.startswith(document.body.rstrip("-")), end
    assert library.document("greet") == good


def test_an_edit_that_is_whole_counts_at_once(library: Library, file: Path) -> None:
    """Quotes that are missing around prose are repaired as ever, and a new name is a new name."""
    library.document("greet")
    file.write_text("---\nname: greet\ndescription: Use when: somebody comes.\n---\nSay hello.\n")
    library.refresh()
    assert (library.get("greet").is_stale, library.get("greet").description) == (False, "Use when: somebody comes.")
    file.write_text("---\nname: welcome\ndescription: Greets.\n---\nSay hello.\n")
    library.refresh()
    assert [(entry.name, entry.is_stale) for entry in library] == [("welcome", False)]


@pytest.mark.parametrize("broken", [broken for what, broken in UNFINISHED.items() if what != "no description"])
def test_a_file_that_never_was_good_is_read_leniently(tmp_path: Path, broken: bytes) -> None:
    file = tmp_path / "greet" / "SKILL.md"
    file.parent.mkdir()
    file.write_bytes(broken)
    library = Library.from_folder(tmp_path, cache=False)
    assert len(library) == 1
    assert not next(iter(library)).is_stale


def test_a_session_loads_the_last_good_version_with_the_content_that_was_decided_about(
    library: Library, file: Path
) -> None:
    with Session(library) as first:
        receipt = first.load(["greet"])
    file.write_bytes(UNFINISHED["cut in a field"])
    library.refresh()
    with Session(library) as second:
        again = second.load(["greet"])
        one = second.active[0]
        assert (again.active[0].digest, "Welcome." in one.body) == (receipt.active[0].digest, True)
        assert (Path(one.root) / "SKILL.md").read_text(encoding="utf-8") == GOOD


def test_a_session_that_was_never_shown_the_good_version_does_not_load_half_of_it(library: Library, file: Path) -> None:
    file.write_bytes(UNFINISHED["cut in a field"])
    with Session(library) as session, pytest.raises(MetierError, match="never closed"):
        session.load(["greet"])


def test_a_last_good_version_does_not_outlive_its_folder(library: Library, file: Path) -> None:
    with Session(library) as session:
        session.load(["greet"])
        file.write_bytes(UNFINISHED["no frontmatter"])
        library.refresh()
        assert [one.name for one in session.active] == ["greet"]
        file.unlink()
        file.parent.rmdir()
        library.refresh()
        assert session.loaded.live() == ()
    with Session(library) as session, pytest.raises(SkillNotFound):
        session.load(["greet"])


@pytest.mark.parametrize("by", ["name", "digest"])
def test_a_last_good_version_does_not_outlive_a_quarantine(library: Library, file: Path, by: str) -> None:
    with Session(library) as session:
        digest = session.load(["greet"]).active[0].digest
    file.write_bytes(UNFINISHED["cut in a field"])
    library.refresh()
    policy = Policy(blocked=["greet" if by == "name" else digest])
    with Session(library, policy=policy) as session, pytest.raises(Refused):
        session.load(["greet"])


def test_the_log_says_that_an_edit_is_held_back(library: Library, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    file.write_bytes(UNFINISHED["an open quote"])
    with caplog.at_level(logging.WARNING, logger="metier.library"):
        library.refresh()
        library.refresh()
    (record,) = caplog.records
    assert str(file) in record.getMessage()
    assert "quotes" in record.getMessage()
