"""Scanning a skill: rules over one view, a report that is never clean when something failed."""

from __future__ import annotations

import importlib
import itertools
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import metier
from metier.errors import PackageTooLarge
from metier.scan import Finding, Hit, ScanRule, Severity, ruleset, scan
from metier.scan.finding import SEVERITIES
from metier.scan.ruleset import all_rules, ruleset_of
from metier.scan.scanner import MAX_HITS
from metier.scan.view import SkillView
from metier.skill import FolderPackage, MemoryPackage
from metier.skill.package import DigestEntry

SKILL = "---\nname: greeter\ndescription: Greets.\n---\nSay hello.\nSay  it twice.\n"
PACKAGE = MemoryPackage({"SKILL.md": SKILL})


def rule(
    check: Callable[[SkillView], Iterable[Hit]], *, name: str = "SOME_RULE", severity: Severity = "high"
) -> ScanRule:
    return ScanRule(
        id=name,
        ast="AST01",
        category="execution_code_delivery",
        severity=severity,
        message="Something is there.",
        hint="Look.",
        check=check,
    )


def hitting(*hits: Hit) -> Callable[[SkillView], Iterable[Hit]]:
    return lambda _view: hits


def breaking(_view: SkillView) -> Iterator[Hit]:
    yield Hit("SKILL.md", 5, "Say hello.")
    raise RuntimeError("broken")


def test_a_finding_says_what_where_and_what_to_do() -> None:
    report = scan(PACKAGE, rules=[rule(hitting(Hit("SKILL.md", 5, "Say \x1b hello.")))])
    (found,) = report.findings
    assert found.as_dict() == {
        "rule": "SOME_RULE",
        "ast": "AST01",
        "category": "execution_code_delivery",
        "severity": "high",
        "path": "SKILL.md",
        "line": 5,
        "message": "Something is there.",
        "hint": "Look.",
        "harmless": "",
        "text": "Say \\x1b hello.",
        "stance": "",
        "fingerprint": found.fingerprint,
        "engine": "core",
        "suppressed_by": "",
    }
    assert (report.name, report.digest, report.status, report.max_severity) == (
        "greeter",
        PACKAGE.digest(),
        "ok",
        "high",
    )


def test_a_hit_may_say_and_weigh_something_else_than_its_rule() -> None:
    report = scan(PACKAGE, rules=[rule(hitting(Hit("SKILL.md", 5, "x", "In an example.", "low")))])
    assert [(found.message, found.severity) for found in report.findings] == [("In an example.", "low")]


def test_the_offending_text_is_escaped_and_short() -> None:
    (found,) = scan(PACKAGE, rules=[rule(hitting(Hit("SKILL.md", 1, "\u202e\n" + "x" * 5_000)))]).findings
    assert found.text.startswith("\\u202e\\nxxx")
    assert len(found.text) < 300


@pytest.mark.each(
    ("path", "line", "text", "is_same"),
    [
        ("SKILL.md", 9, "Say  hello.", True),
        ("SKILL.md", 5, " Say hello. \n", True),
        ("SKILL.md", 5, "Say hallo.", False),
        ("other.md", 5, "Say hello.", False),
    ],
)
def test_a_fingerprint_survives_moving_lines_but_no_other_text(path: str, line: int, text: str, is_same: bool) -> None:
    one, other = (
        scan(PACKAGE, rules=[rule(hitting(hit))]).findings[0].fingerprint
        for hit in (Hit("SKILL.md", 5, "Say hello."), Hit(path, line, text))
    )
    assert (one == other) is is_same


def test_two_long_texts_with_the_same_beginning_have_two_fingerprints() -> None:
    hits = hitting(Hit("SKILL.md", 1, "x" * 300 + "a"), Hit("SKILL.md", 1, "x" * 300 + "b"))
    assert len({found.fingerprint for found in scan(PACKAGE, rules=[rule(hits)]).findings}) == 2


def test_the_worst_comes_first() -> None:
    order: list[Severity] = ["low", "critical", "info", "high", "medium"]
    report = scan(PACKAGE, rules=[rule(hitting(Hit("SKILL.md", 1, one, "", one))) for one in order])
    assert [found.severity for found in report.findings] == list(reversed(SEVERITIES))
    assert report.max_severity == "critical"


@pytest.mark.covers("A-30")
def test_a_rule_that_raises_makes_an_error_and_keeps_what_was_found() -> None:
    fine = rule(hitting(Hit("SKILL.md", 6, "twice", "", "low")), name="FINE")
    report = scan(PACKAGE, rules=[rule(breaking, name="BROKEN", severity="medium"), fine])
    assert report.status == "error"
    assert "BROKEN" in report.error
    assert [(found.rule, found.severity) for found in report.findings] == [
        ("SCAN_FAILED", "high"),
        ("BROKEN", "medium"),
        ("FINE", "low"),
    ]


@pytest.mark.covers("A-30")
@pytest.mark.each(
    "check",
    [
        lambda _view: 1 / 0,
        lambda _view: [None],
        lambda _view: [Hit("SKILL.md", 1, 7)],  # type: ignore[arg-type]
        lambda _view: [Hit("SKILL.md", "x", "y")],  # type: ignore[arg-type]
    ],
)
def test_whatever_is_wrong_with_a_rule_the_report_is_not_clean(check: Callable[[SkillView], Iterable[Hit]]) -> None:
    report = scan(PACKAGE, rules=[rule(check)])
    assert (report.status, report.max_severity) == ("error", "high")


@pytest.mark.covers("A-30")
def test_a_skill_that_takes_too_long_is_an_error() -> None:
    ticks = itertools.count()
    slow = [rule(hitting(Hit("SKILL.md", 1, "x", "", "low")), name=f"RULE_{number}") for number in range(50)]
    report = scan(PACKAGE, rules=slow, seconds=20, clock=lambda: float(next(ticks)))
    assert report.status == "error"
    assert "too long" in report.error
    assert report.error.count("too long") == 1
    assert report.max_severity == "high"
    assert any(found.rule == "RULE_0" for found in report.findings)


@pytest.mark.covers("A-30")
def test_a_rule_that_never_stops_finding_is_stopped() -> None:
    ticks = itertools.count()
    endless = rule(lambda _view: (Hit("SKILL.md", number, "x") for number in itertools.count()))
    report = scan(PACKAGE, rules=[endless], seconds=1_000, clock=lambda: float(next(ticks)))
    assert (report.status, len(report.findings)) == ("error", MAX_HITS + 1)
    assert report.not_shown > 100


@pytest.mark.covers("A-30")
def test_a_package_that_cannot_be_read_is_an_error() -> None:
    class Huge(MemoryPackage):
        def contents(self) -> list[DigestEntry]:
            raise PackageTooLarge("There is too much of it.", hint="Remove some.")

    class Broken(MemoryPackage):
        def contents(self) -> list[DigestEntry]:
            raise RuntimeError("broken")

    for package in (Huge({"SKILL.md": SKILL}), Broken({"SKILL.md": SKILL})):
        report = scan(package, rules=[], folder="greeter")
        assert (report.name, report.status, report.max_severity) == ("greeter", "error", "high")


@pytest.mark.covers("A-30")
def test_a_file_that_changes_while_it_is_scanned_is_an_error() -> None:
    class Changing(MemoryPackage):
        def read(self, path: str, *, limit: int = 0) -> bytes:
            return b"something else"

    report = scan(Changing({"SKILL.md": SKILL}), rules=[])
    assert (report.status, "changed" in report.error) == ("error", True)


def test_a_finding_is_not_said_twice() -> None:
    hit = Hit("SKILL.md", 5, "x")
    assert len(scan(PACKAGE, rules=[rule(hitting(hit, hit))]).findings) == 1


def test_a_flood_of_findings_does_not_hide_a_worse_one() -> None:
    flood = [Hit("SKILL.md", number, "x", "", "low") for number in range(1_000)]
    report = scan(PACKAGE, rules=[rule(hitting(*flood, Hit("SKILL.md", 1, "bad", "", "critical")))])
    assert report.max_severity == "critical"
    assert (len(report.findings), report.not_shown) == (MAX_HITS + 1, 1_000 - MAX_HITS)


def test_what_another_scanner_finds_can_only_make_it_worse() -> None:
    report = scan(PACKAGE, rules=[])
    more = Finding(
        rule="X", ast="", category="", severity="medium", path="SKILL.md", line=1, message="m", hint="h", text="t",
        engine="other",
    )  # fmt: skip
    assert report.with_findings([more]).max_severity == "medium"
    assert report.with_findings([]).max_severity == "none"


def test_a_report_as_a_dictionary_has_the_fields_that_are_promised() -> None:
    said = scan(PACKAGE, rules=[rule(hitting(Hit("SKILL.md", 5, "x")))]).as_dict()
    assert {"name", "digest", "status", "max_severity", "capabilities", "findings", "ruleset"} <= said.keys()


def test_the_ruleset_changes_with_the_rules() -> None:
    one, other = rule(breaking, name="ONE"), rule(breaking, name="OTHER")
    assert ruleset_of([one, other]) == ruleset_of([other, one])
    assert ruleset_of([one]) != ruleset_of([one, other])


CHECKS = "import re\nPATTERN = re.compile({pattern!r})\n\ndef check(view):\n    return ()\n"


@pytest.mark.parametrize("packed", [False, True], ids=["in a folder", "in an archive"])
def test_the_ruleset_changes_with_a_pattern(packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = set()
    for number, pattern in enumerate(("curl", "curl|wget")):
        place = tmp_path / str(number)
        if packed:
            with zipfile.ZipFile(place, "w") as archive:
                archive.writestr("checks_of_mine.py", CHECKS.format(pattern=pattern))
        else:
            place.mkdir()
            (place / "checks_of_mine.py").write_text(CHECKS.format(pattern=pattern))
        monkeypatch.syspath_prepend(place)
        monkeypatch.delitem(sys.modules, "checks_of_mine", raising=False)
        same = rule(importlib.import_module("checks_of_mine").check)
        assert ruleset_of([same]) == ruleset_of([same])
        said.add(ruleset_of([same]))
    assert len(said) == 2


def test_the_ruleset_covers_all_code_that_looks_at_a_skill() -> None:
    scan(MemoryPackage({"SKILL.md": "---\nname: a\n---\nRun `scripts/x.py`.", "scripts/x.py": "print(1)"}))
    covered = {line.partition(" ")[0].removesuffix(".__init__") for line in ruleset.engine()}
    assert {name for name in sys.modules if name.startswith("metier.scan.")} <= covered


def test_every_rule_says_what_it_is_and_what_to_do() -> None:
    rules = all_rules()
    assert len({one.id for one in rules}) == len(rules)
    for one in rules:
        assert one.id == one.id.upper()
        assert one.severity in SEVERITIES
        assert one.ast in {f"AST{number:02}" for number in range(1, 11)}
        assert one.message.endswith((".", "?", "!"))
        assert one.hint.endswith((".", "?", "!"))


@pytest.mark.covers("A-25")
def test_no_bundled_skill_has_a_finding_of_weight() -> None:
    for path in sorted((Path(metier.__file__).parent / "bundled").glob("*/SKILL.md")):
        report = scan(FolderPackage(path.parent))
        assert (report.status, report.max_severity) in (("ok", "none"), ("ok", "info"), ("ok", "low")), report.findings
