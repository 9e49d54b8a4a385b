"""`metier list`."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., tuple[int, str, str]]
Write = Callable[..., Path]

REQUIRED = {"name", "description", "layer", "source", "location", "digest", "diagnostics"}
REPOSITORY = Path(__file__).parents[2]
SAMPLE = REPOSITORY.parent / "shared/data/skills-sample.jsonl.gz"


def listed(metier: Call, *arguments: str | Path) -> list[dict[str, Any]]:
    code, out, err = metier(*arguments, "--json")
    assert (code, err) == (0, "")
    shapes = json.loads(out)
    assert isinstance(shapes, list)
    return shapes


def test_every_skill_has_its_line_in_a_table(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "beta", description="Does b.")
    write_skill(tmp_path / "alpha", description="Does a.")
    code, out, err = metier("--skills", tmp_path, "list")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "NAME   LAYER    DESCRIPTION",
        "alpha  project  Does a.",
        "beta   project  Does b.",
        "2 skills.",
    ]


def test_json_is_an_array_of_objects_with_the_promised_keys(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    file = write_skill(tmp_path / "alpha", description="Does a: it.")
    (shape,) = listed(metier, "--skills", tmp_path, "list")
    assert set(shape) >= REQUIRED
    assert shape["name"] == "alpha"
    assert shape["description"] == "Does a: it."
    assert shape["layer"] == "project"
    assert shape["source"] == tmp_path.name
    assert shape["location"] == str(file)
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", shape["digest"])
    (found,) = shape["diagnostics"]
    assert set(found) == {"code", "severity", "line", "message", "hint"}
    assert (found["code"], found["severity"], found["line"]) == ("yaml-unquoted-colon", "warning", 3)


def test_the_reference_names_every_key_of_the_json(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha")
    reference = (REPOSITORY / "docs/reference/json.md").read_text(encoding="utf-8")
    described = reference.partition("## `metier list --json`")[2].partition("\n## ")[0]
    (shape,) = listed(metier, "--skills", tmp_path, "list")
    assert [key for key in shape if f'"{key}"' not in described] == []


def test_no_skills_is_an_empty_array(metier: Call, tmp_path: Path) -> None:
    assert listed(metier, "--skills", tmp_path, "list") == []


def test_no_skills_says_what_to_do(metier: Call, tmp_path: Path) -> None:
    code, out, _ = metier("--skills", tmp_path, "list")
    assert code == 0
    assert "metier doctor" in out
    assert "metier new" in out


@pytest.mark.covers("Y-01")
def test_only_folders_with_a_skill_file_are_skills(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "a")
    write_skill(tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "d.txt").write_text("no skill")
    assert [shape["name"] for shape in listed(metier, "--skills", tmp_path, "list", "--all")] == ["a", "b"]


@pytest.mark.parametrize("before", [True, False])
def test_the_folder_may_be_named_before_or_after_the_command(
    metier: Call, write_skill: Write, tmp_path: Path, before: bool
) -> None:
    write_skill(tmp_path / "alpha")
    options = ["--skills", str(tmp_path)]
    arguments = [*options, "list"] if before else ["list", *options]
    assert [shape["name"] for shape in listed(metier, *arguments)] == ["alpha"]


def test_folders_named_before_and_after_are_used_together(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        write_skill(tmp_path / f"place-{number}" / f"skill-{number}")
    places = [f"{tmp_path}/place-{number}" for number in (1, 2, 3)]
    shapes = listed(metier, "--skills", places[0], "list", "--skills", places[1], f"--skills={places[2]}")
    assert [shape["name"] for shape in shapes] == ["skill-1", "skill-2", "skill-3"]


def test_named_folders_are_all_that_is_used(metier: Call, write_skill: Write, own_home: Path, tmp_path: Path) -> None:
    write_skill(own_home / ".agents/skills/mine")
    write_skill(tmp_path / "alpha")
    assert [shape["name"] for shape in listed(metier, "list", "--skills", tmp_path)] == ["alpha"]


def test_a_broken_skill_is_listed_with_its_reason_only_when_all_are_asked_for(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "fine")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "SKILL.md").write_bytes(b"")
    _, out, _ = metier("--skills", tmp_path, "list")
    assert "broken  " not in out
    assert "1 skill. 1 cannot be loaded. `metier list --all` shows them." in out
    code, out, _ = metier("--skills", tmp_path, "list", "--all")
    assert code == 0
    assert re.search(r"^broken +project +\S+ +broken +The file is empty\.$", out, re.MULTILINE)


@pytest.mark.covers("O-98")
def test_a_shadowed_skill_is_listed_with_the_one_that_hides_it(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    strong = write_skill(tmp_path / "one" / "deploy", description="First.")
    weak = write_skill(tmp_path / "two" / "deploy", description="Second.")
    arguments = ("--skills", tmp_path / "one", "--skills", tmp_path / "two", "list")
    assert "1 hidden by another of the same name" in metier(*arguments)[1]
    first, second = listed(metier, *arguments, "--all")
    assert (first["status"], first["location"], first["shadowed_by"]) == ("active", str(strong), None)
    assert (second["status"], second["location"], second["shadowed_by"]) == ("shadowed", str(weak), str(strong))
    assert [found["code"] for found in second["diagnostics"]] == ["shadowed"]


def test_skills_of_a_project_are_marked_until_it_is_trusted(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(tmp_path / ".agents/skills/alpha")
    monkeypatch.chdir(tmp_path)
    _, out, _ = metier("list")
    assert re.search(r"^alpha +project, untrusted ", out, re.MULTILINE)
    assert "`metier trust`" in out
    assert metier("trust")[0] == 0
    _, out, _ = metier("list")
    assert "untrusted" not in out


def test_skills_that_come_with_the_package_are_listed_without_any_setup(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shapes = listed(metier, "list")
    assert "csv-analyst" in [shape["name"] for shape in shapes if shape["layer"] == "plugin"]


def test_an_archive_is_listed_like_a_folder(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "packed" / "alpha")
    archive = shutil.make_archive(str(tmp_path / "skills"), "zip", tmp_path / "packed")
    (shape,) = listed(metier, "--skills", archive, "list")
    assert shape["name"] == "alpha"
    assert shape["location"] == f"{archive}!/alpha/SKILL.md"


def test_a_description_on_several_lines_takes_one_in_the_table(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    write_skill(tmp_path / "alpha", description="|\n  First line.\n\n  Second line.")
    _, out, _ = metier("--skills", tmp_path, "list")
    assert "First line. Second line." in out


def test_a_program_that_reads_gets_the_whole_description(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    description = "word " * 200 + "end."
    write_skill(tmp_path / "alpha", description=description)
    assert description in metier("--skills", tmp_path, "list")[1]


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text here")
def test_a_folder_whose_name_is_no_text_is_listed(metier: Call, tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(folder)
    with open(folder + b"/SKILL.md", "wb") as file:
        file.write(b"---\nname: odd\ndescription: Does it.\n---\nDo it.\n")
    (shape,) = listed(metier, "--skills", tmp_path, "list")
    assert shape["name"] == "odd"
    assert metier("--skills", tmp_path, "list")[0] == 0


def test_a_package_too_large_to_digest_has_no_digest(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    file = write_skill(tmp_path / "alpha")
    with open(file.with_name("huge.bin"), "wb") as huge:
        huge.truncate(1 << 30)
    (shape,) = listed(metier, "--skills", tmp_path, "list")
    assert shape["digest"] is None


def test_an_edit_is_seen_at_the_next_call(metier: Call, write_skill: Write, tmp_path: Path) -> None:
    write_skill(tmp_path / "alpha", description="Old one.")
    assert "Old one." in metier("--skills", tmp_path, "list")[1]
    write_skill(tmp_path / "alpha", description="New one.")
    assert "New one." in metier("--skills", tmp_path, "list")[1]


@pytest.mark.parametrize("when", ["before", "after"])
def test_without_the_cache_nothing_is_kept(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setenv("METIER_CACHE", str(tmp_path / "cache"))
    write_skill(tmp_path / "skills" / "alpha")
    arguments = ["--skills", str(tmp_path / "skills"), "list"]
    arguments.insert(0 if when == "before" else 3, "--no-cache")
    assert metier(*arguments)[0] == 0
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_does_not_matter(
    metier: Call, write_skill: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("METIER_CACHE", str(tmp_path / "file" / "cache"))
    write_skill(tmp_path / "skills" / "alpha")
    assert [shape["name"] for shape in listed(metier, "--skills", tmp_path / "skills", "list")] == ["alpha"]


@pytest.mark.each(
    ("place", "said"),
    [("nowhere", "There is no folder"), ("file", "is not a folder"), ("", "No folder was named")],
)
def test_a_place_that_cannot_be_used_is_wrong_usage(
    metier: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("no folder")
    code, out, err = metier("--skills", place, "list")
    assert (code, out) == (2, "")
    assert said in err
    assert "\nhint: " in err


def test_an_archive_that_is_none_is_a_problem(metier: Call, tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"junk")
    code, out, err = metier("--skills", tmp_path / "bad.zip", "list")
    assert (code, out) == (1, "")
    assert "[archive-refused]" in err
    assert "\nhint: " in err


@pytest.mark.skipif(not SAMPLE.exists(), reason="shared sample is absent")
@pytest.mark.parametrize("count", [75, pytest.param(300, marks=pytest.mark.slow)])
def test_every_skill_of_the_sample_is_listed_and_each_failure_has_a_line(
    metier: Call, tmp_path: Path, count: int
) -> None:
    expected = []
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as rows:
        for number, line in zip(range(count), rows, strict=False):
            row = json.loads(line)
            file = tmp_path / str(number) / row["folder"] / row["file"]
            file.parent.mkdir(parents=True)
            file.write_bytes(row["text"].encode() if "text" in row else base64.b64decode(row["base64"]))
            expected.append(str(file))
    shapes = listed(metier, "--skills", tmp_path, "list", "--all")
    assert sorted(shape["location"] for shape in shapes) == sorted(expected)
    for shape in shapes:
        assert set(shape) >= REQUIRED
        assert shape["digest"] is not None
        if shape["status"] == "broken":
            assert any(found["severity"] == "error" and found["line"] for found in shape["diagnostics"]), shape
        else:
            assert shape["name"]
            assert shape["description"]


@pytest.mark.covers("ACC-3")
def test_what_list_prints_of_each_skill_is_what_show_finds_it_by(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    roots = [tmp_path / "one" / "project", tmp_path / "two" / "project"]
    for root in roots:
        write_skill(root / "x", description=f"In {root.parent.name}.")
        write_skill(root / "deep" / "other", name="x", description=f"In {root.parent.name}, deeper.")
    write_skill(roots[0] / "scoped", description="For ops.", more="scope: {agents: [ops]}\n")
    where = [word for root in roots for word in ("--skills", str(root))]
    _, out, _ = metier(*where, "list", "--all")
    rows = [line.split(maxsplit=4) for line in out.splitlines()[1:-1]]
    assert len({(row[0], row[2]) for row in rows}) == 5
    for name, _, source, status, description in rows:
        options = ("--agent", "ops") if status == "hidden" else ()
        assert ("--agent ops" in description) == (status == "hidden")
        code, shown, err = metier(*where, "show", f"{name}@{source}", *options)
        assert (code, err) == (0, "")
        assert shown.splitlines()[1] == description.rpartition("] ")[2]


@pytest.mark.covers("ACC-5")
def test_a_skill_that_is_being_edited_is_listed_as_it_was_good_and_says_so(
    metier: Call, write_skill: Write, tmp_path: Path
) -> None:
    file = write_skill(tmp_path / "skills" / "alpha", description="Does a.")
    assert metier("--skills", tmp_path / "skills", "list")[0] == 0
    file.write_text("---\nname: alpha\ndescr")
    for _ in range(2):  # each command is a process of its own for whoever types it: the index knows
        _, out, _ = metier("--skills", tmp_path / "skills", "list")
        assert "Does a." in out and "1 being edited" in out
        (shape,) = listed(metier, "--skills", tmp_path / "skills", "list")
        assert (shape["stale"], [found["code"] for found in shape["diagnostics"]]) == (True, ["stale"])
    _, out, _ = metier("--skills", tmp_path / "skills", "list", "--all")
    assert "stale" in out and "never closed" in out
    assert "never closed" in metier("--skills", tmp_path / "skills", "show", "alpha")[1]
    code, _, err = metier("--skills", tmp_path / "skills", "show", "alpha", "--instructions")
    assert (code, "never closed" in err) == (1, True)
    assert "stale" in metier("--skills", tmp_path / "skills", "doctor")[1]


@pytest.mark.covers("ACC-6")
def test_a_quarantine_is_not_counted_as_policy(metier: Call, own_home: Path, write_skill: Write) -> None:
    write_skill(own_home / ".metier/skills/alpha")
    assert metier("quarantine", "add", "alpha", "--reason", "It is bad.")[0] == 0
    _, out, _ = metier("list")
    assert "1 in quarantine" in out and "denied by policy" not in out


def test_a_policy_file_that_cannot_be_used_is_a_warning(
    metier: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("METIER_POLICY", str(tmp_path / "gone.yaml"))
    code, _, err = metier("list")
    assert code == 0 and "A policy file cannot be used." in err and "gone.yaml" in err
