"""Skills that need others: ranges, sources, and conflicts in words."""

from __future__ import annotations

import pytest

from metier.errors import RequirementsConflict, SkillInvalid
from metier.hub import resolution
from metier.hub.resolution import with_requirements
from metier.hub.sources.fetch import Candidate
from metier.library.lock_file import LockedSkill
from metier.skill import parse


def candidate(name: str, version: str = "", requires: str = "", *, folder: str = "", yanked: str = "") -> Candidate:
    fields = f"version: '{version}'\n" if version else ""
    fields += f"requires: {requires}\n" if requires else ""
    text = f"---\nname: {name}\ndescription: Does {name}.\n{fields}---\nDo.\n".encode()
    path = f"{folder or name}-{version}"
    return Candidate(
        folder=folder or name,
        path=path,
        skill_file=lambda: text,
        files=lambda: {"SKILL.md": ("file", text)},
        yanked=yanked,
    )


def locked(name: str, version: str = "", source: str = "git+https://example.com/other") -> LockedSkill:
    return LockedSkill(
        name=name, folder=f".metier/skills/{name}", digest="sha256:" + "0" * 64, version=version, source=source
    )


REPORT = candidate("report", "1.0", "[pdf-forms>=1.2,<2, csv]")
CSV = candidate("csv")
PDF = [candidate("pdf-forms", version) for version in ("1.0", "1.9", "1.10", "2.0")]


def names(found: list[Candidate]) -> list[str]:
    return [one.path for one in found]


def test_what_a_skill_needs_comes_before_it_in_the_newest_version_that_fits() -> None:
    found, notes = with_requirements([REPORT], [REPORT, CSV, *PDF])
    assert (names(found), notes) == (["pdf-forms-1.10", "csv-", "report-1.0"], [])
    assert found[0].notes == ("Needed by report.",)
    assert found[-1].notes == ()


@pytest.mark.covers("A-37")
def test_a_version_that_was_withdrawn_is_not_chosen() -> None:
    withdrawn = candidate("pdf-forms", "1.10", yanked="It loses forms.")
    found, _ = with_requirements([REPORT], [REPORT, CSV, *PDF[:2], withdrawn])
    assert names(found)[0] == "pdf-forms-1.9"


def test_what_is_installed_and_fits_is_not_added_again() -> None:
    found, notes = with_requirements([REPORT], [REPORT], [locked("pdf-forms", "1.5"), locked("csv")])
    assert (names(found), notes) == (["report-1.0"], [])


def test_needs_of_needs_are_added_and_a_circle_ends() -> None:
    one, two, three = candidate("a", "", "[b]"), candidate("b", "", "[c]"), candidate("c", "", "[a]")
    assert names(with_requirements([one], [one, two, three])[0]) == ["c-", "b-", "a-"]


def test_a_conflict_is_explained_in_words() -> None:
    report, invoice = candidate("report", "", "[pdf-forms>=2]"), candidate("invoice", "", "'pdf-forms<2'")
    with pytest.raises(RequirementsConflict) as conflict:
        with_requirements([report, invoice], [report, invoice, *PDF])
    text = conflict.value.message
    assert "report needs pdf-forms>=2" in text
    assert "but invoice needs pdf-forms<2" in text or "invoice needs pdf-forms<2, but" in text
    assert "2.0 and 1.10 and 1.9 and 1.0 of 'pdf-forms'" in text


def test_a_range_that_nothing_here_is_in_is_a_conflict() -> None:
    report = candidate("report", "", "[pdf-forms>=3]")
    with pytest.raises(RequirementsConflict, match=r"report needs pdf-forms>=3; there is 2\.0"):
        with_requirements([report], [report, *PDF])
    with pytest.raises(RequirementsConflict, match="no version"):
        with_requirements([candidate("x", "", "[csv>=1]")], [CSV])


def test_a_skill_that_is_nowhere_is_a_note_and_no_error() -> None:
    found, notes = with_requirements([REPORT], [REPORT, *PDF])
    assert names(found) == ["pdf-forms-1.10", "report-1.0"]
    assert notes == ["report needs 'csv', which neither the source has nor is installed."]


def test_a_skill_of_another_package_is_not_the_one_that_is_needed() -> None:
    needs = candidate("x", "", "[csv@acme/skills]")
    here = locked("csv", source="git+https://github.com/acme/skills")
    assert names(with_requirements([needs], [needs, CSV], [here], source="git+https://github.com/other/repo")[0]) == [
        "x-"
    ]
    with pytest.raises(RequirementsConflict):
        with_requirements([needs], [needs, CSV], source="git+https://github.com/other/repo")


@pytest.mark.each("text", ["[a>=]", "['a>=x y']", "['a=>1']"])
def test_a_requirement_that_cannot_be_understood_is_an_error(text: str) -> None:
    broken = candidate("x", "", text)
    with pytest.raises(SkillInvalid, match="no requirement"):
        with_requirements([broken], [broken])


@pytest.mark.each(
    ("written", "read"),
    [
        ("[pdf-forms>=1.2,<2, csv]", ("pdf-forms>=1.2,<2", "csv")),
        ("pdf-forms>=1.2,<2, csv", ("pdf-forms>=1.2,<2", "csv")),
        ("[csv, pdf]", ("csv", "pdf")),
        ("csv", ("csv",)),
        ("['pdf >=1, <2']", ("pdf >=1, <2",)),
    ],
)
def test_ranges_are_read_from_lists_and_from_text(written: str, read: tuple[str, ...]) -> None:
    text = f"---\nname: x\ndescription: Does x.\nrequires: {written}\n---\nDo.\n"
    assert parse(text.encode(), folder="x").skill.requires == read


def test_a_source_whose_skills_need_each_other_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step keeps all before it: a source of some thousands would take minutes, and more memory than there is."""
    assert resolution._MOST_ROUNDS <= 1_000
    monkeypatch.setattr(resolution, "_MOST_ROUNDS", 20)
    chain = [candidate(f"s{number}", requires=f"[s{number + 1}]") for number in range(40)]
    with pytest.raises(RequirementsConflict, match="too many others"):
        with_requirements([chain[0]], chain)
    assert len(with_requirements(chain[25:], chain)[0]) == 15


def test_a_skill_that_needs_hundreds_of_others_is_refused_before_they_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each step looks at all that is needed: ten thousand names took most of a minute."""
    assert resolution._MOST_NEEDED <= 500
    monkeypatch.setattr(resolution, "_MOST_NEEDED", 20)
    names = [f"s{number}" for number in range(40)]
    with pytest.raises(RequirementsConflict, match="too many others"):
        with_requirements([candidate("all", requires=f"[{', '.join(names)}]")], [])
    assert len(with_requirements([candidate("few", requires=f"[{', '.join(names[:20])}]")], [])[1]) == 20
