"""Which of several skills of one name answers to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library
from metier.library import Entry, Layer, Place
from metier.source import FolderSource, MemorySource

Write = Callable[..., Path]


def skill(name: str = "deploy", *, description: str = "Deploys.", body: str = "Do.", more: str = "") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}"}


def place(layer: Layer, source: str, *skills: dict[str, str]) -> Place:
    memory = MemorySource({}, name=source)
    for files in skills:
        memory.add(files)
    return Place(layer=layer, source=memory)


def shadowed(library: Library) -> list[Entry]:
    return [entry for entry in library.entries(all=True) if entry.status == "shadowed"]


@pytest.mark.covers("O-25", "O-98")
@pytest.mark.parametrize("layer", ["personal", "project", "plugin"])
@pytest.mark.each("priority", [1, 100, 5_000, 1_000_000, 10**30])
def test_no_priority_outranks_enterprise(layer: Layer, priority: int) -> None:
    library = Library(
        [
            place(layer, "loud", skill(more=f"priority: {priority}\n")),
            place("enterprise", "corp", skill(more="priority: -1000000\n")),
        ],
        cache=False,
    )
    assert library.get("deploy").layer == "enterprise"


@pytest.mark.covers("O-25")
@pytest.mark.each("first", [5, 10])
def test_priority_decides_inside_a_layer(first: int) -> None:
    places = [
        place("project", "a", skill(body=str(first), more=f"priority: {first}\n")),
        place("project", "b", skill(body=str(15 - first), more=f"priority: {15 - first}\n")),
    ]
    assert Library(places, cache=False).document("deploy").body == "10"


def test_a_negative_priority_ranks_below_none() -> None:
    places = [
        place("project", "a", skill(body="shy", more="priority: -1\n")),
        place("project", "b", skill(body="plain")),
    ]
    assert Library(places, cache=False).document("deploy").body == "plain"


def test_without_priority_the_first_place_of_a_layer_wins() -> None:
    places = [place("project", source, skill(body=source)) for source in ("nearest", "farther", "root")]
    assert Library(places, cache=False).document("deploy").body == "nearest"


@pytest.mark.covers("O-99")
def test_the_last_plugin_wins_with_a_warning_on_the_other() -> None:
    places = [place("plugin", source, skill(body=source)) for source in ("first", "second", "last")]
    library = Library(places, cache=False)
    assert library.document("deploy").body == "last"
    assert [(entry.source, entry.diagnostics[-1].severity) for entry in shadowed(library)] == [
        ("second", "warning"),
        ("first", "warning"),
    ]


def test_priority_decides_between_plugins_before_the_order_of_installation() -> None:
    places = [
        place("plugin", "first", skill(body="first", more="priority: 1\n")),
        place("plugin", "last", skill(body="last")),
    ]
    assert Library(places, cache=False).document("deploy").body == "first"


@pytest.mark.covers("O-98")
def test_replacement_is_complete_and_never_a_merge() -> None:
    strong = skill(description="Strong.", body="Strong body.")
    weak = {**skill(description="Weak.", body="Weak body.", more="tags: [weak]\nlicense: MIT\n"), "weak.txt": "w"}
    library = Library([place("enterprise", "corp", strong), place("project", "repo", weak)], cache=False)
    entry = library.get("deploy")
    assert (entry.description, entry.skill.tags, entry.skill.license) == ("Strong.", (), None)
    assert [file.path for file in library.files("deploy").files] == ["SKILL.md"]


@pytest.mark.covers("O-98")
def test_shadowed_skills_are_listed_with_who_hides_them() -> None:
    library = Library([place("enterprise", "corp", skill()), place("project", "repo", skill())], cache=False)
    (hidden,) = shadowed(library)
    assert (hidden.source, hidden.status) == ("repo", "shadowed")
    assert hidden.shadowed_by is library.get("deploy")
    note = hidden.diagnostics[-1]
    assert note.code == "shadowed"
    assert "enterprise" in note.message
    assert "deploy@repo" in note.hint


def test_shadowed_skills_are_not_among_those_that_answer() -> None:
    library = Library([place("enterprise", "corp", skill()), place("project", "repo", skill())], cache=False)
    assert [entry.source for entry in library] == ["corp"]
    assert len(library) == 1


def test_the_winner_says_nothing_of_the_ones_it_hides() -> None:
    library = Library([place("enterprise", "corp", skill()), place("project", "repo", skill())], cache=False)
    assert "shadowed" not in [note.code for note in library.get("deploy").diagnostics]


@pytest.mark.covers("O-99")
@pytest.mark.each(
    ("name", "source"),
    [
        ("deploy@corp", "corp"),
        ("deploy@repo", "repo"),
        ("deploy@acme-tools", "acme-tools"),
        ("deploy@enterprise", "corp"),
        ("deploy@project", "repo"),
        ("deploy@plugin", "acme-tools"),
        (" deploy@repo ", "repo"),
        ("DEPLOY@repo", "repo"),
    ],
)
def test_a_name_with_a_source_or_layer_selects_explicitly(name: str, source: str) -> None:
    library = Library(
        [
            place("enterprise", "corp", skill(body="corp")),
            place("project", "repo", skill(body="repo")),
            place("plugin", "acme-tools", skill(body="acme-tools")),
        ],
        cache=False,
    )
    assert library.get(name).source == source
    assert library.document(name).body == source


def test_the_strongest_of_a_layer_answers_to_the_layers_name() -> None:
    places = [place("project", source, skill()) for source in ("near", "far")]
    library = Library([place("personal", "me", skill()), *places], cache=False)
    assert library.get("deploy@project").source == "near"


@pytest.mark.covers("ACC-3")
def test_a_source_is_meant_before_the_layer_of_the_same_name(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "one" / "deploy", body="first")
    write_skill(tmp_path / "two" / "deploy", body="second", more="priority: 5\n")
    places = [
        Place(layer="project", source=FolderSource(tmp_path / folder, name="project")) for folder in ("one", "two")
    ]
    library = Library(places, cache=False)
    assert library.document("deploy").body == "second"
    assert library.document("deploy@project").body == "first"
    assert library.document("deploy@project-2").body == "second"


@pytest.mark.covers("O-98")
def test_the_hint_on_a_shadowed_skill_selects_that_very_skill(tmp_path: Path, write_skill: Write) -> None:
    """Also where two folders have the same last name, as all personal folders of skills do."""
    for folder in ("one", "two"):
        write_skill(tmp_path / folder / "skills" / "deploy", body=folder)
    library = Library.from_folder(tmp_path / "one" / "skills", tmp_path / "two" / "skills", cache=False)
    (hidden,) = shadowed(library)
    selector = hidden.diagnostics[-1].hint.split("`")[1]
    assert library.get(selector).location == hidden.location


def test_inside_one_source_the_folder_of_that_name_wins(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a-copy", name="deploy", body="copy")
    write_skill(tmp_path / "deploy", body="own folder")
    write_skill(tmp_path / "z-copy", name="deploy", body="copy")
    library = Library.from_folder(tmp_path, cache=False)
    assert library.document("deploy").body == "own folder"
    assert [entry.folder for entry in shadowed(library)] == ["a-copy", "z-copy"]


def test_a_broken_skill_shadows_nothing(tmp_path: Path, write_skill: Write) -> None:
    (tmp_path / "strong" / "deploy").mkdir(parents=True)
    (tmp_path / "strong" / "deploy" / "SKILL.md").write_bytes(b"")
    write_skill(tmp_path / "weak" / "deploy", body="weak")
    library = Library(
        [
            Place(layer="enterprise", source=FolderSource(tmp_path / "strong")),
            Place(layer="project", source=FolderSource(tmp_path / "weak")),
        ],
        cache=False,
    )
    assert library.document("deploy").body == "weak"
    assert [entry.status for entry in library.entries(all=True)] == ["active", "broken"]


def test_a_skipped_skill_shadows_nothing() -> None:
    undescribed = {"SKILL.md": "---\nname: deploy\n---\nUndescribed."}
    places = [
        Place(layer="enterprise", source=MemorySource.of(undescribed), on_missing_description="skip"),
        place("project", "repo", skill()),
    ]
    library = Library(places, cache=False)
    assert library.get("deploy").source == "repo"
    assert [entry.status for entry in library.entries(all=True)] == ["active", "skipped"]


@pytest.mark.covers("O-27", "S2-01")
def test_skills_are_listed_by_name_whatever_their_place() -> None:
    places = [
        place("plugin", "p", skill("b"), skill("d")),
        place("enterprise", "e", skill("c"), skill("a")),
    ]
    assert [entry.name for entry in Library(places, cache=False)] == ["a", "b", "c", "d"]


@pytest.mark.covers("S2-01")
def test_a_list_returned_earlier_stays_what_it_was(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a", description="Old.")
    library = Library.from_folder(tmp_path, cache=False)
    before = library.entries()
    write_skill(tmp_path / "a", description="New and longer.")
    write_skill(tmp_path / "b")
    library.refresh()
    assert [(entry.name, entry.description) for entry in before] == [("a", "Old.")]
    assert [entry.name for entry in library.entries()] == ["a", "b"]
