"""Which skills a model is told of, and that the others are still there for whoever asks by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from metier import Library, Machine, Place
from metier.source import MemorySource

HIDING = {"agents/openai.yaml": "policy: {allow_implicit_invocation: false}\n"}
BARE = Machine(environment={"PATH": ""}, system="linux")


def skill(name: str, more: str = "", **files: str) -> dict[str, str]:
    text = f"---\nname: {name}\ndescription: Polishes the {name} widgets.\n{more}---\nRub the {name} widgets.\n"
    return {"SKILL.md": text, **files}


def found(library: Library, query: str = "widgets", *, unlisted: bool = False, machine: Machine = BARE) -> set[str]:
    return {result.name for result in library.search(query, include_unlisted=unlisted, machine=machine)}


def shown(library: Library, machine: Machine = BARE) -> set[str]:
    return set(library.catalog(machine=machine).shown)


@pytest.fixture
def library() -> Library:
    """A skill for anybody, one for people only, and one for models only."""
    return Library.from_files(
        skill("plain"),
        skill("deploy", "disable-model-invocation: true\n"),
        skill("background", "user-invocable: false\n"),
    )


@pytest.mark.covers("O-106")
def test_a_skill_for_people_only_is_not_in_the_catalog(library: Library) -> None:
    catalog = library.catalog(machine=BARE)
    assert catalog.shown == ("background", "plain")
    assert "deploy" not in catalog.text
    assert catalog.withheld == {"deploy": "not for models"}


@pytest.mark.covers("O-106")
@pytest.mark.each("query", ["widgets", "deploy", "/deploy", "deplo", "polishes the deploy widgets"])
def test_a_skill_for_people_only_is_not_found_by_models(library: Library, query: str) -> None:
    assert "deploy" not in found(library, query)
    assert "deploy" in found(library, query, unlisted=True)


@pytest.mark.covers("O-106")
def test_a_skill_for_people_only_is_there_by_name(library: Library) -> None:
    assert library.get("deploy").is_hidden_from_models
    assert library.document("deploy").body == "Rub the deploy widgets."


@pytest.mark.covers("O-106")
def test_a_skill_that_people_do_not_invoke_is_shown_to_models(library: Library) -> None:
    assert not library.get("background").skill.user_invocable
    assert "background" in shown(library)
    assert "background" in found(library)


@pytest.mark.covers("O-106")
def test_a_skill_for_people_only_cannot_be_pinned() -> None:
    library = Library.from_files(
        skill("deploy", "disable-model-invocation: true\n"), *(skill(f"widget-{number}") for number in range(200))
    )
    catalog = library.catalog(2_000, listing={"deploy": "pinned"}, query="deploy the widgets", machine=BARE)
    assert catalog.rung == "chosen"
    assert "deploy" not in catalog.shown
    assert catalog.unplaced_pins == {"deploy": "not for models"}
    assert len(catalog.shown) + catalog.left_out == 200


@pytest.mark.covers("O-106")
def test_a_library_of_skills_for_people_only_has_an_empty_catalog() -> None:
    library = Library.from_files(skill("deploy", "disable-model-invocation: yes\n"))
    catalog = library.catalog(query="deploy")
    assert (catalog.text, catalog.rung, catalog.withheld) == ("", "none", {"deploy": "not for models"})
    assert library.search("deploy") == []


@pytest.mark.covers("O-106")
def test_a_skill_becomes_one_for_people_when_its_file_says_so(
    tmp_path: Path, write_skill: Callable[..., Path], settled: None
) -> None:
    write_skill(tmp_path / "deploy", description="Polishes widgets.")
    library = Library.from_folder(tmp_path)
    assert (shown(library), found(library)) == ({"deploy"}, {"deploy"})
    write_skill(tmp_path / "deploy", description="Polishes widgets.", more="disable-model-invocation: true\n")
    library.refresh()
    assert (shown(library), found(library)) == (set(), set())


def test_a_side_file_keeps_a_skill_out_of_the_catalog() -> None:
    library = Library.from_files(skill("plain"), skill("quiet", **HIDING))
    catalog = library.catalog(machine=BARE)
    assert catalog.shown == ("plain",)
    assert catalog.withheld == {"quiet": "not for models"}
    assert library.get("quiet").name == "quiet"
    assert "quiet" in found(library, unlisted=True)


@pytest.mark.each("query", ["widgets", "quiet", "/quiet"])
def test_a_side_file_keeps_a_skill_from_being_found_by_models(query: str) -> None:
    library = Library.from_files(skill("plain"), skill("quiet", **HIDING))
    assert "quiet" not in found(library, query)


def test_a_catalog_does_not_count_what_a_side_file_hides() -> None:
    library = Library.from_files(skill("quiet", **HIDING), *(skill(f"widget-{number}") for number in range(200)))
    catalog = library.catalog(2_000, query="widgets", machine=BARE)
    assert len(catalog.shown) + catalog.left_out == 200


def test_a_side_file_that_is_added_later_keeps_a_skill_from_being_found(
    tmp_path: Path, write_skill: Callable[..., Path]
) -> None:
    write_skill(tmp_path / "quiet", description="Polishes widgets.")
    library = Library.from_folder(tmp_path)
    assert found(library) == {"quiet"}
    (tmp_path / "quiet" / "agents").mkdir()
    (tmp_path / "quiet" / "agents" / "openai.yaml").write_text(HIDING["agents/openai.yaml"])
    library.refresh()
    assert shown(library) == set()
    assert found(library) == set()


def hidden_for_want_of_a_description() -> Library:
    source = MemorySource.of({"SKILL.md": "---\nname: nameless\n---\nRub the widgets until they shine.\n"})
    return Library([Place(layer="project", source=source, on_missing_description="hide")], cache=False)


def test_an_undescribed_skill_of_an_untrusted_place_is_not_in_the_catalog() -> None:
    library = hidden_for_want_of_a_description()
    assert library.catalog().withheld == {"nameless": "not for models"}
    assert found(library, unlisted=True) == {"nameless"}


def test_an_undescribed_skill_of_an_untrusted_place_is_not_found_by_models() -> None:
    assert found(hidden_for_want_of_a_description()) == set()


@pytest.mark.each(
    ("fields", "reason"),
    [
        ("requires: {bins: [no-such]}\n", "missing bins: no-such"),
        ("requires: {anyBins: [no-such, nor-this]}\n", "missing any-bins: no-such, nor-this"),
        ("requires: {env: [NO_SUCH]}\n", "missing env: NO_SUCH"),
        ("platforms: [macos]\n", "missing os: darwin"),
        ('metadata: \'{"openclaw": {"requires": {"bins": ["no-such"]}}}\'\n', "missing bins: no-such"),
    ],
)
def test_a_skill_that_cannot_work_here_is_withheld_with_the_reason(fields: str, reason: str) -> None:
    library = Library.from_files(skill("plain"), skill("needy", fields))
    assert library.catalog(machine=BARE).withheld == {"needy": reason}
    assert (shown(library), found(library)) == ({"plain"}, {"plain"})
    assert found(library, unlisted=True) == {"plain", "needy"}
    assert library.document("needy").body


@pytest.mark.each("kind", ["tools", "mcp"])
def test_what_only_the_agent_knows_withholds_a_skill_when_it_says_so(kind: str) -> None:
    library = Library.from_files(skill("needy", f"requires: {{{kind}: [rube]}}\n"))
    lacking = Machine(environment={"PATH": ""}, tools=[], mcp=[])
    having = Machine(environment={"PATH": ""}, tools=["rube"], mcp=["rube"])
    for machine, names in ((BARE, {"needy"}), (lacking, set()), (having, {"needy"})):
        assert shown(library, machine) == found(library, machine=machine) == names


def test_servers_of_a_side_file_withhold_a_skill() -> None:
    beside = {"agents/openai.yaml": "dependencies: {tools: [{type: mcp, value: linear}]}\n"}
    library = Library.from_files(skill("needy", **beside))
    lacking = Machine(environment={"PATH": ""}, mcp=[])
    assert library.catalog(machine=lacking).withheld == {"needy": "missing mcp: linear"}
    assert found(library, machine=lacking) == set()


def test_a_skill_is_found_once_what_it_needs_is_there(tmp_path: Path, write_skill: Callable[..., Path]) -> None:
    write_skill(tmp_path / "skills" / "needy", description="Polishes widgets.", more="requires: {bins: [late]}\n")
    library = Library.from_folder(tmp_path / "skills")
    bins = tmp_path / "bin"
    bins.mkdir()
    assert found(library, machine=Machine(environment={"PATH": str(bins)})) == set()
    program = bins / ("late.bat" if os.name == "nt" else "late")
    program.write_text("exit 0")
    program.chmod(0o755)
    there = Machine(environment={"PATH": str(bins)})
    assert shown(library, there) == found(library, machine=there) == {"needy"}


def test_this_machine_is_meant_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library.from_files(skill("needy", "requires: {env: [NEEDED_HERE]}\n"))
    monkeypatch.delenv("NEEDED_HERE", raising=False)
    assert (library.catalog().shown, library.search("widgets")) == ((), [])
    monkeypatch.setenv("NEEDED_HERE", "1")
    assert library.catalog().shown == ("needy",)
    assert [result.name for result in library.search("widgets")] == ["needy"]


def test_an_allow_list_restricts_what_is_shown_and_found(library: Library) -> None:
    allowed = ["plain", "deploy", "gone"]
    assert library.catalog(names=allowed).shown == ("plain",)
    assert [result.name for result in library.search("widgets", names=allowed)] == ["plain"]
    unlisted = library.search("widgets", names=allowed, include_unlisted=True)
    assert {result.name for result in unlisted} == {"plain", "deploy"}
    assert (library.catalog(names=[]).text, library.search("widgets", names=[])) == ("", [])


def test_what_is_not_on_the_allow_list_is_not_said_to_be_withheld(library: Library) -> None:
    assert library.catalog(names=["plain"]).withheld == {}


def test_many_skills_that_need_one_thing_are_all_withheld() -> None:
    library = Library.from_files(
        *(skill(f"needy-{number}", "requires: {env: [NO_SUCH]}\n") for number in range(100)),
        *(skill(f"plain-{number}") for number in range(100)),
    )
    catalog = library.catalog(2_000, query="widgets", machine=BARE)
    assert catalog.rung == "chosen"
    assert all(name.startswith("plain-") for name in catalog.shown)
    assert len(catalog.shown) + len(catalog.named) + catalog.left_out == 100
    assert len(catalog.withheld) == 100
    assert all(name.startswith("plain-") for name in found(library))
