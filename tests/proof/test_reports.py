"""Reports of tests in the formats that others read."""

from __future__ import annotations

import json
import xml.etree.ElementTree
from html.parser import HTMLParser

import pytest

from metier.errors import InvalidArgument
from metier.proof.comparison import CaseKey, compare_reports, read_verdicts, verdicts_of
from metier.proof.junit import junit_of
from metier.proof.report import CaseResult, Report, SkillReport, TierResult, Verdict
from metier.proof.report_pages import html_of, markdown_of
from metier.proof.suite import Note

HOSTILE = "<script>alert(1)</script>|x|\x1b[31m\x00\ud800 [a](javascript:b) @team `c` &amp; ]]>"


def report_of(verdict: Verdict = "failed", text: str = HOSTILE) -> Report:
    case = CaseResult(id=text, verdict=verdict, reason=text, hint=text, seconds=0.5)
    passed = CaseResult(id="fine", verdict="passed")
    tiers = (TierResult.of("form", [case, passed]), TierResult.of("rules", [], reason=text))
    note = Note(message=text, path=text, at=text, line=3, is_error=verdict == "failed")
    skill = SkillReport(name=text, digest="sha256:1", location=f"/a/{text}/SKILL.md", tiers=tiers, notes=(note,))
    return Report(skills=(skill,), started_at="2026-01-31T12:00:00+00:00", seconds=1.5, cost=0.25, version="1")


class Elements(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        assert not any(name.startswith("on") for name, _ in attrs)


def test_a_page_has_no_script_and_reaches_nothing_whatever_skills_are_called() -> None:
    page = Elements()
    page.feed(html_of(report_of(), compare_reports({}, verdicts_of(report_of()))))
    assert not page.names & {"script", "iframe", "img", "link", "object", "base", "form"}
    assert page.links == ["#skill-0"]


def test_markdown_lets_no_name_make_a_link_a_mention_or_a_tag() -> None:
    text = markdown_of(report_of())
    assert "<script" not in text and "[a](" not in text and "@team" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.replace("\\|", "").count("|") for line in rows}) == 1


@pytest.mark.parametrize("address", ["https://example.com/a", "www.example.com", "mailto:a@example.com", "$x$"])
def test_markdown_makes_no_link_and_no_formula_of_plain_words(address: str) -> None:
    case = CaseResult(id=address, verdict="failed", reason=address)
    skills = (SkillReport(name="a", digest="", location="", tiers=(TierResult.of("rules", [case]),)),)
    text = markdown_of(Report(skills=skills))
    assert not any(one in text for one in ("://", "www.", "mailto:a", " $x"))


def test_junit_counts_cases_and_problems_of_the_suite() -> None:
    root = xml.etree.ElementTree.fromstring(junit_of(report_of()))
    suites = root.findall("testsuite")
    assert [(suite.get("tests"), suite.get("failures")) for suite in suites] == [("2", "1"), ("0", "0"), ("1", "1")]
    assert len(root.findall(".//failure")) == 2


CHANGES: list[tuple[dict[str, str], dict[str, str], str]] = [
    ({"a": "passed"}, {"a": "failed"}, "worse"),
    ({"a": "passed"}, {"a": "skipped"}, "worse"),
    ({"a": "passed"}, {}, "worse"),
    ({"a": "failed"}, {"a": "passed"}, "better"),
    ({}, {"a": "passed"}, "better"),
    ({}, {"a": "failed"}, "new_failures"),
    ({"a": "passed"}, {"a": "passed"}, ""),
    ({"a": "failed"}, {"a": "skipped"}, ""),
]


@pytest.mark.parametrize(("base", "now", "change"), CHANGES)
def test_a_case_that_passed_and_no_longer_does_is_worse_also_when_it_is_gone(
    base: dict[str, str], now: dict[str, str], change: str
) -> None:
    def keyed(verdicts: dict[str, str]) -> dict[CaseKey, str]:
        return {CaseKey("s", "rules", case): verdict for case, verdict in verdicts.items()}

    found = compare_reports(keyed(base), keyed(now))
    lists = {"worse": found.worse, "better": found.better, "new_failures": found.new_failures}
    assert [name for name, keys in lists.items() if keys] == ([change] if change else [])


def test_a_report_that_was_printed_is_read_again() -> None:
    report = report_of(text="plain")
    assert read_verdicts(json.dumps(report.as_dict()).encode(), "base.json") == verdicts_of(report)


_NO_VERDICT = '{"skills": [{"name": "a", "tiers": [{"tier": "form", "cases": [{"id": "b", "verdict": "maybe"}]}]}]}'
_NO_CASE = '{"skills": [{"name": 1, "tiers": [{"tier": 1, "cases": [2]}]}]}'


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"skills": 1}', '{"skills": [1]}', _NO_CASE, _NO_VERDICT, "[" * 9_000]
)
def test_anything_else_is_refused_as_a_base(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"base\.json"):
        read_verdicts(text.encode(), "base.json")
