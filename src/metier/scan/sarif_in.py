"""Findings of other scanners, read from SARIF 2.1.0 that nobody vouches for.

What such a file says can add findings and nothing else: what it suppresses itself still counts.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from metier.errors import InvalidArgument
from metier.scan.finding import Finding
from metier.skill import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan.finding import Severity

MAX_BYTES = 64 * 1024 * 1024
MAX_RESULTS = 10_000
MAX_LINE = 10_000_000

THE_SKILL = "."
"""The path of a finding that names no file of the skill."""

_LEVELS: dict[str, Severity] = {"error": "high", "warning": "medium", "note": "low", "none": "info"}
_WORDS: dict[str, Severity] = {
    "critical": "critical",
    "high": "high",
    "error": "high",
    "medium": "medium",
    "moderate": "medium",
    "warning": "medium",
    "low": "low",
    "info": "info",
    "informational": "info",
    "note": "info",
}
_AST = re.compile(r"AST(?:0[1-9]|10)")
_CATEGORY = re.compile(r"[a-z]+(?:_[a-z]+){1,4}")


def read_sarif(data: bytes, *, root: str = "") -> tuple[Finding, ...]:
    """The findings in a SARIF log; raises `InvalidArgument` when it is none.

    Absolute paths below `root` are taken as relative to it; every other path that is not plainly relative becomes
    `.`, the skill as a whole. A run that says that it failed is a finding of its own.

    >>> log = b'{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "t"}}, "results": ' + (
    ...     b'[{"ruleId": "X", "level": "error", "message": {"text": "bad"}}]}]}')
    >>> [(found.engine, found.rule, found.severity, found.path) for found in read_sarif(log)]
    [('t', 'X', 'high', '.')]
    """
    if len(data) > MAX_BYTES:
        raise _unusable(f"has more than {MAX_BYTES:,} bytes")
    try:
        log = json.loads(data)
    except (ValueError, RecursionError):
        raise _unusable("is no JSON") from None
    if not isinstance(log, dict) or not isinstance(log.get("runs"), list):
        raise _unusable("has no runs")
    if log.get("version") != "2.1.0":
        raise _unusable("is of another version than 2.1.0")
    found: list[Finding] = []
    for run in log["runs"]:
        if not isinstance(run, dict):
            raise _unusable("has a run that is none")
        if not isinstance(run.get("results"), list):
            # A scanner that looked and found nothing writes an empty list; without one it did not look.
            raise _unusable("has a run without results")
        if not all(isinstance(result, dict) for result in run["results"]):
            raise _unusable("has a result that is none")
        for finding in _Run(run, root).findings():
            if len(found) == MAX_RESULTS:
                raise _unusable(f"has more than {MAX_RESULTS:,} results")
            found.append(finding)
    return tuple(found)


def _unusable(why: str) -> InvalidArgument:
    return InvalidArgument(f"The SARIF log {why}.", hint="Give the SARIF 2.1.0 that a scanner wrote.")


class _Run:
    """One run of one scanner."""

    def __init__(self, run: dict[str, Any], root: str) -> None:
        self._run = run
        self._root = root.replace("\\", "/").rstrip("/") + "/" if root else ""
        driver = _map(_map(run, "tool"), "driver")
        self._engine = _text(driver.get("name"), 60) or "unknown"
        self._rules = [rule for rule in _list(driver, "rules") if isinstance(rule, dict)]
        self._by_id = {rule["id"]: rule for rule in self._rules if isinstance(rule.get("id"), str)}

    def findings(self) -> Iterator[Finding]:
        for invocation in _list(self._run, "invocations"):
            if isinstance(invocation, dict) and invocation.get("executionSuccessful") is False:
                yield self._failure()
        for result in _list(self._run, "results"):
            if result.get("kind") not in ("pass", "notApplicable"):
                yield self._finding(result)

    def _failure(self) -> Finding:
        return Finding(
            rule="SCAN_FAILED",
            ast="AST08",
            category="defense_evasion_obfuscation",
            severity="high",
            path=THE_SKILL,
            line=1,
            message=f"The scanner {self._engine} says that it did not finish.",
            hint="Run it again, or look at the skill yourself.",
            text="",
            engine=self._engine,
        )

    def _finding(self, result: dict[str, Any]) -> Finding:
        rule = self._rule_of(result)
        name = (
            _text(result.get("ruleId"), 100) or _text(_map(result, "rule").get("id"), 100) or _text(rule.get("id"), 100)
        )
        path, line, text = self._place(result)
        message = _text(_map(result, "message").get("text"), 500) or _text(
            _map(rule, "shortDescription").get("text"), 500
        )
        tags = [tag for tag in _list(_map(rule, "properties"), "tags") if isinstance(tag, str)]
        return Finding(
            rule=name or "UNNAMED",
            ast=next((tag for tag in tags if _AST.fullmatch(tag)), ""),
            category=next((tag for tag in tags if len(tag) < 80 and _CATEGORY.fullmatch(tag)), ""),
            severity=_severity(result, rule),
            path=path,
            line=line,
            message=message or "Another scanner points at this.",
            hint=_text(_map(rule, "help").get("text"), 300) or f"See what {self._engine} says about the rule.",
            text=text or message,
            engine=self._engine,
        )

    def _rule_of(self, result: dict[str, Any]) -> dict[str, Any]:
        index = result.get("ruleIndex", _map(result, "rule").get("index"))
        if type(index) is int and 0 <= index < len(self._rules):
            return self._rules[index]
        name = result.get("ruleId")
        return self._by_id.get(name, {}) if isinstance(name, str) else {}

    def _place(self, result: dict[str, Any]) -> tuple[str, int, str]:
        location = next((one for one in _list(result, "locations") if isinstance(one, dict)), {})
        physical = _map(location, "physicalLocation")
        region = _map(physical, "region")
        line = region.get("startLine")
        snippet = _text(_map(region, "snippet").get("text"), 200)
        number = min(max(1, line), MAX_LINE) if type(line) is int else 1
        return self._path(_map(physical, "artifactLocation").get("uri")), number, snippet

    def _path(self, uri: object) -> str:
        if not isinstance(uri, str) or not 0 < len(uri) <= 4_096:
            return THE_SKILL
        try:
            parts = urlsplit(uri)
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
    from metier.scan.finding import rank

    said: list[Severity] = []
    for properties in (_map(result, "properties"), _map(rule, "properties")):
        score = _number(properties.get("security-severity"))
        word = properties.get("severity")
        if score is not None:
            said.append(_by_score(score))
        if isinstance(word, str) and word.lower() in _WORDS:
            said.append(_WORDS[word.lower()])
        if said:
            # What the result says of itself is nearer to it than what its rule says of all.
            return max(said, key=rank)
    level = result.get("level") or _map(rule, "defaultConfiguration").get("level") or "warning"
    return _LEVELS.get(level, "medium") if isinstance(level, str) else "medium"


def _by_score(score: float) -> Severity:
    for least, severity in ((9.0, "critical"), (7.0, "high"), (4.0, "medium"), (0.1, "low")):
        if score >= least:
            return severity  # type: ignore[return-value]
    return "info"


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value if not isinstance(value, str) else value[:20])
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _map(value: dict[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _list(value: dict[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _text(value: object, limit: int) -> str:
    return shown(value.strip(), limit) if isinstance(value, str) else ""
