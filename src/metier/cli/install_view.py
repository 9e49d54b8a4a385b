"""Skills that are about to be installed, as people and programs see them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from metier.cli.output import Style, plural, print_done, print_warning, table, unwrapped
from metier.errors import InvalidArgument
from metier.guard.signatures import SIGNATURE_FILE
from metier.hints import for_person
from metier.hub.proposal_page import shown_lines
from metier.skill import FolderPackage, parse
from metier.skill.package import files_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.hub.install_plan import InstallPlan
    from metier.hub.installation import Installed
    from metier.hub.sources.fetch import Candidate

_MOST_LISTED = 60
_MOST_FINDINGS = 6


def print_candidates(candidates: Sequence[Candidate]) -> None:
    """List the skills of a source beside the output, by numbers."""
    rows = []
    for number, one in enumerate(candidates[:_MOST_LISTED], 1):
        about = one.about
        if not about and not one.is_plugin:
            about = parse(one.skill_file(), folder=one.folder).skill.description
        kind = "(plugin) " if one.is_plugin else ""
        rows.append((f"{number:>4}", one.folder, f"{kind}{about or 'no description'}"))
    print(table(Style(sys.stderr), ("   #", "NAME", "WHAT IT DOES"), rows, most_lines=1), file=sys.stderr)
    if len(candidates) > _MOST_LISTED:
        print(f"      and {plural(len(candidates) - _MOST_LISTED, 'skill')} more", file=sys.stderr)


def ask_names(candidates: Sequence[Candidate]) -> list[str]:
    """Let the person at the terminal pick skills, by numbers or names."""
    from metier.cli.terminal import ask_line

    numbers = {str(number): one.path for number, one in enumerate(candidates, 1)}
    names = {one.folder for one in candidates}
    while True:
        words = ask_line("Which of them? Numbers or names, or all: ").replace(",", " ").split()
        if not words:
            raise InvalidArgument("No skill was named.", hint="Name one, or `all`.")
        if words == ["all"]:
            return [one.path for one in candidates if not one.is_plugin]
        wrong = [word for word in words if word.isdecimal() and word not in numbers and word not in names]
        if not wrong:
            return [numbers.get(word, word) for word in words]
        print_warning(f"There is no number {wrong[0]}; the last one is {len(candidates)}.")


def plan_shape(plan: InstallPlan) -> dict[str, object]:
    """A plan as JSON has it."""
    skill, decision, signature = plan.skill, plan.decision, plan.judged.signature
    return {
        "name": skill.name,
        "version": plan.version,
        "description": skill.description,
        "license": skill.license,
        "package": plan.candidate.package,
        "path": plan.candidate.path,
        "location": plan.home.location,
        "layer": plan.home.layer,
        "digest": plan.digest,
        "over": plan.there,
        "diff": _difference(plan),
        "changed": not plan.is_unchanged,
        "capabilities": list(plan.capabilities),
        "new_capabilities": list(plan.new_capabilities),
        "asks_for": _asks_for(plan),
        "packages": list(plan.packages.lines),
        "packages_problem": plan.packages.problem,
        "findings": [found.as_dict() for found in plan.report.findings],
        "scan_seconds": round(plan.scan_seconds, 6),
        "shadows": list(plan.shadows),
        "shadowed_by": plan.shadowed_by,
        "notes": list(plan.candidate.notes),
        "signature": {"kind": signature.kind, "signer": signature.signer, "status": signature.status},
        "exceptions": list(plan.judged.exceptions),
        "outcome": decision.outcome,
        "code": decision.code,
        "reason": decision.reason,
    }


def installed_shape(one: Installed) -> dict[str, object]:
    """The keys that JSON has of a skill once it is installed."""
    return {
        "changed": not one.is_unchanged,
        "approved": not one.not_approved,
        "packages_problem": one.packages_problem,
    }


def print_installed(one: Installed, verb: str, *, tells_approval: bool) -> None:
    """Say that a skill was installed or updated, where, and perhaps that it is not approved by that."""
    already = "is installed already" if one.not_approved else "is installed already, and approved"
    how = already if one.is_unchanged else f"is {verb.lower().removesuffix('e')}ed"
    print_done(f"{Style.text(one.plan.home.ref)} {how}: {Style.text(one.plan.home.location, 4_096)}")
    if one.not_approved and tells_approval:
        why = Style.text(one.not_approved, 1_000)
        print(Style(sys.stdout).warn(f"  Its content is not approved by that. {why}"))


def _difference(plan: InstallPlan) -> str:
    from metier.hub.diff import difference

    if plan.there is None or plan.is_unchanged:
        return ""
    both = (files_of(FolderPackage(plan.home.folder)), plan.files)
    # A signature is nothing that anybody reads: the plan names the signer.
    return difference(*({path: one for path, one in files.items() if path != SIGNATURE_FILE} for files in both))


def _asks_for(plan: InstallPlan) -> dict[str, str]:
    """The rights and parts that a skill asks for, beyond its own files."""
    skill, execution = plan.skill, plan.skill.execution
    asked = {
        "tools": None if skill.allowed_tools is None else ", ".join(skill.allowed_tools) or "none",
        "network": str(execution.network) if execution is not None and execution.network else None,
        "files": ", ".join(execution.allowed_paths) if execution is not None else None,
        "skills": ", ".join(skill.requires),
        "packages": ", ".join(plan.packages.names),
    }
    return {what: text for what, text in asked.items() if text}


def print_plan(plan: InstallPlan) -> None:
    """Show what would be installed, and what speaks against it."""
    style, skill = Style(sys.stdout), plan.skill
    version = f" {Style.text(plan.version, 40)}" if plan.version else ""
    print(f"{style.strong(Style.text(skill.name))}{version}  {Style.text(skill.description, 300)}")
    for label, text in _lines(plan, style):
        print(f"  {style.dim(f'{label:<12}')}{text}")
    print(shown_lines(_difference(plan)), end="", file=unwrapped(sys.stdout))


def _lines(plan: InstallPlan, style: Style) -> Iterator[tuple[str, str]]:
    skill, resolved = plan.skill, plan.resolved
    at = f" at {Style.text(resolved.revision, 19)}" if resolved.revision else ""
    yield "from", f"{Style.text(resolved.address.name, 300)}{at}"
    how = {None: "", plan.digest: ", as it is there already"}.get(plan.there, ", in place of another content")
    yield "to", f"{Style.text(plan.home.location, 300)} ({plan.home.layer}){how}"
    yield "licence", Style.text(skill.license or "none named", 200)
    new = plan.new_capabilities if plan.there is not None else ()
    can_do = [*(style.warn(f"{name} (new)") for name in new), *(name for name in plan.capabilities if name not in new)]
    yield "can do", ", ".join(can_do) or "nothing but instruct"
    for what, text in _asks_for(plan).items():
        yield "asks for", f"{what}: {Style.text(text, 300)}"
    signature = plan.judged.signature
    nobody = "nobody" if signature.status == "unsigned" else "somebody who is not known here"
    yield "signed by", Style.text(signature.signer or nobody, 300)
    for text in plan.judged.exceptions:
        yield "exception", style.warn(Style.text(text, 300))
    findings, worst = plan.report.findings, style.severity(plan.report.max_severity)
    yield "scan", f"{plural(len(findings), 'finding')}, the worst {worst}" if findings else "clean"
    for found in findings[:_MOST_FINDINGS]:
        where = f"{Style.text(found.path)}:{found.line}"
        yield "", f"{style.severity(found.severity)} {where} {Style.text(found.message, 200)}"
    if plan.shadows:
        yield "hides", style.warn(Style.text(", ".join(plan.shadows), 300))
    if plan.shadowed_by:
        yield "hidden by", style.warn(Style.text(plan.shadowed_by, 300))
    for note in (*plan.candidate.notes, *plan.packages.notes):
        yield "note", Style.text(note, 300)
    if plan.packages.problem:
        yield "packages", style.warn(f"Its scripts cannot run here. {Style.text(plan.packages.problem, 1_000)}")
    decision = plan.decision
    if not decision.is_allowed:
        yield decision.outcome, style.bad(Style.text(decision.reason, 1_000))
        if decision.hint:
            yield "hint", Style.text(for_person(decision.hint), 1_000)
