"""Our own format of suites: read whole, and every mistake named with its place."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from metier.proof.suite import Assertion, Suite, TextMatch
from metier.proof.suite_format import MAX_CASES
from metier.proof.suite_reader import MAX_FILES, is_suite, read_suite
from metier.proof.suite_schema import schema
from metier.skill import MemoryPackage

WHOLE = """
version: 1
skill: csv-analyst
max_tokens: 900
routing:
  - prompt: Which columns does sales.csv have?
    should_trigger: true
    top: 2
  - {query: Book a table, should_trigger: false}
scripts:
  - id: peek
    script: scripts/peek.py
    args: [sales.csv, 3]
    files: {sales.csv: "a,b", more: {from: evals/files/data}}
    env: {LEVEL: 2}
    now: 2026-01-31T12:00:00Z
    assertions:
      - {exit: 0, stdout: 2 columns}
      - stdout: {regex: '^\\d+', excludes: [error], json: {rows.0.total: 12}}
      - file: {path: out.csv, contains: total}
      - no-file: tmp.csv
      - unchanged: sales.csv
      - changed-only: out.csv
rules:
  - {tool: Bash, arguments: {command: git tag v1}, expect: deny}
evals:
  - name: columns
    prompt: Which columns?
    expected_output: Two.
    files: [sales.csv, evals/files/data]
    mocks:
      - {tool: Bash, arguments: {command: {regex: ^curl}}, result: {rows: []}}
      - {tool: find, function: 'mocks.py:find'}
    mcp: {crm: {tools: {find: {result: none}}}, web: {from: web.yaml}}
    assertions:
      - answer: [a, 12]
      - called: {tool: Bash, arguments: {command: peek}}
      - not-called: Write
      - {skill-read: true, tokens: 2000, seconds: 60, judge: It is short.}
      - The tone is kind.
    expectations: [It says why.]
    steps: [{calls: [{tool: skills_load, arguments: {skills: [csv-analyst]}}]}, {say: a and 12}]
calibration:
  - {sentence: It is short., answer: No., holds: true}
"""
FILES = {
    "evals/files/sales.csv": "a,b\n",
    "evals/files/data/x.csv": "x",
    "evals/files/data/deep/y.csv": "y",
    "evals/mocks.py": "def find(arguments): return 1\n",
    "evals/web.yaml": "tools: {get: {error: closed}}",
}


def suite_of(text: str, path: str = "evals/suite.yaml", **files: str) -> Suite:
    return read_suite(MemoryPackage({"SKILL.md": "---\nname: csv-analyst\n---\n", path: text, **FILES, **files}))


def messages(suite: Suite) -> list[str]:
    return [f"{note.line}:{note.at}: {note.message}" for note in suite.notes]


def test_a_suite_is_read_whole() -> None:
    suite = suite_of(WHOLE)
    assert suite.notes == ()
    assert (suite.skill, suite.max_tokens) == ("csv-analyst", 900)
    assert [(one.should_trigger, one.top) for one in suite.routing] == [(True, 2), (False, 3)]
    assert [one.id for one in suite.routing] == [one.prompt for one in suite.routing]
    [script], [rule], [case], [known] = suite.scripts, suite.rules, suite.behaviour, suite.calibration
    assert script.args == ("sales.csv", "3")
    assert script.environment.files == {"sales.csv": b"a,b", "more/x.csv": b"x", "more/deep/y.csv": b"y"}
    assert (script.environment.env, script.environment.now) == ({"LEVEL": "2"}, "2026-01-31T12:00:00+00:00")
    assert [one.kind for one in script.assertions] == [
        *("exit", "stdout", "stdout", "file", "no-file", "unchanged", "changed-only")
    ]
    assert script.assertions[2].match == TextMatch(regex=(r"^\d+",), excludes=("error",), json={"rows.0.total": 12})
    assert (rule.tool, rule.expect) == ("Bash", "deny")
    assert case.environment.files == {"sales.csv": b"a,b\n", "data/x.csv": b"x", "data/deep/y.csv": b"y"}
    assert [(one.tool, one.result, one.function) for one in case.environment.mocks] == [
        ("Bash", '{"rows": []}', ""),
        ("find", "", "evals/mocks.py:find"),
    ]
    assert [(one.tool, one.error) for one in case.environment.mcp["web"]] == [("get", "closed")]
    assert case.assertions[0] == Assertion(kind="answer", match=TextMatch(contains=("a", "12")))
    assert [one.target for one in case.assertions if one.kind == "text"] == ["The tone is kind.", "It says why."]
    assert case.steps[0].calls == (("skills_load", {"skills": ["csv-analyst"]}),)
    assert known.holds
    assert set(suite.files) == {"evals/suite.yaml", *FILES}


def test_an_evals_json_under_another_name_is_a_suite_of_ours() -> None:
    text = {
        "skill_name": "csv-analyst",
        "evals": [{"id": 1, "prompt": "Go.", "expected_output": "x", "files": [], "expectations": ["It goes."]}],
    }
    suite = suite_of(json.dumps(text), "evals/suite.json")
    assert suite.notes == ()
    assert suite.skill == "csv-analyst"
    assert [(one.id, one.assertions[0].target) for one in suite.behaviour] == [("1", "It goes.")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("routing:\n- prompt: a\n  should_triger: true", "3:routing.0.should_triger: There is no key"),
        ("routing:\n- prompt: a\n  should_triger: true", "Did you mean 'should_trigger'?"),
        ("evals:\n- id: 1", "2:evals.0: `prompt` is missing."),
        ("evals:\n- prompt: a\n  steps: [{say: no}]", "It must be a text, not false."),
        ("rules:\n- {tool: Bash, expect: refuse}", "write one of allow, ask, deny"),
        ("rules: {}", "`rules` is a list of cases."),
        ("evls: []", "Did you mean 'evals'?"),
        ("- a", "A suite is a mapping"),
        ("a: [", "It is no YAML"),
        ("a: *b", "write it out"),
        ("evals:\n- {prompt: a, assertions: [{answer: {regex: '(?=a)b'}}]}", "is no regular expression without"),
        ("evals:\n- {prompt: a, files: [nowhere.csv]}", "There is no file 'nowhere.csv'"),
        ("evals:\n- {prompt: a, files: [../../etc/passwd]}", "leaves the skill"),
        ("evals:\n- {prompt: a, files: {/etc/x: a}}", "leaves the skill"),
        ("evals:\n- {prompt: a, files: {x: a, x/y: b}}", "is a file and a folder at once"),
        ("evals:\n- {prompt: a, assertions: [{file: ../x}]}", "leaves the skill"),
        ("evals:\n- {prompt: a, now: soon}", "is no moment"),
        ("evals:\n- {prompt: a, now: .nan}", "a value that JSON does not have"),
        ("version: 2", "1 was expected"),
    ],
)
def test_a_mistake_is_noted_with_its_place(text: str, message: str) -> None:
    suite = suite_of(text)
    assert any(message in one for one in messages(suite)), messages(suite)
    assert all(note.is_error and note.path == "evals/suite.yaml" for note in suite.notes)


def test_other_cases_still_count_beside_a_wrong_one() -> None:
    suite = suite_of("evals:\n- {prompt: a}\n- {promt: b}\n- {prompt: c}\nrules:\n- tool: Bash")
    assert [one.prompt for one in suite.behaviour] == ["a", "c"]
    assert len(suite.rules) == len(suite.notes) == 1


def test_several_files_are_one_suite_with_ids_that_are_unique() -> None:
    package = MemoryPackage(
        {
            "evals/a.suite.yaml": "skill: first\nevals: [{id: x, prompt: a}]",
            "evals/b.suite.json": '{"skill": "second", "evals": [{"id": "x", "prompt": "b"}, {"prompt": "c"}]}',
        }
    )
    suite = read_suite(package)
    assert suite.skill == "first"
    assert [one.id for one in suite.behaviour] == ["x", "x (2)", "3"]


def test_a_suite_is_bounded() -> None:
    many = "rules:\n" + "- tool: Bash\n" * (MAX_CASES + 5)
    suite = suite_of(many)
    assert len(suite.rules) == MAX_CASES
    assert any("left out" in note.message for note in suite.notes)
    files = {f"evals/{number}.suite.yaml": "rules: [{tool: Bash}]" for number in range(MAX_FILES + 1)}
    assert len(read_suite(MemoryPackage(files)).rules) == MAX_FILES
    deep = suite_of('{"evals":' + "[" * 100_000, "evals/suite.json")
    assert deep.notes[0].is_error


def test_hostile_names_are_safe_to_print() -> None:
    suite = suite_of('{"evals": [{"prompt": "a", "\\u001b[2Jx": 1, "files": ["a\\u202eb"]}]}', "evals/suite.json")
    assert suite.notes
    assert all(note.message.isprintable() and note.at.isprintable() for note in suite.notes)


def test_every_key_of_the_schema_is_described_and_the_schema_is_one() -> None:
    assert jsonschema_rs.meta.is_valid(schema())
    assert jsonschema_rs.validator_for(schema()).is_valid(json.loads(json.dumps(yaml.safe_load(WHOLE), default=str)))
    for name in ("routing", "script", "rule", "behaviour", "mock", "calibration", "assertion", "match"):
        for key, about in schema()["$defs"][name]["properties"].items():
            target = schema()["$defs"].get(about.get("$ref", "").rpartition("/")[2], {})
            assert about.get("description") or target.get("description"), (name, key)


def test_suites_of_the_bundled_skills_have_no_notes() -> None:
    import metier

    for folder in (Path(metier.__file__).parent / "bundled").iterdir():
        files = {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in folder.rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        }
        suite = read_suite(MemoryPackage(files))
        assert suite.notes == (), folder.name
        assert bool(suite.routing) == any(is_suite(path) for path in files)
