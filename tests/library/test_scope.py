"""Skills that are there for some callers only, and for all others as if they did not exist."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library
from metier.errors import SkillNotFound
from metier.library import Place
from metier.source import FolderSource, MemorySource

Write = Callable[..., Path]


def scoped(**scope: str) -> str:
    return "scope:\n" + "".join(f"  {key}: [{values}]\n" for key, values in scope.items())


def files(name: str, *, body: str = "Do.", more: str = "") -> dict[str, str]:
    return {"SKILL.md": f"---\nname: {name}\ndescription: Does {name}.\n{more}---\n{body}"}


@pytest.mark.covers("O-08", "O-100")
@pytest.mark.each(
    ("scope", "caller", "visible"),
    [
        ({"agents": "a, b"}, {"agent": "a"}, True),
        ({"agents": "a, b"}, {"agent": "c"}, False),
        ({"agents": "a, b"}, {"agent": "A"}, False),
        ({"agents": "a, b"}, {}, False),
        ({"agents": ""}, {"agent": "a"}, False),
        ({"agents": ""}, {}, False),
        ({"tenants": "t"}, {"tenant": "t"}, True),
        ({"tenants": "t"}, {"agent": "t"}, False),
        ({"environments": "prod"}, {"environment": "prod"}, True),
        ({"environments": "prod"}, {"environment": "dev"}, False),
        ({"agents": "a", "tenants": "t"}, {"agent": "a", "tenant": "t"}, True),
        ({"agents": "a", "tenants": "t"}, {"agent": "a"}, False),
        ({"agents": "a", "tenants": "t"}, {"tenant": "t"}, False),
        ({"agents": "a"}, {"agent": "a", "tenant": "x", "environment": "y"}, True),
    ],
)
def test_a_scope_admits_exactly_the_callers_it_names(
    scope: dict[str, str], caller: dict[str, str], visible: bool
) -> None:
    library = Library.from_files(files("secret", more=scoped(**scope)), files("open")).as_caller(**caller)
    assert ("secret" in library) is visible
    assert [entry.name for entry in library] == (["open", "secret"] if visible else ["open"])


@pytest.mark.covers("O-100")
@pytest.mark.each("operation", ["get", "document", "files", "package", "digest", "invalidate"])
@pytest.mark.parametrize("called", ["{name}", "{name}@memory", "{name}@project", "SECRET-{name}"])
def test_a_hidden_skill_fails_exactly_like_an_absent_one(operation: str, called: str) -> None:
    with_hidden = Library.from_files(files("hidden", more=scoped(agents="x")), files("other")).as_caller(agent="y")
    without = Library.from_files(files("other"))
    outcomes = []
    for library in (with_hidden, without):
        with pytest.raises(SkillNotFound) as caught:
            getattr(library, operation)(called.format(name="hidden"))
        outcomes.append((str(caught.value), caught.value.hint, caught.value.context))
    assert outcomes[0] == outcomes[1]


def test_a_hidden_skill_is_never_suggested() -> None:
    library = Library.from_files(files("launch-rockets", more=scoped(agents="x"))).as_caller(agent="y")
    with pytest.raises(SkillNotFound) as caught:
        library.get("launch-rocket")
    assert "launch-rockets" not in f"{caught.value}{caught.value.hint}{caught.value.context}"


def test_a_hidden_skill_is_not_listed_even_among_all() -> None:
    library = Library.from_files(files("hidden", more=scoped(agents="x"))).as_caller(agent="y")
    assert library.entries(all=True) == ()
    assert len(library) == 0


def test_the_folder_of_a_hidden_skill_is_no_alias(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "folder", name="hidden", more=scoped(agents="x"))
    library = Library.from_folder(tmp_path, cache=False)
    assert "folder" in library.as_caller(agent="x")
    assert "folder" not in library.as_caller(agent="y")


@pytest.mark.covers("O-100")
def test_where_a_skill_is_hidden_the_next_layers_appears() -> None:
    strong = MemorySource.of(files("deploy", body="strong", more=scoped(agents="x")), name="strong")
    weak = MemorySource.of(files("deploy", body="weak"), name="weak")
    library = Library([Place(layer="enterprise", source=strong), Place(layer="project", source=weak)], cache=False)
    assert library.as_caller(agent="x").document("deploy").body == "strong"
    assert library.as_caller(agent="y").document("deploy").body == "weak"


def test_a_skill_is_not_said_to_be_shadowed_by_one_that_the_caller_cannot_see() -> None:
    strong = MemorySource.of(files("deploy", more=scoped(agents="x")), name="strong")
    weak = MemorySource.of(files("deploy"), name="weak")
    library = Library([Place(layer="enterprise", source=strong), Place(layer="project", source=weak)], cache=False)
    (seen,) = library.as_caller(agent="y").entries(all=True)
    assert (seen.status, seen.shadowed_by) == ("active", None)
    assert "shadowed" not in [note.code for note in seen.diagnostics]
    assert [entry.status for entry in library.as_caller(agent="x").entries(all=True)] == ["active", "shadowed"]


def test_a_view_for_a_caller_is_as_fresh_as_the_library(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a", more=scoped(agents="x"))
    library = Library.from_folder(tmp_path, cache=False)
    view = library.as_caller(agent="x")
    write_skill(tmp_path / "a", more=scoped(agents="somebody-else"))
    write_skill(tmp_path / "b", more=scoped(agents="x"))
    library.refresh()
    assert [entry.name for entry in view] == ["b"]


def test_a_refresh_tells_a_caller_nothing_of_skills_hidden_from_them(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "open")
    view = Library.from_folder(tmp_path, cache=False).as_caller(agent="y")
    write_skill(tmp_path / "hidden", more=scoped(agents="x"))
    assert "hidden" not in view.refresh().added


def test_a_scope_survives_an_edit_that_breaks_the_file(tmp_path: Path, write_skill: Write) -> None:
    file = write_skill(tmp_path / "a", more=scoped(agents="x"))
    library = Library.from_folder(tmp_path, cache=False)
    file.write_bytes(b"")
    library.refresh()
    assert library.as_caller(agent="x").get("a").is_stale
    assert library.as_caller(agent="y").entries(all=True) == ()


@pytest.mark.usefixtures("settled")
def test_a_scope_holds_from_the_cache_too(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "skills" / "a", more=scoped(tenants="t"))
    for _ in range(2):
        place = Place(layer="project", source=FolderSource(tmp_path / "skills"))
        library = Library([place], cache=tmp_path / "cache")
        assert len(library.as_caller(tenant="t")) == 1
        assert len(library.as_caller(tenant="u")) == len(library) == 0


def test_many_callers_each_see_their_own() -> None:
    library = Library.from_files(*(files(f"s{n}", more=scoped(agents=f"agent-{n}")) for n in range(200)))
    for _ in range(2):
        for number in range(200):
            assert [entry.name for entry in library.as_caller(agent=f"agent-{number}")] == [f"s{number}"]


def test_a_scope_that_was_added_to_the_file_holds_at_the_very_next_load(tmp_path: Path, write_skill: Write) -> None:
    write_skill(tmp_path / "a")
    library = Library.from_folder(tmp_path, cache=False)
    library.document("a")
    write_skill(tmp_path / "a", more="scope:\n  agents: [finance]\n")
    with pytest.raises(SkillNotFound):
        library.document("a")
    assert library.as_caller(agent="finance").document("a").body == "Do it."
