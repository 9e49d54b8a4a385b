"""Listing skills by name, tag, place and kind, without ranking them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier import Library, Place
from metier.errors import InvalidArgument
from metier.find import Selection
from metier.source import FolderSource, MemorySource


def text(name: str, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: Develops and devours.\n{more}---\nA dev does it.\n"


def library_of(**skills: str) -> Library:
    """A library in memory: names with underscores for hyphens, and what else their frontmatter says."""
    return Library.from_files(
        *({"SKILL.md": text(name.replace("_", "-"), more)} for name, more in skills.items()),
    )


@pytest.fixture
def library() -> Library:
    """Five skills, two of which have to do with development."""
    return library_of(
        zebra="tags: [animals]\n",
        devops="tags: [ops]\n",
        web="tags: [WebDev, html]\n",
        apple="insert: user-message\n",
        mango="insert: instructions\n",
    )


def selected(library: Library, **criteria: Any) -> list[str]:
    return [entry.name for entry in library.select(**criteria)]


@pytest.mark.covers("Y-15")
def test_without_a_filter_all_skills_are_listed(library: Library) -> None:
    assert [(entry.name, entry.description) for entry in library.select()] == [
        (name, "Develops and devours.") for name in ("apple", "devops", "mango", "web", "zebra")
    ]


@pytest.mark.covers("Y-15")
@pytest.mark.each("part", ["dev", "DEV", "Dev"])
def test_a_part_is_looked_for_in_names_and_tags_in_any_case(library: Library, part: str) -> None:
    assert selected(library, contains=part) == ["devops", "web"]


@pytest.mark.covers("Y-15")
@pytest.mark.each("part", ["devour", "does it", "nothing", "dev " * 10_000, "\0", "%", "*", ".", "dev*", "(["])
def test_a_part_that_no_name_or_tag_contains_lists_nothing(library: Library, part: str) -> None:
    assert library.select(contains=part) == ()


def test_a_part_of_a_tag_is_compared_as_people_read_it() -> None:
    library = library_of(a="tags: [Straße]\n", b="metadata: {tags: [strasse]}\n", c="")
    assert selected(library, contains="STRASSE") == ["a", "b"]


PARTS = st.one_of(st.sampled_from(["dev", "W", "eb", "OPS", "a", "", "ml"]), st.text(max_size=4))


@given(PARTS)
def test_exactly_those_that_contain_a_part_are_listed(part: str) -> None:
    library = LIBRARY
    expected = [
        entry.name
        for entry in library
        if any(part.casefold() in word.casefold() for word in (entry.name, *entry.skill.tags))
    ]
    assert selected(library, contains=part) == expected


LIBRARY = library_of(zebra="tags: [animals]\n", devops="tags: [ops]\n", web="tags: [WebDev, html]\n", apple="")


@pytest.mark.covers("G-19")
def test_skills_are_listed_by_name_and_then_location(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    for place, names in {"two": "ba", "one": "bca", "three": "b"}.items():
        for name in names:
            write_skill(tmp_path / place / name)
    library = Library.from_folder(*(tmp_path / place for place in ("two", "three", "one")), cache=False)
    everything = library.entries(all=True)
    expected = [(name, str(tmp_path / place / name / "SKILL.md")) for name, place in [
        ("a", "one"), ("a", "two"), ("b", "one"), ("b", "three"), ("b", "two"), ("c", "one"),
    ]]  # fmt: skip
    for entries in (everything, everything[::-1]):
        assert [(entry.name, entry.location) for entry in Selection().of(entries)] == expected


@pytest.mark.covers("G-19")
@pytest.mark.each(
    ("criteria", "names"),
    [
        ({"name_prefix": "dev"}, ["devops"]),
        ({"name_prefix": "devops"}, ["devops"]),
        ({"name_prefix": "devops-and-more"}, []),
        ({"name_prefix": "d" * 100_000}, []),
        ({"name_prefix": "DEV"}, []),
        ({"name_prefix": "ops"}, []),
        ({"location_prefix": "memory:"}, ["apple", "devops", "mango", "web", "zebra"]),
        ({"location_prefix": "/nowhere"}, []),
        ({"location_prefix": "memory:" + "x" * 100_000}, []),
        ({"names": ["web", "apple", "gone"]}, ["apple", "web"]),
        ({"names": []}, []),
        ({"names": None}, ["apple", "devops", "mango", "web", "zebra"]),
        ({"names": frozenset({"web"}), "contains": "dev"}, ["web"]),
        ({"names": ["web"], "name_prefix": "z"}, []),
        ({"inserts": ["user-message"]}, ["apple"]),
        ({"inserts": ["instructions"]}, ["devops", "mango", "web", "zebra"]),
        ({"inserts": ["instructions", "user-message"]}, ["apple", "devops", "mango", "web", "zebra"]),
        ({"sources": ["memory"]}, ["apple", "devops", "mango", "web", "zebra"]),
        ({"sources": ["elsewhere"]}, []),
        ({"layers": ["project", "plugin"]}, ["apple", "devops", "mango", "web", "zebra"]),
        ({"layers": ["enterprise"]}, []),
    ],
)
def test_filters_restrict_a_list(library: Library, criteria: dict[str, Any], names: list[str]) -> None:
    assert selected(library, **criteria) == names


@pytest.mark.covers("G-19")
def test_a_list_is_restricted_to_sources_layers_and_locations(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    write_skill(tmp_path / "skills" / "deep" / "b")
    write_skill(tmp_path / "skills" / "a")
    library = Library(
        [
            Place(layer="project", source=FolderSource(tmp_path / "skills"), name="here"),
            Place(layer="plugin", source=MemorySource.of({"SKILL.md": text("c")}), name="brought"),
        ],
        cache=False,
    )
    assert selected(library, sources=["here"]) == ["a", "b"]
    assert selected(library, sources=["brought", "here"]) == ["a", "b", "c"]
    assert selected(library, layers=["plugin"]) == ["c"]
    assert selected(library, location_prefix=str(tmp_path / "skills" / "deep")) == ["b"]
    assert selected(library, location_prefix=str(tmp_path)) == ["a", "b"]


def test_an_unknown_layer_is_refused(library: Library) -> None:
    with pytest.raises(InvalidArgument, match="no layer 'kingdom'"):
        library.select(layers=["kingdom"])  # type: ignore[list-item]


@pytest.mark.covers("G-30")
@pytest.mark.each(
    ("criteria", "names"),
    [
        ({"activity": "any"}, ["apple", "devops", "mango", "web", "zebra"]),
        ({"activity": "any", "active": ["web"]}, ["apple", "devops", "mango", "web", "zebra"]),
        ({"activity": "active", "active": ["web", "apple"]}, ["apple", "web"]),
        ({"activity": "active", "active": []}, []),
        ({"activity": "active", "active": ["gone"]}, []),
        ({"activity": "inactive"}, ["apple", "devops", "mango", "web", "zebra"]),
        ({"activity": "inactive", "active": []}, ["apple", "devops", "mango", "web", "zebra"]),
        ({"activity": "inactive", "active": ["web", "gone"]}, ["apple", "devops", "mango", "zebra"]),
        ({"activity": "inactive", "active": ["web"], "names": ["web", "apple"]}, ["apple"]),
        ({"activity": "inactive", "names": ["web"]}, ["web"]),
        ({"activity": "active", "active": ["web", "zebra"], "names": ["web", "apple"]}, ["web"]),
        ({"activity": "active", "active": ["web", "zebra"], "name_prefix": "z"}, ["zebra"]),
        ({"activity": "inactive", "active": ["web"], "location_prefix": "/nowhere"}, []),
    ],
)
def test_skills_are_listed_by_whether_a_session_has_them(
    library: Library, criteria: dict[str, Any], names: list[str]
) -> None:
    assert selected(library, **criteria) == names


@pytest.mark.covers("G-30")
def test_active_skills_need_a_session(library: Library) -> None:
    with pytest.raises(InvalidArgument, match="session"):
        library.select(activity="active")


@pytest.mark.covers("G-30")
@pytest.mark.each("activity", ["", "ACTIVE", "asleep", None, 1])
def test_an_activity_that_is_none_is_refused(library: Library, activity: Any) -> None:
    with pytest.raises(InvalidArgument, match="is no activity"):
        library.select(activity=activity)


@given(st.sets(st.sampled_from(["zebra", "devops", "web", "apple", "gone"])))
def test_every_skill_is_either_active_or_inactive(active: set[str]) -> None:
    on, off = (selected(LIBRARY, activity=activity, active=active) for activity in ("active", "inactive"))
    assert sorted(on + off) == selected(LIBRARY)
    assert set(on) <= active


def test_a_skill_out_of_scope_is_not_listed() -> None:
    library = library_of(open_one="", closed_one="scope: {agents: [writer]}\n")
    assert selected(library) == ["open-one"]
    assert selected(library.as_caller(agent="writer"), contains="one") == ["closed-one", "open-one"]


def test_only_the_skill_that_answers_to_a_name_is_listed() -> None:
    library = Library(
        [
            Place(layer=layer, source=MemorySource.of({"SKILL.md": text("same")}), name=layer)
            for layer in ("plugin", "personal")
        ],
        cache=False,
    )
    assert [(entry.name, entry.layer) for entry in library.select()] == [("same", "personal")]
    assert library.select(layers=["plugin"]) == ()


def test_skills_for_people_only_are_listed_too() -> None:
    library = library_of(quiet="disable-model-invocation: true\n", unready="requires: {bins: [no-such]}\n")
    assert selected(library) == ["quiet", "unready"]


def test_an_empty_library_lists_nothing() -> None:
    assert Library.from_files().select() == ()
