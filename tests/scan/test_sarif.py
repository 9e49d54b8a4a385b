"""Reports as SARIF: valid by what the standard requires, and read back as what they were."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from metier.scan import Finding, ScanReport, Severity
from metier.scan.finding import SEVERITIES
from metier.scan.sarif import read_sarif, sarif_of

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
# What SARIF 2.1.0 requires of the objects that we write.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "$schema": {"type": "string"},
        "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
    },
    "additionalProperties": False,
    "$defs": {
        "run": {
            "type": "object",
            "required": ["tool"],
            "properties": {
                "tool": {
                    "type": "object",
                    "required": ["driver"],
                    "properties": {"driver": {"$ref": "#/$defs/driver"}},
                    "additionalProperties": False,
                },
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "invocations": {"type": "array", "items": {"$ref": "#/$defs/invocation"}},
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
            "additionalProperties": False,
        },
        "driver": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "semanticVersion": {"type": "string"},
                "rules": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/rule"}},
            },
            "additionalProperties": False,
        },
        "rule": {
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {"type": "string"},
                "name": {"type": "string"},
                "shortDescription": TEXT,
                "help": TEXT,
                "defaultConfiguration": {"type": "object", "properties": {"level": LEVEL}},
                "properties": {
                    "type": "object",
                    "properties": {"tags": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}},
                },
            },
            "additionalProperties": False,
        },
        "invocation": {
            "type": "object",
            "required": ["executionSuccessful"],
            "properties": {
                "executionSuccessful": {"type": "boolean"},
                "toolExecutionNotifications": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["message"],
                        "properties": {"message": TEXT, "level": LEVEL},
                        "additionalProperties": False,
                    },
                },
            },
            "additionalProperties": False,
        },
        "result": {
            "type": "object",
            "required": ["message"],
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": 0},
                "level": LEVEL,
                "message": TEXT,
                "locations": {"type": "array", "items": {"$ref": "#/$defs/location"}},
                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                "suppressions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["kind"],
                        "properties": {
                            "kind": {"enum": ["inSource", "external"]},
                            "justification": {"type": "string"},
                        },
                        "additionalProperties": False,
                    },
                },
                "properties": {"type": "object"},
            },
            "additionalProperties": False,
        },
        "location": {
            "type": "object",
            "required": ["physicalLocation"],
            "properties": {
                "physicalLocation": {
                    "type": "object",
                    "required": ["artifactLocation"],
                    "properties": {
                        "artifactLocation": {
                            "type": "object",
                            "properties": {"uri": {"type": "string", "pattern": "^[A-Za-z0-9_.~/%-]+$"}},
                        },
                        "region": {
                            "type": "object",
                            "properties": {"startLine": {"type": "integer", "minimum": 1}, "snippet": TEXT},
                            "additionalProperties": False,
                        },
                    },
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
    },
}


def finding(severity: Severity = "high", **fields: Any) -> Finding:
    said: dict[str, Any] = {
        "rule": "SOME_RULE", "ast": "AST01", "category": "persistence_control", "path": "SKILL.md", "line": 3,
        "message": "There it is.", "hint": "Look.", "text": "crontab",
    }  # fmt: skip
    return Finding(severity=severity, **{**said, **fields})


def report(*findings: Finding) -> ScanReport:
    return ScanReport(name="a", digest="sha256:0", findings=findings)


REPORTS = [
    [],
    [("skills/a", report())],
    [("skills/a", report(*(finding(severity) for severity in SEVERITIES)))],
    [("skills/a", report(finding(suppressed_by="ours (dana)"))), ("b", report(finding(rule="OTHER")))],
    [("skills/a b", report(finding(path="ref/ü #1?.md"), finding(path="x\udcff\u202e.md")))],
    [("/abs/a", report(finding(engine="other-scanner")).failed("Rule X failed."))],
]


@pytest.mark.covers("A-31")
@pytest.mark.each("scanned", REPORTS)
def test_the_log_is_valid(scanned: list[tuple[str, ScanReport]]) -> None:
    log = json.loads(json.dumps(sarif_of(scanned)))
    errors = [error.message for error in jsonschema_rs.validator_for(SCHEMA).iter_errors(log)]
    assert errors == []
    for run in log["runs"]:
        for result in run["results"]:
            assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


@pytest.mark.each(
    ("severity", "level", "score"),
    [
        ("info", "note", "0.0"),
        ("low", "note", "3.0"),
        ("medium", "warning", "5.5"),
        ("high", "error", "8.0"),
        ("critical", "error", "9.5"),
    ],
)
def test_a_severity_is_a_level_and_a_number(severity: Severity, level: str, score: str) -> None:
    run = sarif_of([("a", report(finding(severity)))])["runs"][0]
    assert run["results"][0]["level"] == level
    assert run["tool"]["driver"]["rules"][0]["properties"]["security-severity"] == score


def test_a_rule_weighs_as_much_as_the_worst_that_it_found() -> None:
    rules = sarif_of([("a", report(finding("low"), finding("critical"), finding("low")))])["runs"][0]["tool"]["driver"]
    assert rules["rules"][0]["properties"]["security-severity"] == "9.5"


def test_a_failed_scan_is_no_success() -> None:
    run = sarif_of([("a", report().failed("Rule X failed."))])["runs"][0]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "a: Rule X failed."


def test_a_suppressed_finding_says_why() -> None:
    result = sarif_of([("a", report(finding(suppressed_by="ours (dana)")))])["runs"][0]["results"][0]
    assert result["suppressions"] == [{"kind": "external", "justification": "ours (dana)"}]


def test_each_scanner_has_a_run_of_its_own() -> None:
    log = sarif_of([("a", report(finding(), finding(engine="other")))])
    assert [(run["tool"]["driver"]["name"], len(run["results"])) for run in log["runs"]] == [
        ("metier", 1),
        ("other", 1),
    ]


def test_what_is_written_can_be_read_back() -> None:
    own = [finding(severity, path="references/ü.md", line=7) for severity in SEVERITIES]
    read = read_sarif(json.dumps(sarif_of([("", report(*own))])).encode())
    assert [(one.rule, one.ast, one.category, one.severity, one.path, one.line, one.text) for one in read] == [
        (one.rule, one.ast, one.category, one.severity, one.path, one.line, one.text) for one in own
    ]
