"""What an entry of the index says before anybody looks into the skill."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from metier import Library, Place
from metier.source import ArchiveSource, FolderSource, MemorySource

TEXT = "---\nname: {0}\ndescription: Does {0}.\n---\nDo {0}.\n"


@pytest.mark.covers("O-10")
def test_an_entry_has_no_priority_of_its_own() -> None:
    entry = Library.from_files({"SKILL.md": TEXT.format("a")}).get("a")
    assert (entry.priority, entry.scope) == (0, None)


@pytest.mark.covers("O-10")
def test_an_entry_keeps_the_limits_of_the_specification() -> None:
    text = f"---\nname: {'n' * 65}\ndescription: {'d' * 1_025}\n---\nDo.\n"
    (entry,) = Library.from_files({"SKILL.md": text})
    assert {"name-too-long", "description-too-long"} <= {found.code for found in entry.diagnostics}
    assert len(entry.name) == 64


@pytest.mark.covers("O-17")
def test_a_hook_that_names_a_file_of_the_skill_is_told_from_one_that_does_not() -> None:
    text = "---\nname: a\ndescription: b\nhooks:\n  pre: hooks/check.sh --all\n  post: hooks/gone.sh\n---\nDo.\n"
    library = Library.from_files({"SKILL.md": text, "hooks/check.sh": "true"})
    hooks, files = library.get("a").skill.hooks, library.files("a")
    assert hooks is not None and hooks.pre is not None and hooks.post is not None
    assert files.named_by(hooks.pre) == "hooks/check.sh"
    assert files.named_by(hooks.post) is None


@pytest.mark.covers("S-03")
def test_skills_from_mixed_sources_are_all_there(tmp_path: Path) -> None:
    (tmp_path / "skills" / "one").mkdir(parents=True)
    (tmp_path / "skills" / "one" / "SKILL.md").write_text(TEXT.format("one"))
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("two/SKILL.md", TEXT.format("two"))
    sources = (
        FolderSource(tmp_path / "skills"),
        ArchiveSource(tmp_path / "two.zip"),
        MemorySource.of({"SKILL.md": TEXT.format("three")}),
    )
    library = Library([Place(layer="project", source=source) for source in sources], cache=False)
    assert {entry.name: library.document(entry.name).body for entry in library} == {
        "one": "Do one.",
        "two": "Do two.",
        "three": "Do three.",
    }
