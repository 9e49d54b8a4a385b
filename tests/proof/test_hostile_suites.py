"""Suites, records and folders of strangers: they end as a note, a failure or a refusal, and in bounded time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from metier.guard.tool_rules import calls
from metier.proof import subject, suite_files
from metier.proof.budget import TrialBudget
from metier.proof.improvement import compare
from metier.proof.recordings import Recording, write_recording
from metier.proof.replay import Replay
from metier.proof.runner import TestSettings, test_skills
from metier.proof.scripts import run_scripts
from metier.proof.subject import subject_of
from metier.proof.suite import ScriptCase, Suite
from metier.proof.suite_format import MAX_CASES
from metier.proof.suite_reader import read_suite
from metier.proof.text_match import strict_json
from metier.run.selection import AutoRunner
from metier.scan.pack_yaml import YamlProblem
from metier.skill import MemoryPackage
from metier.skill.package import Files, files_of
from metier.testing import library, skill

SKILL = b"---\nname: odd\ndescription: Odd.\n---\nDo it."
HUGE = "0x" + "f" * 6_000
sandboxed = pytest.mark.skipif(not AutoRunner().capabilities().isolates_files, reason="there is no sandbox here")


def suite_of(content: object, path: str = "evals/suite.json", files: Mapping[str, bytes] | None = None) -> Suite:
    text = content if isinstance(content, str) else json.dumps(content)
    return read_suite(MemoryPackage({"SKILL.md": SKILL, path: text.encode(), **(files or {})}))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("evals/suite.yaml", f"scripts: [{{id: {HUGE}, script: a.py}}]"),
        ("evals/suite.yaml", f"scripts: [{{script: a.py, args: [{HUGE}]}}]"),
        ("evals/suite.yaml", f"scripts: [{{script: a.py, assertions: [{{exit: {HUGE}}}]}}]"),
        ("evals/suite.json", json.dumps({"scripts": [{"script": "a.py", "assertions": [{"seconds": 10**400}]}]})),
        ("evals/evals.yaml", f"evals: [{{id: {HUGE}, prompt: Do it.}}]"),
        ("evals/evals.yaml", f"evals: [{{prompt: Do it., must_contain: [{HUGE}]}}]"),
    ],
)
def test_a_number_without_end_is_a_problem_of_the_suite(path: str, text: str) -> None:
    found = suite_of(text, path)
    assert [note.message for note in found.notes if note.is_error] == ["It has a number that is too large."]
    assert not (found.scripts or found.behaviour)


def test_a_file_in_which_no_line_can_be_told_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def read(data: bytes) -> Any:
        tried.append(data)
        raise YamlProblem("has too many entries for one file", 1)

    monkeypatch.setattr(suite_files, "read_yaml", read)
    found = suite_of({"scripts": [{"bad": number} for number in range(500)]})
    assert len(found.notes) <= suite_files.MAX_NOTES + 1
    assert len(tried) == 1


@pytest.mark.parametrize("names", [{f"f{n}": "" for n in range(3_000)}, [f"f{n}" for n in range(3_000)]])
def test_a_case_with_countless_files_is_left_out(names: object) -> None:
    found = suite_of({"scripts": [{"script": "a.py", "files": names}, {"script": "a.py"}]})
    assert len(found.scripts) == 1
    assert (found.notes[0].at, found.notes[0].is_error) == ("scripts.0.files", True)


@pytest.mark.parametrize("path", ["a" * 300, "/".join(["ab"] * 1_000)])
def test_a_file_of_a_name_that_no_disk_holds_is_a_problem_of_its_case(path: str) -> None:
    found = suite_of({"scripts": [{"script": "a.py", "files": {path: "x"}}]})
    assert "is too long" in found.notes[0].message


def test_of_countless_cases_only_so_many_are_made_and_the_rest_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    case = {"prompt": "Do it.", "should_trigger": True}
    more = {f"evals/{n}.suite.json": json.dumps({"routing": [case] * MAX_CASES}).encode() for n in range(5)}
    found = suite_of({"routing": [case] * (MAX_CASES * 5)}, files=more)
    assert len(found.routing) == MAX_CASES
    assert [note.message for note in found.notes if note.is_error] == [
        "There are more than 2,000 cases: the others are left out."
    ]
    assert set(more) <= set(found.files)


def test_a_key_that_stands_twice_in_large_json_is_found_at_once() -> None:
    keys = ", ".join(f'"k{number}": 1' for number in range(200_000))
    begin = time.process_time()
    with pytest.raises(ValueError, match="'k199999' twice"):
        strict_json(f'{{{keys}, "k199999": 2}}')
    assert time.process_time() - begin < 20  # in the square of its keys it would be hours


def test_the_links_of_a_path_are_followed_only_if_a_system_could_open_it(monkeypatch: pytest.MonkeyPatch) -> None:
    followed: list[str] = []

    def real_path(path: str) -> str:
        followed.append(path)
        return path

    monkeypatch.setattr(calls, "real_path", real_path)
    arguments = {"file_path": "../" * 300_000 + "w/s/scripts/run.py"}
    assert calls._script(arguments, "/w", ("/w/s/scripts/run.py",))
    assert calls._script({"file_path": "a/" * 300_000}, "/w", ("/w/s/scripts/run.py",)) is None
    assert all(len(path) <= 4_096 for path in followed)


def test_a_skill_that_this_disk_cannot_hold_fails_alone() -> None:
    among = library(skill("fine"), skill("odd", files={"a" * 300: "x"}))
    report = test_skills(among, list(among), TestSettings(tiers=("form",)))
    assert {one.name: one.verdict for one in report.skills} == {"fine": "passed", "odd": "failed"}


def test_a_change_whose_form_cannot_be_checked_is_worse() -> None:
    (entry,) = library(skill("pdf"))
    files = files_of(entry.package)
    found = compare(library(), "pdf", files, {**files, "a" * 300: ("file", b"x")})
    assert "form valid" in found.worse


def test_a_suite_is_that_of_the_digest_though_the_folder_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict, weak = (f"rules: [{{tool: Bash, expect: {outcome}}}]" for outcome in ("deny", "allow"))
    entry = library(skill("pdf", files={"evals/suite.yaml": strict}), into=tmp_path).get("pdf")
    place = Path(entry.location).parent / "evals" / "suite.yaml"

    def read(*given: Any) -> Files:
        found = files_of(*given)
        place.write_text(weak)
        return found

    monkeypatch.setattr(subject, "files_of", read)
    with subject_of(entry) as found:
        assert [case.expect for case in found.suite.rules] == ["deny"]
    assert place.read_text() == weak


def budgets() -> Iterator[float]:
    yield 0.0
    while True:
        yield 100.0


@sandboxed
def test_no_script_begins_when_the_time_is_over() -> None:
    times = budgets()
    budget = TrialBudget(seconds=10, clock=lambda: next(times))
    entry = library(skill("pdf", files={"scripts/a.py": "print(1)"})).get("pdf")
    with subject_of(entry, Suite(scripts=(ScriptCase(id="1", script="scripts/a.py"),))) as found:
        (case,) = run_scripts(found, budget).cases
    assert (case.verdict, case.reason) == ("skipped", "budget: The time is over.")


def test_nothing_is_made_where_a_link_leads_that_stands_for_the_folder_of_recordings(tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf" / "evals").symlink_to(elsewhere)
    with pytest.raises(Exception, match="behind a link"):
        write_recording(tmp_path / "pdf", Recording(case="a", arm="with", model="m", trials=()))
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("event", [[], {}, [["load"]], 3, None])
def test_a_record_whose_event_is_no_word_is_passed_over(event: object) -> None:
    assert list(Replay(library("greet")).run([(1, {"session": "s", "event": event})])) == []
