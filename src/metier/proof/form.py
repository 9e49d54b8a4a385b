"""The tier of form: the skill as it is written, and its scripts as they start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from metier.errors import MetierError
from metier.hub.skill_files import package_of, skill_file
from metier.proof.report import CaseResult, TierResult
from metier.scan import Finding, ScanReport, sarif_of, scan
from metier.scan.finding import rank
from metier.skill import estimate_tokens
from metier.skill.validate import check, check_strictly

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from metier import Session
    from metier.proof.report import Report, SkillReport
    from metier.proof.subject import TestSubject
    from metier.scan import Severity
    from metier.skill import Diagnostic

_REFERENCES = frozenset({"reference-missing", "hook-missing", "symlink-broken", "file-link-outside"})
_SCRIPTS = frozenset({"script-syntax"})
_SIZE = frozenset({"body-too-long", "body-many-tokens"})
_GRAVE = "high"
"""The least severity of a finding of the scanner with which a skill fails."""
_SEVERITIES: dict[str, Severity] = {"error": "high", "warning": "medium", "info": "info"}
_HELP_SECONDS = 10.0
_MAX_SCRIPTS = 50
_MAX_TEXT = 300


def run_form(subject: TestSubject) -> TierResult:
    """Check what a skill is made of, and start each of its scripts with `--help` in the sandbox."""
    return TierResult.of("form", [*_static_cases(subject), *_script_cases(subject)])


def _static_cases(subject: TestSubject) -> Iterator[CaseResult]:
    package, file = package_of(subject.files), skill_file(subject.files)
    data = subject.files[file][1]
    document, found = check(data, package, folder=subject.name, file=file)
    violations = check_strictly(data, folder="", file=file, own_fields=True)
    others = [one for one in found if one.code not in _REFERENCES | _SCRIPTS | _SIZE]
    errors = [*violations, *(one for one in others if one.severity == "error")]
    yield _diagnostic_case("valid", errors, [*violations, *others])
    for id_, codes in (("references", _REFERENCES), ("syntax", _SCRIPTS)):
        wrong = [one for one in found if one.code in codes]
        yield _diagnostic_case(id_, wrong, wrong)
    yield _size_case(estimate_tokens(document.body), subject.suite.max_tokens)
    yield _scan_case(scan(package).findings)


def _diagnostic_case(id_: str, wrong: Sequence[Diagnostic], all_: Iterable[Diagnostic]) -> CaseResult:
    data = {"diagnostics": [one.as_json() for one in all_]}
    if not wrong:
        return CaseResult(id=id_, verdict="passed", data=data)
    more = f" ({len(wrong) - 1} more)" if len(wrong) > 1 else ""
    place = f"line {wrong[0].line}: " if wrong[0].line else ""
    return CaseResult(
        id=id_, verdict="failed", reason=f"{place}{wrong[0].message}{more}", hint=wrong[0].hint, data=data
    )


def _size_case(tokens: int, most: int) -> CaseResult:
    data = {"tokens": tokens, "max_tokens": most}
    if tokens <= most:
        return CaseResult(id="size", verdict="passed", data=data)
    return CaseResult(
        id="size",
        verdict="failed",
        reason=f"The instructions have about {tokens:,} tokens; {most:,} are allowed.",
        hint="Move details into files of references/, or set max_tokens in the suite.",
        data=data,
    )


def _scan_case(findings: Sequence[Finding]) -> CaseResult:
    counting = [one for one in findings if not one.suppressed_by]
    data: dict[str, Any] = {"findings": [one.as_dict() for one in findings]}
    grave = [one for one in counting if rank(one.severity) >= rank(_GRAVE)]
    if not grave:
        return CaseResult(id="scan", verdict="passed", data=data)
    return CaseResult(
        id="scan",
        verdict="failed",
        reason=f"{grave[0].path}: {grave[0].message} ({grave[0].severity}, {grave[0].rule})",
        hint=grave[0].hint,
        data=data,
    )


def _script_cases(subject: TestSubject) -> Iterator[CaseResult]:
    scripts = [file.path for file in package_of(subject.files).listing().scripts()][:_MAX_SCRIPTS]
    if not scripts:
        return
    try:
        session = subject.session(subject.workspace())
    except MetierError as error:
        yield CaseResult.of_error("help", error)
        return
    with session:
        for script in scripts:
            yield _help_case(session, script)


def _help_case(session: Session, script: str) -> CaseResult:
    id_ = f"help {script}"
    try:
        outcome = session.run_blocking(script, ["--help"], seconds=_HELP_SECONDS)
    except MetierError as error:
        return CaseResult.of_error(id_, error)
    data = {"exit_code": outcome.exit_code, "runner": outcome.runner}
    if outcome.exit_code == 0:
        return CaseResult(id=id_, verdict="passed", seconds=outcome.duration_ms / 1_000, data=data)
    last = next(iter(reversed(outcome.stderr.strip().splitlines())), "")[:_MAX_TEXT]
    ended = "did not answer in time" if outcome.timed_out else f"ended with {outcome.exit_code}"
    return CaseResult(
        id=id_,
        verdict="failed",
        reason=f"`--help` {ended}{f': {last}' if last else ''}.",
        hint="Let it print its usage and end with 0, without reading or writing anything.",
        seconds=outcome.duration_ms / 1_000,
        data=data,
    )


def form_sarif(report: Report) -> dict[str, Any]:
    """The problems of form of all skills as one SARIF log."""
    return sarif_of([(os.path.dirname(skill.location), _scan_report(skill)) for skill in report.skills])


def _scan_report(skill: SkillReport) -> ScanReport:
    """The diagnostics and findings of a skill in the shape that SARIF is made of."""
    form = skill.tier("form")
    cases = form.cases if form is not None else ()
    found = [Finding(**finding) for case in cases for finding in case.data.get("findings", ())]
    for case in cases:
        for one in case.data.get("diagnostics", ()):
            found.append(_finding(one["code"], _SEVERITIES[one["severity"]], one["line"], one["message"], one["hint"]))
        if case.verdict == "failed" and not {"findings", "diagnostics"} & case.data.keys():
            found.append(_finding(case.id.partition(" ")[0], "medium", 1, case.reason, case.hint))
    return ScanReport(name=skill.name, digest=skill.digest, findings=tuple(dict.fromkeys(found)))


def _finding(rule: str, severity: Severity, line: int | None, message: str, hint: str) -> Finding:
    return Finding(
        rule=rule,
        ast="",
        category="",
        severity=severity,
        path="SKILL.md",
        line=line or 1,
        message=message,
        hint=hint,
        text="",
        engine="form",
    )
