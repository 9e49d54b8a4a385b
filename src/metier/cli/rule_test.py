"""The test of a pack: every rule against its own examples, and why one does not do what it should."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from metier._lazy import dataclass
from metier.cli.output import shortened
from metier.cli.rule_reasons import reasons_found, reasons_missed
from metier.scan.finding import rank
from metier.scan.pack import compiled, digest_of, entries_of
from metier.scan.pack_store import core_pack, pack_rules
from metier.scan.pack_yaml import read_yaml
from metier.scan.rule_book import pack_book
from metier.scan.rule_example import package_of
from metier.scan.ruleset import all_rules
from metier.scan.scanner import scan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metier.scan import ScanReport
    from metier.scan.pack import PackFile
    from metier.scan.pack_store import PackRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleFailure:
    """An example that a rule does not treat as it should."""

    rule: str
    kind: str
    """`match` or `pass`."""
    number: int
    """Which of them, counted from 1."""
    file: str
    line: int
    example: Any
    expected: str
    """The outcome that was expected, and the actual one."""
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackTest:
    """The outcome of a test."""

    digest: str
    rules: int
    examples: int
    failures: tuple[ExampleFailure, ...]

    def as_json(self) -> dict[str, Any]:
        shape = [
            {name: getattr(one, name) for name in ("rule", "kind", "number", "file", "line", "expected", "reasons")}
            for one in self.failures
        ]
        return {
            "ok": not shape,
            "digest": self.digest,
            "rules": self.rules,
            "examples": self.examples,
            "failures": shape,
        }


def test_pack(pack: PackRef) -> PackTest:
    """Try all examples of a pack; raises `RulesInvalid` where it cannot be used at all."""
    files = pack.files()
    all_rules((pack,))
    rules = entries_of(files).rules
    return PackTest(
        digest=digest_of(files),
        rules=len(rules),
        examples=sum(len(rule["examples"][kind]) for rule in rules.values() for kind in ("match", "pass")),
        failures=tuple(_failures(pack, files, rules)),
    )


test_pack.__test__ = False  # type: ignore[attr-defined]  # what tests are found by must not take it for one


def _failures(
    pack: PackRef, files: tuple[PackFile, ...], entries: dict[str, dict[str, Any]]
) -> Iterator[ExampleFailure]:
    rules = {rule.id: rule for rule in pack_rules((pack,), frozenset())}
    book = pack_book(pack.name, compiled(files, core_pack()))
    lines = _lines(files)
    for name, entry in entries.items():
        least = rank(entry["severity"])
        for kind in ("match", "pass"):
            for number, example in enumerate(entry["examples"][kind]):
                report = scan(package_of(example), rules=(rules[name],))
                worst = max((found.severity for found in report.findings if found.rule == name), key=rank, default="")
                if report.status == "ok" and (rank(worst) >= least) == (kind == "match"):
                    continue
                package = package_of(example)
                if report.status != "ok":
                    reasons = [f"The scan failed: {report.error}"]
                elif kind == "pass":
                    reasons = reasons_found(book, entry, package)
                else:
                    reasons = reasons_missed(book, entry, package, _stance_of(report, name))
                yield ExampleFailure(
                    rule=name,
                    kind=kind,
                    number=number + 1,
                    file=os.path.join(pack.place, *entry["file"].split("/")),
                    line=lines[name, kind, number],
                    example=example,
                    expected=_expected(kind, number + 1, worst, entry["severity"]),
                    reasons=tuple(shortened(reason, 600) for reason in reasons),
                )


def _stance_of(report: ScanReport, name: str) -> str:
    """The stance by which the worst finding of a rule was judged."""
    return next((found.stance for found in report.findings if found.rule == name), "")


def _expected(kind: str, number: int, worst: str, severity: str) -> str:
    if kind == "pass":
        return f"should pass example {number} of `pass`, and finds it with severity {worst}."
    if worst:
        return f"should find example {number} of `match` with severity {severity}, and finds it as {worst} alone."
    return f"should find example {number} of `match`, and does not."


def _lines(files: tuple[PackFile, ...]) -> dict[tuple[str, str, int], int]:
    """The line of each example, by rule, kind and place."""
    found = {}
    for file in files:
        content = read_yaml(file.data)
        for at, rule in enumerate((content.value or {}).get("rules", ())):
            for kind in ("match", "pass"):
                for number in range(len(rule["examples"][kind])):
                    line = content.line("rules", at, "examples", kind, number)
                    found[rule["id"], kind, number] = line
    return found
