"""Typed fields: lenient about form, precise about what was assumed."""

from __future__ import annotations

from typing import Any

import pytest

from metier.skill import Argument, Execution, Hook, HookGroup, Scope, Skill, canonical_field, parse
from metier.skill.diagnostic import as_text
from metier.skill.fields import FIELD_NAMES, split_tools


def read(fields: str) -> Skill:
    return parse(f"---\nname: a\ndescription: Does it.\n{fields}\n---\nDo it.\n".encode(), folder="a").skill


def codes(skill: Skill) -> list[str]:
    return [note.code for note in skill.diagnostics]


@pytest.mark.covers("O-01", "Y-04")
def test_a_minimal_skill_has_the_defaults() -> None:
    skill = read("")
    expected: dict[str, Any] = {
        "allowed_tools": None,
        "disallowed_tools": (),
        "model": None,
        "context": "inherit",
        "agent": None,
        "hooks": None,
        "user_invocable": True,
        "disable_model_invocation": False,
        "priority": 0,
        "tags": (),
        "requires": (),
        "triggers": (),
        "scope": None,
        "execution": None,
        "execution_mode": "autonomous",
        "max_iterations": None,
        "max_retries_per_tool": None,
        "timeout_per_iteration": None,
        "early_termination": None,
        "arguments": (),
        "argument_hint": None,
        "insert": "instructions",
        "license": None,
        "compatibility": None,
        "metadata": {},
        "extra": {},
        "version": None,
        "when_to_use": None,
        "legacy_large_file": False,
        "diagnostics": (),
    }
    assert {key: getattr(skill, key) for key in expected} == expected


@pytest.mark.covers("O-05")
@pytest.mark.each("field", FIELD_NAMES)
def test_every_field_is_known_in_every_spelling(field: str) -> None:
    words = field.replace("_", "-").split("-")
    spellings = [
        "-".join(words),
        "_".join(words),
        " ".join(words),
        "-".join(words).title(),
        "-".join(words).upper(),
        words[0] + "".join(word.title() for word in words[1:]),
        "".join(word.title() for word in words),
    ]
    assert {canonical_field(spelling) for spelling in spellings} == {field}


@pytest.mark.each(
    ("key", "field"),
    [
        ("user-invokable", "user-invocable"),
        ("args", "arguments"),
        ("trigger", "triggers"),
        ("keywords", "triggers"),
        ("whenToUse", "when_to_use"),
        ("author", None),
        ("", None),
    ],
)
def test_a_misspelt_field_is_understood(key: str, field: str | None) -> None:
    assert canonical_field(key) == field


def test_a_field_under_another_spelling_is_read_with_a_word() -> None:
    skill = read("allowedTools: Read")
    assert skill.allowed_tools == ("Read",)
    assert [(n.code, n.line, n.values) for n in skill.diagnostics] == [
        ("field-alias", 4, ("allowedTools", "allowed-tools"))
    ]


def test_a_field_of_its_own_wins_over_an_alias_after_it() -> None:
    skill = read("allowed-tools: Bash\ntools: Read")
    assert skill.allowed_tools == ("Bash",)
    assert "Read" in skill.extra.values()


def test_a_field_of_its_own_wins_over_an_alias_before_it() -> None:
    skill = read("tools: Read\nallowed-tools: Bash")
    assert skill.allowed_tools == ("Bash",)
    assert "Read" in skill.extra.values()
    assert "field-alias" not in codes(skill)


def test_tools_that_are_no_tool_names_stay_an_unknown_field() -> None:
    skill = read("tools:\n  - name: x\n    url: y")
    assert skill.allowed_tools is None
    assert skill.extra == {"tools": [{"name": "x", "url": "y"}]}


@pytest.mark.covers("G-02")
def test_unknown_fields_are_kept_as_written_without_a_word() -> None:
    skill = read("author: me\nversion: 1.10\ncustom:\n  deep:\n    - {x: 010}")
    assert skill.extra == {"author": "me", "custom": {"deep": [{"x": "010"}]}}
    assert skill.version == "1.10"
    assert skill.diagnostics == ()


@pytest.mark.each("value", ["true", "True", "YES", "on", "1", "'true'", "y"])
def test_true_is_true_in_any_spelling(value: str) -> None:
    assert read(f"disable-model-invocation: {value}").disable_model_invocation is True


@pytest.mark.each("value", ["false", "False", "NO", "off", "0", "'false'", "n"])
def test_false_is_false_in_any_spelling(value: str) -> None:
    assert read(f"user-invocable: {value}").user_invocable is False
    assert read(f"early-termination: {value}").early_termination is False


@pytest.mark.each("value", ["maybe", "2", "[true]", "{a: b}"])
def test_an_unknown_truth_is_ignored_with_a_word(value: str) -> None:
    skill = read(f"user-invocable: {value}")
    assert skill.user_invocable is True
    assert codes(skill) == ["field-value"]


@pytest.mark.covers("O-06")
@pytest.mark.each(
    ("field", "value", "expected"),
    [
        ("max-iterations", "1", 1),
        ("max-iterations", "100", 100),
        ("max-iterations", "0", None),
        ("max-iterations", "101", None),
        ("max-iterations", "many", None),
        ("max-iterations", "1.5", None),
        ("max-iterations", "9" * 5_000, None),
        ("max-iterations", "[1]", None),
        ("max-retries-per-tool", "0", 0),
        ("max-retries-per-tool", "10", 10),
        ("max-retries-per-tool", "-1", None),
        ("max-retries-per-tool", "11", None),
    ],
)
def test_a_number_out_of_range_is_ignored_with_a_word(field: str, value: str, expected: int | None) -> None:
    skill = read(f"{field}: {value}")
    assert getattr(skill, field.replace("-", "_")) == expected
    assert codes(skill) == ([] if expected is not None else ["field-value"])


@pytest.mark.each(("value", "expected"), [("5", 5), ("-3", -3), ("high", 0), ("5000000000", 0)])
def test_a_priority_is_a_whole_number(value: str, expected: int) -> None:
    assert read(f"priority: {value}").priority == expected


TOOLS = ("Bash(git add:*)", "Read", "Write")


@pytest.mark.each(
    "value",
    [
        "Bash(git add:*) Read Write",
        "Bash(git add:*), Read, Write",
        "Bash(git add:*),Read,Write",
        "Bash(git add:*); Read; Write",
        "Bash(git add:*)\uff0cRead\u3001Write",
        "[Bash(git add:*), Read, Write]",
        '["Bash(git add:*)", "Read", "Write"]',
        '\'["Bash(git add:*)", "Read", "Write"]\'',
        "|\n  - Bash(git add:*)\n  - Read\n  - Write",
        "\n  - Bash(git add:*)\n  - Read\n  - Write",
        "\n- 'Bash(git add:*)'\n- Read Write",
        "Bash(git add:*)\n  Read\n  Write",
    ],
)
def test_tool_rules_are_read_in_every_form(value: str) -> None:
    assert read(f"allowed-tools: {value}").allowed_tools == TOOLS


def test_a_rule_given_twice_counts_once() -> None:
    assert read("allowed-tools: Read Read").allowed_tools == ("Read",)
    assert read("allowed-tools: [Read, Read]").allowed_tools == ("Read",)


def test_no_tools_is_not_the_same_as_no_rule() -> None:
    assert read("").allowed_tools is None
    assert read("allowed-tools: []").allowed_tools == ()
    assert read("allowed-tools: ''").allowed_tools == ()
    assert read("allowed-tools:").allowed_tools == ()


@pytest.mark.each(
    ("value", "rules"),
    [
        ("Bash(a, b) mcp__srv__tool mcp__srv__*", ("Bash(a, b)", "mcp__srv__tool", "mcp__srv__*")),
        ("Bash(f(x) y) Read", ("Bash(f(x) y)", "Read")),
        ("Bash(never closed, Read", ("Bash(never closed, Read",)),
        (") Read", (")", "Read")),
        ("Read Read", ("Read",)),
        ("", ()),
        ({"Read": "x", "Write": ""}, ("Read", "Write")),
        ([["x"], "Read"], ("Read",)),
    ],
)
def test_rules_are_split_outside_parentheses(value: Any, rules: tuple[str, ...]) -> None:
    assert split_tools(value) == rules


def test_disallowed_tools_are_read_like_allowed_ones() -> None:
    assert read("disallowed-tools: Write, Bash(rm:*)").disallowed_tools == ("Write", "Bash(rm:*)")


@pytest.mark.covers("G-01")
def test_one_tag_as_text_is_a_list_of_one_with_a_word() -> None:
    skill = read("tags: useful")
    assert skill.tags == ("useful",)
    assert codes(skill) == ["field-as-list"]


@pytest.mark.covers("G-01")
def test_bad_tags_are_dropped_and_duplicates_silently() -> None:
    skill = read("tags: [a, '', {b: c}, a, ' d ']")
    assert skill.tags == ("a", "d")
    assert codes(skill) == ["item-dropped", "item-dropped"]


def test_no_tag_is_ever_empty() -> None:
    assert read("tags: ['\"\"', b]").tags == ("b",)


def test_lists_may_be_written_with_commas() -> None:
    skill = read("tags: a, b\ntriggers: 'when asked, when told'\nrequires: x, y")
    assert (skill.tags, skill.triggers, skill.requires) == (("a", "b"), ("when asked", "when told"), ("x", "y"))


def test_requirements_of_another_kind_are_kept_apart() -> None:
    skill = read("requires: {mcp: [rube]}")
    assert skill.requires == ()
    assert skill.extra["requires"] == {"mcp": ["rube"]}


@pytest.mark.each(
    ("value", "expected"),
    [
        ("{author: me, n: {deep: [1]}}", {"author": "me", "n": {"deep": ["1"]}}),
        ('\'{"author": "me"}\'', {"author": "me"}),
        ("", {}),
    ],
)
def test_metadata_keeps_nested_values(value: str, expected: dict[str, Any]) -> None:
    skill = read(f"metadata: {value}")
    assert skill.metadata == expected
    assert skill.diagnostics == ()


@pytest.mark.each("value", ["some text", "[a, b]", "'{broken'", "'[1]'"])
def test_metadata_that_is_no_map_is_dropped_with_a_word(value: str) -> None:
    skill = read(f"metadata: {value}")
    assert skill.metadata == {}
    assert codes(skill) == ["metadata-not-a-map"]
    assert "metadata" in skill.frontmatter


def test_deep_metadata_in_json_does_not_raise() -> None:
    assert read("metadata: '" + "{" * 5_000 + "'").metadata == {}
    assert read("metadata: '" + '{"a":' * 5_000 + "1" + "}" * 5_000 + "'").name == "a"


def test_a_list_where_text_is_expected_is_joined() -> None:
    skill = read("compatibility:\n  - Linux\n  - macOS\nlicense: {name: MIT}")
    assert skill.compatibility == "Linux, macOS"
    assert skill.license == "name: MIT"
    assert codes(skill) == ["field-joined", "field-joined"]


@pytest.mark.each("hint", ["[topic]", "[issue, number]", "<file>", "[a] [b]"])
def test_an_argument_hint_keeps_its_brackets(hint: str) -> None:
    assert read(f"argument-hint: {hint}").argument_hint == hint


def test_as_text_reads_as_the_author_meant() -> None:
    assert as_text(["a", ["b"], {"c": "d", "e": ""}]) == "a, b, c: d, e"
    assert as_text(3) == "3"


@pytest.mark.covers("G-01")
@pytest.mark.each(
    ("value", "names", "notes"),
    [
        ("topic", ["topic"], ["field-as-list"]),
        ("[topic, _ok, a1_b2]", ["topic", "_ok", "a1_b2"], []),
        ("[[x], topic]", ["topic"], ["item-dropped"]),
        ("[topic, topic]", ["topic"], ["item-dropped"]),
        ("[bad-name, 1abc, bad name, topic]", ["topic"], ["item-dropped"] * 3),
        ("\n- name: topic\n  description: What\n- description: nameless", ["topic"], ["item-dropped"]),
        ("\n  topic: What\n  other:\n    required: true", ["topic", "other"], []),
        ("", [], []),
    ],
)
def test_arguments_are_read_in_every_form(value: str, names: list[str], notes: list[str]) -> None:
    skill = read(f"arguments: {value}")
    assert [argument.name for argument in skill.arguments] == names
    assert codes(skill) == notes


def test_an_argument_has_its_description_default_and_need() -> None:
    skill = read("arguments:\n- name: topic\n  description: ' What '\n  default: none\n  required: yes")
    assert skill.arguments == (Argument(name="topic", description="What", default="none", required=True),)


@pytest.mark.covers("G-01")
@pytest.mark.each(
    ("value", "insert", "notes"),
    [
        ("instructions", "instructions", []),
        ("' User-Message '", "user-message", []),
        ("banner", "instructions", ["field-value"]),
        ("[x]", "instructions", ["field-value"]),
    ],
)
def test_an_unknown_insert_means_instructions(value: str, insert: str, notes: list[str]) -> None:
    skill = read(f"insert: {value}")
    assert skill.insert == insert
    assert codes(skill) == notes


@pytest.mark.covers("O-07")
@pytest.mark.each(("old", "event"), [("pre", "PreToolUse"), ("post", "PostToolUse")])
def test_an_old_hook_is_read_as_a_new_one(old: str, event: str) -> None:
    skill = read(f"hooks:\n  {old}: run.sh")
    assert skill.hooks is not None
    assert getattr(skill.hooks, old) == "run.sh"
    assert skill.hooks.events[event][0].hooks[0].command == "run.sh"
    assert codes(skill) == ["hooks-old-form"]


@pytest.mark.covers("O-07")
def test_of_old_and_new_hooks_the_new_win() -> None:
    skill = read(
        "hooks:\n  pre: old.sh\n  PreToolUse:\n"
        "    - matcher: Bash\n      hooks:\n        - command: new.sh\n          once: true"
    )
    assert skill.hooks is not None
    assert skill.hooks.pre == "old.sh"
    assert skill.hooks.events["PreToolUse"] == (HookGroup(matcher="Bash", hooks=(Hook(command="new.sh", once=True),)),)


@pytest.mark.each("value", ["text", "[a]"])
def test_hooks_that_are_no_map_are_ignored_with_a_word(value: str) -> None:
    skill = read(f"hooks: {value}")
    assert skill.hooks is None
    assert codes(skill) == ["field-value"]


@pytest.mark.covers("O-08")
def test_a_scope_has_three_optional_lists() -> None:
    assert read("scope:\n  agents: [a, b]\n  tenants: acme, other").scope == Scope(
        agents=("a", "b"), tenants=("acme", "other")
    )
    assert read("scope:\n  agents: []").scope == Scope(agents=())
    skill = read("scope: project")
    assert skill.scope is None
    assert codes(skill) == ["field-value"]


def test_execution_is_read_with_a_word_for_what_is_not_understood() -> None:
    skill = read("execution:\n  sandbox: true\n  allowed_paths: [out, tmp]\n  network: None")
    assert skill.execution == Execution(sandbox=True, allowed_paths=("out", "tmp"), network="none")
    skill = read("execution:\n  network: lan\n  sandbox: perhaps")
    assert skill.execution == Execution(network="none"), "whoever says something of the network means to restrict it"
    assert codes(skill) == ["field-value", "field-value"]
    assert codes(read("execution:\n  allow-host: [api.example.com]")) == ["item-dropped"]


@pytest.mark.each(
    ("written", "expected"),
    [
        ("network: full", Execution(network="none")),
        ("network: ''", Execution(network="none")),
        ("network: [host]", Execution(network="none")),
        ("network: true", Execution(network="none")),
        ("Network: host", Execution(network="host")),
        ("network: RESTRICTED", Execution(network="restricted")),
        ("allow-hosts: [api.example.com]", Execution(hosts=("api.example.com",))),
        ("allowHosts: api.example.com, pypi.org", Execution(hosts=("api.example.com", "pypi.org"))),
        ("allowed-hosts: []", Execution(hosts=())),
        ("hosts: [api.example.com]", Execution(hosts=("api.example.com",))),
        ("allowedPaths: [/data:ro, out]", Execution(allowed_paths=("/data:ro", "out"))),
        ("sandbox: false", Execution(sandbox=False)),
    ],
)
def test_what_scripts_ask_for_is_read_in_any_spelling_and_never_as_more(written: str, expected: Execution) -> None:
    assert read(f"execution:\n  {written}").execution == expected


@pytest.mark.covers("O-19")
@pytest.mark.each(
    ("value", "context", "extra"),
    [("fork", "fork", {}), ("inherit", "inherit", {}), ("webiny-api", "inherit", {"context": "webiny-api"})],
)
def test_only_fork_is_a_context(value: str, context: str, extra: dict[str, str]) -> None:
    skill = read(f"context: {value}")
    assert (skill.context, skill.extra) == (context, extra)


@pytest.mark.each("field", FIELD_NAMES)
@pytest.mark.parametrize(
    "value", ["", "text", "[a, {b: c}, [d]]", "{a: {b: [c]}, name: [x], hooks: 1}", "'[('", "'{'", "-1"]
)
def test_no_value_of_any_field_raises(field: str, value: str) -> None:
    skill = parse(f"---\n{field}: {value}\n---\nDo it.\n".encode(), folder="a").skill
    assert all(note.message and note.hint and (note.line is None or note.line >= 1) for note in skill.diagnostics)
    assert not any(note.severity == "error" for note in skill.diagnostics)


def test_fields_below_metadata_metier_count_like_their_own() -> None:
    skill = read(
        "metadata:\n  version: '2.1'\n  tags: [x]\n  metier:\n    scope:\n      agents: [finance]\n    priority: 7\n"
    )
    assert skill.scope == Scope(agents=("finance",))
    assert (skill.priority, skill.version, skill.tags) == (7, "2.1", ("x",))


def test_a_field_of_its_own_wins_over_the_one_below_metadata() -> None:
    skill = read("version: '1'\npriority: 1\nmetadata:\n  version: '2'\n  metier:\n    priority: 2\n    name: other\n")
    assert (skill.version, skill.priority, skill.name) == ("1", 1, "a")
