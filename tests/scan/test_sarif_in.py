"""What other scanners write is read within bounds, and can only add findings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.errors import InvalidArgument
from metier.scan import Finding
from metier.scan.finding import SEVERITIES
from metier.scan.sarif import MAX_LINE, MAX_RESULTS, read_sarif


def log(*results: Any, rules: Any = (), **run: Any) -> bytes:
    tool = {"driver": {"name": "other", "rules": list(rules)}}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": tool, "results": list(results), **run}]}).encode()


def one(result: dict[str, Any], **more: Any) -> Finding:
    (found,) = read_sarif(log({"message": {"text": "bad"}, **result}, **more))
    return found


def at(uri: object, **region: Any) -> dict[str, Any]:
    return {"locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}]}


def test_a_result_becomes_a_finding() -> None:
    found = one({"ruleId": "X1", "level": "error", **at("references/a.md", startLine=4, snippet={"text": "evil"})})
    assert (found.engine, found.rule, found.severity, found.path, found.line, found.text, found.message) == (
        *("other", "X1", "high", "references/a.md", 4, "evil", "bad"),
    )


@pytest.mark.covers("A-30")
@pytest.mark.each("results", [None, {}, "none", 0, [None], [[]], ["clean"]], ids=repr)
def test_a_run_without_results_is_no_clean_one(results: Any) -> None:
    with pytest.raises(InvalidArgument, match="result"):
        read_sarif(json.dumps({"version": "2.1.0", "runs": [{"results": results}]}).encode())
    with pytest.raises(InvalidArgument, match="without results"):
        read_sarif(b'{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "other"}}}]}')


def test_an_empty_list_of_results_is_a_clean_run() -> None:
    assert read_sarif(log()) == ()


@pytest.mark.each(
    ("result", "rule", "severity"),
    [
        ({"level": "error"}, {}, "high"),
        ({"level": "warning"}, {}, "medium"),
        ({"level": "note"}, {}, "low"),
        ({"level": "none"}, {}, "info"),
        ({}, {}, "medium"),
        ({"level": "unheard-of"}, {}, "medium"),
        ({"level": ["error"]}, {}, "medium"),
        ({}, {"defaultConfiguration": {"level": "error"}}, "high"),
        ({"level": "note"}, {"properties": {"security-severity": "9.8"}}, "critical"),
        ({"level": "error"}, {"properties": {"security-severity": 7}}, "high"),
        ({"level": "error"}, {"properties": {"security-severity": "4.0"}}, "medium"),
        ({"level": "error"}, {"properties": {"security-severity": "0.0"}}, "info"),
        ({"properties": {"security-severity": "1e999"}}, {}, "medium"),
        ({"properties": {"security-severity": "NaN"}}, {}, "medium"),
        ({"properties": {"security-severity": True}}, {}, "medium"),
        ({"properties": {"security-severity": 10**400}}, {}, "medium"),
        ({"properties": {"severity": "CRITICAL"}}, {}, "critical"),
        ({"properties": {"severity": "HIGH"}}, {"properties": {"security-severity": "1.0"}}, "high"),
        ({"properties": {"severity": ["x"]}, "level": "error"}, {}, "high"),
    ],
)
def test_a_severity_is_made_of_numbers_words_or_levels(
    result: dict[str, Any], rule: dict[str, Any], severity: str
) -> None:
    assert one({"ruleId": "X", **result}, rules=[{"id": "X", **rule}]).severity == severity


@pytest.mark.each(
    ("uri", "path"),
    [
        ("SKILL.md", "SKILL.md"),
        ("./a/b.md", "a/b.md"),
        ("a%20b.md", "a b.md"),
        ("a\\b.md", "a/b.md"),
        ("file:///srv/skill/a.md", "a.md"),
        ("/srv/skill/a/b.md", "a/b.md"),
        ("/srv/skills/a.md", "."),
        ("/etc/passwd", "."),
        ("../x.md", "."),
        ("a/%2e%2e/%2e%2e/x.md", "."),
        ("https://evil.example/x.md", "."),
        ("file://host/share/x.md", "."),
        ("C:\\x.md", "."),
        ("a\u202eb.md", "."),
        ("a%00.md", "."),
        ("http://[", "."),
        ("", "."),
        ("x" * 5_000, "."),
        (7, "."),
        (None, "."),
    ],
)
def test_only_plain_relative_paths_are_taken(uri: object, path: str) -> None:
    (found,) = read_sarif(log({"message": {"text": "bad"}, **at(uri)}), root="/srv/skill/")
    assert found.path == path


@pytest.mark.each(
    ("line", "number"), [(1, 1), (0, 1), (-5, 1), (10**30, MAX_LINE), (1.5, 1), ("7", 1), (True, 1), (None, 1)]
)
def test_lines_are_within_bounds(line: object, number: int) -> None:
    assert one(at("a.md", startLine=line)).line == number


def test_what_it_says_is_shown_escaped_and_short() -> None:
    found = one({"ruleId": "X\x1b" + "y" * 500, "message": {"text": "\u202e" + "z" * 9_000}})
    assert found.rule.isprintable()
    assert found.message.isprintable()
    assert max(len(found.rule), len(found.message), len(found.text)) < 700


def test_what_another_scanner_suppresses_still_counts() -> None:
    assert not one({"suppressions": [{"kind": "external"}]}).suppressed_by


def test_what_passed_is_no_finding() -> None:
    assert read_sarif(log({"kind": "pass", "message": {"text": "x"}}, {"kind": "notApplicable"})) == ()


def test_a_run_that_says_it_failed_is_a_finding() -> None:
    (found,) = read_sarif(log(invocations=[{"executionSuccessful": False}]))
    assert (found.rule, found.severity, found.engine) == ("SCAN_FAILED", "high", "other")


def test_a_rule_is_found_by_its_index() -> None:
    rules = [{"id": "A"}, {"id": "B", "properties": {"security-severity": "9.9", "tags": ["AST02", "security"]}}]
    found = one({"ruleIndex": 1}, rules=rules)
    assert (found.rule, found.severity, found.ast) == ("B", "critical", "AST02")


@pytest.mark.each(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"runs": {}}',
        b'{"version": "2.1.0"}',
        b'{"version": "1.0.0", "runs": []}',
        b'{"version": "2.1.0", "runs": [1]}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version": ' + b"9" * 10_000 + b"}",
        log(*({"message": {"text": "x"}} for _ in range(MAX_RESULTS + 1))),
    ],
)
def test_what_is_no_log_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match="SARIF") as caught:
        read_sarif(data)
    assert caught.value.hint


KEYS = [
    *("tool", "driver", "name", "rules", "id", "results", "ruleId", "ruleIndex", "rule", "index", "message", "text"),
    *("locations", "physicalLocation", "artifactLocation", "uri", "region", "startLine", "snippet", "properties"),
    *("security-severity", "severity", "level", "tags", "invocations", "kind", "help", "defaultConfiguration"),
]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=6), st.dictionaries(st.sampled_from(KEYS), ANYTHING))
def test_any_run_is_read_or_refused(run: dict[str, Any], result: dict[str, Any]) -> None:
    run.setdefault("results", [result])
    data = json.dumps({"version": "2.1.0", "runs": [run]}).encode()
    try:
        found = read_sarif(data)
    except InvalidArgument:
        return
    assert all(one.severity in SEVERITIES and one.line >= 1 for one in found)
