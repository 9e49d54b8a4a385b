"""Skills that are about to be installed, as people and programs see them."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import TYPE_CHECKING, Self

from metier.cli import identity
from metier.cli.layout import pad, width_of
from metier.cli.output import Style, plural, shortened
from metier.errors import InvalidArgument
from metier.hints import for_person
from metier.skill import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from metier.hub.install_plan import InstallPlan, InstallTerms
    from metier.hub.sources.fetch import Candidate

_MOST_LISTED = 60
_MOST_FINDINGS = 6
_LOOK_AFTER = 0.5


class TransferLine:
    """A line on standard error that says how much was transferred; nothing when nobody looks or it is quick."""

    def __init__(self) -> None:
        self._is_shown = False
        self._next = time.monotonic() + _LOOK_AFTER
        self._is_active = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def show(self, what: str, done: int, total: int | None) -> None:
        """Say how far a transfer is."""
        if self._is_active and time.monotonic() >= self._next:
            self._next, self._is_shown = time.monotonic() + 0.1, True
            of = f" of {total / 1e6:,.1f}" if total else ""
            print(f"\r\x1b[K{Style.text(what, 60)} {done / 1e6:,.1f}{of} MB", end="", file=sys.stderr, flush=True)

    def say(self, step: str) -> None:
        """Name the step that is under way, of which nobody knows how far it is; without one, take the line away."""
        self.end()
        if self._is_active and step:
            self._is_shown = True
            print(f"{Style.text(step, 60)} ...", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Take the line away."""
        if self._is_shown:
            self._is_shown = False
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def asks_first(options: Namespace, hint: str) -> bool:
    """Tell whether somebody is to be asked before anything is changed; raises where nobody is here."""
    if options.yes or getattr(options, "dry_run", False) or getattr(options, "frozen", False):
        return False
    if options.json or not identity.is_at_terminal():
        raise InvalidArgument("Nobody is here to be asked.", hint=hint)
    return True


def terms_of(options: Namespace, folder: str, line: TransferLine, *, is_pinned: bool = False) -> InstallTerms:
    """The wishes of the person who gave a command that installs skills."""
    from metier.hub.install_plan import InstallTerms

    return InstallTerms(
        folder=folder,
        accept_findings=options.accept_findings,
        is_pinned=is_pinned,
        allow_unsigned=options.allow_unsigned,
        accept_signer=options.accept_signer,
        progress=line.say,
    )


def ask_names(candidates: Sequence[Candidate]) -> list[str]:
    """Let the person at the terminal pick skills, by numbers or names."""
    from metier.cli.terminal import ask_line

    style = Style(sys.stderr)
    wide = max(width_of(one.folder) for one in candidates[:_MOST_LISTED])
    for number, one in enumerate(candidates[:_MOST_LISTED], 1):
        about = one.about
        if not about and not one.is_plugin:
            about = parse(one.skill_file(), folder=one.folder).skill.description
        said = style.dim(Style.text(shortened(about or "no description", 90), 90))
        print(f"{number:>4}  {pad(Style.text(one.folder), wide)}  {said}", file=sys.stderr)
    if len(candidates) > _MOST_LISTED:
        print(style.dim(f"      and {plural(len(candidates) - _MOST_LISTED, 'skill')} more"), file=sys.stderr)
    words = ask_line("Which of them? Numbers or names, or all: ").replace(",", " ").split()
    if not words:
        raise InvalidArgument("No skill was named.", hint="Name one, or `all`.")
    if words == ["all"]:
        return [one.path for one in candidates if not one.is_plugin]
    return [
        candidates[int(word) - 1].path
        if word.isascii() and word.isdigit() and 0 < int(word) <= len(candidates)
        else word
        for word in words
    ]


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
        "changed": not plan.is_unchanged,
        "capabilities": list(plan.capabilities),
        "new_capabilities": list(plan.new_capabilities),
        "asks_for": dict(asks_for(plan)),
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


def asks_for(plan: InstallPlan) -> Iterator[tuple[str, str]]:
    """The rights and parts that a skill asks for, beyond its own files."""
    skill = plan.skill
    if skill.allowed_tools is not None:
        yield "tools", ", ".join(skill.allowed_tools) or "none"
    execution = skill.execution
    if execution is not None:
        if execution.network:
            yield "network", str(execution.network)
        if execution.allowed_paths:
            yield "files", ", ".join(execution.allowed_paths)
    if skill.requires:
        yield "skills", ", ".join(skill.requires)
    if plan.packages.names:
        yield "packages", ", ".join(plan.packages.names)


def print_plan(plan: InstallPlan) -> None:
    """Show what would be installed, and what speaks against it."""
    style, skill = Style(sys.stdout), plan.skill
    version = f" {Style.text(plan.version, 40)}" if plan.version else ""
    print(f"{style.strong(Style.text(skill.name))}{version}  {Style.text(skill.description, 300)}")
    for label, text in _lines(plan, style):
        print(f"  {style.dim(f'{label:<12}')}{text}")


def _lines(plan: InstallPlan, style: Style) -> Iterator[tuple[str, str]]:
    skill, resolved = plan.skill, plan.resolved
    at = f" at {Style.text(resolved.revision, 19)}" if resolved.revision else ""
    yield "from", f"{Style.text(resolved.address.name, 300)}{at}"
    how = (
        ""
        if plan.there is None
        else ", as it is there already"
        if plan.is_unchanged
        else ", in place of another content"
    )
    yield "to", f"{Style.text(plan.home.location, 300)} ({plan.home.layer}){how}"
    yield "licence", Style.text(skill.license or "none named", 200)
    new = plan.new_capabilities if plan.there is not None else ()
    first = [style.warn(f"{name} (new)") for name in new]
    rest = [name for name in plan.capabilities if name not in new]
    yield "can do", ", ".join((*first, *rest)) or "nothing but instruct"
    for what, text in asks_for(plan):
        yield "asks for", f"{what}: {Style.text(text, 300)}"
    signature = plan.judged.signature
    nobody = "nobody" if signature.status == "unsigned" else "somebody who is not known here"
    yield "signed by", Style.text(signature.signer or nobody, 300)
    for text in plan.judged.exceptions:
        yield "exception", style.warn(Style.text(text, 300))
    count = len(plan.report.findings)
    yield (
        "scan",
        f"{plural(count, 'finding')}, the worst {style.severity(plan.report.max_severity)}" if count else "clean",
    )
    for found in plan.report.findings[:_MOST_FINDINGS]:
        yield (
            "",
            f"{style.severity(found.severity)} {Style.text(found.path)}:{found.line} {Style.text(found.message, 200)}",
        )
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
