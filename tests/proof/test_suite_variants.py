"""Suites of other tools: each shape of the table is read, and nothing of a file is lost in silence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metier.proof.suite import Assertion, BehaviourCase, Suite, TextMatch
from metier.proof.suite_reader import is_suite, read_suite
from metier.proof.suite_variants import ROLES, TYPES, roles_of
from metier.skill import MemoryPackage


def read(value: Any, path: str = "evals/evals.json", **files: str) -> Suite:
    text = value if isinstance(value, str) else json.dumps(value)
    return read_suite(MemoryPackage({"SKILL.md": "---\nname: ours\ndescription: x\n---\n", path: text, **files}))


def triggers(suite: Suite) -> dict[str, bool]:
    return {one.prompt: one.should_trigger for one in suite.routing}


def only(suite: Suite) -> BehaviourCase:
    [case] = suite.behaviour
    return case


TRIGGERS: list[Any] = [
    [{"query": "yes", "should_trigger": True}, {"query": "no", "should_trigger": False}],
    {
        "skill_name": "ours",
        "evals": [{"prompt": "yes", "shouldTrigger": "yes"}, {"prompt": "no", "shouldTrigger": "no"}],
    },
    {"queries": [{"q": "yes", "should": True}, {"q": "no", "should": False}]},
    {"should_trigger": ["yes"], "should_not_trigger": ["no"]},
    {"positive": [{"prompt": "yes"}], "negative": [{"prompt": "no", "reason": "near"}]},
    {"triggers": {"positive_cases": ["yes"], "near_misses": ["no"]}},
    {"cases": [{"input": "yes", "expected": "trigger"}, {"input": "no", "expected": "no-trigger"}]},
    {
        "cases": [
            {"input": "yes", "expected": {"should_trigger": True}},
            {"input": "no", "expected": {"should_trigger": False}},
        ]
    },
    [{"utterance": "yes", "expected_skill": "ours"}, {"utterance": "no", "expected_skill": None}],
    [{"prompt": "yes", "expected_skill": "ours"}, {"prompt": "no", "expected_skills": ["theirs"]}],
    {"test_cases": [{"user_prompt": "yes", "type": "positive"}, {"user_prompt": "no", "type": "negative"}]},
    {"skills": {"ours": {"positive": ["yes"], "negative": ["no"]}, "theirs": {"positive": ["other"]}}},
]


@pytest.mark.parametrize("value", TRIGGERS)
def test_lists_of_triggers_are_routing_cases(value: Any) -> None:
    suite = read(value, "evals/trigger-evals.json")
    assert triggers(suite) == {"yes": True, "no": False}
    assert suite.behaviour == ()
    assert not any(note.is_error for note in suite.notes)


def test_a_routing_file_may_name_the_skill_that_a_prompt_belongs_to() -> None:
    cases = [
        {"prompt": "yes", "expected": "ours"},
        {"prompt": "no", "expected": "theirs"},
        {"prompt": "x", "expected": None},
    ]
    assert triggers(read({"cases": cases}, "evals/routing.json")) == {"yes": True, "no": False, "x": False}
    assert only(read([cases[0]])).expected_output == "ours"


BEHAVIOUR: list[Any] = [
    {"skill_name": "ours", "evals": [{"id": 1, "prompt": "Go.", "expected_output": "x", "assertions": ["It goes."]}]},
    {"skill": "ours", "cases": [{"id": "1", "input": "Go.", "expected_outcome": "x", "expectations": ["It goes."]}]},
    [{"eval_id": 1, "query": "Go.", "expected_result": "x", "expected_behavior": ["It goes."]}],
    {"test_cases": [{"case_id": "1", "userPrompt": "Go.", "expected": "x", "success_criteria": "It goes."}]},
    {"suites": [{"name": "all", "tests": [{"id": 1, "task": "Go.", "expected_output": "x", "rubric": ["It goes."]}]}]},
    {"id": "1", "execution": {"prompt": "Go."}, "expected_outcome": "x", "criteria": [{"description": "It goes."}]},
    [
        {
            "id": 1,
            "messages": [{"role": "user", "content": "Go."}],
            "expected_output": "x",
            "checks": [{"text": "It goes."}],
        }
    ],
    [
        {
            "id": 1,
            "vars": {"prompt": "Go."},
            "expected_output": "x",
            "assert": [{"type": "other", "description": "It goes."}],
        }
    ],
    [{"id": 1, "prompt": "prompts/go.md", "expected_output": "x", "assertions": [{"name": "n", "check": "It goes."}]}],
]


@pytest.mark.parametrize("value", BEHAVIOUR)
def test_cases_of_behaviour_are_read_from_every_shape(value: Any) -> None:
    case = only(read(value, **{"evals/prompts/go.md": "Go."}))
    assert (case.id, case.prompt, case.expected_output) == ("1", "Go.", "x")
    assert case.assertions == (Assertion(kind="text", target="It goes."),)


def test_yaml_and_lines_of_json_are_read_too() -> None:
    assert len(read('{"prompt": "a"}\n\n{"prompt": "b"}\n', "evals/cases.jsonl").behaviour) == 2
    assert only(read("scenarios:\n- {name: n, prompt: a, timeout: 60}", "evals/eval.yaml")).timeout == 60


def answer(**conditions: Any) -> Assertion:
    return Assertion(kind="answer", match=TextMatch(**conditions))


CHECKS: list[tuple[Any, Assertion]] = [
    ({"type": "contains", "value": "a"}, answer(contains=("a",))),
    ({"type": "contains_all", "values": ["a", "b"]}, answer(contains=("a", "b"))),
    ({"type": "output_contains", "value": "a.b"}, answer(regex=(r"(?i)a\.b",))),
    ({"type": "contains-any", "value": ["a", "b c"]}, answer(regex=("(?i)a|b c",))),
    ({"type": "not_contains", "target": "output", "value": "a"}, answer(excludes=("a",))),
    ({"kind": "output_matches", "pattern": "^a+$"}, answer(regex=("^a+$",))),
    ({"type": "equals", "expected": "a"}, answer(equals="a")),
    ({"contains": "a"}, answer(contains=("a",))),
    ({"type": "file_exists", "path": "out/a.csv"}, Assertion(kind="file", target="out/a.csv", match=TextMatch())),
    (
        {"type": "file_contains", "path": "a", "value": "b"},
        Assertion(kind="file", target="a", match=TextMatch(contains=("b",))),
    ),
    (
        {"type": "contains", "path": "a", "value": "b"},
        Assertion(kind="file", target="a", match=TextMatch(contains=("b",))),
    ),
    ({"type": "file_not_exists", "path": "a"}, Assertion(kind="no-file", target="a")),
    ({"type": "tool_called", "tool": "Bash"}, Assertion(kind="called", target="Bash")),
    ({"type": "tool-not-called", "value": "Bash"}, Assertion(kind="not-called", target="Bash")),
    ({"type": "skill_triggered"}, Assertion(kind="skill-read")),
    ({"type": "llm-rubric", "value": "It is kind."}, Assertion(kind="judge", target="It is kind.")),
    # What code cannot check stays as a sentence.
    ({"type": "regex", "pattern": "(?!a)b", "description": "No a."}, Assertion(kind="text", target="No a.")),
    ({"type": "file_exists", "path": "**/*.md"}, Assertion(kind="text", target="type: file_exists; path: **/*.md")),
    ({"type": "file_exists", "path": "../x", "text": "There is x."}, Assertion(kind="text", target="There is x.")),
    ({"type": "script", "command": ["./x"], "description": "x runs."}, Assertion(kind="text", target="x runs.")),
    ({"text": "It does.", "expected": False}, Assertion(kind="text", target="Must not occur: It does.")),
    ({"uses_tests": True}, Assertion(kind="text", target="uses tests")),
]


@pytest.mark.parametrize(("check", "expected"), CHECKS)
def test_assertions_that_code_can_check_are_checked_by_code(check: Any, expected: Assertion) -> None:
    assert only(read([{"prompt": "a", "assertions": [check]}])).assertions == (expected,)


PARTS: list[tuple[dict[str, Any], list[Assertion]]] = [
    ({"must_contain": ["a", "b"], "must_not_contain": "c"}, [answer(contains=("a", "b")), answer(excludes=("c",))]),
    ({"checks": {"must_contain": ["a"]}}, [answer(contains=("a",))]),
    ({"expected": {"contains_any": ["a", "b"]}}, [answer(regex=("(?i)a|b",))]),
    ({"must_include_one_of": [["a", "b"], ["c"]]}, [answer(regex=("(?i)a|b",)), answer(regex=("(?i)c",))]),
    ({"expect_tools": ["Bash"], "forbidden_tools": [{"name": "Write"}]},
     [Assertion(kind="called", target="Bash"), Assertion(kind="not-called", target="Write")]),
    ({"expected_files": ["a.csv"]}, [Assertion(kind="file", target="a.csv", match=TextMatch())]),
    ({"fail_conditions": ["It asks."]}, [Assertion(kind="text", target="Must not occur: It asks.")]),
    ({"expectedMode": "fast"}, [Assertion(kind="text", target="expected mode: fast")]),
    ({"quality_criteria": {"cites": "It names sources."}}, [Assertion(kind="text", target="cites: It names sources.")]),
]  # fmt: skip


@pytest.mark.parametrize(("part", "expected"), PARTS)
def test_parts_of_a_case_become_assertions(part: dict[str, Any], expected: list[Assertion]) -> None:
    suite = read([{"prompt": "a", **part}])
    assert list(only(suite).assertions) == expected
    assert suite.notes == ()


@pytest.mark.parametrize(
    "files",
    [
        ["evals/files/a.csv"],
        ["a.csv"],
        "a.csv",
        {"a.csv": "x"},
        {"a.csv": {"content": "x"}},
        [{"path": "a.csv", "content": "x"}],
        [{"path": "a.csv", "source": "files/a.csv"}],
        [{"name": "a.csv", "from": "../evals/files/a.csv"}],
        [{"path": "evals/files/a.csv"}, "a.csv"],
    ],
)
def test_files_of_a_case_are_found(files: Any) -> None:
    suite = read([{"prompt": "a", "files": files}], **{"evals/files/a.csv": "x"})
    assert only(suite).environment.files.get("a.csv") == b"x"
    assert suite.notes == ()


def test_a_case_with_both_is_of_routing_and_of_behaviour() -> None:
    suite = read([{"prompt": "a", "should_trigger": True, "assertions": ["It goes."]}])
    assert triggers(suite) == {"a": True}
    assert only(suite).assertions


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ([{"prompt": "a", "colour": "red"}], "0.colour"),
        ([{"prompt": "a", "assertions": [{"text": "b", "weight": 2}]}], "0.assertions.0.weight"),
        ([{"query": "a", "should_trigger": False, "assertions": ["b"]}], "0.assertions"),
        ({"evals": [{"prompt": "a"}], "threshold": 0.9}, "threshold"),
        ({"evals": [{"prompt": "a"}], "results": [{"prompt": "b", "pass": True}]}, "results"),
        ([{"prompt": "a", "files": [3]}], "0.files"),
        ([{"turns": ["a", "b"], "assertions": ["c"]}], "0"),
        ([{"prompt": "a", "should_trigger": 7}], "0"),
        ({"skills": {"ours": [{"prompt": "a"}], "theirs": [{"prompt": "b"}]}}, "skills.theirs"),
    ],
)
def test_parts_that_are_not_used_are_noted_with_their_place(value: Any, at: str) -> None:
    suite = read(value)
    assert at in [note.at for note in suite.notes]
    assert not any(note.is_error for note in suite.notes)


def test_the_same_part_of_many_cases_is_noted_once() -> None:
    suite = read([{"prompt": str(number), "colour": "red"} for number in range(50)])
    [note] = suite.notes
    assert note.message == "'colour' is not used, here and in 49 other places."
    assert (note.path, note.at) == ("evals/evals.json", "0.colour")


def test_a_missing_file_and_broken_json_are_errors() -> None:
    missing = read([{"prompt": "a", "files": ["nowhere.csv"]}])
    assert [note.is_error for note in missing.notes] == [True]
    assert only(missing).prompt == "a"
    assert read('{"evals": [').notes[0].is_error


def test_only_files_with_tests_are_read() -> None:
    assert all(map(is_suite, ("evals/evals.json", "eval/cases.yaml", "tests/evals.json", "evals/one/case.yaml")))
    others = ("evals/results.json", "package.json", "evals/files/a.json", "scripts/eval.py", "assets/evals.json")
    assert not any(map(is_suite, others))
    assert read('{"colour": "red"}', "evals/web.json") == read("[1]", "evals/other.yaml")


def test_the_table_has_a_role_for_each_key_and_a_meaning_for_each_type() -> None:
    assert all(roles_of(key.title().replace("_", "")) == roles for key, roles in ROLES.items() if not key[-1].isdigit())
    for name in TYPES:
        suite = read([{"prompt": "a", "assertions": [{"type": name, "value": "x", "path": "y"}]}])
        assert [one.kind for one in only(suite).assertions] != ["text"], name


KEYS = st.sampled_from([*sorted(ROLES), "colour", "", "\ud800", "\x1b[2J", "type", "value", "path", "content", "role"])
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8),
    st.sampled_from(["Go.", "ours", "trigger", "contains", "regex", "(a+)+$", "../x", "/etc/passwd", "a.md", "\ud800"]),
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=25,
)
SHAPES = st.sampled_from([*TRIGGERS, *BEHAVIOUR, [{"prompt": "a", "assertions": [check for check, _ in CHECKS]}]])


def replaced(value: Any, number: int, other: Any) -> Any:
    """A shape in which one part is another."""
    if number <= 0 or not isinstance(value, list | dict) or not value:
        return other
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[number % len(keys)]
    inner = replaced(value[key], number // len(keys), other)
    if isinstance(value, dict):
        return {**value, key: inner}
    return [*value[:key], inner, *value[key + 1 :]]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(SHAPES, st.integers(0, 3_000), VALUES)
def test_any_change_of_a_shape_is_read_or_noted(shape: Any, number: int, other: Any) -> None:
    value = replaced(shape, number, other)
    for path in ("evals/evals.json", "evals/trigger-evals.json", "evals/suite.json"):
        suite = read(json.dumps(value), path)
        assert suite.routing or suite.behaviour or suite.notes
        assert all(note.message.isprintable() and note.at.isprintable() for note in suite.notes)
        repr(suite).encode()
        assert len({case.id for case in suite.behaviour}) == len(suite.behaviour)


@given(st.binary(max_size=200), st.sampled_from(["evals.json", "evals.yaml", "cases.jsonl", "suite.yaml"]))
def test_any_bytes_are_read_or_noted(data: bytes, name: str) -> None:
    suite = read_suite(MemoryPackage({f"evals/{name}": data}))
    assert suite.notes or suite.routing or suite.behaviour or name == "suite.yaml"
