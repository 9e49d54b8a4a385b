"""Reports as SARIF 2.1.0, the format that code hosts and other tools read findings in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from metier._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from metier.scan.finding import Finding, Severity
    from metier.scan.report import ScanReport

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
SCORES: Mapping[Severity, str] = {"info": "0.0", "low": "3.0", "medium": "5.5", "high": "8.0", "critical": "9.5"}
"""What a severity is as the number that other tools sort by."""

_LEVELS: Mapping[Severity, str] = {
    "info": "note",
    "low": "note",
    "medium": "warning",
    "high": "error",
    "critical": "error",
}


def sarif_of(scanned: Sequence[tuple[str, ScanReport]]) -> dict[str, Any]:
    """The reports of skills, each with the path of its folder, as one SARIF log with a run for each scanner.

    >>> sarif_of([])["runs"][0]["tool"]["driver"]["name"]
    'metier'
    """
    engines = dict.fromkeys(["core", *(found.engine for _, report in scanned for found in report.findings)])
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [_run(engine, scanned) for engine in engines],
    }


def _run(engine: str, scanned: Sequence[tuple[str, ScanReport]]) -> dict[str, Any]:
    found = [(folder, found) for folder, report in scanned for found in report.findings if found.engine == engine]
    rules = _rules(found for _, found in found)
    index = {rule["id"]: at for at, rule in enumerate(rules)}
    driver: dict[str, Any] = {"name": "metier" if engine == "core" else engine, "rules": rules}
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(folder, one, index) for folder, one in found],
    }
    if engine == "core":
        driver["semanticVersion"] = __version__
        errors = [(folder, report.error) for folder, report in scanned if report.status == "error"]
        notes = [{"level": "error", "message": {"text": f"{folder}: {error}"}} for folder, error in errors]
        run["invocations"] = [{"executionSuccessful": not errors, "toolExecutionNotifications": notes}]
    return run


def _rules(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """What the rules that found something say of themselves; the worst that each found is what it weighs."""
    rules: dict[str, dict[str, Any]] = {}
    for found in findings:
        score = SCORES[found.severity]
        known = rules.get(found.rule)
        if known is None:
            rules[found.rule] = {
                "id": found.rule,
                "name": "".join(word.capitalize() for word in found.rule.split("_")),
                "shortDescription": {"text": found.message},
                "help": {"text": found.hint or found.message},
                "defaultConfiguration": {"level": _LEVELS[found.severity]},
                "properties": {
                    "security-severity": score,
                    "tags": ["security", *(tag for tag in (found.ast, found.category) if tag)],
                },
            }
        elif float(score) > float(known["properties"]["security-severity"]):
            known["properties"]["security-severity"] = score
            known["defaultConfiguration"]["level"] = _LEVELS[found.severity]
    return list(rules.values())


def _result(folder: str, found: Finding, index: Mapping[str, int]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": found.rule,
        "ruleIndex": index[found.rule],
        "level": _LEVELS[found.severity],
        "message": {"text": f"{found.message} {found.hint}".strip()},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(folder, found.path)},
                    "region": {"startLine": found.line, "snippet": {"text": found.text}},
                }
            }
        ],
        "partialFingerprints": {"metier/v1": found.fingerprint},
        "properties": {"severity": found.severity, "security-severity": SCORES[found.severity]},
    }
    if found.suppressed_by:
        result["suppressions"] = [{"kind": "external", "justification": found.suppressed_by}]
    return result


def _uri(folder: str, path: str) -> str:
    """A file as a relative reference, in which nothing of a name means anything."""
    parts = [part for part in f"{folder}/{path}".replace("\\", "/").split("/") if part not in ("", ".")]
    return quote("/".join(parts), errors="surrogateescape") or "SKILL.md"
