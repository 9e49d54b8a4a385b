"""JUnit XML, which every CI service reads, of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

from metier.skill import shown

if TYPE_CHECKING:
    from metier.proof.report import CaseResult, Report, SkillReport, TierResult

_MAX_TEXT = 2_000


def junit_of(report: Report) -> str:
    """The report as JUnit XML: a suite for each tier of each skill."""
    root = ElementTree.Element("testsuites", name="metier", time=f"{report.seconds:.3f}")
    for skill in report.skills:
        for tier in skill.tiers:
            _add_suite(root, skill, tier, report.started_at)
        if skill.notes:
            _add_notes(root, skill)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_suite(root: ElementTree.Element, skill: SkillReport, tier: TierResult, started_at: str) -> None:
    name = f"{_text(skill.name)}.{tier.tier}"
    suite = ElementTree.SubElement(root, "testsuite", name=name, time=f"{tier.seconds:.3f}", timestamp=started_at)
    suite.attrib |= {
        "tests": str(len(tier.cases)),
        "failures": str(tier.count("failed")),
        "skipped": str(tier.count("skipped")),
        "errors": "0",
    }
    for case in tier.cases:
        _add_case(suite, name, case, skill.location)


def _add_case(suite: ElementTree.Element, suite_name: str, case: CaseResult, location: str) -> None:
    element = ElementTree.SubElement(
        suite,
        "testcase",
        classname=suite_name,
        name=_text(case.id),
        time=f"{case.seconds:.3f}",
        file=_text(location),
    )
    if case.verdict == "failed":
        failure = ElementTree.SubElement(element, "failure", message=_text(case.reason))
        failure.text = _text(f"{case.reason} {case.hint}".strip())
    elif case.verdict == "skipped":
        ElementTree.SubElement(element, "skipped", message=_text(case.reason))


def _add_notes(root: ElementTree.Element, skill: SkillReport) -> None:
    """Problems of the suite itself, as cases of their own."""
    errors = [note for note in skill.notes if note.is_error]
    name = f"{_text(skill.name)}.suite"
    suite = ElementTree.SubElement(root, "testsuite", name=name, time="0")
    counts = {"tests": len(skill.notes), "failures": len(errors), "skipped": len(skill.notes) - len(errors)}
    suite.attrib |= {key: str(count) for key, count in counts.items()} | {"errors": "0"}
    for note in skill.notes:
        case = ElementTree.SubElement(
            suite, "testcase", classname=name, name=_text(note.at or note.path), time="0", file=_text(note.path)
        )
        ElementTree.SubElement(case, "failure" if note.is_error else "skipped", message=_text(note.message))


def _text(text: str) -> str:
    """Text that XML can hold: without control characters, on one line."""
    return shown(text, _MAX_TEXT)
