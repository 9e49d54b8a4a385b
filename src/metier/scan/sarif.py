"""SARIF 2.1.0, the format that code hosts and scanners share: our reports written in it, and others' findings read.

Nobody vouches for what is read. It can add findings and nothing else: what it suppresses itself still counts.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from metier._json_object import parse_object, value_at
from metier._regex_cache import kept_regex
from metier._version import __version__
from metier.errors import InvalidArgument
from metier.scan.finding import SEVERITIES, Finding, failure, rank
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from metier.scan.finding import Severity
    from metier.scan.report import ScanReport

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_WEIGHTS: Mapping[Severity, tuple[str, str]] = {
    "info": ("note", "0.0"),
    "low": ("note", "3.0"),
    "medium": ("warning", "5.5"),
    "high": ("error", "8.0"),
    "critical": ("error", "9.5"),
}
"""The level that a severity is, and the number that other tools sort by."""
MAX_BYTES = 64 * 1024 * 1024
MAX_RESULTS = 10_000
MAX_LINE = 10_000_000

THE_SKILL = "."
"""The path of a finding that names no file of the skill."""

_LEVELS: dict[str, Severity] = {"error": "high", "warning": "medium", "note": "low", "none": "info"}
_WORDS: dict[str, Severity] = {
    **{word: word for word in SEVERITIES},
    "error": "high",
    "moderate": "medium",
    "warning": "medium",
    "informational": "info",
    "note": "info",
}
_SCORES = (0.1, 4.0, 7.0, 9.0)
"""The least scores of all severities but the first."""
_AST = kept_regex(r"AST(?:0[1-9]|10)")
_CATEGORY = kept_regex(r"[a-z]+(?:_[a-z]+){1,4}")


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
    worst: dict[str, Finding] = {}
    for found in findings:
        worst[found.rule] = max(worst.get(found.rule, found), found, key=lambda one: rank(one.severity))
    return [_rule(found, *_WEIGHTS[found.severity]) for found in worst.values()]


def _rule(found: Finding, level: str, score: str) -> dict[str, Any]:
    return {
        "id": found.rule,
        "name": "".join(word.capitalize() for word in found.rule.split("_")),
        "shortDescription": {"text": found.message},
        "help": {"text": found.hint or found.message},
        "defaultConfiguration": {"level": level},
        "properties": {
            "security-severity": score,
            "tags": ["security", *(tag for tag in (found.ast, found.category) if tag)],
        },
    }


def _result(folder: str, found: Finding, index: Mapping[str, int]) -> dict[str, Any]:
    level, score = _WEIGHTS[found.severity]
    result: dict[str, Any] = {
        "ruleId": found.rule,
        "ruleIndex": index[found.rule],
        "level": level,
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
        "properties": {"severity": found.severity, "security-severity": score},
    }
    if found.suppressed_by:
        result["suppressions"] = [{"kind": "external", "justification": found.suppressed_by}]
    return result


def _uri(folder: str, path: str) -> str:
    """A file as a relative reference, in which nothing of a name means anything."""
    parts = [part for part in f"{folder}/{path}".replace("\\", "/").split("/") if part not in ("", ".")]
    return quote("/".join(parts), errors="surrogateescape") or "SKILL.md"


def read_sarif(data: bytes, *, root: str = "") -> tuple[Finding, ...]:
    """The findings in a SARIF log; raises `InvalidArgument` when it is none.

    Absolute paths below `root` are taken as relative to it; every other path that is not plainly relative becomes
    `.`, the skill as a whole. A run that says that it failed is a finding of its own.

    >>> log = b'{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "t"}}, "results": ' + (
    ...     b'[{"ruleId": "X", "level": "error", "message": {"text": "bad"}}]}]}')
    >>> [(found.engine, found.rule, found.severity, found.path) for found in read_sarif(log)]
    [('t', 'X', 'high', '.')]
    """
    try:
        log = parse_object(data, most=MAX_BYTES)
    except ValueError as error:
        raise _unusable(f"cannot be used: {error}") from None
    if log.get("version") != "2.1.0":
        raise _unusable("is of another version than 2.1.0")
    runs = log.get("runs")
    if not isinstance(runs, list):
        raise _unusable("has no runs")
    for run in runs:
        # A scanner that looked and found nothing writes an empty list; without one it did not look.
        results = value_at(run, "results")
        if not isinstance(results, list) or not all(isinstance(result, dict) for result in results):
            raise _unusable("has a run without results, or with one that is none")
    found = tuple(islice((finding for run in runs for finding in _Run(run, root).findings()), MAX_RESULTS + 1))
    if len(found) > MAX_RESULTS:
        raise _unusable(f"has more than {MAX_RESULTS:,} results")
    return found


def _unusable(why: str) -> InvalidArgument:
    return InvalidArgument(f"The SARIF log {why}.", hint="Give the SARIF 2.1.0 that a scanner wrote.")


class _Run:
    """One run of one scanner."""

    def __init__(self, run: dict[str, Any], root: str) -> None:
        self._run = run
        self._root = root.replace("\\", "/").rstrip("/") + "/" if root else ""
        self._engine = _text(value_at(run, "tool", "driver", "name"), 60) or "unknown"
        self._rules = _list(value_at(run, "tool", "driver", "rules"))
        self._by_id = {name: rule for rule in self._rules if isinstance(name := value_at(rule, "id"), str)}

    def findings(self) -> Iterator[Finding]:
        for invocation in _list(self._run.get("invocations")):
            if value_at(invocation, "executionSuccessful") is False:
                message = f"The scanner {self._engine} says that it did not finish."
                hint = "Run it again, or look at the skill yourself."
                yield failure(message, hint, path=THE_SKILL, engine=self._engine)
        for result in self._run["results"]:
            if result.get("kind") not in ("pass", "notApplicable"):
                yield self._finding(result)

    def _finding(self, result: dict[str, Any]) -> Finding:
        rule = self._rule_of(result)
        names = (_text(name, 100) for name in (result.get("ruleId"), value_at(result, "rule", "id"), rule.get("id")))
        path, line, text = self._place(result)
        said = value_at(result, "message", "text"), value_at(rule, "shortDescription", "text")
        message = next(filter(None, (_text(one, 500) for one in said)), "")
        tags = [tag for tag in _list(value_at(rule, "properties", "tags")) if isinstance(tag, str)]
        return Finding(
            rule=next(filter(None, names), "UNNAMED"),
            ast=next((tag for tag in tags if _AST.fullmatch(tag)), ""),
            category=next((tag for tag in tags if len(tag) < 80 and _CATEGORY.fullmatch(tag)), ""),
            severity=_severity(result, rule),
            path=path,
            line=line,
            message=message or "Another scanner points at this.",
            hint=_text(value_at(rule, "help", "text"), 300) or f"See what {self._engine} says about the rule.",
            text=text or message,
            engine=self._engine,
        )

    def _rule_of(self, result: dict[str, Any]) -> dict[str, Any]:
        index, name = result.get("ruleIndex", value_at(result, "rule", "index")), result.get("ruleId")
        is_index = type(index) is int and 0 <= index < len(self._rules)
        rule = self._rules[index] if is_index else self._by_id.get(name) if isinstance(name, str) else None
        return rule if isinstance(rule, dict) else {}

    def _place(self, result: dict[str, Any]) -> tuple[str, int, str]:
        location = next((one for one in _list(result.get("locations")) if isinstance(one, dict)), {})
        physical = value_at(location, "physicalLocation")
        line = value_at(physical, "region", "startLine")
        snippet = _text(value_at(physical, "region", "snippet", "text"), 200)
        number = min(max(1, line), MAX_LINE) if type(line) is int else 1
        return self._path(value_at(physical, "artifactLocation", "uri")), number, snippet

    def _path(self, uri: object) -> str:
        try:
            parts = urlsplit(uri if isinstance(uri, str) and len(uri) <= 4_096 else "")
        except ValueError:
            return THE_SKILL
        if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost"):
            return THE_SKILL
        path = unquote(parts.path).replace("\\", "/")
        if self._root and path.startswith(self._root):
            path = path[len(self._root) :]
        segments = [segment for segment in path.split("/") if segment not in ("", ".")]
        if path.startswith("/") or ".." in segments or not path.isprintable():
            return THE_SKILL
        return "/".join(segments) or THE_SKILL


def _severity(result: dict[str, Any], rule: dict[str, Any]) -> Severity:
    """The worst of what a result and its rule say in numbers or words; their level when they say neither."""
    for one in (result, rule):
        score = _number(value_at(one, "properties", "security-severity"))
        word = value_at(one, "properties", "severity")
        said = [SEVERITIES[bisect_right(_SCORES, score)]] if score is not None else []
        if isinstance(word, str) and word.lower() in _WORDS:
            said.append(_WORDS[word.lower()])
        if said:
            # What the result says of itself is nearer to it than what its rule says of all.
            return max(said, key=rank)
    level = result.get("level") or value_at(rule, "defaultConfiguration", "level") or "warning"
    return _LEVELS.get(level, "medium") if isinstance(level, str) else "medium"


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value if not isinstance(value, str) else value[:20])
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: object, limit: int) -> str:
    return shown(value.strip(), limit) if isinstance(value, str) else ""
