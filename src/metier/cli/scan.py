"""`metier scan`."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from argparse import Namespace
from collections import Counter
from typing import TYPE_CHECKING, Any

import metier.scan
import metier.source
from metier._lazy import asdict, dataclass, replace
from metier.cli.identity import acting
from metier.cli.layout import wrap
from metier.cli.output import Progress, Style, marked_capabilities, plural, print_json
from metier.cli.parser import Parser
from metier.cli.rule_packs import add_option, chosen_packs, policy_problem
from metier.errors import InvalidArgument, PolicyInvalid
from metier.scan.finding import rank
from metier.scan.report import ScanReport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from metier.cli.scan_targets import ScanTarget
    from metier.guard.policy.effective import EffectivePolicy
    from metier.scan.external import ExternalScanner
    from metier.scan.finding import Finding
    from metier.scan.pack_store import PackRef
    from metier.scan.suppression import Suppression
    from metier.store import Person, ScanRow, TenantScope


_FEW = 20
"""Skills that are named even when nothing was found in them, and findings that are shown of one."""
_BAR = 40
_MAX_SUPPRESSIONS = 64 * 1024
_NOTHING = ScanReport(name="", digest="")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scanned:
    """A skill and the report of its scan."""

    path: str
    """The path of its SKILL.md."""
    report: ScanReport
    kept: tuple[ScanRow, ...] = ()
    """The results that the store has of it now."""

    def is_bad(self, fail_on: str) -> bool:
        """Whether it could not be scanned, or has findings of a severity or above."""
        return self.report.status == "error" or rank(self.report.max_severity) >= rank(fail_on)

    def as_json(self) -> dict[str, Any]:
        kept = [{name: value for name, value in asdict(row).items() if name != "findings"} for row in self.kept]
        return {"path": self.path, **self.report.as_dict(), "kept": kept}


def add(parser: Parser) -> None:
    parser.example("metier scan ./skills")
    parser.description = (
        "Look for signs of an attack in skills, without running anything. `metier scan rules` lists and tests the "
        "rules, and begins new ones; a folder of that name is `./rules`."
    )
    parser.library()
    parser.option(
        "paths",
        "PATH",
        "a SKILL.md, a skill's folder, a folder of skills, an archive; or the name of a skill that is there",
        nargs="+",
    )
    parser.option(
        "--fail-on",
        "SEVERITY",
        f"exit with 1 from this severity on: {', '.join(metier.scan.SEVERITIES)} (default: high)",
        choices=metier.scan.SEVERITIES,
        default="high",
    )
    parser.option("--suppressions", "FILE", "findings that somebody takes responsibility for (YAML)")
    parser.option(
        "--import",
        "FILE",
        "add what another scanner found (SARIF 2.1.0); may be given again",
        action="append",
        default=[],
        dest="imported",
    )
    parser.option(
        "--with",
        "COMMAND",
        "run another scanner that writes SARIF, with {dir} for the skill's folder; may be given again",
        action="append",
        default=[],
        dest="scanners",
    )
    add_option(parser)
    parser.flag("--together", "also find what two of the skills do together and neither does alone")
    parser.flag("--keep", "also run the scanners that policy names, and keep what all of them say for whoever decides")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON for a program to read")
    form.add_argument("--sarif", action="store_true", help="print SARIF 2.1.0")


def run(options: Namespace) -> int:
    from metier.cli.scan_targets import assign_findings, targets_of

    started = time.monotonic()
    suppressions = _suppressions(options.suppressions) if options.suppressions else ()
    scanners = _scanners(options)
    imported = {path: _imported(path) for path in options.imported}
    packs = chosen_packs(options.packs)
    places = targets_of(options)
    own: dict[str, list[Finding]] = {}
    strays: dict[str, list[Finding]] = {}
    for path, findings in imported.items():
        homes, strays[path] = assign_findings(findings, places.found, options.paths)
        for location, more in homes.items():
            own.setdefault(location, []).extend(more)
    found: list[_Scanned] = []
    with _recorder_of(options) as recorder:
        progress = Progress("Scanning", len(places.found))
        for place in places.found.values():
            progress.step()
            found.append(_scan(place, own.get(place.location, ()), suppressions, scanners, recorder, packs))
        progress.end()
    if problem := policy_problem():
        found = [replace(one, report=one.report.failed(problem)) for one in found]
    failed = {**places.refused, **dict.fromkeys(places.missing, "There is nothing of that name.")}
    found += [_Scanned(path=path, report=_NOTHING.failed(why)) for path, why in failed.items()]
    for path, more in strays.items():
        if more:
            found.append(_Scanned(path=path, report=_NOTHING.with_findings(more, suppressions)))
    together = _together(found) if options.together else []
    if options.json:
        shape = {"skills": [one.as_json() for one in found]}
        print_json(shape | {"together": [each.as_dict() for each in together]} if options.together else shape)
    elif options.sarif:
        print_json(metier.scan.sarif_of([(_relative(os.path.dirname(one.path)), one.report) for one in found]))
    else:
        _print_scanned(found, options.fail_on, time.monotonic() - started)
        for finding in together:
            _print_finding(Style(sys.stdout), finding)
        _print_recorded([row for one in found for row in one.kept])
    is_bad = any(rank(each.severity) >= rank(options.fail_on) for each in together)
    return 2 if places.missing else 1 if is_bad or any(one.is_bad(options.fail_on) for one in found) else 0


def _together(found: Sequence[_Scanned]) -> list[Finding]:
    """Findings about each two of the skills, as grave as policy says."""
    from metier.guard.policy.files import Policies
    from metier.scan.together import found_together

    return found_together([one.report for one in found], Policies.discover().current().scan.together)


def _scan(
    place: ScanTarget,
    imported: Sequence[Finding],
    suppressions: tuple[Suppression, ...],
    scanners: Sequence[ExternalScanner],
    recorder: _Recorder | None,
    packs: Sequence[PackRef],
) -> _Scanned:
    """Scan a skill with this scanner and others, and add the findings that were imported."""
    report = own = metier.scan.scan(place.package, packs=packs, suppressions=suppressions, folder=place.folder)
    others: list[ScanReport] = []
    kept: tuple[ScanRow, ...] = ()
    if recorder is not None and own.digest:
        others, kept = recorder.record(place, own, imported)
    if scanners:
        from metier.run.external_scanner import start_scanner

        others += [scanner.report(place.package, start_scanner, name=own.name) for scanner in scanners]
    for other in others:
        report = report.with_findings(other.findings, suppressions)
        if other.status == "error":
            report = replace(report, status="error", error=f"{report.error} {other.error}".strip())
    return _Scanned(path=place.location, report=report.with_findings(imported, suppressions), kept=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recorder:
    """Records the results of the scanners that policy names, for a tenant."""

    scope: TenantScope
    person: Person
    effective: EffectivePolicy

    def record(
        self, place: ScanTarget, own: ScanReport, imported: Sequence[Finding]
    ) -> tuple[list[ScanReport], tuple[ScanRow, ...]]:
        """Run the scanners that policy names, and write all reports and imported findings to the store."""
        from metier.guard.scan_records import record_scans
        from metier.run.external_scanner import reports_of

        others = reports_of(self.effective.scan.commands, place.package, name=own.name, digest=own.digest)
        reports = {"core": own, **others}
        more: dict[str, list[Finding]] = {}
        for found in imported:
            name = "core" if found.engine == "metier" else found.engine
            # Nobody knows which content it was found in: it adds to what is known, and is no look at this one.
            more.setdefault(name if name in reports else f"{name} (imported)", []).append(found)
        empty = ScanReport(name=own.name, digest=own.digest)
        for name, findings in more.items():
            reports[name] = reports.get(name, empty).with_findings(findings)
        rows = record_scans(self.scope, self.person, reports, path=place.location, policy=self.effective.digest)
        return list(others.values()), rows


@contextlib.contextmanager
def _recorder_of(options: Namespace) -> Iterator[_Recorder | None]:
    """Make the recorder for `--keep`; None without it. Raises `NotPermitted` where the user may not record results."""
    if not options.keep:
        yield None
        return
    from metier.guard.policy.files import Policies
    from metier.guard.scan_records import may_keep

    with acting(options) as (scope, person):
        may_keep(scope, person)
        yield _Recorder(scope=scope, person=person, effective=Policies.discover().current())


def _suppressions(path: str) -> tuple[Suppression, ...]:
    try:
        text = _read(path, _MAX_SUPPRESSIONS).decode()
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path!r} is not UTF-8 text.", hint="Save it as UTF-8.") from None
    try:
        return metier.scan.read_suppressions(text, where=path)
    except PolicyInvalid as error:
        # A file that was named here and cannot be used is wrong usage, and must not look like a finding.
        raise InvalidArgument(error.message, hint=error.hint, **error.context) from None


def _scanners(options: Namespace) -> tuple[ExternalScanner, ...]:
    if not options.scanners:
        return ()
    if options.keep:
        # Whoever scans would else say by which scanner a content is clean.
        raise InvalidArgument(
            "Only what scanners say that policy names is kept.",
            hint="Name the scanner in `scan.engines` of a policy file, or leave out --with or --keep.",
        )
    return tuple(metier.scan.scanner_of(command) for command in options.scanners)


def _imported(path: str) -> tuple[Finding, ...]:
    from metier.scan.sarif import MAX_BYTES, read_sarif

    # Below the root every absolute path is relative, so that it can be told which skill it lies in.
    return read_sarif(_read(path, MAX_BYTES), root="/")


def _read(path: str, limit: int) -> bytes:
    try:
        with open(metier.source.expanded(path), "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise InvalidArgument(f"{path!r} cannot be read: {error.strerror}.", hint="Check the path.") from None
    if len(data) > limit:
        raise InvalidArgument(f"{path!r} has more than {limit:,} bytes.", hint="Name the right file.")
    return data


def _relative(folder: str) -> str:
    """Return a folder relative to the working folder, where it is below; code hosts show findings by such paths."""
    here = os.getcwd()
    return os.path.relpath(folder, here) if folder.startswith(os.path.join(here, "")) else folder


def _print_scanned(scanned: Sequence[_Scanned], fail_on: str, seconds: float) -> None:
    """Print the reports of skills, each with the path of its SKILL.md."""
    style = Style(sys.stdout)
    for one in sorted(scanned, key=lambda one: -rank(one.report.max_severity)):
        if one.report.findings or one.report.status == "error" or len(scanned) <= _FEW:
            mark = style.bad("✗") if one.is_bad(fail_on) else style.good("✓")
            print(f"{mark} {style.strong(Style.text(one.report.name or '?'))} {style.dim(Style.text(one.path))}")
            _print_report(style, one.report, fail_on)
    findings = [found for one in scanned for found in one.report.findings]
    _print_picture(style, findings)
    bad = sum(one.is_bad(fail_on) for one in scanned)
    suppressed = sum(bool(found.suppressed_by) for found in findings)
    said = [plural(len(scanned), "skill")]
    what = f"of severity {fail_on} or above"
    said.append(f"{bad:,} with findings {what}" if bad else f"nothing {what}")
    if suppressed:
        said.append(f"{suppressed:,} suppressed")
    line = ", ".join(said) + "."
    took = style.dim(f" ({seconds:.1f} s)") if seconds >= 1 and style.is_terminal else ""
    print((style.bad(line) if bad else style.good(line)) + took)


def _print_recorded(rows: Sequence[ScanRow]) -> None:
    """Print a line for each scanner whose results are in the store now."""
    style = Style(sys.stdout)
    for engine in dict.fromkeys(row.engine for row in rows):
        own = [row for row in rows if row.engine == engine]
        failed = sum(row.status != "ok" for row in own)
        said = f"Kept what {Style.text(engine)} says of {plural(len(own), 'skill')}"
        print(style.bad(f"{said}; it failed for {failed:,}.") if failed else style.dim(f"{said}."))


def _print_report(style: Style, report: ScanReport, fail_on: str) -> None:
    if report.capabilities:
        print(f"  {style.dim('can: ' + marked_capabilities(report.capabilities, report.undeclared, report.declared))}")
    if report.declared:
        print(f"  {style.dim('declares: ' + ', '.join(report.declared))}")
    for what, facts in (("takes", report.takes), ("sends to", report.sends)):
        if facts:
            firsts = {fact.what: str(fact) for fact in reversed(facts)}
            print(f"  {style.dim(f'{what}: ' + ', '.join(reversed(firsts.values())))}")
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for found in report.findings:
        if not found.suppressed_by:
            key = (found.engine, found.severity, found.rule, found.path, found.message, found.text, found.stance)
            groups.setdefault(key, []).append(found)
    known: set[tuple[str, str]] = set()
    rest: dict[str, list[Finding]] = {}
    for number, (first, *more) in enumerate(groups.values()):
        # What fails the scan is printed, however much it is.
        if rank(first.severity) >= rank(fail_on) or (first.severity != "info" and number < _FEW):
            _print_finding(style, first, more, known)
            known |= {(first.rule, first.message), (first.rule, first.hint)}
        else:
            rest.setdefault(first.rule, []).extend((first, *more))
    if rest:
        named = "; ".join(f"{Style.text(rule)} {_places(some)}" for rule, some in rest.items())
        print(f"  {style.dim(f'and {sum(map(len, rest.values())):,} more, which --json shows: {named}')}")
    for found in report.findings:
        if found.suppressed_by:
            print(f"  {style.dim(f'suppressed {found.rule} {_places([found])}: {Style.text(found.suppressed_by)}')}")


def _print_finding(
    style: Style, found: Finding, more: Sequence[Finding] = (), known: Collection[tuple[str, str]] = ()
) -> None:
    """Print a finding; `more` has the same text elsewhere. What is `known` of a rule was printed before."""
    engine = "" if found.engine == "core" else style.dim(f" ({Style.text(found.engine)})")
    severity = _paint(style, found.severity)(f"{found.severity:<8}")
    print(f"  {severity} {style.strong(Style.text(found.rule))} {_places([found, *more])}{engine}")
    if (found.rule, found.message) not in known:
        print(f"           {Style.text(found.message, 1_000)}")
    if found.text:
        # Words that are longer than a line, such as links, go on behind the bar, too.
        width = max(20, style.width - len(_MARGIN))
        for line in wrap(re.sub(rf"(\S{{{width}}})(?=\S)", r"\1 ", found.text) + style.dim(_said_as(found)), width):
            print(f"           {style.dim('│')} {line}")
    if (found.rule, found.hint) in known:
        return
    print(f"           {style.dim('→ ' + Style.text(found.hint, 1_000))}")
    if found.harmless:
        print(f"           {style.dim('Harmless if: ' + Style.text(found.harmless, 1_000))}")


_MARGIN = " " * 11 + "│ "
_SAID = {"order": "as an instruction", "fixture": "in a sample", "teaching": "in teaching material"}


def _said_as(found: Finding) -> str:
    """The stance of what was found, in words: nothing of descriptions, as all others are, no excuse if it is high."""
    is_high = rank(found.severity) >= rank("high")
    is_told = found.stance in ("order", "command") or (found.stance not in ("", "description") and not is_high)
    return f"  ({_SAID.get(found.stance, f'as a {found.stance}')})" if is_told else ""


def _places(some: Sequence[Finding]) -> str:
    """The places of findings, each file named once: `SKILL.md:5, :9`."""
    paths = ["", *(found.path for found in some)]
    said = [
        Style.text(f"{found.path if found.path != before else ''}:{found.line}", 300)
        for found, before in zip(some[:_FEW], paths, strict=False)
    ]
    return ", ".join(said) + (f" and {len(some) - _FEW:,} more" if len(some) > _FEW else "")


def _paint(style: Style, severity: str) -> Callable[[str], str]:
    if rank(severity) >= rank("high"):
        return style.bad
    return style.warn if severity == "medium" else style.dim


def _print_picture(style: Style, findings: Sequence[Finding]) -> None:
    """A bar for each severity, when there are enough findings to make a picture of."""
    counts = Counter(found.severity for found in findings if not found.suppressed_by)
    if counts.total() < 3:
        return
    most = max(counts.values())
    for severity in reversed(metier.scan.SEVERITIES):
        if counts[severity]:
            bar = "█" * max(1, round(_BAR * counts[severity] / most))
            print(f"{severity:>8} {_paint(style, severity)(bar)} {counts[severity]:,}")
