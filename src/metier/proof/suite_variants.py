"""The table of shapes that test suites have in the wild: by role, the keys that mean one thing.

Keys are compared in small letters with underscores: `shouldTrigger` and `should-trigger` are `should_trigger`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from metier._lazy import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = {
    # Parts of a case.
    "prompt": "prompt query user_prompt user_query user_input user_message trigger_input test_prompt eval_prompt",
    "maybe-prompt": "input question utterance request message q task instruction instructions text say user scenario",
    "prompt-file": "prompt_file prompt_path prompt_ref input_file",
    "turns": "turns messages conversation dialogue dialog chat user_turns",
    "id": "id case_id eval_id test_id",
    "name": "name eval_name title test_name slug case_name",
    "output": "expected_output expected_outcome expected_result expected_response expected_answer ideal_output"
    " ideal_response desired_output reference_output golden goal intent",
    "files": "files input_files fixture_files context_files attachments",
    "timeout": "timeout timeout_seconds timeout_s timeout_sec",
    "max_turns": "max_turns",
    # What must come of it.
    "sentences": "assertions assertion asserts assert expectations checks criteria rubric rubrics graders evaluators"
    " evaluation expected_behavior expected_behaviors expected_behaviour expected_behaviours expected_actions"
    " success_criteria pass_conditions pass_criteria pass_if acceptance_criteria acceptance grading grading_criteria"
    " deterministic_assertions deterministic_checks must must_do should expected_checks expected_findings"
    " required_behaviors required_behaviours requirements validation validations verification manual_checks"
    " manual_review quality_criteria key_points what_to_check success_signals",
    "rejected": "fail_conditions fail_criteria fail_if must_not must_not_do should_not forbidden forbidden_behavior"
    " forbidden_behaviors forbidden_behaviours anti_patterns antipatterns red_flags unacceptable disallowed prohibited"
    " negative_assertions negative_checks failure_modes failure_conditions failure_signals",
    "contains": "contains must_contain must_contain_all contains_all output_contains expected_contains"
    " expected_output_contains response_contains expected_keywords required_keywords keywords required_phrases"
    " expected_substrings required_strings",
    "any": "contains_any must_contain_any any_of must_include_one_of must_include_any",
    "excludes": "must_not_contain not_contains excludes output_not_contains response_not_contains forbidden_keywords"
    " forbidden_phrases forbidden_words forbidden_strings",
    "regex": "regex regexes matches output_matches expect_grep must_match patterns",
    "called": "expected_tools expect_tools required_tools tools_called expected_tool_calls must_call",
    "not-called": "forbidden_tools reject_tools must_not_call tools_not_called",
    "artifacts": "expected_files output_files required_artifacts expected_artifacts required_files files_created",
    # Routing.
    "trigger": "should should_trigger should_activate should_fire should_invoke should_load should_match"
    " should_use_skill expect_activation expect_trigger expected_trigger expected_activation expected_triggered"
    " must_trigger trigger triggers activates invoke is_positive expected_invocation trigger_expected",
    "no-trigger": "should_not_trigger should_not_activate must_not_trigger is_negative",
    "routed-to": "expected_skill expect_skill expected_skills preferred_skill correct_skill route_to expected_route"
    " skills_expected_to_activate",
    "maybe": "expected expect expectation type kind label polarity category expected_decision",
    "positive": "positive positives positive_cases positive_prompts positive_queries positive_examples"
    " positive_triggers should_trigger_prompts should_trigger_queries triggering trigger_prompts true_positives"
    " in_scope must_activate should_trigger should_activate should_fire should_invoke must_trigger triggers trigger",
    "negative": "negative negatives negative_cases negative_prompts negative_queries negative_examples"
    " negative_triggers should_not_trigger_prompts should_not_trigger_queries should_not_trigger should_not_activate"
    " should_not_fire should_not_invoke must_not_trigger must_not_activate non_triggers non_triggering no_trigger"
    " do_not_trigger not_trigger shouldnt_trigger anti_triggers near_misses near_miss false_positives out_of_scope"
    " hard_negatives",
    # Around cases.
    "suite-skill": "skill_name skill",
    "skip": "results run_results trigger_results history runs iterations baseline baselines summary harness_failures",
}
BEGINNINGS = (
    *("expected_", "expect_", "must_", "should_", "required_", "requires_", "assert_", "forbidden_", "forbid_"),
    *("reject_", "not_expected_", "unexpected_", "disallowed_", "prohibited_"),
)
"""Beginnings of keys that the table does not have, whose values are sentences after the key itself."""
WRAPPERS = (
    *("execution", "setup", "expected", "expect", "expectations", "checks", "assertions", "input", "inputs", "context"),
    "vars",
)
"""Keys of a case below which its parts may stand once more, in a mapping."""


class CheckType(NamedTuple):
    """The meaning of the type of an assertion."""

    kind: str
    """Of our assertion."""
    condition: str = ""
    """The condition of a match; `any` of several texts, or the same in any case (`i...`)."""


TYPE_NAMES = {
    CheckType("answer", "contains"): "contains includes contains_all includes_all content_includes content_includes_all"
    " content_contains response_contains text_contains substring string_contains contains_text must_contain",
    CheckType("answer", "icontains"): "output_contains icontains icontains_all contains_ignore_case keyword keywords"
    " contains_keyword contains_keywords keyword_present keyword_match",
    CheckType(
        "answer", "any"
    ): "contains_any includes_any content_includes_any content_contains_any any_of contains_one_of"
    " icontains_any output_contains_any",
    CheckType(
        "answer", "excludes"
    ): "not_contains does_not_contain excludes not_includes output_not_contains not_contain"
    " content_not_contains content_excludes not_icontains must_not_contain keyword_absent",
    CheckType("answer", "regex"): "regex matches output_matches pattern regex_match regex_includes matches_regex match"
    " output_regex content_matches",
    CheckType("answer", "equals"): "equals exact exact_match equal is",
    CheckType("file"): "file_exists file_created exists artifact_exists has_file output_file_exists",
    CheckType("no-file"): "file_not_exists file_absent not_exists file_does_not_exist",
    CheckType("file", "contains"): "file_contains file_includes file_content_contains",
    CheckType("file", "excludes"): "file_not_contains file_excludes file_does_not_contain",
    CheckType("file", "regex"): "file_matches file_regex file_content_matches",
    CheckType("called"): "tool_called tool_used tool_call tool_use expect_tools uses_tool calls_tool tool_invoked",
    CheckType("not-called"): "tool_not_called tool_not_used not_tool_called reject_tools no_tool_call",
    CheckType("skill-read"): "skill_triggered skill_activated skill_invoked skill_loaded skill_used triggers_skill",
    CheckType("judge"): "llm_judge llm_rubric llm judge model_graded model_graded_closedqa llm_as_judge llm_grader"
    " model_judge g_eval",
}

_NAMES = {role: frozenset(names.split()) for role, names in KEYS.items()}
ROLES: Mapping[str, tuple[str, ...]] = {
    name: tuple(role for role, names in _NAMES.items() if name in names) for name in frozenset().union(*_NAMES.values())
}
"""The roles that each key may have."""
TYPES: Mapping[str, CheckType] = {name: meaning for meaning, names in TYPE_NAMES.items() for name in names.split()}
TYPE_KEYS = ("type", "kind", "assertion_type", "check_type", "operator", "matcher", "grader", "check", "method")
VALUE_KEYS = (
    *("value", "values", "expected", "pattern", "regex", "contains", "text", "substring", "expected_value"),
    *("keywords", "keyword", "string", "strings", "phrase", "phrases", "content", "check", "tool", "tool_name"),
    *("path", "file", "rubric"),
)
PATH_KEYS = ("path", "file", "filename", "target", "file_path", "artifact")
ANSWERS = (
    *("output", "response", "answer", "final_output", "final_response", "transcript", "text", "stdout", "message"),
    "",
)
"""Targets of an assertion that are the answer, and no file."""
SENTENCE_KEYS = (
    *("text", "description", "sentence", "assertion", "expectation", "statement", "criterion", "criteria", "check"),
    *("rule", "pass_if", "question", "must", "expected", "rubric", "behavior", "condition", "requirement"),
)
LABEL_KEYS = ("name", "title", "id", "value", "values", "pattern", "path", "tool")
"""Keys that are no sentence alone: the sentence of a mapping with them is all of it."""
FILE_NAME_KEYS = ("path", "name", "filename", "file", "dest", "destination", "target")
FILE_TEXT_KEYS = ("content", "contents", "text", "data")
FILE_SOURCE_KEYS = ("source", "from", "src", "fixture")
TRUTH = {
    **dict.fromkeys(("true", "yes", "trigger", "triggers", "should_trigger", "positive", "activate", "in_scope"), True),
    **dict.fromkeys(("false", "no", "none", "no_trigger", "not_trigger", "should_not_trigger", "negative"), False),
    **dict.fromkeys(("non_trigger", "out_of_scope", "near_miss", "ignore", "no_skill", "do_not_trigger"), False),
}

_CAMEL = pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_WORD = pattern(r"[^a-z0-9]+")


@functools.lru_cache(maxsize=4_096)
def plain_key(key: str) -> str:
    """A key as the table has it.

    >>> plain_key("shouldNot-Trigger")
    'should_not_trigger'
    """
    return _NO_WORD.sub("_", _CAMEL.sub("_", key[:100]).lower()).strip("_")


def roles_of(key: str) -> tuple[str, ...]:
    """The roles that a key may have.

    >>> roles_of("mustNotContain"), roles_of("expectedMode"), roles_of("colour")
    (('excludes',), ('by-name',), ())
    """
    plain = plain_key(key)
    return ROLES.get(plain) or (("by-name",) if plain.startswith(BEGINNINGS) else ())
